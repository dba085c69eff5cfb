// SPDX-License-Identifier: Apache-2.0
// write_test_artifact KERNELS FOLDER: the artifacts that the outside project runs.
#include <iostream>

#include "../program.h"
#include "runtime/artifact.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  std::ostringstream code;
  code << in.rdbuf();
  try {
    const std::string folder = argv[2];
    tenon::write_artifact(folder + "/add.tenon", tenon::test::add_program(), code.str());
    tenon::write_artifact(folder + "/lists.tenon", tenon::test::list_program(), code.str());
  } catch (const tenon::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
