// SPDX-License-Identifier: Apache-2.0
#include "codegen/vm/vm_emitter.h"

namespace tenon {

int32_t VMEmitter::emit_call(int callee, const std::vector<Arg>& args, int32_t dst) {
  Instruction i;
  i.op = Opcode::Call;
  i.dst = dst;
  i.callee = callee;
  i.first_arg = uint32_t(exe_.args.size());
  i.num_args = uint32_t(args.size());
  exe_.args.insert(exe_.args.end(), args.begin(), args.end());
  exe_.code.push_back(i);
  return dst;
}

size_t VMEmitter::jump(Opcode op, Arg on) {
  Instruction i;
  i.op = op;
  if (op == Opcode::If) {
    i.first_arg = uint32_t(exe_.args.size());
    i.num_args = 1;
    exe_.args.push_back(on);
  }
  exe_.code.push_back(i);
  return exe_.code.size() - 1;
}

void VMEmitter::return_value(const Operand& o) {
  Instruction ret;
  ret.op = Opcode::Ret;
  ret.dst = reg(o);
  exe_.code.push_back(ret);
}

Arg VMEmitter::arg(const Operand& o) {
  if (!o.is_tuple) return o.arg;
  std::vector<Arg> items;
  for (const Operand& i : o.items) items.push_back(arg(i));
  return builtin_value(Builtin::tuple, items);
}

int32_t VMEmitter::reg(const Operand& o) {
  Arg a = arg(o);
  return a.kind() == ArgKind::Register ? int32_t(a.value()) : move({a, false, false, {}}, registers_++);
}

Operand VMEmitter::item(const Operand& o, int64_t index) {
  if (o.is_tuple) {
    CHECK(index >= 0 && size_t(index) < o.items.size(), "an item that the tuple does not have");
    return o.items[size_t(index)];
  }
  return {builtin_value(Builtin::tuple_get, {o.arg, number(index)}), false, o.borrowed, {}};
}

Operand VMEmitter::owned(const Operand& o, const graph::Type& type) {
  if (const auto* t = type.as<graph::TupleType>()) {
    Operand out{{}, true, false, {}};
    for (size_t i = 0; i < t->items.size(); ++i) out.items.push_back(owned(item(o, int64_t(i)), t->items[i]));
    return out;
  }
  const bool foreign = o.borrowed || o.arg.kind() == ArgKind::Constant || o.arg.kind() == ArgKind::Arena;
  if (!foreign || !type || !graph::as_tensor(type)) return o;
  return {builtin_value(Builtin::copy, {o.arg}), false, false, {}};
}

Operand VMEmitter::merge_target(const graph::Type& type, bool borrowed) {
  if (const auto* t = type.as<graph::TupleType>()) {
    Operand out{{}, true, false, {}};
    for (const graph::Type& i : t->items) out.items.push_back(merge_target(i, borrowed));
    return out;
  }
  return {Arg::of(ArgKind::Register, registers_++), false, borrowed, {}};
}

void VMEmitter::assign(const Operand& target, const Operand& from) {
  if (target.is_tuple) {
    for (size_t i = 0; i < target.items.size(); ++i) assign(target.items[i], item(from, int64_t(i)));
    return;
  }
  move(from, int32_t(target.arg.value()));
}

}  // namespace tenon
