// SPDX-License-Identifier: Apache-2.0
// Model → graph function: names, order, functions, and the collection of problems.
#include "import/onnx/importer.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

#include "analysis/analyzer.h"
#include "base/time_limit.h"
#include "import/onnx/signatures.h"
#include "import/onnx/value_inputs.h"
#include "op/infer.h"

namespace tenon::onnx {
namespace {

constexpr size_t kMaxInlining = 64;

/// Names that the nodes of a graph read, those of nested graphs included.
void names_read(const proto::NodeProto& node, std::vector<const std::string*>& out) {
  for (const auto& i : node.input())
    if (!i.empty()) out.push_back(&i);
  auto inside = [&](const proto::GraphProto& g) {
    // What the graph defines itself hides a value outside of that name.
    std::unordered_set<std::string_view> own;
    for (const auto& i : g.input()) own.insert(i.name());
    for (const auto& i : g.initializer()) own.insert(i.name());
    std::vector<const std::string*> names;
    for (const auto& m : g.node()) {
      for (const auto& o : m.output()) own.insert(o);
      names_read(m, names);
    }
    for (const auto& o : g.output()) names.push_back(&o.name());
    for (const std::string* name : names)
      if (!own.contains(*name)) out.push_back(name);
  };
  for (const auto& a : node.attribute()) {
    if (a.has_g()) inside(a.g());
    for (const auto& g : a.graphs()) inside(g);
  }
}

void expect_opset(int64_t set, const std::string& who, const std::string& where) {
  if (set < 1 || set > kMaxOpset)
    fail("T2008",
         fmt::format("{} uses operator set {}; versions {} to {} are supported", who, set, kMinOpset,
                     kMaxOpset),
         where, set < 1 ? "convert it with onnx.version_converter" : "export it for an earlier operator set");
}

int64_t count_nodes(const proto::ModelProto& m) {
  int64_t n = m.graph().node_size();
  for (const auto& f : m.functions()) n += f.node_size();
  return n;
}

}  // namespace

// ---------------------------------------------------------------- names and symbols

std::string Importer::identifier(std::string_view name) {
  std::string s;
  for (char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
    if (s.size() >= 64) break;
    if (good)
      s += c;
    else if (!s.empty() && s.back() != '_')
      s += '_';
  }
  while (!s.empty() && s.back() == '_') s.pop_back();
  if (s.empty()) return "lv";
  if (s[0] >= '0' && s[0] <= '9') s = "v" + s;
  return s;
}

PrimExpr Importer::symbol(const std::string& name) {
  dim_names_.insert(name);
  if (auto it = options.dims.find(name); it != options.dims.end()) {
    if (it->second < 0)
      fail("T0903", fmt::format("dimension {} was given the negative size {}", in_quotes(name), it->second),
           file.name, "", ErrorKind::usage);
    return it->second;
  }
  if (options.specialize_missing_dims) return 1;
  if (auto it = symbols_.find(name); it != symbols_.end()) return it->second;
  std::string id = identifier(name);
  for (int k = 1; !used_symbol_names_.insert(id).second; ++k) id = fmt::format("{}_{}", identifier(name), k);
  PrimExpr v = tir::var(id, i64);
  symbols_.emplace(name, v);
  return v;
}

// ---------------------------------------------------------------- values

Expr Importer::constant_of(proto::TensorProto& t, const std::string& where) {
  auto it = constants_.find(&t);
  if (it != constants_.end()) return it->second;
  if (!inlining_.empty()) {
    // A function's body is a copy that goes away, and its caller's attributes may be read again.
    proto::TensorProto copy = t;
    return graph::constant(read_tensor(copy, file, options, where, true));
  }
  Expr c = graph::constant(read_tensor(t, file, options, where));
  constants_.emplace(&t, c);
  return c;
}

Expr Importer::expr_of(Value& v, const Origin& origin) {
  if (v.expr) return v.expr;
  CHECK(v.small, "a value without content");
  const Small& s = *v.small;
  if (s.all_const()) return v.expr = graph::constant(array_of(s));
  // Symbolic sizes as a tensor: a shape value made into an int64 vector.
  Array<PrimExpr> items;
  for (const PrimExpr& e : s.items) items.push_back(tir::cast(i64, e));
  Expr e = builder.emit(op::op_call("shape_to_tensor", {graph::shape_expr(items)}, {}, origin), "sizes");
  if (s.rank() != 1) e = builder.emit(op::op_call("reshape", {e, op::shape(s.dims)}, {}, origin), "sizes");
  if (s.dtype != i64)
    e = builder.emit(op::op_call("cast", {e}, op::make_attrs<op::CastAttrs>(s.dtype), origin), "sizes");
  // What is emitted inside of a branch is not visible outside of it.
  if (branches_ == 0) v.expr = e;
  return e;
}

// ---------------------------------------------------------------- order

std::vector<int> Importer::order_of(const proto::GraphProto& g, const Scope& scope) {
  const int n = g.node_size();
  std::unordered_map<std::string_view, int> producer;
  for (int i = 0; i < n; ++i)
    for (const auto& o : g.node(i).output()) {
      if (o.empty()) continue;
      const bool outer = scope.values.count(o) > 0;  // reading it means the outer value, not this node's
      const bool fresh = outer || producer.emplace(o, i).second;
      if (!fresh || outer)
        problems_.push_back(
            {"T2010",
             fmt::format("the name {} is defined twice", in_quotes(o)),
             fmt::format("{}, node {} ({})", file.name, in_quotes(g.node(i).name()), g.node(i).op_type()),
             "",
             {}});
    }
  std::vector<std::vector<int>> users(static_cast<size_t>(n));
  std::vector<int> waiting(size_t(n), 0), order;
  bool sorted = true;
  for (int i = 0; i < n; ++i) {
    std::vector<const std::string*> names;
    names_read(g.node(i), names);
    std::vector<int> needs;
    for (const std::string* name : names)
      if (auto it = producer.find(*name); it != producer.end()) needs.push_back(it->second);
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    for (int p : needs) {
      sorted &= p < i;
      users[size_t(p)].push_back(i);
      ++waiting[size_t(i)];
    }
  }
  order.reserve(size_t(n));
  if (sorted) {
    for (int i = 0; i < n; ++i) order.push_back(i);
    return order;
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < n; ++i)
    if (waiting[size_t(i)] == 0) ready.push(i);
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (int u : users[size_t(i)])
      if (--waiting[size_t(u)] == 0) ready.push(u);
  }
  if (int(order.size()) < n) {
    std::string names;
    int shown = 0;
    for (int i = 0; i < n; ++i)
      if (waiting[size_t(i)] > 0 && shown++ < 5)
        names += (names.empty() ? "" : ", ") + in_quotes(g.node(i).name().empty() && g.node(i).output_size()
                                                             ? g.node(i).output(0)
                                                             : g.node(i).name());
    fail("T2012",
         fmt::format("the graph has a cycle: {} of its nodes wait for one another ({}{})",
                     n - int(order.size()), names, shown > 5 ? ", …" : ""),
         file.name);
  }
  return order;
}

