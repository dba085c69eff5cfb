// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/nearest.h"
#include "import/onnx/upgrade_opset.h"
#include "import/onnx/wire.h"

namespace tenon::onnx {
namespace {

constexpr int kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6;  // ONNX's numbers of element types

const proto::AttributeProto* attribute(const proto::NodeProto& n, std::string_view name) {
  for (const auto& a : n.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}
int64_t int_of(const proto::NodeProto& n, std::string_view name, int64_t otherwise) {
  const auto* a = attribute(n, name);
  return a ? a->i() : otherwise;
}
float float_of(const proto::NodeProto& n, std::string_view name, float otherwise) {
  const auto* a = attribute(n, name);
  return a ? a->f() : otherwise;
}

proto::TensorProto tensor_of(std::string name, int type, const std::vector<int64_t>& shape, const void* data,
                             size_t bytes) {
  proto::TensorProto t;
  t.set_name(std::move(name));
  t.set_data_type(type);
  for (int64_t d : shape) t.add_dims(d);
  t.set_raw_data(data, bytes);
  return t;
}

proto::NodeProto node_of(const char* op, std::vector<std::string> inputs, const std::string& output) {
  proto::NodeProto n;
  n.set_op_type(op);
  n.set_name(output + "_" + op);
  for (std::string& i : inputs) n.add_input(std::move(i));
  n.add_output(output);
  return n;
}

const std::string& node_name(const proto::NodeProto& n) {
  return n.name().empty() && n.output_size() ? n.output(0) : n.name();
}

/// Scale and zero point of values in a range that contains 0.
struct Steps {
  float scale = 1;
  int32_t zero = 0;
};
Steps steps_of(ValueRange r, bool symmetric) {
  r.low = std::min(r.low, 0.0), r.high = std::max(r.high, 0.0);
  const double width = symmetric ? 2 * std::max(-r.low, r.high) : r.high - r.low,
               scale = width / (symmetric ? 254 : 255);
  Steps s;
  if (!(scale > 0) || !std::isfinite(scale)) return s;
  s.scale = float(scale);
  if (!symmetric) s.zero = int32_t(std::clamp(std::nearbyint(-r.low / scale), 0.0, 255.0));
  return s;
}

}  // namespace

// ---------------------------------------------------------------- the model
struct QdqModel::Parts {
  proto::ModelProto model;
  std::string name, folder;
  QdqOptions options;
  std::vector<QdqLayer> layers;
  std::vector<int> layer_nodes;  ///< positions in the graph
  std::vector<std::string> activations;

  proto::GraphProto& graph() { return *model.mutable_graph(); }

  std::map<std::string, int> producer;                ///< position of the node that makes a tensor
  std::map<std::string, std::vector<int>> consumers;  /// positions of its readers
  std::set<std::string> outputs;                      ///< of the graph, and what bodies of control flow read
  std::map<std::string, NDArray> constants;           ///< initialisers and Constant nodes that were asked for

