# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts under the prefix: bin, lib, include/tenon and the CMake package. Component
# `runtime` is all that a program needs which runs compiled models; `compiler` is the rest.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_LIBDIR lib)  # one place on every distribution, so that a prefix can be moved

set_target_properties(tenon_runtime_library ${beside_runtime} PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${TENON_SOVERSION} INSTALL_RPATH "$ORIGIN")
install(TARGETS tenon_runtime_library EXPORT tenonTargets LIBRARY DESTINATION lib COMPONENT runtime NAMELINK_COMPONENT runtime)
install(TARGETS ${beside_runtime} LIBRARY DESTINATION lib COMPONENT runtime NAMELINK_SKIP)
install(EXPORT tenonTargets NAMESPACE tenon:: DESTINATION lib/cmake/tenon COMPONENT runtime)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/tenon DESTINATION include COMPONENT runtime FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_SOURCE_DIR}/src/runtime/kernel.h DESTINATION include/tenon COMPONENT runtime)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/tenonConfig.cmake.in ${CMAKE_BINARY_DIR}/tenonConfig.cmake
  INSTALL_DESTINATION lib/cmake/tenon)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tenonConfig.cmake ${CMAKE_BINARY_DIR}/tenonConfigVersion.cmake
  DESTINATION lib/cmake/tenon COMPONENT runtime)

set_target_properties(tenon_ffi_library PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 INSTALL_RPATH "$ORIGIN")
install(TARGETS tenon_ffi_library LIBRARY DESTINATION lib COMPONENT compiler NAMELINK_COMPONENT compiler)
if(TARGET tenon_compiler_library)
  set_target_properties(tenon_compiler_library PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${TENON_SOVERSION} INSTALL_RPATH "$ORIGIN")
  install(TARGETS tenon_compiler_library LIBRARY DESTINATION lib COMPONENT compiler NAMELINK_COMPONENT compiler)
endif()
if(TARGET tenon)
  set_target_properties(tenon PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS tenon RUNTIME DESTINATION bin COMPONENT compiler)
endif()
