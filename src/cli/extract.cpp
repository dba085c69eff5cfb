// SPDX-License-Identifier: Apache-2.0
// tenon extract: one kernel of a model in a folder by itself, to look at, run, change and put back.
#include <fmt/format.h>

#include "cli/model.h"
#include "cli/npy.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

struct ExtractOptions {
  ModelOptions model;
  std::string kernel, out;
};

/// Tensors as files NAME_0.npy …, and their names.
json write_tensors(const Array<NDArray>& tensors, const std::string& folder, const std::string& name) {
  json files = json::array();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string file = fmt::format("{}_{}.npy", name, i);
    write_npy(folder + "/" + file, tensors[i]);
    files.push_back(
        {{"file", file}, {"dtype", to_string(tensors[i].dtype())}, {"shape", tensors[i].shape()}});
  }
  return files;
}

void extract(const ExtractOptions& o, Console& console) {
  ExtractRequest request;
  static_cast<CompileSettings&>(request) = o.model;
  Signature signature = signature_of(o.model);
  request.bind = bound_values(o.model, signature);
  Prepared given;
  given.signature = signature;
  given.bind = request.bind;
  given.inputs = make_inputs(o.model, signature);
  given.leave_out_bound();
  request.model = o.model.model;
  request.kernel = o.kernel;
  request.output = o.out.empty() ? o.kernel : o.out;
  // A model that takes more than tensors is not run: the kernel's inputs are drawn.
  if (given.is_all_tensors()) request.inputs = Array<NDArray>(given.tensors());
  const AttrMap reply = call_compiler("extract", request);
  console.end_progress();
  const std::string& folder = request.output;
  const json inputs = write_tensors(reply.at("inputs").as<Array<NDArray>>(), folder, "input"),
             outputs = write_tensors(reply.at("outputs").as<Array<NDArray>>(), folder, "output");
  const bool from_run = reply.at("from_run").as<bool>();
  const std::string base = folder + "/" + o.kernel;
  console.print(
      fmt::format("wrote {0}.tir, {1}/unscheduled/{2}.tir, {0}.trace.json, and its inputs and results {3}",
                  base, folder, o.kernel, from_run ? "in a run of the model" : "on random values"));
  console.print(fmt::format("  try it         tenon compare {}.tir --data {}", base, folder));
  console.print(
      fmt::format("  reschedule it  tenon opt {0}/unscheduled/{1}.tir --schedule {2}.trace.json -o {2}.tir",
                  folder, o.kernel, base));
  console.print(fmt::format("  put it back    tenon compile {} --override {}", o.model.model, folder));
  console.result({{"kernel", o.kernel},
                  {"folder", folder},
                  {"program", o.kernel + ".tir"},
                  {"unscheduled", "unscheduled/" + o.kernel + ".tir"},
                  {"trace", o.kernel + ".trace.json"},
                  {"inputs", inputs},
                  {"outputs", outputs},
                  {"from_run", from_run}});
}

}  // namespace

void add_extract(CLI::App& app, Console& console) {
  auto options = std::make_shared<ExtractOptions>();
  ModelOptions& o = options->model;
  CLI::App* verb =
      add_verb(app, console, "extract", "one kernel of a model in a folder, to look at and change",
               "tenon extract model.onnx fused_conv2d_relu -o kernel");
  verb->add_option("MODEL", o.model, "ONNX file or module in script text (-: standard input)")->required();
  verb->add_option("KERNEL", options->kernel, "the kernel's name, as `tenon bench --kernels` shows it")
      ->required();
  verb->add_option("-o,--output", options->out, "the folder to write (default: the kernel's name)")
      ->type_name("DIR");
  add_input_options(*verb, o);
  add_sizes_option(*verb, "--dim", o.dims, "value of a symbolic dimension, repeatable");
  add_bind_option(*verb, o.bound, "an input that is fixed: values as for -i, repeatable");
  add_target_options(*verb, o);
  add_precision_option(*verb, o);
  add_pass_options(*verb, o);
  add_custom_option(*verb);
  verb->callback([options, &console] { extract(*options, console); });
}

}  // namespace tenon::cli