  void index() {
    producer.clear(), consumers.clear(), outputs.clear();
    for (int i = 0; i < graph().node_size(); ++i) {
      for (const std::string& t : graph().node(i).input()) consumers[t].push_back(i);
      for (const std::string& t : graph().node(i).output()) producer[t] = i;
      for (const auto& a : graph().node(i).attribute()) {
        if (a.has_g()) captured(a.g());
        for (const auto& g : a.graphs()) captured(g);
      }
    }
    for (const auto& o : graph().output()) outputs.insert(o.name());
  }
  void captured(const proto::GraphProto& body) {
    for (const auto& o : body.output()) outputs.insert(o.name());
    for (const auto& n : body.node()) {
      for (const std::string& t : n.input()) outputs.insert(t);
      for (const auto& a : n.attribute())
        if (a.has_g()) captured(a.g());
    }
  }
  /// A constant's tensor as the file has it; null: it is none.
  const proto::TensorProto* stored(const std::string& tensor) {
    for (const auto& t : graph().initializer())
      if (t.name() == tensor) return &t;
    const auto at = producer.find(tensor);
    if (at == producer.end() || graph().node(at->second).op_type() != "Constant") return nullptr;
    const auto* value = attribute(graph().node(at->second), "value");
    return value && value->has_t() ? &value->t() : nullptr;
  }
  /// The value of a constant of float32; nullopt: the tensor is none.
  std::optional<NDArray> constant(const std::string& tensor) {
    if (const auto known = constants.find(tensor); known != constants.end()) return known->second;
    const proto::TensorProto* t = stored(tensor);
    if (!t || t->data_type() != kFloat) return std::nullopt;
    proto::TensorProto copy = *t;
    ModelFile file;
    file.name = name, file.folder = folder;
    const NDArray value = read_tensor(copy, file, {}, name);
    for (int64_t i = 0; i < value.size(); ++i)
      if (!std::isfinite(value.as_ptr<float>()[i]))
        fail("T2030", fmt::format("the constant {} holds {}", in_quotes(tensor), value.as_ptr<float>()[i]),
             name, "weights must be finite");
    return constants[tensor] = value;
  }
  /// Another value for a constant, under a name of its own.
  std::string replaced(const std::string& tensor, const NDArray& value) {
    const std::string fresh = tensor + "_folded";
    constants[fresh] = value;
    *graph().add_initializer() = tensor_of(fresh, kFloat, value.shape(), value.data(), value.byte_size());
    return fresh;
  }
  /// The only reader of a tensor that nothing else sees; null: there is none.
  proto::NodeProto* only_reader(const std::string& tensor) {
    const auto at = consumers.find(tensor);
    if (outputs.contains(tensor) || at == consumers.end() || at->second.size() != 1) return nullptr;
    return graph().mutable_node(at->second[0]);
  }

