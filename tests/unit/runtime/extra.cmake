# SPDX-License-Identifier: Apache-2.0
# A shared object that stands in for compiled kernels.
add_library(test_kernels MODULE ${CMAKE_CURRENT_LIST_DIR}/kernels/kernels.c)
target_include_directories(test_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src)
set_target_properties(test_kernels PROPERTIES PREFIX "")
add_dependencies(test_runtime test_kernels)
target_compile_definitions(test_runtime PRIVATE TENON_TEST_KERNELS="$<TARGET_FILE:test_kernels>")