// ---------------------------------------------------------------- problems

void Importer::report(const DiagnosticError& e, const std::string& where) {
  if (e.kind == ErrorKind::internal) throw e;
  problem_kind_ = problems_.empty() ? e.kind : problem_kind_;
  for (const Diagnostic& d : e.diagnostics) {
    problems_.push_back(d);
    if (d.location.empty()) problems_.back().location = where;
  }
}

void Importer::unsupported_operator(const proto::NodeProto& node, const Env& env, const std::string& where) {
  const std::string op = (is_onnx_domain(node.domain()) ? "" : node.domain() + "::") + node.op_type();
  auto [it, fresh] = group_index_.emplace(op, groups_.size());
  if (fresh) {
    std::string hint;
    if (node.domain() == "com.microsoft.nchwc")
      hint = "the model is optimised for one machine: write it with ONNX Runtime's level 'extended' or below";
    else if (!is_onnx_domain(node.domain()))
      hint =
          "export without contributed operators (optimise for the standard operator set), or register the "
          "operator (--custom LIB.so)";
    else
      hint = "`tenon ops --onnx` lists what is supported";
    groups_.push_back({op, where, {}, hint});
  }
  const std::string name = env.prefix + name_of(node);
  groups_[it->second].nodes.push_back(name);
  ++unsupported_nodes_;
}

