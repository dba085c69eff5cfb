// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/quantize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "import/onnx/load.h"
#include "pipeline/compile.h"
#include "pipeline/emit.h"
#include "runtime/vm.h"

namespace tenon {
namespace {

[[noreturn]] void bad_samples(const std::string& model, const std::string& sentence,
                              const std::string& hint = {}) {
  throw Error(ErrorKind::usage, "T0951", sentence, model, hint);
}

/// Samples in the order and the shapes of the model's inputs.
class Samples {
 public:
  Samples(const std::string& model, const SampleSet& given, const onnx::OnnxInfo& info) : model_(model) {
    for (const auto& [name, values] : given)
      if (std::ranges::find(info.inputs, name, &onnx::OnnxValueInfo::name) == info.inputs.end())
        bad_samples(model_, fmt::format("the model has no input '{}'", name));
    for (const onnx::OnnxValueInfo& input : info.inputs) {
      const auto at = given.find(input.name);
      if (at == given.end())
        bad_samples(model_, fmt::format("there are no samples of the input '{}'", input.name),
                    fmt::format("a file {}.npy of (samples, {})", input.name, fmt::join(input.shape, ", ")));
      add(input, at->second);
    }
  }
  int64_t count() const { return count_; }
  std::vector<NDArray> sample(int64_t i) const {
    std::vector<NDArray> out;
    for (const auto& [values, shape] : inputs_) {
      NDArray one = NDArray::empty(shape, values.dtype());
      const size_t bytes = one.byte_size();
      std::copy_n(values.as_ptr<char>() + size_t(i) * bytes, bytes, one.as_ptr<char>());
      out.push_back(one);
    }
    return out;
  }

 private:
  void add(const onnx::OnnxValueInfo& input, const NDArray& values) {
    auto wrong = [&](const std::string& what) {
      bad_samples(model_,
                  fmt::format("the samples of '{}' are {}({}): {}", input.name, to_string(values.dtype()),
                              fmt::join(values.shape(), ", "), what),
                  fmt::format("{}(samples, {})", input.dtype, fmt::join(input.shape, ", ")));
    };
    if (values.ndim() == 0 || values.size() == 0) wrong("there are none");
    if (!input.dtype.empty() && input.dtype != to_string(values.dtype()))
      wrong("the model takes another type");
    std::vector<int64_t> shape(values.shape().begin() + 1, values.shape().end());
    if (input.has_shape && shape.size() + 1 == input.shape.size()) shape.insert(shape.begin(), 1);
    if (input.has_shape && shape.size() != input.shape.size())
      wrong("the model takes another number of axes");
    for (size_t i = 0; input.has_shape && i < shape.size(); ++i) {
      const std::string& want = input.shape[i];
      const bool number = !want.empty() && want.find_first_not_of("0123456789") == std::string::npos;
      if (number && want != std::to_string(shape[i])) wrong("the model takes other sizes");
    }
    if (!inputs_.empty() && values.shape()[0] != count_)
      wrong(fmt::format("another input has {} samples", count_));
    for (int64_t i = 0; values.dtype().is_float() && i < values.size(); ++i)
      if (!std::isfinite(values.element(i)))
        wrong(fmt::format("sample {} holds {}", i / (values.size() / values.shape()[0]), values.element(i)));
    count_ = values.shape()[0];
    inputs_.push_back({values, shape});
  }

  struct Input {
    NDArray values;
    std::vector<int64_t> shape;  ///< of one sample
  };
  std::string model_;  ///< its file
  std::vector<Input> inputs_;
  int64_t count_ = 0;
};

/// A compiled model whose results are found by name.
class Runner {
 public:
  Runner(const std::string& model, const std::string& path, int threads)
      : session_(loaded(model, path, threads), {.threads = threads}) {
    const auto outputs = session_.artifact().outputs();
    for (size_t i = 0; i < outputs.size(); ++i) index_.emplace(outputs[i].name, i);
  }
  void run(const std::vector<NDArray>& sample) { results_ = session_.invoke(sample); }
  const NDArray& result(const std::string& name) const { return results_.at(index_.at(name)); }
  const NDArray& first() const { return results_.at(0); }