  void fold_batch_norms();
  bool fold_batch_norm(proto::NodeProto& conv, proto::NodeProto& norm);
  void find_layers();
  void equalize();
  bool equalize(int first, int second);
  void find_activations();
};

/// norm(conv(x)) as a convolution with other weights.
bool QdqModel::Parts::fold_batch_norm(proto::NodeProto& conv, proto::NodeProto& norm) {
  const auto w = constant(conv.input(1));
  std::vector<NDArray> p;
  for (int i = 1; i < norm.input_size() && i < 5; ++i)
    if (const auto v = constant(norm.input(i)); v && w && v->size() == w->shape()[0]) p.push_back(*v);
  if (p.size() != 4 || norm.output_size() != 1) return false;
  const int64_t channels = w->shape()[0], each = w->size() / channels;
  const auto b = conv.input_size() > 2 ? constant(conv.input(2)) : NDArray::zeros({channels}, f32);
  if (!b) return false;
  const float epsilon = float_of(norm, "epsilon", 1e-5f);
  NDArray weight = w->copy(), bias = b->copy();
  for (int64_t o = 0; o < channels; ++o) {
    const double factor = p[0].element(o) / std::sqrt(p[3].element(o) + double(epsilon));
    for (int64_t i = 0; i < each; ++i) weight.as_ptr<float>()[o * each + i] *= float(factor);
    bias.as_ptr<float>()[o] = float((b->element(o) - p[2].element(o)) * factor + p[1].element(o));
  }
  const std::string base = conv.output(0);
  conv.set_input(1, replaced(base + "_weight", weight));
  const std::string shift = replaced(base + "_bias", bias);
  if (conv.input_size() > 2)
    conv.set_input(2, shift);
  else
    conv.add_input(shift);
  conv.set_output(0, norm.output(0));
  return true;
}

void QdqModel::Parts::fold_batch_norms() {
  std::set<int> folded;
  for (int i = 0; i < graph().node_size(); ++i) {
    proto::NodeProto& conv = *graph().mutable_node(i);
    if (conv.op_type() != "Conv") continue;
    proto::NodeProto* norm = only_reader(conv.output(0));
    if (norm && norm->op_type() == "BatchNormalization" && fold_batch_norm(conv, *norm))
      folded.insert(consumers.at(norm->input(0))[0]);
  }
  proto::GraphProto kept = graph();
  kept.clear_node();
  for (int i = 0; i < graph().node_size(); ++i)
    if (!folded.contains(i)) *kept.add_node() = graph().node(i);
  graph().Swap(&kept);
  index();
}

void QdqModel::Parts::find_layers() {
  std::vector<std::string> names;
  std::set<std::string> missing(options.excluded.begin(), options.excluded.end());
  const std::set<std::string> excluded = missing;
  for (int i = 0; i < graph().node_size(); ++i) {
    const proto::NodeProto& n = graph().node(i);
    names.push_back(node_name(n));
    missing.erase(node_name(n));
    const std::string& op = n.op_type();
    if ((op != "Conv" && op != "MatMul" && op != "Gemm") || n.input_size() < 2) continue;
    const auto w = constant(n.input(1));
    if (!w || w->size() == 0 || constant(n.input(0)) || (op != "Conv" && w->ndim() != 2)) continue;
    if (op == "Gemm" && (int_of(n, "transA", 0) != 0 || float_of(n, "alpha", 1) != 1)) continue;
    if (excluded.contains(node_name(n))) continue;
    layers.push_back({node_name(n), op, n.input(0), n.output(0)});
    layer_nodes.push_back(i);
  }
  for (const std::string& m : missing)
    fail("T2031", fmt::format("there is no node {} to leave in float", in_quotes(m)), name,
         did_you_mean(m, names, "nodes: "), ErrorKind::usage);
  if (layers.empty())
    fail("T2030", "no convolution or product of the model has constant weights of float32", name,
         "nothing can be quantised");
}

/// Scales channels so that those of the first convolution's result and of the second's weights span alike
/// (Nagel et al., Data-free quantization through weight equalization, 2019).
bool QdqModel::Parts::equalize(int first, int second) {
  proto::NodeProto &a = *graph().mutable_node(first), &b = *graph().mutable_node(second);
  const auto wa = constant(a.input(1)), wb = constant(b.input(1));
  const auto bias = a.input_size() > 2 ? constant(a.input(2)) : std::nullopt;
  const int64_t channels = wa->shape()[0], each = wa->size() / channels, groups = int_of(b, "group", 1);
  const bool depthwise = groups == channels && wb->shape()[0] == channels;
  if ((a.input_size() > 2 && !bias) || !(depthwise || (groups == 1 && wb->shape()[1] == channels)))
    return false;
  NDArray x = wa->copy(), y = wb->copy(), shift = bias ? bias->copy() : NDArray();
  const int64_t inner = wb->size() / wb->shape()[0] / wb->shape()[1];
  auto each_of_second = [&](int64_t c, auto&& f) {
    for (int64_t o = depthwise ? c : 0, end = depthwise ? c + 1 : wb->shape()[0]; o < end; ++o)
      for (int64_t i = 0; i < inner; ++i)
        f(y.as_ptr<float>()[(depthwise ? o : o * channels + c) * inner + i]);
  };
  for (int64_t c = 0; c < channels; ++c) {
    float* row = x.as_ptr<float>() + c * each;
    double p = 0, q = 0;
    for (int64_t i = 0; i < each; ++i) p = std::max(p, double(std::abs(row[i])));
    each_of_second(c, [&](float& v) { q = std::max(q, double(std::abs(v))); });
    if (p == 0 || q == 0) continue;
    const float factor = float(std::sqrt(q / p));
    for (int64_t i = 0; i < each; ++i) row[i] *= factor;
    if (bias) shift.as_ptr<float>()[c] *= factor;
    each_of_second(c, [&](float& v) { v /= factor; });
  }
  a.set_input(1, replaced(a.output(0) + "_equal_weight", x));
  if (bias) a.set_input(2, replaced(a.output(0) + "_equal_bias", shift));
  b.set_input(1, replaced(b.output(0) + "_equal_input", y));
  return true;
}

void QdqModel::Parts::equalize() {
  const std::set<int> among(layer_nodes.begin(), layer_nodes.end());
  for (int i : layer_nodes) {
    proto::NodeProto* next = only_reader(graph().node(i).output(0));
    // A ReLU lets factors above 0 pass.
    if (next && next->op_type() == "Relu") next = only_reader(next->output(0));
    if (!next || next->op_type() != "Conv" || graph().node(i).op_type() != "Conv") continue;
    const int second = producer.at(next->output(0));
    if (among.contains(second) && next->input(0) != next->input(1)) equalize(i, second);
  }
}

/// What layers read, and what that is made of by moving, pooling or adding.
void QdqModel::Parts::find_activations() {
  std::set<std::string> wanted;
  for (const QdqLayer& l : layers) wanted.insert(l.input);
  static const std::set<std::string_view> moves{"MaxPool",   "Reshape",           "Flatten",
                                                "Transpose", "Squeeze",           "Concat",
                                                "Unsqueeze", "GlobalAveragePool", "AveragePool"};
  for (int i = graph().node_size() - 1; i >= 0; --i) {
    const proto::NodeProto& n = graph().node(i);
    if (n.output_size() == 0) continue;
    std::string result = n.output(0);
    if (const auto* act = only_reader(result);
        n.op_type() == "Add" && act && (act->op_type() == "Relu" || act->op_type() == "Clip"))
      result = act->output(0);
    if (!wanted.contains(result)) continue;
    const bool several = n.op_type() == "Add" || n.op_type() == "Concat";
    if (!several && !moves.contains(n.op_type())) continue;
    bool constants_in = false;
    for (const std::string& t : n.input()) constants_in = constants_in || (several && stored(t));
    for (int k = 0; !constants_in && k < (several ? n.input_size() : 1); ++k) wanted.insert(n.input(k));
  }
  for (const auto& in : graph().input())
    if (wanted.contains(in.name())) activations.push_back(in.name());
  for (const auto& n : graph().node())
    for (const std::string& t : n.output())
      if (wanted.contains(t)) activations.push_back(t);
}

QdqModel::QdqModel(const std::string& path, const QdqOptions& options) : parts_(std::make_unique<Parts>()) {
  Parts& p = *parts_;
  const std::filesystem::path file(path);
  p.name = file.filename().string();
  p.folder = file.has_parent_path() ? file.parent_path().string() : ".";
  p.options = options;
  const auto bytes = read_file(path, ImportOptions().max_file_bytes);
  check_wire(bytes->view(), WireRoot::model, p.name);
  if (!p.model.ParseFromArray(bytes->view().data(), int(bytes->view().size())) || !p.model.has_graph())
    fail("T2001", fmt::format("'{}' is not an ONNX model", p.name), p.name,
         "give the float model as an ONNX file");
  upgrade_opset(p.model, p.name);
  p.index();
  p.fold_batch_norms();
  p.find_layers();
  if (options.equalize) p.equalize();
  p.index();
  p.find_activations();
}
QdqModel::~QdqModel() = default;

const std::vector<QdqLayer>& QdqModel::layers() const { return parts_->layers; }
const std::vector<std::string>& QdqModel::activations() const { return parts_->activations; }
std::string QdqModel::float_model() const { return parts_->model.SerializeAsString(); }

// ---------------------------------------------------------------- QDQ
namespace {

/// Builds the quantised graph beside the float one.
class QdqWriter {
 public:
  QdqWriter(proto::GraphProto& graph, const QdqOptions& options) : graph_(graph), options_(options) {}

