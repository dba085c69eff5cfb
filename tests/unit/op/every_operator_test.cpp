// SPDX-License-Identifier: Apache-2.0
// Every operator with a tensor definition is run by a numerical test of this program: it runs itself once,
// noting the operators whose values are compared, and reads the list. Those without a definition are named
// here, with the tests that run them.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "../../emulated/emulator.h"
#include "base/temporary_folder.h"
#include "op_test.h"
#include "pipeline/emit.h"
#include "pipeline/runner.h"

namespace tenon::op_test {

/// On this machine, or on the one that an emulator stands for.
static std::vector<NDArray> run_compiled(const IRModule& module, const std::vector<NDArray>& inputs) {
  test::Emulator* emulator = test::Emulator::get();
  if (!emulator) return Runner(module).run(std::span<const NDArray>(inputs));
  CompileOptions options;
  options.target = to_json(emulator->target);
  const TemporaryFolder folder("an emulated test");
  const std::string path = (folder.path / "model.so").string();
  write_emitted("artifact", path, compile(module, options));
  return emulator->run_model(path, inputs);
}

void compare_compiled(const Expr& e, const std::vector<NDArray>& inputs,
                      const std::vector<NDArray>& outputs) {
  const auto& call = *e.as<Call>();
  const std::string name = call.op.as<graph::Op>()->name;
  SCOPED_TRACE("compiled " + name);
  auto builder = make_builder();
  Array<graph::VarRef> params;
  Array<Expr> args;
  auto parameter = [&](const Type& t) {
    params.push_back(graph::var("x" + std::to_string(params.size()), t));
    return Expr(params.back());
  };
  for (const Expr& a : call.args) {
    if (const auto* t = a->type.as<graph::TupleType>()) {
      Array<Expr> items;
      for (const Type& item : t->items) items.push_back(parameter(item));
      args.push_back(builder.emit(tuple(items)));
    } else {
      args.push_back(a->type.is<graph::TensorType>() ? parameter(a->type) : a);
    }
  }
  const Expr result = builder.emit(op_call(name, args, call.attrs));
  auto f = make<graph::Function>(params, builder.finish(result), result->type);
  IRModule module = IRModule::create();
  module.set("main", f);
  const std::vector<NDArray> got = run_compiled(module, inputs);
  ASSERT_EQ(got.size(), outputs.size());
  for (size_t i = 0; i < got.size(); ++i)
    expect_all(
        got[i], outputs[i].shape(), [&](const Index& at_index) { return at(outputs[i], at_index); }, 1e-3);
}

namespace {

struct Elsewhere {
  const char *name, *test;
};
const Elsewhere elsewhere[] = {
    {"shape_of", "interpret and vm_codegen tests"},
    {"tensor_to_shape", "interpret and vm_codegen tests"},
    {"call_tir", "vm_codegen tests"},
    {"call_tir_inplace", "vm_codegen tests"},
    {"call_dps_packed", "vm_codegen tests"},
    {"call_packed", "vm_codegen tests"},
};

TEST(EveryOperator, IsRunByANumericalTest) {
  namespace fs = std::filesystem;
  const std::string list_file =
      (fs::temp_directory_path() / ("tenon_operators_" + std::to_string(::getpid()))).string();
  const std::string command = "TENON_RECORD_OPERATORS='" + list_file + "' '" +
                              fs::read_symlink("/proc/self/exe").string() +
                              "' --gtest_filter=-EveryOperator.* --gtest_brief=1 > /dev/null 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << "the other tests of this program fail";
  std::set<std::string> run;
  std::ifstream in(list_file);
  for (std::string line; std::getline(in, line);) run.insert(line);
  fs::remove(list_file);
  size_t with_definition = 0;
  for (const auto& op : graph::all_ops()) {
    if (!definition(*op).tensor_def) continue;
    ++with_definition;
    EXPECT_TRUE(run.count(op->name)) << "no test compares the values of `" << op->name << "`";
  }
  EXPECT_GE(with_definition, 320u);
  for (const Elsewhere& e : elsewhere) {
    const auto op = graph::find_op(e.name);
    ASSERT_TRUE(bool(op)) << e.name;
    EXPECT_FALSE(definition(*op).tensor_def) << e.name << " has a definition: test it here";
  }
}

/// The compiled programs give what the interpreter gives: a sample, or all with TENON_ALL_OPERATORS=1.
TEST(EveryOperator, CompilesToWhatIsInterpreted) {
  const std::string every = std::getenv("TENON_ALL_OPERATORS") ? "1" : "6";
  const std::string log =
      (std::filesystem::temp_directory_path() / ("tenon_compiled_" + std::to_string(::getpid()))).string();
  const std::string command = "TENON_COMPILE_OPERATORS=" + every + " '" +
                              std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --gtest_filter=-EveryOperator.* --gtest_brief=1 > '" + log + "' 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream in(log);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::filesystem::remove(log);
  EXPECT_EQ(status, 0) << text.substr(0, 20000);
}

/// A count becomes a symbol by match_cast, and slice_to cuts the buffer: one compiled program for every
/// count.
TEST(RunTimeSizes, OneProgramServesEveryCount) {
  auto builder = make_builder();
  const auto x = graph::var("x", graph::tensor_type({PrimExpr(2), PrimExpr(4)}, f32));
  const Expr found = builder.emit(op_call("nonzero", {x}));
  const Expr vector = builder.emit(op_call("reshape", {builder.emit(get_item(found, 1)), shape({1})}));
  const Expr size = builder.emit(op_call("tensor_to_shape", {vector}));
  const tir::VarRef n = tir::var("n");
  builder.emit_match_cast(size, make<graph::ShapeType>(Array<PrimExpr>{n}, int64_t(1), true));
  const Expr places = builder.emit(
      op_call("slice_to", {builder.emit(get_item(found, 0)), graph::shape_expr({PrimExpr(2), PrimExpr(n)})}));
  // The symbol is an ordinary size behind it.
  const Expr twice = builder.emit(op_call("add", {places, places}));
  auto f = make<graph::Function>(Array<graph::VarRef>{x}, builder.finish(twice), twice->type);
  IRModule module = IRModule::create();
  module.set("main", f);
  Runner runner(module);
  for (int64_t kept : {0, 1, 5, 8}) {
    NDArray in = NDArray::zeros({2, 4}, f32);
    for (int64_t i = 0; i < kept; ++i) in.set_element(7 - i, 1);
    const NDArray want = interpret(module, "main", {Any(in)}).as<NDArray>();
    const NDArray got = runner.run({in}).at(0);
    ASSERT_EQ(got.shape(), (Dims{2, kept}));
    expect_all(got, {2, kept}, [&](const Index& i) {
      const int64_t flat = 8 - kept + i[1];
      EXPECT_EQ(at(want, i), at(got, i));
      return 2.0 * double(i[0] ? flat % 4 : flat / 4);
    });
  }
}

TEST(EveryOperator, IsDocumented) {
  for (const auto& op : graph::all_ops()) {
    EXPECT_FALSE(op->doc.empty()) << op->name;
    for (const auto& a : op->arguments) EXPECT_FALSE(a.doc.empty()) << op->name << ": " << a.name;
    EXPECT_TRUE(!definition(*op).tensor_def || definition(*op).infer) << op->name;
  }
}

}  // namespace
}  // namespace tenon::op_test
