// SPDX-License-Identifier: Apache-2.0
// The operator table.
#include "ir/op.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "ir/calls_out.h"

namespace tenon::graph {
namespace {
struct Table {
  std::mutex mutex;
  std::map<std::string, Ref<Op>, std::less<>> ops;
  static Table& get() {
    static Table* table = new Table;
    return *table;
  }
};
}  // namespace

std::string_view to_string(FusionKind kind) {
  switch (kind) {
    case FusionKind::element_wise:
      return "element_wise";
    case FusionKind::broadcast:
      return "broadcast";
    case FusionKind::injective:
      return "injective";
    case FusionKind::comm_reduce:
      return "comm_reduce";
    case FusionKind::out_element_wise_fusable:
      return "out_element_wise_fusable";
    case FusionKind::tuple:
      return "tuple";
    case FusionKind::opaque:
      return "opaque";
  }
  return "?";
}

void add_op(const Ref<Op>& op) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  auto [it, fresh] = table.ops.emplace(op->name, op);
  CHECK(fresh, fmt::format("operator `{}` registered twice: {}:{} and {}:{}", op->name, it->second->file,
                           it->second->line, op->file, op->line));
}

Ref<Op> find_op(std::string_view name) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  auto it = table.ops.find(name);
  return it == table.ops.end() ? Ref<Op>() : it->second;
}
Ref<Op> get_op(std::string_view name) {
  Ref<Op> op = find_op(name);
  CHECK(op, fmt::format("no operator `{}`", name));
  return op;
}
std::vector<Ref<Op>> all_ops() {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  std::vector<Ref<Op>> out;
  for (auto& [name, op] : table.ops) out.push_back(op);
  return out;
}
const Op* op_of(const Expr& call) {
  const auto* c = call.as<Call>();
  return c ? c->op.as<Op>() : nullptr;
}
bool is_op(const Expr& e, std::string_view name) {
  const Op* op = e.is<Call>() ? op_of(e) : e.as<Op>();
  return op && op->name == name;
}

bool is_call_tir(const Expr& e) {
  return e.is<Call>() && (is_op(e, "call_tir") || is_op(e, "call_tir_impure"));
}

Expr call_tir(const Expr& function, Array<Expr> args, Array<Type> outputs, Array<PrimExpr> symbolic) {
  Array<Expr> operands{function, make<Tuple>(args)};
  if (!symbolic.empty()) operands.push_back(shape_expr(symbolic));
  return with_type(call(get_op("call_tir"), operands, {}, outputs),
                   outputs.size() == 1 ? outputs[0] : tuple_type(outputs));
}

}  // namespace tenon::graph