// ---------------------------------------------------------------- nodes

std::optional<Values> Importer::inline_function(proto::NodeProto& node, Scope& scope, const Env& env,
                                                const std::string& where) {
  const std::string domain = is_onnx_domain(node.domain()) ? "" : node.domain();
  auto it = functions_.find(domain + "::" + node.op_type() + "::" + node.overload());
  if (it == functions_.end()) return std::nullopt;
  const proto::FunctionProto& f = *it->second;
  if (std::find(inlining_.begin(), inlining_.end(), it->first) != inlining_.end())
    fail("T2021", fmt::format("the function {} calls itself", in_quotes(node.op_type())), where);
  if (inlining_.size() >= kMaxInlining)
    fail("T2021", fmt::format("functions call one another deeper than {} levels", kMaxInlining), where, "",
         ErrorKind::limit);
  if (node.input_size() > f.input_size())
    fail("T2020",
         fmt::format("the function {} takes {} inputs, {} are given", in_quotes(node.op_type()),
                     f.input_size(), node.input_size()),
         where);
  if (node.output_size() > f.output_size())
    fail("T2020",
         fmt::format("the function {} has {} outputs, {} are asked for", in_quotes(node.op_type()),
                     f.output_size(), node.output_size()),
         where);
  Env inner;
  inner.opsets = env.opsets;
  for (const auto& o : f.opset_import())
    inner.opsets[is_onnx_domain(o.domain()) ? "" : o.domain()] = o.version();
  if (const auto set = inner.opsets.find(""); set != inner.opsets.end())
    expect_opset(set->second, fmt::format("the function {}", in_quotes(node.op_type())), where);
  inner.prefix = env.prefix + (node.name().empty() ? node.op_type() : node.name()) + "/";
  if (inner.prefix.size() > 400) inner.prefix = "…/";
  for (const std::string& name : f.attribute()) inner.attributes[name] = nullptr;
  for (const auto& a : f.attribute_proto()) inner.attributes[a.name()] = &a;
  for (const auto& a : node.attribute()) {
    if (!inner.attributes.contains(a.name()) && !a.name().starts_with("__"))
      fail("T2020",
           fmt::format("the function {} has no attribute {}", in_quotes(node.op_type()), in_quotes(a.name())),
           where);
    const proto::AttributeProto* value = &a;
    if (!a.ref_attr_name().empty()) value = env.attributes.at(a.ref_attr_name());
    if (value) inner.attributes[a.name()] = value;
  }
  Scope body;
  for (int i = 0; i < f.input_size(); ++i) {
    Value v;
    if (i < node.input_size() && !node.input(i).empty())
      if (const Value* found = scope.find(node.input(i))) v = *found;
    body.define(f.input(i), v, where);
  }
  inlining_.push_back(it->first);
  proto::GraphProto g;
  for (const auto& n : f.node()) *g.add_node() = n;
  for (const auto& o : f.output()) g.add_output()->set_name(o);
  Values out = convert_graph(g, body, inner, depth + 1);
  inlining_.pop_back();
  return out;
}

