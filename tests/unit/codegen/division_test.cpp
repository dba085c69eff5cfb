// SPDX-License-Identifier: Apache-2.0
// Divisions by sizes, which machine code makes where the program does.
#include <fmt/format.h>

#include <map>
#include <sstream>

#include "ir/tir.h"
#include "kernels.h"
#include "target/target.h"

namespace tenon::test {
namespace {

using namespace tir;

/// Lines from a label to the jump back to it, of the loops that hold no other.
std::vector<std::vector<std::string>> innermost_loops(const std::string& assembly) {
  std::vector<std::string> lines;
  std::istringstream in(assembly);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::vector<std::pair<size_t, size_t>> loops;
  std::map<std::string, size_t> labels;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with(".LBB")) labels[lines[i].substr(0, lines[i].find(':'))] = i;
    const size_t to = lines[i].find(".LBB");
    if (to == std::string::npos || to == 0 || !lines[i].starts_with("\tj")) continue;
    if (const auto label = labels.find(lines[i].substr(to)); label != labels.end())
      loops.emplace_back(label->second, i);
  }
  std::vector<std::vector<std::string>> out;
  for (const auto& [from, to] : loops)
    if (std::ranges::none_of(loops, [&, f = from, t = to](const auto& l) {
          return l.first >= f && l.second <= t && l != std::pair(f, t);
        }))
      out.emplace_back(lines.begin() + std::ptrdiff_t(from), lines.begin() + std::ptrdiff_t(to));
  return out;
}

TEST(Division, OfALoopStaysInFrontOfThoseInside) {
  // Copies side by side: rows of k vectors, of which the same m come again and again.
  const Buffer a = flat("a", 3 * 80, f32), o = flat("o", 7 * 80, f32);
  const VarRef n = var("n"), m = var("m"), k = var("k"), i = var("i"), j = var("j");
  const auto lanes = [](const PrimExpr& from) { return make<Ramp>(from, PrimExpr(int64_t(1)), int64_t(16)); };
  const PrimExpr row = PrimExpr(k) * 16;
  const Stmt vectors = for_(j, 0, k,
                            store(o, load(a, {lanes(floormod(i, max(m, PrimExpr(1))) * row + j * 16)}),
                                  {lanes(PrimExpr(i) * row + j * 16)}));
  const Program p = program("copies", {a, o}, {n, m, k}, for_(i, 0, n, vectors));
  expect_same(p, {random_array({3 * 80}, f32, 5), NDArray::zeros({7 * 80}, f32)}, {7, 3, 5}, 0, false);
  const std::string text = codegen::llvm_assembly(module_of({p.lowered}), parse_target("llvm -mcpu=znver5"));
  size_t copies = 0;
  for (const std::vector<std::string>& loop : innermost_loops(text))
    for (const std::string& line : loop) {
      copies += line.find("vmovup") != std::string::npos;
      EXPECT_EQ(line.find("div"), std::string::npos) << text;
    }
  EXPECT_GT(copies, 0u);
}

}  // namespace
}  // namespace tenon::test