  /// Quantises and dequantises a tensor: the name of what is left of it.
  std::string activation(const std::string& tensor, const Steps& s, std::vector<proto::NodeProto>& nodes) {
    const auto [scale, zero] = parameters(tensor, {s.scale}, s.zero, options_.symmetric ? kInt8 : kUint8, {});
    const std::string stored = tensor + "_quantized", out = tensor + "_dequantized";
    nodes.push_back(node_of("QuantizeLinear", {tensor, scale, zero}, stored));
    nodes.push_back(node_of("DequantizeLinear", {stored, scale, zero}, out));
    steps_[tensor] = s;
    return out;
  }
  /// Weights as int8 around 0, a scale for each channel along `axis`.
  std::string weight(const std::string& tensor, const NDArray& w, int64_t axis,
                     std::vector<proto::NodeProto>& nodes) {
    const std::string out = tensor + "_dequantized";
    if (weights_.contains(tensor)) return out;
    int64_t stride = 1;
    for (int64_t i = axis + 1; i < w.ndim(); ++i) stride *= w.shape()[size_t(i)];
    const int64_t channels = options_.per_channel ? w.shape()[size_t(axis)] : 1;
    const auto* from = w.as_ptr<float>();
    auto channel = [&](int64_t i) { return size_t(i / stride % channels); };
    std::vector<float> scales(size_t(channels), 0);
    for (int64_t i = 0; i < w.size(); ++i)
      scales[channel(i)] = std::max(scales[channel(i)], std::abs(from[i]) / 127);
    for (float& s : scales)
      if (!(s >= std::numeric_limits<float>::min())) s = 1;  // a channel of zeros
    std::vector<int8_t> bytes(static_cast<size_t>(w.size()));
    for (int64_t i = 0; i < w.size(); ++i)
      bytes[size_t(i)] =
          int8_t(std::clamp(std::nearbyint(double(from[i]) / double(scales[channel(i)])), -127.0, 127.0));
    *graph_.add_initializer() =
        tensor_of(tensor + "_quantized", kInt8, w.shape(), bytes.data(), bytes.size());
    dequantize(tensor, scales, kInt8, axis, nodes);
    weights_[tensor] = scales;
    return out;
  }
  /// A bias in products of the scales of data and weight.
  std::string bias(const std::string& tensor, const NDArray& b, const std::string& data,
                   const std::string& weight, const std::string& owner,
                   std::vector<proto::NodeProto>& nodes) {
    const std::string fresh = owner + "_bias";
    std::vector<float> scales = weights_.at(weight);
    for (float& s : scales) s *= steps_.at(data).scale;
    std::vector<int32_t> values(static_cast<size_t>(b.size()));
    for (int64_t i = 0; i < b.size(); ++i) {
      const double step = scales[scales.size() == 1 ? 0 : size_t(i)];
      if (!(step > 0)) return tensor;  // steps that float32 cannot say: the bias stays as it is
      values[size_t(i)] = int32_t(
          std::clamp(std::nearbyint(double(b.as_ptr<float>()[i]) / step), -2147483647.0, 2147483647.0));
    }
    *graph_.add_initializer() =
        tensor_of(fresh + "_quantized", kInt32, b.shape(), values.data(), values.size() * sizeof(int32_t));
    dequantize(fresh, scales, kInt32, 0, nodes);
    return fresh + "_dequantized";
  }

