# SPDX-License-Identifier: Apache-2.0
# The runtime for this processor, by Debian's cross compiler (g++-riscv64-linux-gnu): cmake -DTENON_COMPILER=OFF
# -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/riscv64-linux-gnu.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(TENON_LLD "" CACHE FILEPATH "The compiler's own linker: lld drops sections that GCC's tables of exceptions name")
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT "-Wl,--as-needed -latomic")  # GCC 12 calls it for atomics of one byte
