# SPDX-License-Identifier: Apache-2.0
# A shared object that stands in for compiled kernels, a user of the C interface in C, and the outside project.
add_library(test_kernels MODULE ${CMAKE_CURRENT_LIST_DIR}/kernels/kernels.c)
target_include_directories(test_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src)
set_target_properties(test_kernels PROPERTIES PREFIX "")
add_dependencies(test_runtime test_kernels)
target_compile_definitions(test_runtime PRIVATE TENON_TEST_KERNELS="$<TARGET_FILE:test_kernels>")

add_library(test_c_user STATIC ${CMAKE_CURRENT_LIST_DIR}/kernels/c_user.c)
target_compile_options(test_c_user PRIVATE -Wall -Wextra -Werror -pedantic -std=c11)
target_include_directories(test_c_user PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(test_runtime PRIVATE tenon_artifact_write test_c_user m)
add_dependencies(test_runtime ${beside_runtime})

if(TENON_SANITIZE)  # an `if`, because the commas of the list would end a generator expression
  set(outside_c_flags -fsanitize=${TENON_SANITIZE})
endif()
# The outside project: install, then configure, build and run it against the installed package only.
add_executable(write_test_artifact ${CMAKE_CURRENT_LIST_DIR}/kernels/write_artifact.cpp)
target_link_libraries(write_test_artifact PRIVATE tenon_flags tenon_artifact_write)
add_test(NAME outside_project COMMAND ${CMAKE_COMMAND}
  -DBUILD=${CMAKE_BINARY_DIR} -DSOURCE=${CMAKE_SOURCE_DIR}/tests/outside -DGENERATOR=${CMAKE_GENERATOR}
  -DC_COMPILER=${CMAKE_C_COMPILER} "-DC_FLAGS=${outside_c_flags}"
  -DWRITER=$<TARGET_FILE:write_test_artifact> -DKERNELS=$<TARGET_FILE:test_kernels>
  -DCONFIG=$<CONFIG> -P ${CMAKE_SOURCE_DIR}/tests/outside/run.cmake)
set_tests_properties(outside_project PROPERTIES LABELS runtime TIMEOUT ${limit_120})