/// The form that the elements of a node's data have, where its operator only moves them: T2103 where it does
/// not.
static FormRef form_moved(NodeContext& n) {
  const Moves* moves = moves_of(n.op_type());
  FormRef form;
  for (size_t i = 0; i < n.inputs(); ++i) {
    const FormRef f = n.has(i) ? n.form(i) : nullptr;
    const bool data =
        moves && (moves->data.empty() || std::count(moves->data.begin(), moves->data.end(), int(i)));
    if (f && !data)
      fail("T2103",
           fmt::format("input {} of {} is a {}, which the operator does not take", i, n.op_type(),
                       to_string(f)),
           n.where());
    if (f && !f->is_tensor() && n.op_type() != "Identity")
      fail("T2103", fmt::format("{} of a {} is not supported", n.op_type(), to_string(f)), n.where());
    if (f) form = f;
  }
  if (!form) return nullptr;
  if (form->kind == Form::codes && n.op_type() == "Equal")
    fail("T2103", fmt::format("Equal of a {} is not supported", to_string(form)), n.where());
  for (size_t i = 0; i < n.inputs(); ++i) {
    const bool data = moves->data.empty() || std::count(moves->data.begin(), moves->data.end(), int(i));
    if (data && n.has(i) &&
        (!n.form(i) || n.form(i)->kind != form->kind || n.form(i)->element != form->element))
      n.malformed(fmt::format("{} takes elements of one type", n.op_type()));
  }
  return moves->carries ? form : nullptr;
}

void Importer::convert_node(proto::NodeProto& node, Scope& scope, const Env& env) {
  if (++converted_ > max_converted_)
    fail("T2004", fmt::format("the model's functions expand to more than {} nodes", max_converted_),
         file.name, "", ErrorKind::limit);
  auto set_outputs = [&](const Values* values) {
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      Value v;
      if (!values)
        v.poisoned = true;
      else if (size_t(i) < values->size())
        v = (*values)[size_t(i)];
      scope.values[node.output(i)] = std::move(v);
    }
  };
  const std::string domain = is_onnx_domain(node.domain()) ? "" : node.domain();
  const bool is_function = functions_.count(domain + "::" + node.op_type() + "::" + node.overload()) > 0;
  const Converter* converter = is_function ? nullptr : find_converter(domain, node.op_type());
  auto version = env.opsets.find(domain);
  const int64_t opset = version == env.opsets.end() ? kMaxOpset : version->second;
  const auto version_in = [&](int64_t set) {
    int64_t last = 1;
    for (int64_t v : converter->since)
      if (v <= set) last = v;
    return last;
  };
  const bool as_six = converter && opset < kMinOpset && converter->facts.as_in_six;
  const int64_t since = converter ? version_in(as_six ? kMinOpset : opset) : opset;
  NodeContext n(*this, node, scope, env, opset, since);
  const AtWork at([&] { return "the import of " + n.where(); });
  TimeLimit::check();
  bool poisoned = false, undefined = false, formed = false;
  for (const auto& name : node.input()) {
    if (name.empty()) continue;
    const Value* v = scope.find(name);
    if (!v) {
      problems_.push_back(
          {"T2011",
           fmt::format("the input {} is not defined by any node, input or initialiser", in_quotes(name)),
           n.where(),
           "",
           {}});
      undefined = true;
    } else {
      poisoned |= v->poisoned;
      formed |= v->form != nullptr;
    }
  }
  if (!is_function && !converter) {
    unsupported_operator(node, env, n.where());
    return set_outputs(nullptr);
  }
  if (!is_function && version == env.opsets.end())
    fail("T2007",
         fmt::format("the model does not say which operator set its domain {} means", in_quotes(domain)),
         n.where());
  if (undefined || poisoned) return set_outputs(nullptr);
  struct Converting {
    proto::NodeProto*& node;
    proto::NodeProto* outer;
    ~Converting() { node = outer; }
  } guard{converting_, std::exchange(converting_, &node)};
  // A mistake in one node must not hide those in others, so this is a place that catches.
  try {
    n.check_references();
    if (is_function) {
      Values v = *inline_function(node, scope, env, n.where());
      return set_outputs(&v);
    }
    if (domain.empty() && opset < kMinOpset && since != version_in(kMinOpset))
      fail("T2008",
           fmt::format("{} of operator set {} is not supported; versions {} to {} are", node.op_type(), opset,
                       kMinOpset, kMaxOpset),
           n.where(), "convert the model with onnx.version_converter");
    if (!converter->since.empty() && opset < converter->since.front())
      n.malformed(fmt::format("{} does not exist in operator set {}; it came with {}", node.op_type(), opset,
                              converter->since.front()));
    check_signature(n, domain);
    const FormRef moved = converter->facts.forms == Forms::any ? nullptr : form_moved(n);
    const bool asks_shape = node.op_type() == "Shape" || node.op_type() == "Size";  // which strings have, too
    if ((!formed || asks_shape) && domain.empty())
      if (auto folded = fold_node(n)) return set_outputs(&*folded);
    Values v = converter->fn(n);
    if (moved)
      for (Value& out : v) out.form = moved;
    for (Value& out : v) {  // converters know the sizes of what they are given
      if (fork_ || !out.expr || out.form) continue;
      out.expr = n.with_sizes(out.expr);
      if (const auto shape = graph::known_shape(out.expr))
        n.check_size(*shape, graph::as_tensor(out.expr)->dtype);
    }
    for (size_t i = 0; i < size_t(node.output_size()); ++i)
      if (n.wants_output(i) && (i >= v.size() || (!v[i].present() && !v[i].poisoned)))
        n.unsupported(fmt::format("output {} of {} is not supported", i, node.op_type()));
    set_outputs(&v);
  } catch (const DiagnosticError& e) {
    if (!fork_) report(e, n.where());  // what a variant cannot do, it says itself
    set_outputs(nullptr);
  }
}

