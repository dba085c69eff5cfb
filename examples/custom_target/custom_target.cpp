// SPDX-License-Identifier: Apache-2.0
// A target that the compiler does not have, added from outside: a model is compiled for it, run in this
// process, written as an artifact, loaded and run again. Then it is an external code generator: of a model
// for the host it takes the regions whose operators it has. Each result is judged by the interpreter, and so
// is what the target refuses.
//
//   example_custom_target [FOLDER]      writes model.stack and model.so there (default: this folder)
#include <cmath>
#include <iostream>

#include "base/function.h"
#include "interpret/interpret.h"
#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/text.h"
#include "pipeline/emit.h"
#include "stack_target.h"

namespace {

using namespace tenon;

constexpr const char* kModel = R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32"), b: R.Tensor((4,), "float32")):
        y = R.nn.dense(x, w)
        z = R.add(y, b)
        a = R.nn.relu(z)
        m = R.max(a, axis=[1])
        return m
)";
/// The stack machine has no word for what an exponential is made of.
constexpr const char* kTooMuch = R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        y = R.exp(x)
        return y
)";
/// The host has the exponential in the middle, the stack machine what stands around it.
constexpr const char* kMixed = R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32"), b: R.Tensor((4,), "float32")):
        y = R.nn.dense(x, w)
        z = R.add(y, b)
        e = R.exp(z)
        a = R.nn.relu(e)
        return a
)";

IRModule model(const char* text) {
  PassContext context;
  return run_pass("infer_types", parse_module(text), context);
}

NDArray tensor(std::vector<int64_t> shape, double first, double step) {
  NDArray out = NDArray::empty(std::move(shape), f32);
  for (int64_t i = 0; i < out.size(); ++i) out.set_element(i, first + step * double(i));
  return out;
}

CompileOptions for_the_stack(CodeForm code) {
  CompileOptions options;
  options.target = "stack";
  options.schedule = false;  // a default schedule makes vectors
  options.code = code;
  return options;
}

/// "tenon.ext.stack.supports": the operators that regions are made of.
Any supports(Arguments args) {
  const graph::Op* op = graph::op_of(args[0].as<graph::Expr>());
  return op && (op->name == "nn.dense" || op->name == "add" || op->name == "nn.relu");
}

/// "tenon.ext.stack": each region is a model of its own for the stack machine, which the host's code calls as
/// the packed function "stack.REGION" with the region's tensors and those of its results.
Any generate(Arguments args) {
  AttrMap out;
  for (const auto& [name, region] : graph::graph_functions(args[0].as<IRModule>())) {
    if (!region->attrs.contains("Codegen")) continue;
    Ref<graph::Function> main = region;
    main.edit()->attrs = AttrMap();
    IRModule module = IRModule::create();
    module.set("main", main);
    const size_t inputs = main->params.size();
    const auto session =
        std::make_shared<Session>(jit_artifact(compile(std::move(module), for_the_stack(CodeForm::shared))));
    registry::add("stack." + name, tenon::Function([session, inputs](Arguments tensors) {
                    std::vector<NDArray> given, results;
                    for (size_t i = 0; i < tensors.size(); ++i)
                      (i < inputs ? given : results).push_back(tensors[i].as<NDArray>());
                    session->invoke_into(given, results);
                    return Any();
                  }));
    out.set(name, "stack." + name);
  }
  return out;
}

/// A model for the host whose regions the stack machine computes.
Compiled with_regions() {
  registry::add("tenon.ext.stack", tenon::Function(generate));
  registry::add("tenon.ext.stack.supports", tenon::Function(supports));
  PassContext context;
  context.options.set_text("annotate_target.targets=stack");
  IRModule module = model(kMixed);
  for (const char* pass : {"annotate_target", "merge_compiler_regions", "partition_graph", "run_codegen"})
    module = run_pass(pass, module, context);
  std::cout << print(module);
  return compile(std::move(module), CompileOptions());
}

bool agrees(const char* what, const std::vector<NDArray>& inputs, Artifact artifact,
            const char* text = kModel) {
  const NDArray want =
      interpret(model(text), "main", std::vector<Any>(inputs.begin(), inputs.end())).as<NDArray>();
  const NDArray got = Session(std::move(artifact)).invoke(inputs).at(0);
  double worst = 0;
  for (int64_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::abs(want.element(i) - got.element(i)));
  std::cout << what << ": differs from the interpreter by " << worst << "\n";
  return got.shape() == want.shape() && worst <= 1e-6;
}

bool is_refused(const char* what, const std::string& code, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    std::cout << what << ": " << e.what() << "\n";
    return e.code == code;
  }
  std::cout << what << ": not refused\n";
  return false;
}

int run(const std::string& folder) {
  const std::vector<NDArray> inputs{tensor({2, 3}, -1, 0.5), tensor({4, 3}, 0.75, -0.25),
                                    tensor({4}, 0.1, 0.1)};
  const std::string file = folder + "/model.so";
  custom_target::register_stack_target();

  Compiled compiled = compile(model(kModel), for_the_stack(CodeForm::shared));
  write_emitted("stack", folder + "/model.stack", compiled);
  write_emitted("artifact", file, compiled);
  // Without the loader the artifact has kernels that nothing runs.
  bool good = is_refused("no loader", "T0614", [&] { Artifact::load(file); });
  custom_target::register_stack_loader();
  good = agrees("in this process", inputs, jit_artifact(compiled)) && good;
  good = agrees("from its file", inputs, Artifact::load(file)) && good;
  good = agrees("regions of the host's model", inputs, jit_artifact(with_regions()), kMixed) && good;
  good = is_refused("an exponential", "T0801",
                    [&] { compile(model(kTooMuch), for_the_stack(CodeForm::none)); }) &&
         good;
  good = is_refused("the name again", "T0940", custom_target::register_stack_target) && good;
  good = is_refused("a misspelt name", "T0901", [] { parse_target("stak"); }) && good;
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : ".");
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
