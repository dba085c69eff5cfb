// SPDX-License-Identifier: Apache-2.0
// fuzz_seeds DIR: the first inputs of the fuzz targets, and the parser's dictionary. Always the same files.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/intrinsic.h"
#include "ir/text.h"
#include "steps.h"

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenon;
  if (argc != 2) return 2;
  const fs::path parse = fs::path(argv[1]) / "parse", schedule = fs::path(argv[1]) / "schedule",
                 model = fs::path(argv[1]) / "model";
  fs::create_directories(parse);
  fs::create_directories(schedule);
  fs::create_directories(model);
  // The first decision of fuzz_model is a sample, in two bytes.
  const size_t samples =
      nlohmann::json::parse(std::ifstream(TENON_SOURCE_DIR "/tests/unit/import/samples.json")).size();
  for (size_t i = 0; i < samples; ++i) {
    std::string bytes{char(i >> 8), char(i)};
    for (size_t n = 48; n > 0; --n) bytes += char(i * 31 + n * 57);
    write(model / std::to_string(i), bytes);
  }
  const std::vector<tenon::testing::Program> programs = tenon::testing::all_programs();
  std::mt19937_64 random(1);
  for (size_t i = 0; i < programs.size(); ++i) {
    IRModule m = IRModule::create();
    m.set("main", programs[i].function);
    write(parse / (programs[i].name + std::to_string(i) + ".tir"), print(m));
    for (int k = 0; k < 4; ++k) {
      std::string bytes{char(i), char(k)};
      for (size_t n = 8 + random() % 120; n > 0; --n) bytes += char(random());
      write(schedule / (programs[i].name + std::to_string(i) + "_" + std::to_string(k)), bytes);
    }
  }
  for (const auto& entry : fs::recursive_directory_iterator(TENON_SOURCE_DIR "/tests/golden")) {
    if (entry.path().extension() != ".tir") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(in), {});
    write(parse / (entry.path().parent_path().filename().string() + "_" + entry.path().filename().string()),
          text);
  }
  std::ofstream words(fs::path(argv[1]) / "parse.dict");
  for (const tir::Intrinsic& i : tir::all_intrinsics()) words << "\"T." << i.name.substr(4) << "(\"\n";
  for (const char* w : {"@I.ir_module\\x0a",
                        "@T.prim_func\\x0a",
                        "@R.function\\x0a",
                        "class Module:\\x0a",
                        "def f(",
                        "T.Buffer((",
                        "\\\"float32\\\"",
                        "\\\"int64\\\"",
                        "\\\"float8_e4m3fn\\\"",
                        "\\\"int4\\\"",
                        "T.handle",
                        "T.int64",
                        "with T.block(\\\"b\\\"):\\x0a",
                        "T.axis.spatial(",
                        "T.axis.reduce(",
                        "T.axis.remap(",
                        "T.axis.opaque(",
                        "T.reads(",
                        "T.writes(",
                        "T.where(",
                        "T.block_attr(",
                        "with T.init():\\x0a",
                        "T.alloc_buffer(",
                        "T.match_buffer(",
                        "T.allocate(",
                        "T.allocate_const(",
                        "T.decl_buffer(",
                        "T.realize(",
                        "T.producer(",
                        "T.attr(",
                        "T.evaluate(",
                        "T.prefetch(",
                        "T.Ramp(",
                        "T.Broadcast(",
                        "T.Shuffle([",
                        "T.Let(",
                        "T.Select(",
                        "T.cast(",
                        ".vload([",
                        ".vstore([",
                        "predicate=",
                        "for i in range(",
                        "T.grid(",
                        "T.parallel(",
                        "T.vectorized(",
                        "T.unroll(",
                        "T.thread_binding(",
                        "while ",
                        "if ",
                        "elif ",
                        "else:\\x0a",
                        "assert ",
                        "pass\\x0a",
                        "return ",
                        "R.Tensor((",
                        "R.Shape([",
                        "R.Tuple(",
                        "R.Callable((",
                        "R.Object",
                        "R.call_tir(",
                        "R.call_packed(",
                        "R.const([",
                        "R.match_cast(",
                        "with R.dataflow():\\x0a",
                        "R.output(",
                        "@R.loop(",
                        "match ",
                        "case ",
                        "@I.data_type\\x0a",
                        "R.ref_create(",
                        "cls.",
                        "I.module_attrs({",
                        "\\x0a    ",
                        "\\x0a        ",
                        "T.vscale()"})
    words << '"' << w << "\"\n";
  return 0;
}
