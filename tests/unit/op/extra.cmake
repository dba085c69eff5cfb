# SPDX-License-Identifier: Apache-2.0
target_sources(test_op PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/emulated/emulator.cpp)
