# SPDX-License-Identifier: Apache-2.0
# Generates the reader of onnx.proto. Protobuf is linked as a shared library: Debian's static one holds code that
# cannot stand in a shared object.
find_library(TENON_PROTOBUF_SHARED NAMES protobuf-lite REQUIRED)
set(onnx_schema_dir ${CMAKE_BINARY_DIR}/schema)
file(MAKE_DIRECTORY ${onnx_schema_dir}/tenon_schema)
set(onnx_proto ${CMAKE_SOURCE_DIR}/src/import/onnx/onnx.proto)
add_custom_command(
  OUTPUT ${onnx_schema_dir}/tenon_schema/onnx.pb.cc ${onnx_schema_dir}/tenon_schema/onnx.pb.h
  COMMAND ${Protobuf_PROTOC_EXECUTABLE} --cpp_out=${onnx_schema_dir}/tenon_schema
          -I ${CMAKE_SOURCE_DIR}/src/import/onnx ${onnx_proto}
  DEPENDS ${onnx_proto}
  COMMENT "Generating the ONNX schema")
add_library(tenon_onnx_schema OBJECT ${onnx_schema_dir}/tenon_schema/onnx.pb.cc)
target_compile_options(tenon_onnx_schema PRIVATE -w -fvisibility=hidden)
target_include_directories(tenon_onnx_schema SYSTEM PRIVATE ${onnx_schema_dir} ${Protobuf_INCLUDE_DIRS})
target_link_libraries(tenon_onnx_schema PUBLIC ${TENON_PROTOBUF_SHARED})
set_property(GLOBAL APPEND PROPERTY TENON_FOLDERS tenon_onnx_schema)

# What reads the generated header, which has to be there first.
function(tenon_use_schema target)
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/schema ${Protobuf_INCLUDE_DIRS})
  add_dependencies(${target} tenon_onnx_schema)
endfunction()