 private:
  static Artifact loaded(const std::string& model, const std::string& path, int threads) {
    const size_t slash = path.rfind('/');
    CompileOptions options;
    options.threads = threads;
    options.code = CodeForm::objects;
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
    return jit_artifact(compile(load_model_bytes(model, path, folder), options));
  }
  Session session_;
  std::map<std::string, size_t> index_;
  std::vector<NDArray> results_;
};

/// Sums for the root of the mean square of differences.
struct Difference {
  double squares = 0, whole = 0;
  void add(const NDArray& want, const NDArray& got) {
    for (int64_t i = 0; i < want.size(); ++i) {
      const double a = want.element(i), d = a - got.element(i);
      squares += d * d, whole += a * a;
    }
  }
  double relative() const { return whole > 0 ? std::sqrt(squares / whole) : squares > 0 ? 1 : 0; }
};

int64_t largest(const NDArray& a) {
  int64_t at = 0;
  for (int64_t i = 1; i < a.size(); ++i)
    if (a.element(i) > a.element(at)) at = i;
  return at;
}

std::map<std::string, onnx::ValueRange> calibrate(const onnx::QdqModel& model, const std::string& path,
                                                  const Samples& samples, const QuantizeOptions& options) {
  Runner runner(onnx::with_outputs(model.float_model(), model.activations()), path, options.threads);
  std::map<std::string, Histogram> histograms;
  const bool twice = options.method != RangeMethod::min_max;
  const int total = int(samples.count()) * (twice ? 2 : 1);
  for (int round = 0; round < (twice ? 2 : 1); ++round)
    for (int64_t i = 0; i < samples.count(); ++i) {
      if (options.progress) options.progress("calibrate", int(round * samples.count() + i), total);
      runner.run(samples.sample(i));
      for (const std::string& name : model.activations()) {
        const NDArray& a = runner.result(name);
        if (a.dtype() != f32)
          throw Error(ErrorKind::model, "T0952",
                      fmt::format("'{}' is {}; only float32 is quantised", name, to_string(a.dtype())), path);
        Histogram& h = histograms[name];
        if (round > 0)
          h.count(a.as_ptr<float>(), a.size());
        else if (!h.widen(a.as_ptr<float>(), a.size()))
          throw Error(ErrorKind::model, "T0952", fmt::format("'{}' is not finite for sample {}", name, i),
                      path, "the float model computes it so; look at that sample");
      }
    }
  std::map<std::string, onnx::ValueRange> out;
  for (const auto& [name, h] : histograms) out[name] = h.range(options.method, options.share);
  return out;
}

/// Errors of layers, and how many samples both models get right.
void judge(QuantizeReport& report, const onnx::QdqModel& model, const std::string& path,
           const Samples& samples, const std::optional<NDArray>& labels, const QuantizeOptions& options) {
  std::vector<std::string> seen;
  for (const onnx::QdqLayer& l : model.layers()) {
    seen.push_back(l.input);
    seen.push_back(l.output);
  }
  Runner before(onnx::with_outputs(model.float_model(), seen), path, options.threads),
      after(onnx::with_outputs(report.model, seen), path, options.threads);
  std::map<std::string, Difference> differences;
  int64_t right_before = 0, right_after = 0;
  for (int64_t i = 0; i < samples.count(); ++i) {
    if (options.progress) options.progress("compare", int(i), int(samples.count()));
    const auto sample = samples.sample(i);
    before.run(sample), after.run(sample);
    const std::set<std::string> once(seen.begin(), seen.end());
    for (const std::string& name : once) differences[name].add(before.result(name), after.result(name));
    if (!labels) continue;
    const int64_t classes = before.first().size();
    if (const int64_t label = labels->element_int(i); label < 0 || label >= classes)
      bad_samples(path, fmt::format("the label {} of sample {} is none of {} classes", label, i, classes));
    right_before += largest(before.first()) == labels->element_int(i);
    right_after += largest(after.first()) == labels->element_int(i);
  }
  for (const onnx::QdqLayer& l : model.layers()) {
    const double error = differences[l.output].relative(), brought = differences[l.input].relative();
    report.layers.push_back({l, error, std::sqrt(std::max(0.0, error * error - brought * brought))});
  }
  if (!labels) return;
  report.accuracy_before = double(right_before) / double(samples.count());
  report.accuracy_after = double(right_after) / double(samples.count());
}

/// Layers whose own error is large, and far above what is common in this model.
std::vector<std::string> outstanding(const std::vector<LayerError>& layers) {
  constexpr double kLarge = 0.1, kFar = 4;  // a tenth of the values themselves; times the median
  std::vector<double> own;
  for (const LayerError& l : layers) own.push_back(l.own);
  std::ranges::nth_element(own, own.begin() + std::ptrdiff_t(own.size() / 2));
  const double median = own[own.size() / 2];
  std::vector<std::string> out;
  for (const LayerError& l : layers)
    if (l.own > kLarge && l.own > kFar * median) out.push_back(l.layer.name);
  return out;
}

}  // namespace

QuantizeReport quantize_model(const std::string& path, const SampleSet& given,
                              const std::optional<NDArray>& labels, const QuantizeOptions& options) {
  const Samples samples(path, given, onnx::read_onnx_info(path));
  if (labels && (labels->ndim() != 1 || labels->size() != samples.count() || !labels->dtype().is_integer()))
    bad_samples(path,
                fmt::format("the labels of {} samples are {}({})", samples.count(),
                            to_string(labels->dtype()), fmt::join(labels->shape(), ", ")),
                "labels.npy holds an integer for each sample");
  const onnx::QdqModel model(path, options.form);
  QuantizeReport report;
  report.samples = samples.count();
  report.model = model.quantized_model(calibrate(model, path, samples, options));
  judge(report, model, path, samples, labels, options);
  report.leave_in_float = outstanding(report.layers);
  return report;
}

}  // namespace tenon
