// SPDX-License-Identifier: Apache-2.0
// A target that the compiler does not have, added from outside: a model is compiled for it, run in this
// process, written as an artifact, loaded and run again. Each result is judged by the interpreter, and so is
// what the target refuses.
//
//   example_custom_target [FOLDER]      writes model.stack and model.so there (default: this folder)
#include <cmath>
#include <iostream>

#include "interpret/interpret.h"
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

bool agrees(const char* what, const std::vector<NDArray>& inputs, Artifact artifact) {
  const NDArray want =
      interpret(model(kModel), "main", std::vector<Any>(inputs.begin(), inputs.end())).as<NDArray>();
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