Values Importer::convert_graph(proto::GraphProto& g, Scope& scope, const Env& env, int level) {
  struct Level {
    int& d;
    int old;
    ~Level() { d = old; }
  } guard{depth, depth};
  depth = level;
  if (level > 250) fail("T2005", "graphs are nested deeper than 250 levels", file.name, "", ErrorKind::limit);
  const auto define = [&](const std::string& name, FunctionRef<Value(const std::string&)> read) {
    const std::string where = fmt::format("{}, initialiser {}", file.name, in_quotes(name));
    if (name.empty()) fail("T2014", "an initialiser has no name", where);
    Value v;
    try {
      v = read(where);
    } catch (const DiagnosticError& e) {
      report(e, where);
      v.poisoned = true;
    }
    if (!scope.values.emplace(name, std::move(v)).second)
      fail("T2010", fmt::format("the name {} is defined twice", in_quotes(name)), where);
  };
  for (auto& t : *g.mutable_initializer())
    define(t.name(), [&](const std::string& where) { return tensor_value(t, where); });
  for (auto& s : *g.mutable_sparse_initializer())
    define(s.values().name(), [&](const std::string& where) { return Value(dense_of(s, where)); });
  return convert_from(g, order_of(g, scope), 0, scope, env);
}

Values Importer::convert_from(proto::GraphProto& g, const std::vector<int>& order, size_t at, Scope& scope,
                              const Env& env) {
  for (; at < order.size(); ++at) {
    following_ = order.size() - at;
    convert_node(*g.mutable_node(order[at]), scope, env);
    if (fork_) return convert_forked(g, order, at, scope, env);
  }
  check_value_info(g, scope);
  Values out;
  for (const auto& o : g.output()) {
    Value* v = scope.find(o.name());
    if (!v) {
      problems_.push_back(
          {"T2013",
           fmt::format("the output {} is not defined by any node, input or initialiser", in_quotes(o.name())),
           file.name,
           "",
           {}});
      Value none;
      none.poisoned = true;
      out.push_back(none);
      continue;
    }
    Value result = *v;
    if (!v->poisoned && v->present()) result.expr = expr_of(*v, Origin());
    out.push_back(result);
  }
  return out;
}