 private:
  std::pair<std::string, std::string> parameters(const std::string& tensor, const std::vector<float>& scales,
                                                 int32_t zero, int type, std::vector<int64_t> shape) {
    const std::string scale = tensor + "_scale", point = tensor + "_zero_point";
    const size_t bytes = type == kInt32 ? sizeof(int32_t) : 1;
    std::string zeros;  // one for each scale, little-endian
    for (size_t i = 0; i < scales.size(); ++i) zeros.append(1, char(zero)).append(bytes - 1, 0);
    *graph_.add_initializer() = tensor_of(scale, kFloat, shape, scales.data(), scales.size() * sizeof(float));
    *graph_.add_initializer() = tensor_of(point, type, shape, zeros.data(), zeros.size());
    return {scale, point};
  }
  void dequantize(const std::string& tensor, const std::vector<float>& scales, int type, int64_t axis,
                  std::vector<proto::NodeProto>& nodes) {
    const bool one = scales.size() == 1;
    const auto [scale, zero] = parameters(
        tensor, scales, 0, type, one ? std::vector<int64_t>{} : std::vector<int64_t>{int64_t(scales.size())});
    nodes.push_back(
        node_of("DequantizeLinear", {tensor + "_quantized", scale, zero}, tensor + "_dequantized"));
    if (one) return;
    proto::AttributeProto& a = *nodes.back().add_attribute();
    a.set_name("axis");
    a.set_type(2);  // an integer
    a.set_i(axis);
  }

