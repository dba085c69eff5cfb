# SPDX-License-Identifier: Apache-2.0
# In a wheel, LLVM and lld are a part of libtenon_compiler, with hidden symbols, so that any other LLVM may be in the process.
# Only the processors of codegen/llvm/processors.cpp are in it.

# tenon_link_static_llvm(TARGET): links what Tenon uses of LLVM's archives.
function(tenon_link_static_llvm target)
  set(kept AArch64 RISCV X86)
  find_program(llvm_config llvm-config HINTS ${LLVM_TOOLS_BINARY_DIR} REQUIRED NO_CACHE NO_DEFAULT_PATH)
  execute_process(COMMAND ${llvm_config} --link-static --libfiles ${kept} passes lto dtlto option debuginfodwarf orcjit
    OUTPUT_VARIABLE archives OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(archives)
  list(FILTER archives EXCLUDE REGEX "Polly")
  # The archives of zlib and zstd, which LLVM compresses sections with.
  find_library(zlib libz.a REQUIRED NO_CACHE)
  find_library(zstd libzstd.a REQUIRED NO_CACHE)

  set(left_out ${LLVM_TARGETS_TO_BUILD})
  list(REMOVE_ITEM left_out ${kept})
  list(TRANSFORM left_out REPLACE "(.+)" "TENON_LEFT_OUT(\\1)")
  list(JOIN left_out "\n" left_out)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/left_out.cpp.in left_out.cpp @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/left_out.cpp)
  target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})

  target_link_libraries(${target} PRIVATE ${archives} ${zlib} ${zstd})
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,defs)
endfunction()
