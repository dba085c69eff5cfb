// SPDX-License-Identifier: Apache-2.0
// What statements of tensor programs do, in the order in which they stand.
#include "interpret/prim_impl.h"

namespace tenon::prim_interpreter {

void Interpreter::run(const PrimFunc& f, const std::vector<Storage>& storages,
                      const std::vector<Lanes>& scalars) {
  size_t next_storage = 0, next_scalar = 0;
  imports_ = f->attrs.contains(import_attribute(ImportedCode::Language::c)) ||
             f->attrs.contains(import_attribute(ImportedCode::Language::llvm));
  for (const VarRef& p : f->params) {
    if (f->buffer_map.contains(p) || p->dtype.is_handle()) {
      const Storage& s = storages.at(next_storage++);
      memory_[p.get()] = s;
      if (auto b = f->buffer_map.find(p)) memory_[(*b)->data.get()] = s;
    } else {
      vars_[p.get()] = scalars.at(next_scalar++);
    }
  }
  // Scalars are bound first, then symbolic sizes from the arrays' shapes; what is bound must agree.
  for (const auto bind : {&Interpreter::bind_sizes, &Interpreter::check_shape}) {
    next_storage = 0;
    for (const VarRef& p : f->params) {
      if (!f->buffer_map.contains(p)) {
        if (p->dtype.is_handle()) ++next_storage;
        continue;
      }
      (this->*bind)(f->buffer_map.at(p), storages[next_storage++]);
    }
  }
  try {
    exec(f->body);
  } catch (const Error& e) {
    if (!e.location.empty() || e.kind == ErrorKind::internal) throw;
    throw Error(e.kind, e.code, e.message, place(), e.hint);
  }
}

void Interpreter::exec(const Stmt& s) {
  if (!s || jump_ != Jump::none) return;
  const StmtNode* outer = at_;
  if (s->origin) at_ = s.get();
  match<void>(
      s,
      [&](const For& n) {
        if (n.kind == ForKind::thread_binding && n.thread_tag.starts_with("threadIdx.")) return threads(n);
        const int64_t first = integer(n.min), extent = integer(n.extent);
        if (extent <= 0 && starts_reduction(n)) start_reductions(s);
        for (int64_t i = 0; i < extent && goes_on(); ++i) {
          vars_[n.loop_var.get()] = Lanes(n.loop_var->dtype, later(first, i));
          exec(n.body);
          count_step();
        }
        left_loop();
      },
      [&](const tir::While& n) {
        while (goes_on() && integer(n.condition)) {
          exec(n.body);
          count_step();
        }
        left_loop();
      },
      [&](const IfThenElse& n) { exec(integer(n.condition) ? n.then_case : n.else_case); },
      [&](const LetStmt& n) {
        if (n.var->dtype.is_handle())
          memory_[n.var.get()] = pointer(n.value);
        else
          vars_[n.var.get()] = eval(n.value);
        exec(n.body);
      },
      [&](const BlockRealize& n) { realize(n); }, [&](const Block& n) { block(n, true); },
      [&](const Allocate& n) {
        memory_[n.buffer->data.get()] = allocate_buffer(n.buffer);
        exec(n.body);
      },
      [&](const AllocateConst& n) {
        NDArray data = n.data;
        if (options_.float64 && data.dtype().is_float()) {
          data = NDArray::empty(n.data.shape(), f64);
          for (int64_t i = 0; i < data.size(); ++i) data.set_element(i, n.data.element(i));
        }
        memory_[n.buffer->data.get()] = {data, 0, {}, {}};
        exec(n.body);
      },
      [&](const DeclBuffer& n) { exec(n.body); },
      [&](const BufferRealize& n) {
        if (integer(n.condition)) {
          Array<PrimExpr> extents;
          std::vector<int64_t> mins;
          for (const Range& r : n.bounds) {
            extents.push_back(r->extent);
            mins.push_back(integer(r->min));
          }
          Storage st = allocate(extents, n.buffer->dtype);
          st.mins = mins;
          memory_[n.buffer->data.get()] = st;
        }
        exec(n.body);
      },
      [&](const BufferStore& n) {
        const Lanes value = eval(n.value);
        Storage& st = memory_of(n.buffer);
        Lanes mask = n.predicate ? eval(n.predicate) : Lanes();
        std::vector<Lanes> indices;
        for (const PrimExpr& i : n.indices) indices.push_back(eval(i));
        std::vector<int64_t> at;
        const size_t width = n.buffer->dtype.lanes;
        for (size_t lane = 0; lane < value.size(); ++lane) {
          if (n.predicate && !mask[mask.size() == 1 ? 0 : lane].i) continue;
          position(indices, lane / width, st, at, n.buffer);
          write(st.array, offset(n.buffer, at, st) * int64_t(width) + int64_t(lane % width), value[lane],
                n.buffer->dtype);
        }
      },
      [&](const Prefetch&) {},
      [&](const ProducerStore& n) {
        const Lanes value = eval(n.value);
        Produced& p = produced(n.producer);
        const int64_t index = flat(p.array.shape(), integers(n.indices), n.producer->name);
        write(p.array, index, value[0], n.producer->dtype);
        p.stored[size_t(index)] = true;
      },
      [&](const AssertStmt& n) {
        if (!integer(n.condition)) error("T0354", "assertion failed: " + n.message);
      },
      [&](const Evaluate& n) { eval(n.value); },
      [&](const SeqStmt& n) {
        for (const Stmt& t : n.seq) exec(t);
      },
      [&](const AttrStmt& n) { exec(n.body); });
  at_ = outer;
}

void Interpreter::realize(const BlockRealize& n) {
  std::vector<Lanes> values;
  for (const PrimExpr& v : n.iter_values) values.push_back(eval(v));
  if (n.predicate && !integer(n.predicate)) return;
  bool first = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const IterVar& v = n.block->iter_vars[i];
    const int64_t min = integer(v->dom->min), extent = integer(v->dom->extent), at = values[i][0].i;
    if (at < min || extent <= 0 || uint64_t(at) - uint64_t(min) >= uint64_t(extent))
      error("T0356", fmt::format("block {}: iterator {} has the value {} outside its domain [{}, {})",
                                 n.block->name, v->var->name, at, min, later(min, extent)));
    if (v->kind == IterKind::reduce && at != min) first = false;
    vars_[v->var.get()] = values[i];
  }
  block(*n.block, first);
}

void Interpreter::block(const Block& n, bool first) {
  const Block* outer = block_;
  block_ = &n;
  for (const Buffer& b : n.alloc_buffers) memory_[b->data.get()] = allocate_buffer(b);
  for (const MatchBufferRegion& m : n.match_buffers) match_buffer(m);
  if (n.init && first) exec(n.init);
  exec(n.body);
  block_ = outer;
}

}  // namespace tenon::prim_interpreter
