// SPDX-License-Identifier: Apache-2.0
// Lists that loops collect outputs in (Loop and Scan of ONNX): `tenon.sequence.empty`, `append` and `stack`.
// In C a list is static memory for all of its tensors and their number, so that stacking it moves nothing.
// How many there are at most, the shape says that is asked of the stacked tensor; which list grows into
// which, one round over the function finds, and the next one knows.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/c/c_program.h"

namespace tenon::codegen {

namespace {
/// A list that `growing` has made is a part of the value.
bool holds(const CValue& v, int64_t growing) {
  return v.growing == growing ||
         std::ranges::any_of(v.items, [&](const CValue& i) { return holds(i, growing); });
}
}  // namespace

bool Body::list_call(const std::string& name, uint32_t i, const Instruction& in, State& s) {
  if (name == "tenon.sequence.empty") return empty_list(i, in, s), true;
  if (name == "tenon.sequence.append") return append(i, in, s), true;
  if (name == "tenon.sequence.stack") return stack(i, in, s), true;
  return false;
}

Body::ListType& Body::list_type(const Operand& list) {
  if (list.value.growing < 0) throw NoEntry{"it extends a list that another function made"};
  return lists_[uint32_t(list.value.growing)];
}

void Body::learn(ListType& type, DataType dtype, const std::vector<int64_t>& item) {
  if (type.item && (type.dtype != dtype || *type.item != item))
    throw NoEntry{"the iterations of a loop make outputs of different shapes"};
  if (!type.item) learned_ = true;
  type.dtype = dtype;
  type.item = item;
}

void Body::empty_list(uint32_t i, const Instruction& in, State& s) {
  if (in.dst < 0) return;
  lists_.try_emplace(i);
  const auto before = known_lists_.find(i);
  const ListType type = before == known_lists_.end() ? ListType() : before->second;
  CValue v = list({});
  if (type.item && type.most) {
    std::vector<int64_t> dims = *type.item;
    dims.insert(dims.begin(), *type.most);
    const std::string to = std::to_string(in.dst);
    v.items = {fresh(i, in, s, type.dtype, dims, 0, "p" + to + "_0"), number(0)};
    assign("n" + to + "_1", "0");
  }
  v.growing = i;
  s.registers[size_t(in.dst)] = v;
}

void Body::append(uint32_t i, const Instruction& in, State& s) {
  const Operand to = operand(in, 0, s), item = tensor_of(operand(in, 1, s));
  if (!item.value.dims || item.value.dtype.bits < 8)
    throw NoEntry{"a loop collects tensors of " +
                  (item.value.dims ? to_string(item.value.dtype) : "no known shape")};
  learn(list_type(to), item.value.dtype, *item.value.dims);
  if (in.dst < 0) return;
  CValue longer = to.value;
  if (!longer.items.empty()) {
    // The list that it was shares the memory: nobody may extend it a second time.
    for (size_t r = 0; printing_ && r < s.registers.size(); ++r)
      if (live_[i][r] && int32_t(r) != in.dst && holds(s.registers[r], to.value.growing))
        throw NoEntry{"it reads a list that was extended"};
    const std::vector<Operand> parts = items(to);
    const std::string count = text(parts[1].value, parts[1].holder), dst = std::to_string(in.dst);
    if (printing_)
      line(fmt::format("if ({} >= {}) return {};", count, (*parts[0].value.dims)[0], kWrongSize));
    if (item.value.bytes)
      line(fmt::format("memcpy((char*){} + {} * {}, {}, {});", text(parts[0].value, parts[0].holder), count,
                       item.value.bytes, text(item.value, item.holder), item.value.bytes));
    longer.items[1] = parts[1].value.known ? number(*parts[1].value.known + 1) : number({});
    assign("p" + dst + "_0", text(parts[0].value, parts[0].holder));
    assign("n" + dst + "_1", count + " + 1");
  }
  s.registers[size_t(in.dst)] = longer;
}

std::optional<int64_t> Body::asked_count(uint32_t i, int32_t tensor) const {
  constexpr uint32_t kMatch = 2, kValue = 3;  // the first dimension's, behind tensor and rank
  for (uint32_t k = i + 1; k < f_.num_instructions && !leaders_.count(k) && at(k).op == Opcode::Call; ++k) {
    const Instruction& next = at(k);
    const auto arg = [&](uint32_t n) { return e_.args[next.first_arg + n]; };
    bool reads = false;
    for (uint32_t n = 0; n < next.num_args; ++n)
      reads = reads || (arg(n).kind() == ArgKind::Register && arg(n).value() == tensor);
    if (!reads && next.dst != tensor) continue;
    const Callee& c = e_.callees[size_t(next.callee)];
    const bool asks = c.kind == CalleeKind::Builtin && builtin_of(c.name) == Builtin::match_shape &&
                      next.num_args > kValue && arg(kMatch).kind() == ArgKind::Immediate &&
                      DimMatch(arg(kMatch).value()) == DimMatch::Number;
    return asks ? std::optional(arg(kValue).value()) : std::nullopt;
  }
  return {};
}

void Body::stack(uint32_t i, const Instruction& in, State& s) {
  const Operand from = operand(in, 0, s);
  ListType& type = list_type(from);
  const std::optional<int64_t> count = asked_count(i, in.dst);
  if (!count || *count < 0) throw NoEntry{"the number of a loop's outputs is not known before it runs"};
  if (!type.most || *type.most < *count) {
    type.most = *count;
    learned_ = true;
  }
  if (from.value.items.empty()) {  // the next round knows more
    if (!type.item) {
      std::vector<int64_t> item;
      for (uint32_t k = 2; k < in.num_args; ++k) item.push_back(known(operand(in, k, s)));
      learn(type, tensor_of(operand(in, 1, s)).value.dtype, item);
    }
    std::vector<int64_t> dims = *type.item;
    dims.insert(dims.begin(), *count);
    if (in.dst >= 0) s.registers[size_t(in.dst)] = tensor(type.dtype, dims, {});
    return;
  }
  const std::vector<Operand> parts = items(from);
  if (printing_ && parts[1].value.known != *count)
    line(fmt::format("if ({} != {}) return {};", text(parts[1].value, parts[1].holder), *count, kWrongSize));
  Operand all = parts[0];
  all.value.dims->front() = *count;
  all.value.bytes = int64_t(storage_bytes(element_count(*all.value.dims), all.value.dtype));
  put(in.dst, s, all);
}

}  // namespace tenon::codegen
