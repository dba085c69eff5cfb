// SPDX-License-Identifier: Apache-2.0
// What a model says about itself, for `inspect`: nothing is converted, weights are not decoded. Work is
// estimated from shapes that are declared or follow by simple rules.
#include <algorithm>

#include "import/onnx/importer.h"
#include "import/onnx/value_inputs.h"

namespace tenon::onnx {
namespace {

using Shape = std::vector<int64_t>;

int64_t product(const Shape& s) {
  int64_t n = 1;
  for (int64_t d : s)
    if (__builtin_mul_overflow(n, std::max<int64_t>(d, 0), &n)) return INT64_MAX;
  return n;
}

/// Valid UTF-8: what leaves here becomes JSON.
std::string text(const std::string& s) {
  const std::string q = in_quotes(s, SIZE_MAX);
  return q.substr(1, q.size() - 2);
}

std::string type_name(const proto::TypeProto& t, int nesting = 0) {
  if (nesting > 32) return "…";
  const auto inner = [&](const proto::TypeProto& i) { return type_name(i, nesting + 1); };
  if (t.has_sequence_type()) return "sequence(" + inner(t.sequence_type().elem_type()) + ")";
  if (t.has_optional_type()) return "optional(" + inner(t.optional_type().elem_type()) + ")";
  if (t.has_map_type())
    return "map(" + onnx_type_name(t.map_type().key_type()) + ", " + inner(t.map_type().value_type()) + ")";
  if (t.has_sparse_tensor_type())
    return "sparse_tensor(" + onnx_type_name(t.sparse_tensor_type().elem_type()) + ")";
  return "tensor(" + onnx_type_name(t.tensor_type().elem_type()) + ")";
}

OnnxValueInfo value_info(const proto::ValueInfoProto& v) {
  OnnxValueInfo out;
  out.name = text(v.name());
  if (!v.type().has_tensor_type()) {
    if (v.type().value_case() != proto::TypeProto::VALUE_NOT_SET) out.container = type_name(v.type());
    return out;
  }
  const auto& t = v.type().tensor_type();
  if (t.elem_type() != 0) {
    const DataType d = stored_type(t.elem_type());
    out.dtype = d.is_void() ? onnx_type_name(t.elem_type()) : to_string(d);
  }
  out.has_shape = t.has_shape();
  for (int i = 0; i < t.shape().dim_size(); ++i) {  // names as the importer gives them
    const auto& d = t.shape().dim(i);
    const bool number = d.value_case() == proto::TensorShapeProto::Dimension::kDimValue && d.dim_value() >= 0;
    const bool named = !number && !d.dim_param().empty() && d.dim_param() != "?";
    out.shape.push_back(number  ? std::to_string(d.dim_value())
                        : named ? text(d.dim_param())
                                : fmt::format("{}_d{}", out.name, i));
  }
  return out;
}

const proto::AttributeProto* attribute(const proto::NodeProto& n, const char* name) {
  for (const auto& a : n.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}
int64_t int_of(const proto::NodeProto& n, const char* name, int64_t otherwise) {
  const auto* a = attribute(n, name);
  return a ? a->i() : otherwise;
}
int64_t at(const proto::NodeProto& n, const char* name, size_t i, int64_t otherwise) {
  const auto* a = attribute(n, name);
  return a && int(i) < a->ints_size() ? a->ints(int(i)) : otherwise;
}

/// Shapes by simple rules, and floating operations of one node; -1 when not known.
class Estimate {
 public:
  std::unordered_map<std::string, Shape> shapes;

  double node(const proto::NodeProto& n) {
    const std::string& op = n.op_type();
    if (!is_onnx_domain(n.domain())) return -1;
    const Converter* converter = find_converter(n.domain(), op);
    const double operations = converter ? converter->facts.operations : -1;  // for an element of the result
    const Shape* x = find(n, 0);
    const Shape* w = find(n, 1);
    Shape out;
    double flops = -1;
    bool known = false;
    if ((op == "Conv" || op == "ConvInteger") && x && w && w->size() == x->size() && x->size() >= 3) {
      out = {(*x)[0], (*w)[0]};
      if (!window(n, *x, Shape(w->begin() + 2, w->end()), out)) return -1;
      known = true;
      flops = 2.0 * double(product(out)) * double(product(Shape(w->begin() + 1, w->end())));
    } else if (op == "ConvTranspose" && x && w && x->size() >= 3) {
      flops = 2.0 * double(product(*x)) * double(product(Shape(w->begin() + 1, w->end())));
    } else if ((op == "MaxPool" || op == "AveragePool" || op == "LpPool") && x && x->size() >= 3) {
      Shape kernel;
      for (size_t i = 0; i + 2 < x->size(); ++i) kernel.push_back(at(n, "kernel_shape", i, 1));
      out = {(*x)[0], (*x)[1]};
      if (!window(n, *x, kernel, out)) return -1;
      known = true;
      flops = double(product(out)) * double(product(kernel));
    } else if (op.rfind("Global", 0) == 0 && x && x->size() >= 2) {
      out = Shape(x->size(), 1);
      out[0] = (*x)[0], out[1] = (*x)[1];
      known = true;
      flops = double(product(*x));
    } else if (op == "Gemm" && x && w && x->size() == 2 && w->size() == 2) {
      const bool ta = int_of(n, "transA", 0) != 0, tb = int_of(n, "transB", 0) != 0;
      out = {(*x)[ta ? 1 : 0], (*w)[tb ? 0 : 1]};
      known = true;
      flops = 2.0 * double(product(out)) * double((*x)[ta ? 0 : 1]);
    } else if ((op == "MatMul" || op == "MatMulInteger") && x && w && x->size() >= 2 && w->size() >= 2) {
      out = x->size() >= w->size() ? *x : *w;
      out[out.size() - 2] = (*x)[x->size() - 2], out.back() = w->back();
      known = true;
      flops = 2.0 * double(product(out)) * double(x->back());
    } else if (op == "Flatten" && x) {
      const int64_t rank = int64_t(x->size()), given = int_of(n, "axis", 1);
      const int64_t axis = std::clamp<int64_t>(given < 0 ? given + rank : given, 0, rank);
      out = {product(Shape(x->begin(), x->begin() + axis)), product(Shape(x->begin() + axis, x->end()))};
      known = true;
      flops = 0;
    } else if (op == "Concat" && x) {
      out = *x;
      const int64_t axis = int_of(n, "axis", 0), a = axis < 0 ? axis + int64_t(x->size()) : axis;
      if (a < 0 || a >= int64_t(x->size())) return 0;
      for (int i = 1; i < n.input_size(); ++i) {
        const Shape* s = find(n, size_t(i));
        if (!s || s->size() != x->size() ||
            __builtin_add_overflow(out[size_t(a)], (*s)[size_t(a)], &out[size_t(a)]))
          return 0;
      }
      known = true;
      flops = 0;
    } else if (op == "Identity" || op == "Dropout" || op == "Cast") {
      if (x) out = *x, known = true;
      flops = 0;
    } else if (op == "Constant" || operations == 0) {
      flops = 0;
    } else if (op.rfind("Reduce", 0) == 0 || op == "ArgMax" || op == "ArgMin") {
      if (x) flops = double(product(*x));
    } else if (x && operations > 0) {
      out = *x;
      known = true;
      // The larger operand's shape stands for the broadcast one.
      for (int i = 1; i < n.input_size() && (op != "BatchNormalization"); ++i)
        if (const Shape* s = find(n, size_t(i)); s && product(*s) > product(out)) out = *s;
      flops = operations * double(product(out));
    }
    if (known && n.output_size() > 0) shapes.emplace(n.output(0), out);
    return flops;
  }

 private:
  const Shape* find(const proto::NodeProto& n, size_t i) const {
    if (int(i) >= n.input_size()) return nullptr;
    auto it = shapes.find(n.input(int(i)));
    return it == shapes.end() ? nullptr : &it->second;
  }
  static bool window(const proto::NodeProto& n, const Shape& x, const Shape& kernel, Shape& out) {
    // Attributes hold any number; an estimate of such a window is of no use.
    constexpr int64_t kLongest = int64_t(1) << 40, kWidest = 1 << 20;
    const auto within = [](int64_t v, int64_t least, int64_t most) { return v >= least && v <= most; };
    const size_t spatial = x.size() - 2;
    const auto* mode = attribute(n, "auto_pad");
    const bool same = mode && mode->s().rfind("SAME", 0) == 0;
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t stride = at(n, "strides", i, 1), dilation = at(n, "dilations", i, 1),
                    begin = at(n, "pads", i, 0), end = at(n, "pads", i + spatial, 0);
      if (!within(stride, 1, kLongest) || !within(dilation, 1, kWidest) || !within(kernel[i], 0, kWidest) ||
          !within(begin, -kLongest, kLongest) || !within(end, -kLongest, kLongest) ||
          !within(x[i + 2], 0, kLongest))
        return false;
      const int64_t span = x[i + 2] + begin + end - (kernel[i] - 1) * dilation - 1;
      const int64_t up = int_of(n, "ceil_mode", 0) != 0 ? stride - 1 : 0;
      out.push_back(same ? (x[i + 2] + stride - 1) / stride : span < 0 ? 0 : (span + up) / stride + 1);
    }
    return true;
  }
};

/// Counts operators of a graph and of everything nested in it.
template <class Graph>
void count_operators(const Graph& g, std::map<std::pair<std::string, std::string>, int64_t>& counts) {
  std::vector<const proto::NodeProto*> todo;
  for (const auto& n : g.node()) todo.push_back(&n);
  while (!todo.empty()) {
    const auto* n = todo.back();
    todo.pop_back();
    ++counts[{is_onnx_domain(n->domain()) ? "" : n->domain(), n->op_type()}];
    for (const auto& a : n->attribute()) {
      if (a.has_g())
        for (const auto& m : a.g().node()) todo.push_back(&m);
      for (const auto& sub : a.graphs())
        for (const auto& m : sub.node()) todo.push_back(&m);
    }
  }
}

OnnxInfo info_of(const ModelFile& file, const ImportOptions& options) {
  const auto& m = file.model;
  OnnxInfo info;
  info.ir_version = m.ir_version(), info.model_version = m.model_version();
  info.producer = text(m.producer_name()), info.producer_version = text(m.producer_version()),
  info.domain = text(m.domain()), info.graph = text(m.graph().name());
  info.description = text(m.doc_string()), info.graph_description = text(m.graph().doc_string());
  for (const auto& o : m.opset_import())
    info.opsets[is_onnx_domain(o.domain()) ? "" : text(o.domain())] = o.version();
  if (auto it = info.opsets.find(""); it != info.opsets.end()) info.opset = it->second;
  for (const auto& e : m.metadata_props()) info.metadata[text(e.key())] = text(e.value());
  std::set<std::string> own;
  for (const auto& f : m.functions()) {
    info.functions.push_back(text((f.domain().empty() ? "" : f.domain() + "::") + f.name()));
    own.insert((is_onnx_domain(f.domain()) ? "" : f.domain()) + "::" + f.name());
  }
  Estimate estimate;
  std::set<std::string> initializers;
  for (const auto& t : m.graph().initializer()) {
    initializers.insert(t.name());
    ++info.initializers;
    const DataType d = stored_type(t.data_type());
    int64_t n = 1;
    try {
      n = checked_elements(t, d.is_void() ? u8 : d, options,
                           fmt::format("{}, initialiser {}", file.name, in_quotes(t.name())));
    } catch (const DiagnosticError&) {
      continue;  // inspect shows what is there; importing refuses it
    }
    info.parameters += n;
    if (!d.is_void()) info.parameter_bytes += int64_t(storage_bytes(n, d));
    estimate.shapes[t.name()] = Shape(t.dims().begin(), t.dims().end());
  }
  for (const auto& s : m.graph().sparse_initializer()) {
    initializers.insert(s.values().name());
    ++info.initializers;
    estimate.shapes[s.values().name()] = Shape(s.dims().begin(), s.dims().end());
  }
  auto declare = [&](const proto::ValueInfoProto& v) {
    if (!v.type().has_tensor_type() || !v.type().tensor_type().has_shape()) return;
    Shape s;
    for (const auto& d : v.type().tensor_type().shape().dim()) {
      auto given = options.dims.find(d.dim_param());
      // A symbolic dimension without a value counts once: the figure is per item.
      s.push_back(d.value_case() == proto::TensorShapeProto::Dimension::kDimValue && d.dim_value() >= 0
                      ? d.dim_value()
                  : given != options.dims.end() ? given->second
                                                : 1);
    }
    estimate.shapes.emplace(v.name(), s);
  };
  for (const auto& v : m.graph().input()) {
    declare(v);
    if (!initializers.count(v.name()))
      info.inputs.push_back(value_info(v));
    else if (m.ir_version() >= 4)  // before, every initialiser had to be listed
      info.overridable.push_back(value_info(v));
  }
  for (const auto& v : m.graph().value_info()) declare(v);
  for (const auto& v : m.graph().output()) {
    declare(v);
    info.outputs.push_back(value_info(v));
  }
  info.value_inputs = value_inputs(m);
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  count_operators(m.graph(), counts);
  for (const auto& f : m.functions()) count_operators(f, counts);
  std::vector<std::pair<int64_t, std::pair<std::string, std::string>>> by_count;  // the most frequent first
  for (const auto& [key, count] : counts) by_count.emplace_back(-count, key);
  std::sort(by_count.begin(), by_count.end());
  for (const auto& [negated, key] : by_count)
    info.operators.push_back(
        {text(key.first), text(key.second), -negated,
         find_converter(key.first, key.second) != nullptr || own.count(key.first + "::" + key.second) > 0});
  for (const auto& n : m.graph().node()) {
    const double flops = estimate.node(n);
    info.nodes.push_back(
        {text(n.name().empty() && n.output_size() > 0 ? n.output(0) : n.name()), text(n.op_type()), flops});
    if (flops < 0)
      ++info.flops_unknown;
    else
      info.flops += flops;
  }
  return info;
}

}  // namespace

OnnxInfo read_onnx_info(const std::string& path, const ImportOptions& options) {
  return info_of(open_model(path, options), options);
}
OnnxInfo read_onnx_info_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options) {
  return info_of(parse_model(bytes, name, {}, options), options);
}

}  // namespace tenon::onnx
