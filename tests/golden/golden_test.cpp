// SPDX-License-Identifier: Apache-2.0
// Golden files: tests/golden/FOLDER/NAME.tir holds `# RUN: pass pass`, a module, then `# EXPECT` and the
// whole text behind the passes, or `# ERROR T0220 [line]`. `# INPUTS: function …` runs those functions in the
// interpreter before and after on the same random values. `# OPTION: split_args.max=2` sets options of passes
// (a list of floats is a float32 tensor), `# TARGET: text` names the target. TENON_UPDATE_GOLDEN=1 rewrites
// what is expected.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "interpret/interpret.h"
#include "ir/pass.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "pipeline/compile.h"

namespace tenon {
namespace {

struct Golden {
  std::string path, head, input, expect, error, error_line;
  std::string target;
  std::vector<std::string> options;
  std::vector<std::string> passes, inputs;
  bool fails = false;
  int lines = 0, runs = 0;  ///< of the file; heads that begin with # RUN
};

std::vector<std::string> words(const std::string& s) {
  std::istringstream in(s);
  return {std::istream_iterator<std::string>(in), {}};
}

Golden read(const std::string& path) {
  Golden g;
  g.path = path;
  std::ifstream in(path);
  std::string line;
  bool expecting = false, body = false;
  while (std::getline(in, line)) {
    ++g.lines;
    if (line.rfind("# RUN", 0) == 0) ++g.runs;
    if (expecting) {
      g.expect += line + "\n";
      continue;
    }
    if (line.rfind("# EXPECT", 0) == 0) {
      expecting = true;
      continue;
    }
    if (line.rfind("# ERROR", 0) == 0) {
      const auto w = words(line.substr(7));
      g.fails = true;
      if (!w.empty()) g.error = w[0];
      if (w.size() > 1) g.error_line = w[1];
      g.input += "#\n";  // lines keep their numbers
      continue;
    }
    if (line.rfind("# RUN:", 0) == 0) g.passes = words(line.substr(6));
    if (line.rfind("# INPUTS:", 0) == 0) g.inputs = words(line.substr(9));
    if (line.rfind("# OPTION:", 0) == 0) g.options.push_back(words(line.substr(9)).at(0));
    if (line.rfind("# TARGET:", 0) == 0) g.target = line.substr(9);
    body = body || (!line.empty() && line[0] != '#');
    if (!body) g.head += line + "\n";
    g.input += line + "\n";  // with the head, so that lines of mistakes are lines of the file
  }
  return g;
}

std::vector<std::string> files() {
  std::vector<std::string> out;
  const std::string root = std::string(TENON_SOURCE_DIR) + "/tests/golden";
  for (const auto& e : std::filesystem::recursive_directory_iterator(root))
    if (e.path().extension() == ".tir") out.push_back(std::filesystem::relative(e.path(), root).string());
  std::sort(out.begin(), out.end());
  return out;
}

NDArray random_array(std::vector<int64_t> shape, DataType dtype, std::mt19937& rng) {
  NDArray a = NDArray::empty(std::move(shape), dtype);
  for (int64_t i = 0; i < a.size(); ++i) {
    if (dtype.is_bool())
      a.set_element_int(i, int64_t(rng() % 2));
    else if (dtype.is_integer())
      a.set_element_int(i, int64_t(rng() % 7));
    else
      a.set_element(i, double(int(rng() % 2001)) / 500.0 - 2.0);
  }
  return a;
}

/// Sizes of symbolic dimensions, one small number for each name.
struct Sizes {
  std::map<std::string, int64_t> known;
  int64_t of(const PrimExpr& e) {
    if (auto v = tir::as_int(e)) return *v;
    const auto* v = e.as<tir::Var>();
    if (!v) return 4;
    return known.emplace(v->name, 3 + 2 * int64_t(known.size())).first->second;
  }
  std::vector<int64_t> shape(const Array<PrimExpr>& dims) {
    std::vector<int64_t> out;
    for (const PrimExpr& d : dims) out.push_back(of(d));
    return out;
  }
};

/// The tensors of a value, tuples opened.
std::vector<NDArray> arrays_of(const Any& value) {
  std::vector<NDArray> out;
  std::vector<Any> todo{value};
  while (!todo.empty()) {
    const Any a = todo.back();
    todo.pop_back();
    if (a.is_object() && is_type_index<NDArrayObj>(a.tag())) {
      out.push_back(*a.try_as<NDArray>());
    } else if (auto list = a.try_as<Ref<ArrayObj>>(); list && list->get()) {
      for (size_t i = (*list)->items.size(); i-- > 0;) todo.push_back((*list)->items[i]);
    }
  }
  return out;
}

/// All values that the function gives out, for inputs that depend on the seed alone.
std::vector<NDArray> evaluate(const IRModule& m, const std::string& name) {
  std::mt19937 rng(7);
  Sizes sizes;
  const ObjectRef f = m.find(name);
  if (!f) throw std::runtime_error("no function " + name);
  if (auto p = f.cast<tir::PrimFuncNode>()) {
    std::vector<NDArray> args;
    for (auto [v, b] : p->buffer_map) sizes.shape(b->shape);  // names before scalars
    for (const tir::VarRef& v : p->params) {
      if (auto b = p->buffer_map.find(v))
        args.push_back(random_array(sizes.shape((*b)->shape), (*b)->dtype, rng));
      else
        args.push_back(NDArray::scalar(sizes.of(v), v->dtype));
    }
    interpret_prim_func(p, args, m);
    return args;
  }
  std::vector<Value> args;
  for (const graph::VarRef& v : f.as<graph::Function>()->params) {
    const auto* t = graph::as_tensor(v->declared);
    auto shape = graph::known_shape(v->declared);
    if (!t || !shape) throw std::runtime_error("parameter without a shape");
    args.push_back(random_array(sizes.shape(*shape), t->dtype, rng));
  }
  return arrays_of(interpret(m, name, args));
}

void expect_same(const std::vector<NDArray>& a, const std::vector<NDArray>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(a[k].shape(), b[k].shape()) << what;
    for (int64_t i = 0; i < a[k].size(); ++i) {
      const double x = a[k].element(i), y = b[k].element(i);
      ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || x == y ||
                  std::fabs(x - y) <= 1e-5 + 1e-4 * std::fabs(x))
          << what << ": value " << k << " at " << i << ": " << x << " and " << y;
    }
  }
}

