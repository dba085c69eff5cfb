// SPDX-License-Identifier: Apache-2.0
// Operators that join the two levels (tensor programs and packed functions called from a graph), closures,
// and references.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/op_def.h"
#include "op/unify.h"

namespace tenon::op {
namespace {
using namespace graph;

Type declared_outputs(InferContext& ctx) {
  const Array<Type>& types = ctx.call.type_args;
  if (types.empty()) return ctx.error("the output types are missing", "give them as out_sinfo=…");
  return types.size() == 1 ? types[0] : tuple_type(types);
}
Type declared_or_object(InferContext& ctx) {
  return ctx.call.type_args.empty() ? object_type() : declared_outputs(ctx);
}
Type infer_ref_read(InferContext& ctx) {
  const Type t = ctx.type(0);
  if (t.is<ObjectType>() || t.is<TypeVar>()) return object_type();
  if (!t.is<RefType>()) return ctx.error("its argument is no reference");
  return t.as<RefType>()->value;
}
Type infer_ref_write(InferContext& ctx) {
  const Type t = ctx.type(0);
  if (!t.is<RefType>() && !t.is<ObjectType>()) return ctx.error("its argument is no reference");
  return tuple_type({});
}

/// Each output has memory of its own: that of an argument of its type, or new.
Type infer_inplace(InferContext& ctx) {
  const Array<int64_t>& places = ctx.attrs<InplaceAttrs>().inplace_indices;
  const Array<Type>& outputs = ctx.call.type_args;
  const auto* args = ctx.call.args[1].as<graph::Tuple>();
  if (places.size() != outputs.size())
    return ctx.error(fmt::format("{} indices for {} outputs", places.size(), outputs.size()));
  bool any = false;
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t at = places[i];
    if (at < -1) return ctx.error(fmt::format("the index {} is below -1", at));
    if (at < 0) continue;
    any = true;
    for (size_t k = 0; k < i; ++k)
      if (places[k] == at) return ctx.error(fmt::format("two outputs take the memory of argument {}", at));
    if (!args) continue;
    if (at >= int64_t(args->items.size())) return ctx.error(fmt::format("there is no argument {}", at));
    const Type given = args->items[size_t(at)]->type;
    if (given && conflict(outputs[i], given))
      return ctx.error(fmt::format("output {} does not fit into argument {}", i, at));
  }
  if (!any) return ctx.error("no output takes the memory of an argument", "use call_tir");
  return declared_outputs(ctx);
}

const bool calls_registered = [] {
  register_op("call_tir",
              "Calls a tensor program in destination-passing style: allocates the outputs, runs "
              "function(args…, outputs…, symbolic…).")
      .argument("function", "GlobalVar", "the PrimFunc")
      .argument("args", "Tuple", "input tensors")
      .argument("symbolic", "Shape", "values of its scalar parameters", true)
      .infer(declared_outputs)
      .placement(Placement::own);
  register_op("call_tir_impure",
              "call_tir of a program that calls what is not seen here: it keeps its place.")
      .argument("function", "GlobalVar", "the PrimFunc")
      .argument("args", "Tuple", "input tensors")
      .argument("symbolic", "Shape", "values of its scalar parameters", true)
      .impure()
      .infer(declared_outputs)
      .placement(Placement::own);
  register_op("call_tir_inplace", "call_tir whose outputs take the memory of arguments.")
      .argument("function", "GlobalVar", "the PrimFunc")
      .argument("args", "Tuple", "input tensors")
      .argument("symbolic", "Shape", "values of its scalar parameters", true)
      .attrs<InplaceAttrs>()
      .infer(infer_inplace)
      .placement(Placement::own);
  register_op("call_dps_packed", "Calls a packed function by name in destination-passing style.")
      .argument("function", "ExternFunc", "its name")
      .argument("args", "Tuple", "input values")
      .infer(declared_outputs)
      .placement(Placement::own);
  register_op("call_packed",
              "Calls a packed function by name with the arguments as they are; it may have effects.")
      .argument("function", "ExternFunc", "its name")
      .argument("args", "Object", "values")
      .variadic()
      .impure()
      .infer(declared_or_object)
      .placement(Placement::own);
  register_op("make_closure", "A function whose first arguments are given; the rest come with each call.")
      .argument("function", "GlobalVar", "the function")
      .argument("captured", "Object", "its first arguments")
      .variadic()
      .infer(declared_or_object)
      .placement(Placement::own);
  register_op("ref_create", "A new reference that holds a value.")
      .argument("value", "Object", "what it holds first")
      .impure()
      .infer([](InferContext& ctx) -> Type { return make<RefType>(ctx.type(0)); });
  register_op("ref_read", "What a reference holds now.")
      .argument("ref", "Ref", "the reference")
      .impure()
      .infer(infer_ref_read);
  register_op("ref_write", "Makes a reference hold another value; gives the empty tuple.")
      .argument("ref", "Ref", "the reference")
      .argument("value", "Object", "what it holds from now on")
      .impure()
      .infer(infer_ref_write);
  register_op("call_pure_packed", "call_packed of a function without effects.")
      .argument("function", "ExternFunc", "its name")
      .argument("args", "Object", "values")
      .variadic()
      .infer(declared_or_object)
      .placement(Placement::own);
  return true;
}();
}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::InplaceAttrs>;
