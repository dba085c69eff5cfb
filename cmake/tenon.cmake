# SPDX-License-Identifier: Apache-2.0
# Flags and the one function that makes a folder of the house into a target.

add_library(tenon_flags INTERFACE)
target_include_directories(tenon_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_compile_options(tenon_flags INTERFACE
  -Wall -Wextra -Werror -Wno-missing-field-initializers -fno-strict-aliasing)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these for correct code once inlining has happened (GCC bugs 105329, 105562, 106199).
  target_compile_options(tenon_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-maybe-uninitialized;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds;-Wno-dangling-pointer;-Wno-use-after-free>)
else()
  # Clang warns of what libstdc++ 12's own stable_sort calls.
  target_compile_options(tenon_flags INTERFACE -Wno-missing-braces -Wno-deprecated-declarations)
endif()
if(TENON_SANITIZE)
  target_compile_options(tenon_flags INTERFACE -fsanitize=${TENON_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tenon_flags INTERFACE -fsanitize=${TENON_SANITIZE})
  if(TENON_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # It reads a signature in front of every function called by pointer; a compiled kernel has none.
    target_compile_options(tenon_flags INTERFACE -fno-sanitize=function)
  endif()
endif()
find_program(TENON_LLD NAMES ld.lld-22 ld.lld)
if(TENON_LLD)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 finds a linker only by the name ld.lld in a folder given by -B.
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/linker)
    file(CREATE_LINK ${TENON_LLD} ${CMAKE_BINARY_DIR}/linker/ld.lld SYMBOLIC)
    target_link_options(tenon_flags INTERFACE -B${CMAKE_BINARY_DIR}/linker -fuse-ld=lld)
  else()
    target_link_options(tenon_flags INTERFACE -fuse-ld=lld)
  endif()
endif()
find_program(TENON_CCACHE ccache)
if(TENON_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=true ${TENON_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# tenon_precompile(NAME HEADER …): precompiled headers that targets with the same flags share. They are compiled without
# the compiler cache, which would take them for the same when only a comment changed; the compiler does not.
function(tenon_precompile name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "// Precompiled headers belong to a source file.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE tenon_flags fmt::fmt)
  list(TRANSFORM ARGN REPLACE "^[^<].*" "<\\0>")  # looked up on the path, so that their text names no folder
  target_precompile_headers(${name} PRIVATE ${ARGN})
  if(TENON_CCACHE)
    set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/precompile.sh)
  endif()
endfunction()

# tenon_folder(NAME [TOGETHER] [DIR folder …] [HEADERS precompiled] LIBS …): all .cpp files of one folder of src (or of
# several, which may be patterns) as the object library tenon_NAME. TOGETHER: their names do not clash, so that with
# TENON_UNITY several are compiled at once. The include rule between folders is checked by scripts/check_layers.
function(tenon_folder name)
  cmake_parse_arguments(F "TOGETHER" "HEADERS" "DIR;LIBS;EXCLUDE" ${ARGN})
  if(NOT F_DIR)
    set(F_DIR ${name})
  endif()
  if(NOT F_HEADERS)
    set(F_HEADERS tenon_headers)
  endif()
  list(TRANSFORM F_DIR REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/\\1/*.cpp")
  file(GLOB sources CONFIGURE_DEPENDS ${F_DIR})
  foreach(pattern ${F_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX ${pattern})
  endforeach()
  add_library(tenon_${name} OBJECT ${sources})
  target_link_libraries(tenon_${name} PUBLIC tenon_flags ${F_LIBS})
  if(TARGET ${F_HEADERS})  # not yet in base and runtime, whose files have flags of their own
    target_precompile_headers(tenon_${name} REUSE_FROM ${F_HEADERS})
  endif()
  if(F_TOGETHER AND TENON_UNITY)
    set_target_properties(tenon_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
  set_property(GLOBAL APPEND PROPERTY TENON_FOLDERS tenon_${name})
endfunction()