void expect_round_trip(const IRModule& m, const std::string& when) {
  ConstantTable constants;
  PrintOptions print_options;
  print_options.constants = &constants;
  ParseOptions parse_options;
  parse_options.constants = &constants;
  const std::string text = print(m, print_options);
  EXPECT_EQ(first_difference(m, parse_module(text, parse_options)), "") << when << "\n" << text;
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, File) {
  const std::string path = std::string(TENON_SOURCE_DIR) + "/tests/golden/" + GetParam();
  Golden g = read(path);
  EXPECT_EQ(g.runs, 1) << "a golden file has one # RUN";
  EXPECT_LE(g.lines, 40) << "a golden file shows one behaviour on one screen";
  const bool update = std::getenv("TENON_UPDATE_GOLDEN") != nullptr;
  try {
    ParseOptions options;
    options.name = GetParam();
    IRModule before = parse_module(g.input, options);
    verify_or_throw(before);
    expect_round_trip(before, "as given");
    PassContext context;
    context.opt_level = 9;
    context.verify = true;
    if (!g.target.empty()) context.target = parse_target(g.target);
    for (const std::string& option : g.options) context.options.set_text(option);
    context.evaluate = [](const IRModule& m, const std::string& f, const std::vector<NDArray>& args) {
      const auto p = m.find(f).cast<tir::PrimFuncNode>();
      if (!p) return arrays_of(interpret(m, f, std::vector<Value>(args.begin(), args.end())));
      std::vector<NDArray> all = args;  // outputs are the last parameters
      for (size_t i = args.size(); i < p->params.size(); ++i) {
        const tir::Buffer b = p->buffer_map.at(p->params[i]);
        all.push_back(NDArray::zeros(Sizes().shape(b->shape), b->dtype));
      }
      interpret_prim_func(p, all, m);
      return std::vector<NDArray>(all.begin() + std::ptrdiff_t(args.size()), all.end());
    };
    bool graph = false;
    for (auto [name, f] : before.functions()) graph = graph || f.is<graph::Function>();
    std::vector<Pass> passes;
    if (graph && !g.passes.empty() && g.passes[0] != "infer_types")
      if (const Pass* infer = find_pass("infer_types")) passes.push_back(*infer);
    for (const std::string& name : g.passes) {
      const Pass* pass = find_pass(name);
      ASSERT_TRUE(pass) << "no pass `" << name << "`";
      passes.push_back(*pass);
    }
    const IRModule after = run_passes(before, passes, context);
    verify_or_throw(after);
    expect_round_trip(after, "behind the passes");
    if (g.fails) {
      ADD_FAILURE() << "expected " << g.error << ", and there was no mistake";
      return;
    }
    for (const std::string& f : g.inputs) expect_same(evaluate(before, f), evaluate(after, f), f);
    const std::string text = print(after);
    if (update) {
      if (text != g.expect) std::ofstream(path) << g.input << "# EXPECT\n" << text;
    } else {
      EXPECT_EQ(text, g.expect);
    }
  } catch (const DiagnosticError& e) {
    if (!g.fails) {
      ADD_FAILURE() << e.what();
      return;
    }
    bool found = false;
    for (const Diagnostic& d : e.diagnostics)
      found =
          found || (d.code == g.error &&
                    (g.error_line.empty() || d.location.find(":" + g.error_line + ":") != std::string::npos));
    EXPECT_TRUE(found) << "expected " << g.error << " " << g.error_line << ":\n" << e.what();
  } catch (const Error& e) {
    EXPECT_TRUE(g.fails && e.code == g.error) << e.code << ": " << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenTest, testing::ValuesIn(files()), [](const auto& info) {
  std::string name = info.param.substr(0, info.param.size() - 4);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace tenon
