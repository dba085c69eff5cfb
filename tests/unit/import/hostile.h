// SPDX-License-Identifier: Apache-2.0
// Bad model files, and what must come of each: a coded message that names the file and what is wrong, at
// little cost.
#pragma once
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <functional>

#include "base/diagnostic.h"
#include "base/temporary_folder.h"
#include "import/onnx/load.h"
#include "limits.h"
#include "writer.h"

namespace tenon::test {

/// A folder that goes away with the test.
struct Folder {
  const TemporaryFolder temporary{"a test"};
  const std::string path = temporary.path.string();
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
    return path + "/" + name;
  }
};

struct HostileFile {
  std::string name, code, part;  ///< how the code begins; a part of the rendered text
  std::string bytes;
  std::function<void(const Folder&)> prepare = {};  ///< files beside the model
  onnx::ImportOptions options = {};
};
inline void PrintTo(const HostileFile& c, std::ostream* out) { *out << c.name; }

/// Files of one kind, as they are written down.
struct Cases {
  std::vector<HostileFile> all;
  void add(std::string name, std::string code, std::string part, std::string bytes,
           std::function<void(const Folder&)> prepare = {}) {
    all.push_back(
        {std::move(name), std::move(code), std::move(part), std::move(bytes), std::move(prepare), {}});
  }
};

inline void expect_refused(const HostileFile& c) {
  Folder folder;
  if (c.prepare) c.prepare(folder);
  const std::string path = folder.write("model.onnx", c.bytes);
  const long before = peak_kilobytes();
  // Processor time: the import is one thread, the machine may be busy.
  const std::clock_t start = std::clock();
  try {
    onnx::import_onnx(path, c.options);
    FAIL() << "was accepted";
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.code.substr(0, c.code.size()), c.code) << e.what();
    EXPECT_NE(std::string(e.what()).find(c.part), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("model.onnx"), std::string::npos)
        << "does not name the file: " << e.what();
  }
  EXPECT_LT(double(std::clock() - start) / CLOCKS_PER_SEC, kSecondsAllowed);
  if (kMemoryCounts) {
    EXPECT_LT(peak_kilobytes() - before, kKilobytesAllowed + long(c.bytes.size() / 1024));
  }
}

/// Each file of a list, which is a function, is a test.
#define TENON_HOSTILE(suite, kind, list) \
  INSTANTIATE_TEST_SUITE_P(kind, suite, testing::ValuesIn(list()), [](const auto& i) { return i.param.name; })

}  // namespace tenon::test