// ---------------------------------------------------------------- the model

void Importer::read_opsets() {
  const auto& m = file.model;
  if (!m.has_ir_version() || m.ir_version() < 1)
    fail("T2006", "the model does not say which version of the format it has", file.name);
  if (m.ir_version() > 64)
    fail("T2006", fmt::format("version {} of the ONNX format is not known", m.ir_version()), file.name,
         "export the model for IR version 13 or earlier");
  for (const auto& o : m.opset_import())
    main_env_.opsets[is_onnx_domain(o.domain()) ? "" : o.domain()] = o.version();
  auto it = main_env_.opsets.find("");
  if (it == main_env_.opsets.end()) {
    bool needs = false;
    for (const auto& n : m.graph().node()) needs |= is_onnx_domain(n.domain());
    if (needs)
      fail("T2007", "the model does not say which operator set it uses", file.name,
           "export it again with a current exporter");
    return;
  }
  // Older sets are a matter of their operators: most have the meaning that they have in kMinOpset.
  expect_opset(it->second, "the model", file.name);
}

IRModule Importer::run() {
  read_opsets();
  auto& m = file.model;
  max_converted_ = 100'000 + 16 * count_nodes(m);
  for (const auto& f : m.functions()) {
    const std::string key =
        (is_onnx_domain(f.domain()) ? "" : f.domain()) + "::" + f.name() + "::" + f.overload();
    if (!functions_.emplace(key, &f).second)
      fail("T2010", fmt::format("the function {} is defined twice", in_quotes(f.name())), file.name);
  }
  auto& g = *m.mutable_graph();
  if (g.output_size() == 0) fail("T2013", "the graph has no outputs", file.name);
  read_bound(g);
  free_initializers(g);
  value_inputs_ = value_inputs(m);
  Scope scope;
  read_inputs(g, scope);
  for (const auto& [name, size] : options.dims) {
    if (dim_names_.count(name)) continue;
    std::string list;
    for (const std::string& n : dim_names_) list += (list.empty() ? "" : ", ") + in_quotes(n);
    fail("T0903", fmt::format("no input has a dimension named {}", in_quotes(name)), file.name,
         list.empty() ? "all dimensions of this model are numbers" : "the model has: " + list,
         ErrorKind::usage);
  }
  Values outputs = convert_graph(g, scope, main_env_, 0);
  std::vector<Diagnostic> all;
  for (const Group& u : groups_) {
    std::string nodes;
    for (size_t i = 0; i < u.nodes.size() && i < 5; ++i) nodes += (i ? ", " : "") + in_quotes(u.nodes[i]);
    if (u.nodes.size() > 5) nodes += ", …";
    all.push_back({"T2101",
                   fmt::format("the operator {} is not supported ({} node{}: {})", in_quotes(u.op),
                               u.nodes.size(), u.nodes.size() == 1 ? "" : "s", nodes),
                   u.first,
                   u.hint,
                   {}});
  }
  // A body that was converted twice reports twice.
  for (const Diagnostic& p : problems_)
    if (std::none_of(all.begin(), all.end(), [&](const Diagnostic& d) {
          return d.code == p.code && d.message == p.message && d.location == p.location;
        }))
      all.push_back(p);
  if (!all.empty()) {
    if (all.size() > DiagnosticList::limit) all.resize(DiagnosticList::limit);
    throw DiagnosticError(groups_.empty() ? problem_kind_ : ErrorKind::model, all);
  }
  return finish(g, outputs);
}

IRModule import_onnx(const std::string& path, const ImportOptions& options) {
  ModelFile file = open_model(path, options);
  return Importer(file, options).run();
}

IRModule import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options,
                           const std::string& folder) {
  ModelFile file = parse_model(bytes, name, folder, options);
  return Importer(file, options).run();
}

}  // namespace tenon::onnx
