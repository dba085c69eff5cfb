// SPDX-License-Identifier: Apache-2.0
// The operator table, and the operators that join the two levels.
#include "ir/op.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "base/define_type.h"
#include "ir/origin.h"
#include "ir/text.h"

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

OpRegistration::OpRegistration(std::string name, std::string doc, std::source_location where) {
  Ref<Op> op = make<Op>(name);
  op_ = op.mut();
  op_->doc = std::move(doc);
  std::string_view file = where.file_name();
  if (auto at = file.rfind("src/"); at != file.npos) file.remove_prefix(at);
  op_->file = file;
  op_->line = int(where.line());
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  auto [it, fresh] = table.ops.emplace(name, op);
  CHECK(fresh, fmt::format("operator `{}` registered twice: {}:{} and {}:{}", name, it->second->file,
                           it->second->line, op_->file, op_->line));
}
OpRegistration& OpRegistration::argument(std::string name, std::string type, std::string doc, bool optional) {
  op_->arguments.push_back({std::move(name), std::move(type), std::move(doc), optional});
  return *this;
}
OpRegistration register_op(std::string name, std::string doc, std::source_location where) {
  return OpRegistration(std::move(name), std::move(doc), where);
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

void infer_error(const Call& call, std::string message, std::string hint) {
  const auto* op = call.op.as<Op>();
  std::string types;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const bool named = op && i < op->arguments.size();
    types += fmt::format("{}{}: {}", i ? ", " : "", named ? op->arguments[i].name : std::to_string(i),
                         call.args[i] && call.args[i]->type ? print(call.args[i]->type) : "?");
  }
  fail("T1101", fmt::format("{}: {} (given {})", op ? op->name : "call", message, types), place(call.origin),
       std::move(hint));
}

Expr call_tir(const Expr& function, Array<Expr> args, Array<Type> outputs, Array<PrimExpr> symbolic) {
  Array<Expr> operands{function, make<Tuple>(args)};
  if (!symbolic.empty()) operands.push_back(shape_expr(symbolic));
  Expr e = call(get_op("call_tir"), operands, {}, outputs);
  e.mut()->type = outputs.size() == 1 ? outputs[0] : tuple_type(outputs);
  return e;
}

namespace {
Type declared_outputs(const Call& call) {
  if (call.type_args.empty()) infer_error(call, "the output types are missing", "give them as out_sinfo=…");
  return call.type_args.size() == 1 ? call.type_args[0] : tuple_type(call.type_args);
}
Type declared_or_object(const Call& call) {
  return call.type_args.empty() ? object_type() : declared_outputs(call);
}

struct InplaceAttrs : Attrs<InplaceAttrs> {
  Array<int64_t> inplace_indices;
  static constexpr std::string_view type_key = "ir.InplaceAttrs";
  static void fields(auto& f) {
    f.add("inplace_indices", &InplaceAttrs::inplace_indices,
          "per output: the argument whose memory it takes, or -1");
  }
};

const bool op_registered = [] {
  register_op("call_tir",
              "Calls a tensor program in destination-passing style: allocates the outputs, runs "
              "function(args…, outputs…, symbolic…).")
      .argument("function", "GlobalVar", "the PrimFunc")
      .argument("args", "Tuple", "input tensors")
      .argument("symbolic", "Shape", "values of its scalar parameters", true)
      .infer(declared_outputs);
  register_op("call_tir_inplace", "call_tir whose outputs take the memory of arguments.")
      .argument("function", "GlobalVar", "the PrimFunc")
      .argument("args", "Tuple", "input tensors")
      .argument("symbolic", "Shape", "values of its scalar parameters", true)
      .attrs<InplaceAttrs>()
      .infer(declared_outputs);
  register_op("call_dps_packed", "Calls a packed function by name in destination-passing style.")
      .argument("function", "ExternFunc", "its name")
      .argument("args", "Tuple", "input values")
      .infer(declared_outputs);
  register_op("call_packed",
              "Calls a packed function by name with the arguments as they are; it may have effects.")
      .argument("function", "ExternFunc", "its name")
      .argument("args", "Object", "values")
      .variadic()
      .impure()
      .infer(declared_or_object);
  register_op("make_closure", "A function whose first arguments are given; the rest come with each call.")
      .argument("function", "GlobalVar", "the function")
      .argument("captured", "Object", "its first arguments")
      .variadic()
      .infer(declared_or_object);
  register_op("ref_create", "A new reference that holds a value.")
      .argument("value", "Object", "what it holds first")
      .impure()
      .infer([](const Call& call) -> Type {
        return make<RefType>(call.args[0]->type ? call.args[0]->type : object_type());
      });
  register_op("ref_read", "What a reference holds now.")
      .argument("ref", "Ref", "the reference")
      .impure()
      .infer([](const Call& call) -> Type {
        const Type t = call.args[0]->type;
        if (!t || t.is<ObjectType>() || t.is<TypeVar>()) return object_type();
        if (!t.is<RefType>()) infer_error(call, "its argument is no reference");
        return t.as<RefType>()->value;
      });
  register_op("ref_write", "Makes a reference hold another value; gives the empty tuple.")
      .argument("ref", "Ref", "the reference")
      .argument("value", "Object", "what it holds from now on")
      .impure()
      .infer([](const Call& call) -> Type {
        const Type t = call.args[0]->type;
        if (t && !t.is<RefType>() && !t.is<ObjectType>()) infer_error(call, "its argument is no reference");
        return tuple_type({});
      });
  register_op("call_pure_packed", "call_packed of a function without effects.")
      .argument("function", "ExternFunc", "its name")
      .argument("args", "Object", "values")
      .variadic()
      .infer(declared_or_object);
  return true;
}();
}  // namespace

}  // namespace tenon::graph

template struct tenon::DefineTypes<tenon::graph::InplaceAttrs>;
