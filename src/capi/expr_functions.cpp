// SPDX-License-Identifier: Apache-2.0
// Operators on expressions, walks and rewrites for other languages.
#include <fmt/format.h>

#include <unordered_set>

#include "capi/expressions.h"
#include "capi/methods.h"
#include "ir/make_node.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "op/build.h"

namespace tenon {

PrimExpr expr_of(const Any& value, const std::string& what) {
  if (value.tag() == kBool) return PrimExpr::int_imm(value.as<bool>(), boolean);
  if (value.tag() == kInt) return PrimExpr(value.as<int64_t>());
  if (value.tag() == kFloat) return PrimExpr(value.as<double>());
  if (auto e = value.try_as<PrimExpr>(); e && *e) return *e;
  if (auto axis = value.try_as<tir::IterVar>(); axis && *axis) return (*axis)->var;
  if (auto t = value.try_as<Ref<te::TensorNode>>(); t && *t && (*t)->shape.empty()) return te::Tensor(*t)({});
  if (auto v = value.try_as<Ref<graph::PrimValue>>(); v && *v) return (*v)->value;
  throw Error(ErrorKind::usage, "T0102",
              what + " must be a number or an expression, not " + value.kind_name());
}

Array<PrimExpr> exprs_of(const Any& value, const std::string& what) {
  Array<PrimExpr> out;
  if (auto list = value.try_as<Ref<ArrayObj>>(); list && *list)
    for (const Any& x : (*list)->items) out.push_back(expr_of(x, what));
  else
    out.push_back(expr_of(value, what));
  return out;
}

graph::Expr graph_expr_of(const Any& value, const graph::Expr& beside, bool shape) {
  const auto* t = beside && beside->type ? beside->type.as<graph::TensorType>() : nullptr;
  const DataType type = t && !t->dtype.is_void() ? t->dtype : DataType();
  if (value.tag() == kBool) return op::scalar(value.as<bool>(), boolean);
  if (value.tag() == kInt) return op::scalar(double(value.as<int64_t>()), type.is_void() ? i64 : type);
  if (value.tag() == kFloat) return op::scalar(value.as<double>(), type.is_float() ? type : f32);
  if (value.tag() == kDataType) return make<graph::DataTypeImm>(value.as<DataType>());
  if (auto text = value.try_as<std::string>()) return make<graph::StringImm>(*text);
  if (auto list = value.try_as<Ref<ArrayObj>>(); list && *list) {
    bool sizes = shape || !(*list)->items.empty();
    for (const Any& x : (*list)->items)
      sizes = sizes && (x.tag() == kInt || (x.try_as<PrimExpr>() && *x.try_as<PrimExpr>()));
    if (sizes) return graph::shape_expr(exprs_of(value));
    Array<graph::Expr> items;
    for (const Any& x : (*list)->items) items.push_back(graph_expr_of(x, beside));
    return op::tuple(items);
  }
  if (auto e = value.try_as<graph::Expr>(); e && *e) return *e;
  if (auto a = value.try_as<NDArray>(); a && *a) return graph::constant(*a);
  if (auto e = value.try_as<PrimExpr>(); e && *e) return make<graph::PrimValue>(*e);
  throw Error(ErrorKind::usage, "T0102", "a graph value cannot be made of " + value.kind_name());
}

namespace {

using Binary = PrimExpr (*)(const PrimExpr&, const PrimExpr&);

PrimExpr intrinsic(const char* name, const PrimExpr& a, const PrimExpr& b) {
  return tir::call(a.dtype(), name, {a, b});
}
PrimExpr conjunction(const PrimExpr& a, const PrimExpr& b) {
  return a.dtype().is_bool() ? tir::logical_and(a, b) : intrinsic("tir.bitwise_and", a, b);
}
PrimExpr disjunction(const PrimExpr& a, const PrimExpr& b) {
  return a.dtype().is_bool() ? tir::logical_or(a, b) : intrinsic("tir.bitwise_or", a, b);
}
/// A condition in C++ or Python asks for the value now.
bool known(const PrimExpr& e) {
  if (const auto v = tir::as_int(e)) return *v != 0;
  throw Error(ErrorKind::usage, "T0102",
              "an expression is neither true nor false before the program runs; write a & b, a | b, "
              "tenon.tir.Select(c, a, b) or tenon.tir.if_then_else(c, a, b)");
}

template <class T>
void add_arithmetic() {
  Methods<T> m;
  auto operators = [&](const std::string& name, Binary f, bool swapped, const char* doc) {
    m.add(
        "__" + name + "__", {"other"}, [f](const Any& a, const Any& b) { return f(expr_of(a), expr_of(b)); },
        doc);
    if (swapped)
      m.add(
          "__r" + name + "__", {"other"},
          [f](const Any& a, const Any& b) { return f(expr_of(b), expr_of(a)); }, doc);
  };
  operators("add", [](const PrimExpr& a, const PrimExpr& b) { return a + b; }, true, "a + b");
  operators("sub", [](const PrimExpr& a, const PrimExpr& b) { return a - b; }, true, "a - b");
  operators("mul", [](const PrimExpr& a, const PrimExpr& b) { return a * b; }, true, "a * b");
  operators("truediv", &tir::div, true, "a / b: truncating between integers");
  operators("floordiv", &tir::floordiv, true, "a // b, rounded to minus infinity");
  operators("mod", &tir::floormod, true, "a % b, with the sign of b");
  operators(
      "pow", [](const PrimExpr& a, const PrimExpr& b) { return intrinsic("tir.pow", a, b); }, true, "a ** b");
  operators(
      "lshift", [](const PrimExpr& a, const PrimExpr& b) { return intrinsic("tir.shift_left", a, b); }, true,
      "a << b");
  operators(
      "rshift", [](const PrimExpr& a, const PrimExpr& b) { return intrinsic("tir.shift_right", a, b); }, true,
      "a >> b");
  operators("and", &conjunction, true, "a & b: of conditions, or of the bits of integers");
  operators("or", &disjunction, true, "a | b: of conditions, or of the bits of integers");
  operators("lt", &tir::lt, false, "a < b");
  operators("le", &tir::le, false, "a <= b");
  operators("gt", &tir::gt, false, "a > b");
  operators("ge", &tir::ge, false, "a >= b");
  m.add(
       "equal", {"other"}, [](const Any& a, const Any& b) { return tir::eq(expr_of(a), expr_of(b)); },
       "a == b as an expression; `==` compares the nodes")
      .add(
          "not_equal", {"other"}, [](const Any& a, const Any& b) { return tir::ne(expr_of(a), expr_of(b)); },
          "a != b as an expression; `!=` compares the nodes")
      .add(
          "__neg__", {}, [](const Any& a) { return -expr_of(a); }, "-a")
      .add(
          "__invert__", {},
          [](const Any& a) {
            const PrimExpr e = expr_of(a);
            return e.dtype().is_bool() ? tir::logical_not(e) : tir::call(e.dtype(), "tir.bitwise_not", {e});
          },
          "~a: of a condition, or of the bits of an integer")
      .add(
          "astype", {"dtype"}, [](const Any& a, DataType t) { return tir::cast(t, expr_of(a)); },
          "the value as another data type")
      .add("__bool__", {}, [](const Any& a) { return known(expr_of(a)); }, "of a constant");
}

/// A call of an operator on graph values, bound and typed by who emits it.
graph::Expr graph_binary(const char* name, const Any& a, const Any& b) {
  const graph::Expr left = a.try_as<graph::Expr>().value_or(graph::Expr());
  const graph::Expr right = b.try_as<graph::Expr>().value_or(graph::Expr());
  return op::op_call(name, {graph_expr_of(a, right), graph_expr_of(b, left)});
}

void add_graph_arithmetic() {
  Methods<graph::ExprNode> m;
  static constexpr std::pair<const char*, const char*> operators[] = {
      {"add", "add"},        {"sub", "subtract"},          {"mul", "multiply"},
      {"truediv", "divide"}, {"floordiv", "floor_divide"}, {"mod", "floor_mod"},
      {"pow", "power"},      {"matmul", "matmul"}};
  for (const auto& [python, name] : operators) {
    const char* op = name;
    m.add(
        "__" + std::string(python) + "__", {"other"},
        [op](const Any& a, const Any& b) { return graph_binary(op, a, b); }, "the operator on both");
    m.add(
        "__r" + std::string(python) + "__", {"other"},
        [op](const Any& a, const Any& b) { return graph_binary(op, b, a); }, "the operator on both");
  }
  static constexpr std::pair<const char*, const char*> comparisons[] = {
      {"lt", "less"}, {"le", "less_equal"}, {"gt", "greater"}, {"ge", "greater_equal"}};
  for (const auto& [python, name] : comparisons) {
    const char* op = name;
    m.add(
        "__" + std::string(python) + "__", {"other"},
        [op](const Any& a, const Any& b) { return graph_binary(op, a, b); }, "the comparison of both");
  }
  m.add(
       "__neg__", {}, [](const graph::Expr& a) { return op::op_call("negative", {a}); }, "-a")
      .add(
          "__getitem__", {"index"},
          [](const graph::Expr& a, int64_t i) -> graph::Expr { return make<graph::TupleGetItem>(a, i); },
          "an item of a tuple");
}

void visit(const ObjectRef& node, const Function& f) {
  post_order(node, [&](const ObjectRef& n) { f(n); });
}
/// What may stand in a node's place: another of the same kind.
std::string_view kind_of(const ObjectRef& n) {
  if (n.is<tir::PrimExprNode>()) return tir::PrimExprNode::type_key;
  if (n.is<tir::StmtNode>()) return tir::StmtNode::type_key;
  if (n.is<graph::ExprNode>()) return graph::ExprNode::type_key;
  if (n.is<graph::BindingNode>()) return graph::BindingNode::type_key;
  if (n.is<graph::TypeNode>()) return graph::TypeNode::type_key;
  return type_key_of(n);
}
/// Variables that are defined in a program: at those places variables stand.
std::unordered_set<const Object*> defined_in(const ObjectRef& node) {
  std::unordered_set<const Object*> out;
  auto add = [&](const Any& a) {
    if (a.is_object() && (a.try_as<tir::VarRef>() || a.try_as<graph::VarRef>())) out.insert(a.object());
  };
  post_order(node, [&](const ObjectRef& n) {
    for (const FieldInfo& f : type_of(n)->fields) {
      if (f.role != FieldRole::def) continue;
      const Any value = f.get(n.get());
      add(value);
      if (const auto list = value.try_as<Ref<ArrayObj>>(); list && *list)
        for (const Any& item : (*list)->items) add(item);
    }
  });
  return out;
}
ObjectRef rewrite_nodes(const ObjectRef& node, const Function& f) {
  const std::unordered_set<const Object*> defined = defined_in(node);
  return rewrite_any(node, [&](const ObjectRef& n) {
    ObjectRef made = f(n).as<ObjectRef>();
    if (made && (kind_of(made) != kind_of(n) || (defined.count(n.get()) && type_of(made) != type_of(n))))
      throw Error(ErrorKind::usage, "T0102",
                  fmt::format("ir.rewrite: a {} cannot stand in the place of a {}{}", type_key_of(made),
                              type_key_of(n), kind_of(made) == kind_of(n) ? " that is defined there" : ""));
    return made;
  });
}

const bool expr_functions_registered = [] {
  add_arithmetic<tir::PrimExprNode>();
  add_arithmetic<tir::IterVarNode>();
  add_graph_arithmetic();
  Methods<tir::BufferNode>().add(
      "__getitem__", {"indices"},
      [](const tir::Buffer& b, const Any& indices) {
        PrimExpr e = tir::load(b, exprs_of(indices, "an index"));
        check_values(e, [](const std::string& problem) {
          throw Error(ErrorKind::usage, "T0102", "tir.Buffer.__getitem__: " + problem);
        });
        return e;
      },
      "an element");
  add_function("ir.visit", {"node", "function"}, visit,
               "calls the function on every node below, children first");
  add_function("ir.rewrite", {"node", "function"}, rewrite_nodes,
               "bottom-up: what the function gives in a node's place, or none");
  return true;
}();

}  // namespace
}  // namespace tenon
