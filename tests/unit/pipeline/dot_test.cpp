// SPDX-License-Identifier: Apache-2.0
// Pictures: the text for Graphviz as it is wanted, and what it draws where it is installed.
#include "tools/dot.h"

#include <sys/stat.h>

#include <fstream>

#include "ir/text.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

/// A residual block of a network, as ResNet has them.
IRModule residual_block() {
  return parse_module(R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 64, 56, 56), "float32"), w1: R.Tensor((64, 64, 3, 3), "float32"), w2: R.Tensor((64, 64, 3, 3), "float32"), b: R.Tensor((64, 1, 1), "float32")):
        a = R.nn.conv2d(x, w1, padding=[1, 1, 1, 1])
        c = R.add(a, b)
        d = R.nn.relu(c)
        e = R.nn.conv2d(d, w2, padding=[1, 1, 1, 1])
        f = R.add(e, x)
        g = R.nn.relu(f)
        return g
)");
}

IRModule after(IRModule module, std::vector<std::string> passes) {
  PassContext context = make_context();
  for (const std::string& name : passes) module = find_pass(name)->run(std::move(module), context);
  return module;
}

/// Equal to tests/golden/dot/NAME.dot; TENON_UPDATE_GOLDEN=1 writes it.
void expect_picture(const std::string& name, const std::string& text) {
  const std::string path = std::string(TENON_SOURCE_DIR) + "/tests/golden/dot/" + name + ".dot";
  if (std::getenv("TENON_UPDATE_GOLDEN")) {
    mkdir((std::string(TENON_SOURCE_DIR) + "/tests/golden/dot").c_str(), 0777);
    std::ofstream(path) << text;
  }
  std::ifstream in(path);
  const std::string want(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(text, want) << path;
}

/// No edge from or to what is no node.
void expect_closed(const std::string& dot) {
  std::set<std::string> nodes;
  std::istringstream lines(dot);
  std::vector<std::pair<std::string, std::string>> edges;
  int depth = 0;
  for (std::string line; std::getline(lines, line);) {
    depth += int(std::count(line.begin(), line.end(), '{')) - int(std::count(line.begin(), line.end(), '}'));
    const size_t first = line.find_first_not_of(' ');
    const size_t bracket = line.find(" ["), arrow = line.find(" -> ");
    if (first == line.npos || bracket == line.npos) continue;
    if (arrow != line.npos && arrow < bracket)
      edges.emplace_back(line.substr(first, arrow - first), line.substr(arrow + 4, bracket - arrow - 4));
    else
      nodes.insert(line.substr(first, bracket - first));
  }
  EXPECT_EQ(depth, 0);
  for (const auto& [from, to] : edges) EXPECT_TRUE(nodes.count(from) && nodes.count(to)) << from << " " << to;
}

TEST(Dot, ResidualBlockAtThreeStages) {
  const IRModule fused = after(residual_block(), {"infer_types", "fuse_ops"});
  const std::string picture = to_dot(fused);
  expect_closed(picture);
  expect_picture("residual_block", picture);
  // One screen: few nodes, and no line of a label is long.
  EXPECT_LE(std::count(picture.begin(), picture.end(), '\n'), 50);
  const IRModule lowered = after(fused, {"lower_to_call_tir"});
  const std::string kernels = to_dot(lowered);
  expect_closed(kernels);
  EXPECT_NE(kernels.find("1×64×56×56"), kernels.npos);
  EXPECT_EQ(kernels, to_dot(parse_module(print(lowered)))) << "the same module, the same text";
  std::string program;
  for (auto [name, f] : lowered.functions())
    if (f.is<tir::PrimFuncNode>()) program = name;
  const std::string loops = to_dot(lowered, {program});
  expect_closed(loops);
  EXPECT_NE(loops.find("block "), loops.npos);
  EXPECT_NE(loops.find("for "), loops.npos);
  try {
    to_dot(lowered, {"absent"});
    FAIL();
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.code, "T0926");
  }
}

TEST(Dot, ControlFlowHasClusters) {
  const IRModule m = after(parse_module(R"(
@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((n, 4), "float16")):
        if c:
            y = R.exp(x)
        else:
            z = R.split(x, sections=2, axis=1)
            y = R.concat((z[1], z[0]), axis=1)
        return y
)"),
                           {"infer_types"});
  const std::string picture = to_dot(m);
  expect_closed(picture);
  for (const char* words :
       {"label=\"if\"", "label=\"then\"", "label=\"else\"", "float16 n×2 [1]", "float16 n×4"})
    EXPECT_NE(picture.find(words), picture.npos) << words << "\n" << picture;
}

TEST(Dot, PicturesNeedGraphviz) {
  const std::string dot = to_dot(after(residual_block(), {"infer_types", "fuse_ops"}));
  setenv("TENON_DOT", "/nonexistent/dot", 1);
  try {
    draw_dot(dot, "svg");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0925");
    EXPECT_NE(e.hint.find("apt install graphviz"), e.hint.npos);
  }
  // A program that reads nothing and fails must not hang or end this one.
  setenv("TENON_DOT", "/bin/false", 1);
  EXPECT_THROW(draw_dot(std::string(1 << 20, 'x'), "svg"), Error);
  unsetenv("TENON_DOT");
  if (std::system("dot -V > /dev/null 2>&1") != 0) GTEST_SKIP() << "Graphviz is not installed: nothing drawn";
  EXPECT_NE(draw_dot(dot, "svg").find("<svg"), std::string::npos);
  EXPECT_EQ(draw_dot(dot, "png").substr(1, 3), "PNG");
  EXPECT_THROW(draw_dot("no graph", "svg"), Error);
  EXPECT_THROW(draw_dot("no graph", "png"), Error);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