  proto::GraphProto& graph_;
  const QdqOptions& options_;
  std::map<std::string, Steps> steps_;
  std::map<std::string, std::vector<float>> weights_;
};

/// Initialisers and Constant nodes that nothing reads any more go.
void drop_unused(proto::GraphProto& graph, const std::set<std::string>& seen_outside) {
  std::set<std::string> used = seen_outside;
  for (const auto& n : graph.node()) used.insert(n.input().begin(), n.input().end());
  for (const auto& o : graph.output()) used.insert(o.name());
  std::set<std::string> unused;
  for (const auto& t : graph.initializer())
    if (!used.contains(t.name())) unused.insert(t.name());
  auto in_unused = [&](const auto& named) { return unused.contains(named.name()); };
  auto* tensors = graph.mutable_initializer();
  tensors->erase(std::remove_if(tensors->begin(), tensors->end(), in_unused), tensors->end());
  auto* inputs = graph.mutable_input();  // up to version 3 of the format initialisers are inputs, too
  inputs->erase(std::remove_if(inputs->begin(), inputs->end(), in_unused), inputs->end());
  auto* nodes = graph.mutable_node();
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(),
                              [&](const auto& n) {
                                return n.op_type() == "Constant" && n.output_size() &&
                                       !used.contains(n.output(0));
                              }),
               nodes->end());
}

/// What only moves elements keeps their range: one scale in front of it and behind it.
void share_ranges(const proto::GraphProto& graph, std::map<std::string, ValueRange>& ranges) {
  static const std::set<std::string_view> moves{"MaxPool",   "Reshape", "Flatten",
                                                "Transpose", "Squeeze", "Unsqueeze"};
  for (int i = graph.node_size() - 1; i >= 0; --i)
    if (const auto& n = graph.node(i); n.op_type() == "Concat")
      if (const auto out = ranges.find(n.output(0)); out != ranges.end())
        for (const std::string& t : n.input())
          if (const auto in = ranges.find(t); in != ranges.end()) in->second = out->second;
  for (const auto& n : graph.node())
    if (moves.contains(n.op_type()))
      if (const auto in = ranges.find(n.input(0)), out = ranges.find(n.output(0));
          in != ranges.end() && out != ranges.end())
        out->second = in->second;
}

}  // namespace

std::string QdqModel::quantized_model(const std::map<std::string, ValueRange>& calibrated) const {
  Parts& p = *parts_;
  std::map<std::string, ValueRange> ranges = calibrated;
  share_ranges(p.graph(), ranges);
  proto::ModelProto model = p.model;
  proto::GraphProto& graph = *model.mutable_graph();
  graph.clear_node();
  QdqWriter writer(graph, p.options);
  std::map<std::string, std::string> byte_form;
  std::vector<proto::NodeProto> nodes;
  const std::set<int> layers(p.layer_nodes.begin(), p.layer_nodes.end());
  auto stored = [&](const std::string& tensor) {
    if (!std::ranges::count(p.activations, tensor)) return;
    byte_form[tensor] = writer.activation(tensor, steps_of(ranges.at(tensor), p.options.symmetric), nodes);
  };
  for (const auto& in : graph.input()) stored(in.name());
  for (int i = 0; i < p.graph().node_size(); ++i) {
    proto::NodeProto n = p.graph().node(i);
    const std::string data = n.input_size() ? n.input(0) : "", weight = n.input_size() > 1 ? n.input(1) : "";
    for (std::string& t : *n.mutable_input())
      if (const auto at = byte_form.find(t); at != byte_form.end()) t = at->second;
    if (layers.contains(i)) {
      const bool transposed = n.op_type() == "Gemm" && int_of(n, "transB", 0) != 0;
      const int64_t axis = n.op_type() == "Conv" || transposed ? 0 : 1;
      n.set_input(1, writer.weight(weight, *p.constant(weight), axis, nodes));
      const auto b =
          n.input_size() > 2 && float_of(n, "beta", 1) == 1 ? p.constant(n.input(2)) : std::nullopt;
      if (b && b->ndim() == 1 && b->size() == p.constant(weight)->shape()[size_t(axis)])
        n.set_input(2, writer.bias(n.input(2), *b, data, weight, p.graph().node(i).output(0), nodes));
    }
    nodes.push_back(n);
    for (const std::string& t : p.graph().node(i).output()) stored(t);
  }
  for (proto::NodeProto& n : nodes) *graph.add_node() = std::move(n);
  drop_unused(graph, p.outputs);
  return model.SerializeAsString();
}

std::string with_outputs(const std::string& model, std::span<const std::string> tensors) {
  proto::ModelProto m;
  CHECK(m.ParseFromString(model), "a model that was written cannot be read");
  std::set<std::string> given;
  for (const auto& o : m.graph().output()) given.insert(o.name());
  for (const std::string& t : tensors) {
    if (!given.insert(t).second) continue;
    proto::ValueInfoProto& v = *m.mutable_graph()->add_output();
    v.set_name(t);
    v.mutable_type()->mutable_tensor_type()->set_elem_type(kFloat);
  }
  return m.SerializeAsString();
}

}  // namespace tenon::onnx
