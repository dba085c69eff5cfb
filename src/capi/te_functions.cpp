// SPDX-License-Identifier: Apache-2.0
// Tensor expressions and their schedules for other languages. A function of the other language gets variables
// and gives expressions.
#include <fmt/format.h>

#include "capi/expressions.h"
#include "capi/methods.h"
#include "capi/schedules.h"
#include "ir/packed_call.h"
#include "ir/text.h"
#include "schedule/te/te_schedule.h"
#include "te/packed.h"

namespace tenon {
namespace {

/// A schedule of tensor expressions, and the place of one operation in it.
struct TeScheduleObj : Object {
  static constexpr std::string_view type_key = "te.Schedule";
  explicit TeScheduleObj(te::Schedule value) : value(std::move(value)) {}
  te::Schedule value;
};
struct StageObj : Object {
  static constexpr std::string_view type_key = "te.Stage";
  explicit StageObj(te::Stage value) : value(std::move(value)) {}
  te::Stage value;
};
using StageRef = Ref<StageObj>;
using TeScheduleRef = Ref<TeScheduleObj>;
using TensorRef = Ref<te::TensorNode>;
using Axis = tir::IterVar;

te::Schedule& of(const TeScheduleRef& s) { return const_cast<TeScheduleObj*>(s.get())->value; }
te::Stage& of(const StageRef& s) { return const_cast<StageObj*>(s.get())->value; }

Array<te::Tensor> tensors(const Array<TensorRef>& list) {
  Array<te::Tensor> out;
  for (const TensorRef& t : list) out.push_back(te::Tensor(t));
  return out;
}
Array<TensorRef> refs(const std::vector<te::Tensor>& list) {
  Array<TensorRef> out;
  for (const te::Tensor& t : list) out.push_back(t);
  return out;
}
/// An empty list is one, too.
template <class T>
Array<T> listed(const Array<T>& list) {
  return list.get() ? list : Array<T>(make<ArrayObj>());
}
/// One alone, or all.
Any results(const std::vector<te::Tensor>& list) {
  return list.size() == 1 ? Any(TensorRef(list[0])) : Any(refs(list));
}
/// One object or a list of them.
template <class T>
Array<T> list_of(const Any& value, const char* what) {
  if (auto one = value.try_as<T>(); one && *one) return {*one};
  if (const std::string wrong = detail::Misfit<Array<T>>::of(value); !wrong.empty())
    throw Error(ErrorKind::usage, "T0102", fmt::format("{} or a list of them, not {}", what, wrong));
  Any fit;
  detail::Coerce<Array<T>>::to(value, &fit);
  return fit.as<Array<T>>();
}
Array<TensorRef> tensor_list(const Any& value, const char* what) {
  return list_of<TensorRef>(value, fmt::format("`{}` must be a tensor", what).c_str());
}
Array<Axis> axis_list(const Any& value) { return list_of<Axis>(value, "`axis` must be an iterator"); }
/// An operation, or that of a tensor.
te::Operation operation_of(const Any& value, const char* what) {
  if (auto t = value.try_as<TensorRef>(); t && *t) return (*t)->op;
  if (auto op = value.try_as<te::Operation>(); op && *op) return *op;
  throw Error(ErrorKind::usage, "T0102",
              std::string(what) + " is a tensor or an operation, not " + value.kind_name());
}
Any call_over(const Function& f, const Array<tir::VarRef>& variables) {
  std::vector<Any> args(variables.begin(), variables.end());
  return f.call_packed(args);
}
template <class T>
std::vector<T> vector_of(const Array<T>& list) {
  return {list.begin(), list.end()};
}

// ---------------------------------------------------------------- expressions
Any compute(const Array<PrimExpr>& shape, const Function& f, const std::string& name, const std::string& tag,
            const AttrMap& attrs) {
  return results(te::compute_multi(
      shape,
      [&](const Array<tir::VarRef>& i) { return exprs_of(call_over(f, i), name + ": what it computes"); },
      name, tag, attrs));
}

Any scan(const Any& init, const Any& update, const Any& state, const std::string& name,
         const std::string& tag) {
  return results(te::scan(tensors(tensor_list(init, "init")), tensors(tensor_list(update, "update")),
                          tensors(tensor_list(state, "state_placeholder")), name, tag));
}

Any external(const Array<Array<PrimExpr>>& shapes, const Array<TensorRef>& inputs, const Function& f,
             const std::string& name, const Array<DataType>& dtypes) {
  return results(te::external(
      shapes, vector_of(dtypes), tensors(inputs),
      [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) -> tir::Stmt {
        const Any made = f(ins, outs);
        if (auto s = made.try_as<tir::Stmt>(); s && *s) return *s;
        return make<tir::Evaluate>(tir::as_statement(expr_of(made, name + ": what it does")));
      },
      name));
}
Any external_packed(const Array<Array<PrimExpr>>& shapes, const Array<TensorRef>& inputs,
                    const std::string& function, const std::string& name, const Array<DataType>& dtypes) {
  return results(te::external_packed(shapes, vector_of(dtypes), tensors(inputs), function, name));
}

/// Where a reduction takes values; null: everywhere.
PrimExpr condition_of(const Any& value) {
  if (value.is_none()) return {};
  PrimExpr e = expr_of(value, "`where`");
  if (!e.dtype().is_bool())
    throw Error(ErrorKind::usage, "T0102", "`where` must be a condition, not of " + to_string(e.dtype()));
  return e;
}

Any reduction(const std::string& kind, const Any& value, const Any& axis, const Any& condition) {
  const PrimExpr e = expr_of(value), where = condition_of(condition);
  const Array<Axis> axes = axis_list(axis);
  if (kind == "sum") return te::sum(e, axes, where);
  if (kind == "prod") return te::prod(e, axes, where);
  if (kind == "max") return te::max(e, axes, where);
  return te::min(e, axes, where);
}

Array<PrimExpr> reduce(const Any& values, const Function& combine, const Function& identity, const Any& axis,
                       const Any& condition) {
  const Array<PrimExpr> sources = exprs_of(values);
  std::vector<Any> types;
  for (const PrimExpr& e : sources) types.push_back(e.dtype());
  auto over = [&](const Array<tir::VarRef>& lhs, const Array<tir::VarRef>& rhs) {
    return exprs_of(combine(lhs, rhs), "the combination");
  };
  return te::reduce(sources, over, exprs_of(identity.call_packed(types), "the identity"), axis_list(axis),
                    condition_of(condition));
}

Axis reduce_axis(const Any& begin, const Any& end, const std::string& name) {
  const PrimExpr lo = expr_of(begin), hi = expr_of(end);
  return te::reduce_axis(tir::range(lo, tir::is_zero(lo) ? hi : hi - lo), name);
}

PrimExpr element(const TensorRef& t, const Any& indices) {
  return te::Tensor(t)(exprs_of(indices, "an index"));
}

void add_expressions() {
  add_function(
      "te.placeholder", {"shape", {"dtype", f32}, {"name", "placeholder"}},
      [](const Array<PrimExpr>& shape, DataType dtype, const std::string& name) -> TensorRef {
        return te::placeholder(shape, dtype, name);
      },
      "a tensor that is given");
  add_function(
      "te.compute", {"shape", "fcompute", {"name", "compute"}, {"tag", ""}, {"attrs", AttrMap()}}, compute,
      "the tensor whose element at (i, j, …) is fcompute(i, j, …); several for a list of expressions");
  add_function("te.reduce_axis", {"begin", "end", {"name", "k"}}, reduce_axis,
               "an iterator of reductions from begin to before end");
  add_function("te.scan", {"init", "update", "state_placeholder", {"name", "scan"}, {"tag", ""}}, scan,
               "steps along dimension 0: `init` gives the first rows, `update` one more from rows before it");
  add_function("te.external", {"shapes", "inputs", "fcompute", "name", "dtypes"}, external,
               "tensors made by the statement that fcompute(input buffers, output buffers) gives");
  add_function("te.external_packed", {"shapes", "inputs", "function", "name", "dtypes"}, external_packed,
               "tensors that a registered function stores: it is called with inputs, then outputs");
  add_function("te.reduction", {"kind", "value", "axis", {"condition", Any()}}, reduction,
               "sum, prod, max or min of an expression over axes");
  add_function("te.reduce", {"values", "combine", "identity", "axis", {"condition", Any()}}, reduce,
               "a reduction of tuples: combine(lhs, rhs) and identity(dtypes) give lists");
  add_function(
      "te.create_prim_func", {"args", {"symbolic", Array<tir::VarRef>()}},
      [](const Array<TensorRef>& args, const Array<tir::VarRef>& symbolic) {
        return te::create_prim_func(tensors(args), symbolic);
      },
      "the PrimFunc of inputs, then outputs; `symbolic`: sizes that no shape of an argument names alone");
  add_function(
      "te.thread_axis", {"tag", {"extent", Any()}},
      [](const std::string& tag, const Any& extent) {
        const PrimExpr n = extent.is_none() ? PrimExpr() : expr_of(extent, "te.thread_axis: the extent");
        const auto known = tir::as_int(n);
        if (tag.empty())
          throw Error(ErrorKind::usage, "T0102",
                      "te.thread_axis: `tag` names a thread, such as \"threadIdx.x\"");
        if (n && (!n.dtype().is_integer() || (known && *known < 1)))
          throw Error(ErrorKind::usage, "T0102",
                      "te.thread_axis: the extent must be a positive integer, not " + print(n));
        return te::thread_axis(tag, n);
      },
      "a thread to bind loops to");
  Methods<te::TensorNode>()
      .add("__getitem__", {"indices"}, element, "the element at these indices")
      .add("__call__", {"indices"}, element, "the element at these indices")
      .property(
          "op", [](const TensorRef& t) { return t->op; }, "the operation that makes it")
      .property("value_index", [](const TensorRef& t) { return t->index; }, "which of its results");
  Methods<te::OperationNode>()
      .property(
          "name", [](const te::Operation& o) { return o->name; }, "a name for people")
      .property(
          "tag", [](const te::Operation& o) { return o->tag; }, "what kind of operation it is")
      .property(
          "attrs", [](const te::Operation& o) { return o->attrs; }, "what was noted at it")
      .property(
          "axis", [](const te::Operation& o) { return listed(o->axis); }, "iterators of its result")
      .property(
          "reduce_axis", [](const te::Operation& o) { return listed(o->reduce_axis); },
          "iterators of its reductions")
      .property(
          "scan_axis", [](const te::Operation& o) { return o->scan_axis; }, "of a scan, or None")
      .property(
          "body", [](const te::Operation& o) { return listed(o->body); }, "an expression for each result")
      .property(
          "input_tensors",
          [](const te::Operation& o) {
            Array<TensorRef> out;
            for (const te::Tensor& t : o->inputs) out.push_back(t);
            return out;
          },
          "what it reads")
      .add(
          "output", {{"index", int64_t(0)}},
          [](const te::Operation& o, int64_t i) -> TensorRef {
            const std::vector<te::Tensor> all = o->outputs();
            if (i < 0 || size_t(i) >= all.size())
              throw Error(ErrorKind::usage, "T0102", "the operation has no such result");
            return all[size_t(i)];
          },
          "one of its results");
}

// ---------------------------------------------------------------- schedules
Array<Axis> pair_of(const std::pair<Axis, Axis>& p) { return {p.first, p.second}; }

Array<Axis> split(const StageRef& s, const Axis& axis, const Any& factor, const Any& parts) {
  if (factor.is_none() == parts.is_none())
    throw Error(ErrorKind::usage, "T0102", "split takes either `factor` or `nparts`");
  const auto n = (factor.is_none() ? parts : factor).try_as<int64_t>();
  if (!n)
    throw Error(
        ErrorKind::usage, "T0102",
        "te.Stage.split: the factor must be an int, not " + (factor.is_none() ? parts : factor).kind_name());
  return pair_of(factor.is_none() ? of(s).split_nparts(axis, *n) : of(s).split(axis, *n));
}

TeScheduleRef create_schedule(const Any& operations) {
  std::vector<te::Operation> list;
  auto add = [&](const Any& x) { list.push_back(operation_of(x, "te.create_schedule: an operation")); };
  if (auto items = operations.try_as<Ref<ArrayObj>>(); items && *items)
    for (const Any& x : (*items)->items) add(x);
  else
    add(operations);
  return make<TeScheduleObj>(te::Schedule(list));
}

/// Requests that give the stage back, so that they can be chained.
template <class... A>
void chain(Methods<StageObj>& m, const char* name, std::vector<NamedParameter> parameters,
           te::Stage& (te::Stage::*request)(A...), const char* doc) {
  m.add(name, std::move(parameters),
        std::function<StageRef(const StageRef&, const std::decay_t<A>&...)>(
            [request](const StageRef& s, const std::decay_t<A>&... a) {
              (of(s).*request)(a...);
              return s;
            }),
        doc);
}

void add_stages() {
  Methods<StageObj> m;
  m.property(
       "op", [](const StageRef& s) { return of(s).op(); }, "what it computes now")
      .property(
          "axis", [](const StageRef& s) { return listed(of(s).axis()); }, "iterators of its result")
      .property(
          "reduce_axis", [](const StageRef& s) { return listed(of(s).reduce_axis()); }, "of its reductions")
      .property(
          "leaf_axes", [](const StageRef& s) { return listed(of(s).leaf_axes()); },
          "its loops, outermost first")
      .add("split", {"axis", {"factor", Any()}, {"nparts", Any()}}, split, "outer and inner loop")
      .add(
          "fuse", {"axes"},
          [](const StageRef& s, const Array<Axis>& axes) { return of(s).fuse(vector_of(axes)); },
          "neighbouring loops as one")
      .add(
          "reorder", {"axes"},
          [](const StageRef& s, const Array<Axis>& axes) {
            of(s).reorder(vector_of(axes));
            return s;
          },
          "loops in this order")
      .add(
          "tile", {"x", "y", "x_factor", "y_factor"},
          [](const StageRef& s, const Axis& x, const Axis& y, int64_t xf, int64_t yf) {
            const auto made = of(s).tile(x, y, xf, yf);
            return Array<Axis>(made.begin(), made.end());
          },
          "x outer, y outer, x inner, y inner")
      .add(
          "compute_at", {"parent", "axis"},
          [](const StageRef& s, const StageRef& parent, const Axis& axis) {
            of(s).compute_at(of(parent), axis);
            return s;
          },
          "computed where one iteration of the parent's loop needs it")
      .add(
          "transform_layout", {"map"},
          [](const StageRef& s, const Function& map) {
            return of(s).transform_layout(
                [&](const Array<tir::VarRef>& i) { return exprs_of(call_over(map, i)); });
          },
          "result and loops laid out anew; the new axes")
      .add(
          "set_axis_separators", {"separators"},
          [](const StageRef& s, const Array<int64_t>& separators) {
            of(s).set_axis_separators(vector_of(separators));
            return s;
          },
          "which dimensions are flattened together")
      .add(
          "env_threads", {"threads"},
          [](const StageRef& s, const Array<Axis>& threads) {
            of(s).env_threads(vector_of(threads));
            return s;
          },
          "threads that run the whole scan")
      .add(
          "prefetch", {"tensor", "axis", "offset"},
          [](const StageRef& s, const TensorRef& t, const Axis& axis, int64_t offset) {
            of(s).prefetch(te::Tensor(t), axis, offset);
            return s;
          },
          "fetches what the iteration `offset` later reads")
      .add(
          "pragma", {"axis", "key", {"value", Any(true)}},
          [](const StageRef& s, const Axis& axis, const std::string& key, const Any& value) {
            of(s).pragma(axis, key, value);
            return s;
          },
          "an annotation `pragma_` + key at the loop")
      .add(
          "set_store_predicate", {"condition"},
          [](const StageRef& s, const Any& condition) {
            of(s).set_store_predicate(expr_of(condition));
            return s;
          },
          "of the threads that compute the same, the one that stores");
  using S = te::Stage;
  chain(m, "parallel", {"axis"}, &S::parallel, "iterations on threads");
  chain(m, "vectorize", {"axis"}, &S::vectorize, "iterations as lanes of vectors");
  chain(m, "unroll", {"axis"}, &S::unroll, "iterations one after the other in the code");
  chain(m, "bind", {"axis", "thread"}, &S::bind, "iterations on the threads of an axis");
  chain(m, "tensorize", {"axis", "intrin"}, &S::tensorize, "the loops from here on become the intrinsic");
  chain(m, "compute_inline", {}, &S::compute_inline, "computed where it is read");
  chain(m, "compute_root", {}, &S::compute_root, "computed in loops of its own");
  chain(m, "set_scope", {"scope"}, &S::set_scope, "where its result lies");
  chain(m, "storage_align", {"axis", "factor", {"offset", int64_t(0)}}, &S::storage_align,
        "strides that are `offset` modulo `factor`");
  chain(m, "double_buffer", {}, &S::double_buffer, "the next part is loaded while this one is used");
  chain(m, "rolling_buffer", {}, &S::rolling_buffer, "keeps the rows that the next iteration reads again");
}

void add_schedules() {
  add_function("te.create_schedule", {"ops"}, create_schedule, "a schedule of operations or their tensors");
  Methods<TeScheduleObj>()
      .add(
          "__getitem__", {"tensor"},
          [](const TeScheduleRef& s, const Any& x) {
            return make<StageObj>(of(s)[operation_of(x, "te.Schedule: a stage")]);
          },
          "the stage of a tensor or operation")
      .property(
          "stages",
          [](const TeScheduleRef& s) {
            Array<StageRef> out;
            for (te::Stage& x : of(s).stages()) out.push_back(make<StageObj>(x));
            return out;
          },
          "producers first")
      .add(
          "cache_read", {"tensor", "scope", "readers"},
          [](const TeScheduleRef& s, const TensorRef& t, const std::string& scope,
             const Any& readers) -> TensorRef {
            std::vector<te::Operation> list;
            const auto many = readers.try_as<Ref<ArrayObj>>();
            for (const Any& x : many && *many ? (*many)->items : decltype((*many)->items){readers})
              list.push_back(operation_of(x, "te.Schedule.cache_read: a reader"));
            return of(s).cache_read(te::Tensor(t), scope, list);
          },
          "the readers get the tensor from a copy, which is a stage")
      .add(
          "cache_write", {"tensor", "scope"},
          [](const TeScheduleRef& s, const Any& t, const std::string& scope) {
            const Array<te::Tensor> list = tensors(tensor_list(t, "tensor"));
            return results(of(s).cache_write(vector_of(list), scope));
          },
          "computes into the new tensor, and copies that to the result")
      .add(
          "rfactor", {"tensor", "axis", {"factor_axis", int64_t(0)}},
          [](const TeScheduleRef& s, const TensorRef& t, const Axis& axis, int64_t at) {
            return results(of(s).rfactor(te::Tensor(t), axis, int(at)));
          },
          "partial results over a loop of the reduction as a tensor")
      .add(
          "create_group", {"outputs", "inputs", {"include_inputs", false}},
          [](const TeScheduleRef& s, const Any& outputs, const Any& inputs, bool include) {
            const Array<te::Tensor> out = tensors(tensor_list(outputs, "outputs")),
                                    in = tensors(tensor_list(inputs, "inputs"));
            return make<StageObj>(of(s).create_group(vector_of(out), vector_of(in), include));
          },
          "what lies between inputs and outputs moves together")
      .add(
          "normalize", {}, [](const TeScheduleRef& s) { return make<TeScheduleObj>(of(s).normalize()); },
          "a copy as `apply` sees it")
      .add(
          "apply", {"args", {"symbolic", Array<tir::VarRef>()}},
          [](const TeScheduleRef& s, const Array<TensorRef>& args, const Array<tir::VarRef>& symbolic) {
            return schedule_object(of(s).apply(tensors(args), symbolic));
          },
          "the schedule of the tensor program (tir.Schedule)");
  add_function(
      "te.lower", {"schedule", "args", {"name", "main"}, {"symbolic", Array<tir::VarRef>()}},
      [](const TeScheduleRef& s, const Array<TensorRef>& args, const std::string& name,
         const Array<tir::VarRef>& symbolic) { return te::lower(of(s), tensors(args), name, symbolic); },
      "the scheduled program as a function of a module");
}

const bool te_functions_registered = [] {
  add_expressions();
  add_stages();
  add_schedules();
  return true;
}();

}  // namespace
}  // namespace tenon
