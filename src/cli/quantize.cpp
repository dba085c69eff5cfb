// SPDX-License-Identifier: Apache-2.0
// tenon quantize: samples from a folder, the table of what quantisation costs, the model's file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "cli/compiler.h"
#include "cli/model.h"
#include "cli/npy.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

struct Options {
  QuantizeRequest request;
  std::string data;
};

/// The arrays of the folder: labels.npy, and NAME.npy for the input NAME, with _ for what names of files
/// lack.
void read_samples(Options& o) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(o.data))
    throw Error(ErrorKind::io, "T3001", "there is no such folder", o.data, "--data DIR holds NAME.npy");
  for (const auto& file : fs::directory_iterator(o.data)) {
    if (file.path().extension() != ".npy") continue;
    const std::string name = file.path().stem().string();
    if (name == "labels") {
      o.request.labels = {read_npy(file.path().string())};
      continue;
    }
    o.request.names.push_back(name);
    o.request.samples.push_back(read_npy(file.path().string()));
  }
}

void quantize(Options& o, Console& console) {
  read_samples(o);
  o.request.progress = Function([&console](Arguments a) -> Any {
    console.progress(a[0].as<std::string>(), a[1].as<int64_t>(), a[2].as<int64_t>());
    return {};
  });
  const json report = ask_compiler("quantize", o.request);
  console.end_progress();
  console.print(fmt::format("{:<32} {:<8} {:>10} {:>10}", "layer", "operator", "error", "its own"));
  for (const json& layer : report["layers"])
    console.print(fmt::format("{:<32} {:<8} {:>9.2f}% {:>9.2f}%", layer["name"].get<std::string>(),
                              layer["op"].get<std::string>(), 100 * layer["error"].get<double>(),
                              100 * layer["own_error"].get<double>()));
  if (!report["accuracy_before"].is_null())
    console.print(fmt::format("accuracy on {} samples: {:.2f}% before, {:.2f}% after",
                              report["samples"].get<int64_t>(), 100 * report["accuracy_before"].get<double>(),
                              100 * report["accuracy_after"].get<double>()));
  const auto loud = report["leave_in_float"].get<std::vector<std::string>>();
  if (!loud.empty())
    console.print(fmt::format("these layers add most of the error; to leave them in float: --exclude {}",
                              fmt::join(loud, " --exclude ")));
  console.print(fmt::format("wrote {} ({})", o.request.output, bytes_text(report["bytes"].get<double>())));
  console.result(report);
}

}  // namespace

void add_quantize(CLI::App& app, Console& console) {
  auto options = std::make_shared<Options>();
  QuantizeRequest& r = options->request;
  CLI::App* verb = add_verb(
      app, console, "quantize", "write a model that computes on bytes, from a float model and samples",
      "tenon quantize model.onnx --data samples -o model_int8.onnx\n\n"
      "samples/NAME.npy holds samples of the input NAME along its first axis; with samples/labels.npy (a "
      "number\n"
      "for each) the accuracy before and after is counted. A layer's error is the root mean square of what\n"
      "changed in its result, relative to the result; `its own` leaves out what its inputs brought.");
  verb->add_option("MODEL", r.model, "float model, an ONNX file")->required();
  verb->add_option("--data", options->data, "folder of samples, NAME.npy for each input")
      ->required()
      ->type_name("DIR");
  verb->add_option("-o,--output", r.output, "the quantised model, an ONNX file")
      ->required()
      ->type_name("FILE");
  verb->add_option("--method", r.method, "range of an activation: minmax, percentile or entropy")
      ->capture_default_str()
      ->type_name("NAME");
  const CLI::Option* share =
      verb->add_option("--percentile", r.percentile, "of the values that --method percentile keeps")
          ->capture_default_str()
          ->type_name("P");
  verb->add_flag("--symmetric", r.symmetric,
                 "activations as int8 around 0 (default: uint8 with a zero point)");
  verb->add_flag("--per-tensor", r.per_tensor, "one scale for a weight (default: one for each channel)");
  verb->add_flag("--equalize", r.equalize, "balance channels of neighbouring convolutions first");
  add_list_option(*verb, "--exclude", r.excluded, "a node to leave in float, repeatable", "NODE");
  verb->add_option("--threads", r.threads, "to run the samples with (default: available cores)")
      ->type_name("N");
  verb->callback([options, share, &console] {
    if (share->count() > 0 && options->request.method != "percentile")
      throw Error(ErrorKind::usage, "T0950",
                  fmt::format("the method {} has no percentile", options->request.method), {},
                  "--method percentile has one");
    quantize(*options, console);
  });
}

}  // namespace tenon::cli
