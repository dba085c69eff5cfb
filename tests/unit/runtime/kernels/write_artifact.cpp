// SPDX-License-Identifier: Apache-2.0
// write_test_artifact KERNELS OUT: the artifact that the outside project runs.
#include <iostream>

#include "../program.h"
#include "runtime/artifact.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  std::ostringstream code;
  code << in.rdbuf();
  try {
    tenon::write_artifact(argv[2], tenon::test::add_program(), code.str());
  } catch (const tenon::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
