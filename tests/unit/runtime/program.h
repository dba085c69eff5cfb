// SPDX-License-Identifier: Apache-2.0
// Builds executables by hand, one call at a time.
#pragma once
#include <fstream>
#include <sstream>

#include "runtime/vm.h"

namespace tenon::test {

inline Arg reg(int64_t i) { return Arg::of(ArgKind::Register, i); }
inline Arg imm(int64_t i) { return Arg::of(ArgKind::Immediate, i); }
inline Arg constant(int64_t i) { return Arg::of(ArgKind::Constant, i); }
inline Arg arena(int64_t i) { return Arg::of(ArgKind::Arena, i); }
inline Arg heap(int64_t i) { return Arg::of(ArgKind::Heap, i); }

struct Builder {
  Executable e;

  int32_t callee(CalleeKind kind, const std::string& name, int32_t num_buffers = 0, int32_t index = -1) {
    for (size_t i = 0; i < e.callees.size(); ++i)
      if (e.callees[i].kind == kind && e.callees[i].name == name) return int32_t(i);
    e.callees.push_back({kind, name, index, num_buffers});
    return int32_t(e.callees.size()) - 1;
  }
  Builder& begin(const std::string& name, int params, int registers, int heap = 0) {
    VMFunction f;
    f.name = name;
    f.num_params = params;
    f.num_registers = registers;
    f.heap_size = heap;
    f.first_instruction = uint32_t(e.code.size());
    e.functions.push_back(f);
    return *this;
  }
  Builder& add(Instruction i, const std::vector<Arg>& args) {
    i.first_arg = uint32_t(e.args.size());
    i.num_args = uint32_t(args.size());
    e.args.insert(e.args.end(), args.begin(), args.end());
    e.code.push_back(i);
    ++e.functions.back().num_instructions;
    return *this;
  }
  Builder& builtin(int32_t dst, const std::string& name, const std::vector<Arg>& args) {
    return add({Opcode::Call, dst, callee(CalleeKind::Builtin, "vm.builtin." + name)}, args);
  }
  Builder& packed(int32_t dst, const std::string& name, const std::vector<Arg>& args) {
    return add({Opcode::Call, dst, callee(CalleeKind::Builtin, name)}, args);
  }
  Builder& kernel(const std::string& name, int buffers, const std::vector<Arg>& args) {
    return add({Opcode::Call, -1, callee(CalleeKind::Kernel, name, buffers)}, args);
  }
  Builder& call(int32_t dst, int32_t function, const std::vector<Arg>& args) {
    return add(
        {Opcode::Call, dst, callee(CalleeKind::Function, e.functions[size_t(function)].name, 0, function)},
        args);
  }
  Builder& ret(int32_t r) { return add({Opcode::Ret, r}, {}); }
  Builder& jump(int32_t offset) { return add({Opcode::Goto, -1, -1, offset}, {}); }
  Builder& branch(Arg condition, int32_t if_false) {
    return add({Opcode::If, -1, -1, if_false}, {condition});
  }
};

inline NDArray floats(std::vector<float> values, std::vector<int64_t> shape = {}) {
  if (shape.empty()) shape = {int64_t(values.size())};
  return NDArray::from_bytes(shape, f32, values.data(), values.size() * sizeof(float));
}
inline std::vector<float> values(const NDArray& a) {
  return {a.as_ptr<float>(), a.as_ptr<float>() + a.size()};
}

inline int32_t add_kernel(void* const* b, const int64_t* s, const TenonKernelContext*) {
  for (int64_t i = 0; i < s[0]; ++i)
    static_cast<float*>(b[2])[i] = static_cast<float*>(b[0])[i] + static_cast<float*>(b[1])[i];
  return 0;
}
/// b[0][0] += 1 for int64
inline int32_t increment_kernel(void* const* b, const int64_t* s, const TenonKernelContext*) {
  for (int64_t i = 0; i < s[0]; ++i) static_cast<int64_t*>(b[1])[i] = static_cast<int64_t*>(b[0])[i] + 1;
  return 0;
}
inline int32_t failing_kernel(void* const*, const int64_t* s, const TenonKernelContext*) {
  return int32_t(s[0]);
}
/// Fails where the first float is negative.
inline int32_t negative_kernel(void* const* b, const int64_t*, const TenonKernelContext*) {
  return *static_cast<float*>(b[0]) < 0;
}
/// out[0] = the double whose image is scalars[0], times scalars[1]
inline int32_t scalar_kernel(void* const* b, const int64_t* s, const TenonKernelContext*) {
  double d;
  std::memcpy(&d, &s[0], sizeof d);
  *static_cast<double*>(b[0]) = d * double(s[1]);
  return 0;
}
/// heap[1] = heap[0] * heap[0]
inline int32_t heap_kernel(void* const* b, const int64_t*, const TenonKernelContext*) {
  auto* h = static_cast<int64_t*>(b[0]);
  h[1] = h[0] * h[0];
  return 0;
}

inline void* resolve(const std::string& name) {
  if (name == "test_add") return reinterpret_cast<void*>(add_kernel);
  if (name == "increment") return reinterpret_cast<void*>(increment_kernel);
  if (name == "failing") return reinterpret_cast<void*>(failing_kernel);
  if (name == "negative") return reinterpret_cast<void*>(negative_kernel);
  if (name == "scalar") return reinterpret_cast<void*>(scalar_kernel);
  if (name == "heap") return reinterpret_cast<void*>(heap_kernel);
  return nullptr;
}

/// Code of the Error that `f` throws, "" if none.
template <class F>
std::string error_code(F f, std::string* message = nullptr) {
  try {
    f();
  } catch (const Error& e) {
    if (message) *message = e.what();
    return e.code;
  }
  return "";
}

/// main(a: f32[n, 4], b: f32[n, 4]) = (a + b) + constant, the sum kept in the arena for n ≤ 8.
inline Executable add_program() {
  Builder b;
  b.e.constants.push_back(floats(std::vector<float>(8, 0.5f), {2, 4}));
  b.e.arena_tensors.push_back({64, {2, 4}, f32});
  b.e.arena_bytes = 128;
  const ValueInfo in{"a", f32, true, {{2, ""}, {4, ""}}};
  b.begin("main", 2, 4)
      .kernel("test_add", 3, {reg(0), reg(1), arena(0), imm(8)})
      .builtin(2, "alloc_tensor", {imm(dtype_word(f32)), imm(2), imm(4)})
      .kernel("test_add", 3, {arena(0), constant(0), reg(2), imm(8)})
      .ret(2);
  b.e.functions[0].params = {in, {"b", f32, true, {{2, ""}, {4, ""}}}};
  b.e.functions[0].results = {{"sum", f32, true, {{2, ""}, {4, ""}}}};
  b.e.metadata = {{"compiler", "test"}, {"asserts.failing", "first\nsecond"}};
  return b.e;
}

/// main(x: f32[2]) = x twice, by a list: what libtenon_sequence is loaded for.
inline Executable list_program() {
  Builder b;
  b.begin("main", 1, 3)
      .packed(1, "tenon.sequence.empty", {})
      .packed(1, "tenon.sequence.append", {reg(1), reg(0)})
      .packed(1, "tenon.sequence.append", {reg(1), reg(0)})
      .packed(2, "tenon.sequence.stack", {reg(1), reg(0), imm(2)})
      .ret(2);
  b.e.functions[0].params = {{"x", f32, true, {{2, ""}}}};
  b.e.functions[0].results = {{"y", f32, true, {{2, ""}, {2, ""}}}};
  return b.e;
}

}  // namespace tenon::test
