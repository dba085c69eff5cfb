// SPDX-License-Identifier: Apache-2.0
// Entries to the interpreter of tensor programs; pointers, and calls of other programs.
#include "interpret/prim_impl.h"
#include "ir/given_layout.h"

namespace tenon {

namespace prim_interpreter {

Storage Interpreter::pointer(const PrimExpr& e) {
  if (const auto* v = e.as<Var>()) {
    auto it = memory_.find(v);
    if (it == memory_.end()) error("T0350", fmt::format("pointer {} points to nothing", v->name));
    return it->second;
  }
  if (const auto* c = e.as<tir::Call>(); c && c->op == "tir.access_ptr") return access_pointer(*c);
  if (const auto* c = e.as<tir::Call>(); c && c->op == "tir.address_of") {
    const auto* l = c->args[0].as<BufferLoad>();
    if (!l) error("T0350", "this is no element of a buffer");
    Storage s = memory_of(l->buffer);
    std::vector<Lanes> indices;
    for (const PrimExpr& i : l->indices) indices.push_back(eval(i));
    std::vector<int64_t> at;
    position(indices, 0, s, at, l->buffer);
    s.offset = offset(l->buffer, at, s);
    return s;
  }
  error("T0350", "this is not a pointer");
}

Storage Interpreter::access_pointer(const tir::Call& n) {
  const auto* l = n.args[0].as<BufferLoad>();
  if (!l) error("T0350", "this is no element of a buffer");
  Storage s = memory_of(l->buffer);
  std::vector<int64_t> first = integers(l->indices);
  const int64_t from = integer(n.args[1]), count = integer(n.args[2]);
  const int64_t size = s.array.size() / l->buffer->dtype.lanes;
  s.offset = multiply_add(1, size == 0 ? s.offset : offset(l->buffer, first, s), from, l->buffer->name);
  if (from < 0 || count < 0 || s.offset > size || count > size - s.offset)
    error("T0355", fmt::format("{} elements from number {} on are outside of the {} elements of buffer {}",
                               count, s.offset, size, l->buffer->name));
  const DataType type = s.array.dtype();
  if (is_read_only(s.array) || type.bits < 8) return s;
  // What is behind the pointer is that range and nothing else.
  const int64_t lanes = l->buffer->dtype.lanes;
  char* first_byte = static_cast<char*>(s.array.data()) + s.offset * lanes * type.bytes();
  return {NDArray::view(first_byte, {count * lanes}, type, Any(s.array)), 0, {}, {}};
}

void Interpreter::call_prim_func(const tir::Call& n) {
  const auto* text = n.args.empty() ? nullptr : n.args[0].as<tir::StringImm>();
  if (!text) error("T0350", "a call of a tensor function names none");
  const std::string name = text->value;
  const PrimFunc f = module_ ? module_.find(name).cast<PrimFuncNode>() : PrimFunc();
  if (!f) error("T0350", fmt::format("no tensor function `{}` in the module", name));
  std::vector<Storage> storages;
  std::vector<Lanes> scalars;
  for (size_t i = 1; i < n.args.size(); ++i) {
    if (n.args[i].dtype().is_handle())
      storages.push_back(pointer(n.args[i]));
    else
      scalars.push_back(eval(n.args[i]));
  }
  size_t buffers = 0;
  for (const VarRef& p : f->params) buffers += f->buffer_map.contains(p) || p->dtype.is_handle();
  if (storages.size() != buffers || scalars.size() != f->params.size() - buffers)
    error("T0353", fmt::format("`{}` takes {} buffers and {} scalars, {} and {} were given", name, buffers,
                               f->params.size() - buffers, storages.size(), scalars.size()));
  Interpreter inner(module_, options_, depth_ + 1);
  inner.steps_ = steps_;
  inner.run(uses_vscale(f) ? fix_vscale(f, options_.vscale) : f, storages, scalars);
  steps_ = inner.steps_;
}

}  // namespace prim_interpreter

using namespace prim_interpreter;

interpret_detail::Lanes interpret_detail::evaluate(const PrimExpr& e, const Symbols& symbols) {
  const InterpretOptions options;
  return Interpreter({}, options, 0).value(e, symbols);
}

void interpret_prim_func(const tir::PrimFunc& function, const std::vector<NDArray>& args,
                         const IRModule& module, const InterpretOptions& options) {
  const tir::PrimFunc f = uses_vscale(function) ? fix_vscale(function, options.vscale) : function;
  if (args.size() != f->params.size())
    error("T0353",
          fmt::format("the function takes {} arguments, {} were given", f->params.size(), args.size()));
  std::vector<Storage> storages;
  std::vector<Lanes> scalars;
  for (size_t i = 0; i < args.size(); ++i) {
    const VarRef& p = f->params[i];
    if (auto b = f->buffer_map.find(p)) {
      const DataType want = options.float64 && (*b)->dtype.is_float() ? f64 : (*b)->dtype;
      if (args[i].dtype() != want)
        error("T0353", fmt::format("argument {} has type {}, buffer {} has {}", i, to_string(args[i].dtype()),
                                   (*b)->name, to_string(want)));
      if (const auto problem = tir::unlike_given_tensors(*b, tir::as_int))
        error("T0363", fmt::format("the buffer `{}` {}", (*b)->name, *problem));
      storages.push_back({args[i], 0, {}, {}});
    } else if (p->dtype.is_handle()) {
      storages.push_back({args[i], 0, {}, {}});
    } else {
      Lanes v(p->dtype);
      if (p->dtype.is_float())
        v[0].d = args[i].element(0);
      else
        v[0].i = args[i].element_int(0);
      scalars.push_back(v);
    }
  }
  Interpreter(module, options, 0).run(f, storages, scalars);
}

}  // namespace tenon
