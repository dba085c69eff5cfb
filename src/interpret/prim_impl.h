// SPDX-License-Identifier: Apache-2.0
// The interpreter of tensor programs: one class, its meaning of expressions, statements and memory here, that
// of GPU threads in prim_threads.cpp. Loops run in order; a value is a list of lanes.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>
#include <unordered_set>

#include "interpret/evaluate.h"
#include "interpret/interpret.h"
#include "interpret/team.h"
#include "ir/imported_code.h"
#include "ir/intrinsic_table.h"
#include "ir/jumps.h"
#include "ir/scalable.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "runtime/dlpack.h"

namespace tenon::prim_interpreter {

using namespace tir;
using interpret_detail::Arithmetic;
using interpret_detail::Lane;
using interpret_detail::Lanes;

[[noreturn]] inline void error(std::string code, std::string message) {
  throw Error(ErrorKind::model, std::move(code), std::move(message));
}

/// a * b + c, for indices: what does not fit into 64 bits lies outside of every buffer.
inline int64_t multiply_add(int64_t a, int64_t b, int64_t c, const std::string& name) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r) || __builtin_add_overflow(r, c, &r))
    error("T0355", fmt::format("an index of buffer {} does not fit into 64 bits", name));
  return r;
}

/// Memory behind a data variable. `offset` (elements) serves pointers into the middle of an array.
struct Storage {
  NDArray array;
  int64_t offset = 0;
  std::vector<int64_t> mins;
  std::vector<int64_t> strides;  ///< of a matched region; empty: the buffer's own
};

/// Where a thread stands in its block; -1: not (yet) along this axis.
struct ThreadPosition {
  int64_t index[3] = {-1, -1, -1}, extent[3] = {1, 1, 1};
};
/// A copy that is under way.
struct AsyncCopy {
  Storage to, from;
  int64_t count = 0;
};

class Interpreter {
 public:
  Interpreter(const IRModule& module, const InterpretOptions& options, int depth)
      : module_(module), options_(options), arithmetic_{options.float64}, depth_(depth) {
    if (depth > options.max_depth)
      error("T0352", fmt::format("calls nest deeper than {}", options.max_depth));
  }

  Lanes value(const PrimExpr& e, const interpret_detail::Symbols& symbols) {
    for (auto& [v, n] : symbols) vars_[v] = Lanes(v->dtype, n);
    return eval(e);
  }

  /// Arguments by parameter: storages for buffers and handles, lanes for scalars.
  void run(const PrimFunc& f, const std::vector<Storage>& storages, const std::vector<Lanes>& scalars) {
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
    next_storage = 0;
    for (const VarRef& p : f->params) {
      if (!f->buffer_map.contains(p)) {
        if (p->dtype.is_handle()) ++next_storage;
        continue;
      }
      bind_shape(f->buffer_map.at(p), storages[next_storage++]);
    }
    try {
      exec(f->body);
    } catch (const Error& e) {
      if (!e.location.empty() || e.kind == ErrorKind::internal) throw;
      throw Error(e.kind, e.code, e.message, place(), e.hint);
    }
  }

 private:
  /// Where the innermost statement that did not end was written.
  std::string place() const {
    const std::string text = at_ && at_->origin ? at_->origin->span.to_string() : std::string();
    return !text.empty() || !block_ ? text : fmt::format("block {}", block_->name);
  }

  void bind_shape(const Buffer& b, const Storage& s) {
    if (s.array.shape().size() != b->shape.size()) {
      // A pointer passed to an internal function carries no shape: only its size is checked, on access.
      if (s.offset || s.array.ndim() == 1) return;
      error("T0353", fmt::format("buffer {} has {} dimensions, the argument has {}", b->name, b->shape.size(),
                                 s.array.ndim()));
    }
    for (size_t i = 0; i < b->shape.size(); ++i) {
      const int64_t actual = s.array.shape()[i];
      const auto* v = b->shape[i].as<Var>();
      if (v && !vars_.count(v)) {
        vars_[v] = Lanes(b->shape[i].dtype(), actual);
        continue;
      }
      const int64_t wanted = integer(b->shape[i]);
      if (wanted != actual && s.offset == 0)
        error("T0353", fmt::format("dimension {} of buffer {} is {}, the argument has {}", i, b->name, wanted,
                                   actual));
    }
  }

  int64_t integer(const PrimExpr& e) { return eval(e)[0].i; }
  /// Iterators wrap as other integers do.
  static int64_t later(int64_t first, int64_t i) { return int64_t(uint64_t(first) + uint64_t(i)); }
  std::vector<int64_t> integers(const Array<PrimExpr>& list) {
    std::vector<int64_t> out;
    for (const PrimExpr& e : list) out.push_back(integer(e));
    return out;
  }

  // ---------------------------------------------------------------- expressions
  Lanes eval(const PrimExpr& e) {
    return match<Lanes>(
        e, [&](const IntImm& n) { return Lanes(n.dtype, n.value); },
        [&](const FloatImm& n) { return Lanes(n.dtype, n.value); },
        [&](const tir::StringImm&) -> Lanes { error("T0350", "a string has no value in a tensor program"); },
        [&](const Var& n) -> Lanes {
          auto it = vars_.find(&n);
          if (it == vars_.end()) error("T0350", fmt::format("variable {} has no value here", n.name));
          return it->second;
        },
        [&](const Add& n) { return binary(n); }, [&](const Sub& n) { return binary(n); },
        [&](const Mul& n) { return binary(n); }, [&](const Div& n) { return binary(n); },
        [&](const Mod& n) { return binary(n); }, [&](const FloorDiv& n) { return binary(n); },
        [&](const FloorMod& n) { return binary(n); }, [&](const Min& n) { return binary(n); },
        [&](const Max& n) { return binary(n); }, [&](const EQ& n) { return binary(n); },
        [&](const NE& n) { return binary(n); }, [&](const LT& n) { return binary(n); },
        [&](const LE& n) { return binary(n); }, [&](const GT& n) { return binary(n); },
        [&](const GE& n) { return binary(n); }, [&](const And& n) { return binary(n); },
        [&](const Or& n) { return binary(n); },
        [&](const Not& n) {
          Lanes v = eval(n.a);
          for (size_t i = 0; i < v.size(); ++i) v[i].i = !v[i].i;
          return v;
        },
        [&](const Select& n) {
          const Lanes c = eval(n.condition), t = eval(n.true_value), f = eval(n.false_value);
          Lanes out(n.dtype);
          for (size_t i = 0; i < out.size(); ++i) out[i] = c[c.size() == 1 ? 0 : i].i ? t[i] : f[i];
          return out;
        },
        [&](const Cast& n) { return arithmetic_.cast(eval(n.value), n.dtype); },
        [&](const BufferLoad& n) { return load(n); },
        [&](const ProducerLoad& n) {
          const std::vector<int64_t> at = integers(n.indices);
          const Produced& p = produced(n.producer);
          const int64_t index = flat(p.array.shape(), at, n.producer->name);
          if (!p.stored[size_t(index)])
            error("T0359", fmt::format("element [{}] of tensor {} is read before it is stored",
                                       fmt::join(at, ", "), n.producer->name));
          return read(p.array, index, n.dtype);
        },
        [&](const Ramp& n) {
          const int64_t base = integer(n.base), stride = integer(n.stride);
          Lanes out(n.dtype);
          for (size_t i = 0; i < out.size(); ++i)
            out[i].i = interpret_detail::wrap(int64_t(uint64_t(base) + i * uint64_t(stride)), n.dtype);
          return out;
        },
        [&](const Broadcast& n) {
          const Lanes v = eval(n.value);
          Lanes out(n.dtype);
          for (size_t i = 0; i < out.size(); ++i) out[i] = v[0];
          return out;
        },
        [&](const Shuffle& n) {
          std::vector<Lane> all;
          for (const PrimExpr& v : n.vectors) {
            const Lanes x = eval(v);
            for (size_t i = 0; i < x.size(); ++i) all.push_back(x[i]);
          }
          Lanes out(n.dtype);
          for (size_t i = 0; i < out.size(); ++i) out[i] = all.at(size_t(n.indices[i]));
          return out;
        },
        [&](const Let& n) {
          vars_[n.var.get()] = eval(n.value);
          return eval(n.body);
        },
        [&](const tir::Call& n) { return call(n); }, [&](const Reduce& n) { return reduce(n); });
  }

  template <class T>
  Lanes binary(const T& n) {
    return arithmetic_.binary(n.type_index, eval(n.a), eval(n.b), n.dtype);
  }

  Lanes reduce(const Reduce& n) {
    const CommReducerNode& c = *n.combiner;
    std::vector<Lanes> total;
    for (size_t i = 0; i < c.identity.size(); ++i)
      total.push_back(eval(n.init.empty() ? c.identity[i] : n.init[i]));
    std::vector<int64_t> at, first, extent;
    for (const IterVar& v : n.axis) {
      first.push_back(integer(v->dom->min));
      extent.push_back(integer(v->dom->extent));
    }
    for (int64_t e : extent)
      if (e <= 0) return total[size_t(n.value_index)];
    at.assign(extent.size(), 0);
    for (;;) {
      for (size_t i = 0; i < at.size(); ++i)
        vars_[n.axis[i]->var.get()] = Lanes(n.axis[i]->var->dtype, later(first[i], at[i]));
      if (!n.condition || integer(n.condition)) {
        for (size_t i = 0; i < total.size(); ++i) {
          vars_[c.rhs[i].get()] = eval(n.source[i]);
          vars_[c.lhs[i].get()] = total[i];
        }
        std::vector<Lanes> next;
        for (const PrimExpr& r : c.result) next.push_back(eval(r));
        total = std::move(next);
      }
      count_step();
      size_t d = at.size();
      while (d > 0 && ++at[d - 1] == extent[d - 1]) at[--d] = 0;
      if (d == 0) return total[size_t(n.value_index)];
    }
  }

  Lanes call(const tir::Call& n) {
    if (n.op == "tir.if_then_else") return eval(integer(n.args[0]) ? n.args[1] : n.args[2]);
    if (n.op == "tir.likely") return eval(n.args[0]);
    if (n.op == "tir.select_rare") {
      const Lanes condition = eval(n.args[0]);
      Lanes out = eval(n.args[2]), rare;
      bool known = false;
      for (size_t i = 0; i < out.size(); ++i) {
        if (!condition[condition.size() == 1 ? 0 : i].i) continue;
        if (!known) rare = eval(n.args[1]);
        known = true;
        out[i] = rare[i];
      }
      return out;
    }
    if (n.op == "tir.prefetch") return Lanes(n.dtype);
    if (n.op == "tir.assume") {
      if (!integer(n.args[0])) error("T0354", "an assumption does not hold");
      return Lanes(n.dtype);
    }
    if (n.op == "tir.ret") {
      const Lanes result = eval(n.args[0]);
      jump_ = Jump::end_of_program;
      return result;
    }
    if (n.op == "tir.break_loop" || n.op == "tir.continue_loop") {
      jump_ = n.op == "tir.break_loop" ? Jump::end_of_loop : Jump::next_iteration;
      return Lanes(n.dtype);
    }
    if (n.op == "tir.call_prim_func") {
      call_prim_func(n);
      return Lanes(n.dtype);
    }
    if (n.op == "tir.call_packed") return call_packed(n);
    if (n.op == "tir.call_extern") return call_extern(n);
    if (n.op.starts_with("tir.atomic_")) return atomic(n);
    if (n.op.starts_with("tir.mma_")) return fragment(n);
    if (n.op.starts_with("tir.async_")) return async(n);
    if (n.op == "tir.storage_sync") {
      team_.barrier(&n);
      return Lanes(n.dtype);
    }
    if (n.op == "tir.thread_allreduce" || n.op.starts_with("tir.warp_shuffle")) return collective(n);
    if (n.op == "tir.dot")
      return arithmetic_.dot(eval(n.args[0]), eval(n.args[1]), eval(n.args[2]),
                             dot_group(n.args[0], n.args[1], n.args[2]));
    if (n.op.starts_with("tir.vector_reduce_")) return arithmetic_.reduce_lanes(n.op, eval(n.args[0]));
    const Intrinsic* intrinsic = find_intrinsic(n.op);
    if (!intrinsic || !intrinsic->vector)
      error("T0350", fmt::format("the interpreter cannot run `{}`", n.op));
    std::vector<Lanes> args;
    for (const PrimExpr& a : n.args) args.push_back(eval(a));
    return arithmetic_.intrinsic(*intrinsic, args, n.dtype);
  }

  // Pointers and calls of other programs: prim.cpp.
  Storage pointer(const PrimExpr& e);
  Storage access_pointer(const tir::Call& n);
  void call_prim_func(const tir::Call& n);
  // foreign_calls.cpp
  Lanes call_packed(const tir::Call& n);
  Lanes call_extern(const tir::Call& n);

  // ---------------------------------------------------------------- threads (prim_threads.cpp)
  Lanes atomic(const tir::Call& n);
  Lanes async(const tir::Call& n);
  Lanes fragment(const tir::Call& n);
  Lanes collective(const tir::Call& n);
  void threads(const For& n);
  bool waits(const For& n);
  Storage allocate_buffer(const Buffer& b);
  static Lanes combined(const std::string& op, const Lanes& a, const Lanes& b, const Arithmetic& arithmetic);
  static int64_t element_of(const Storage& s, int64_t k);
  void copy_elements(const Storage& to, const Storage& from, int64_t count);
  int64_t thread_number() const;

  // ---------------------------------------------------------------- memory
  Storage& memory_of(const Buffer& b) {
    auto it = memory_.find(b->data.get());
    if (it == memory_.end()) error("T0350", fmt::format("buffer {} is not allocated here", b->name));
    return it->second.array.dtype().bits == stored(b->dtype).bits || options_.float64 ? it->second
                                                                                      : view(it->second, b);
  }
  /// Memory of bytes, or of another type, seen with the buffer's type.
  Storage& view(const Storage& s, const Buffer& b) {
    auto [it, fresh] = views_.try_emplace({s.array.data(), b->dtype}, Storage());
    if (fresh) {
      const int64_t bytes = int64_t(s.array.byte_size()), each = stored(b->dtype).bytes();
      it->second = {NDArray::view(s.array.data(), {bytes / each}, stored(b->dtype), Any(s.array)), 0, {}, {}};
    }
    return it->second;
  }
  static int64_t flat(const std::vector<int64_t>& shape, const std::vector<int64_t>& at,
                      const std::string& name) {
    int64_t index = 0;
    if (at.size() != shape.size())
      error("T0350",
            fmt::format("buffer {} has another number of dimensions than the memory behind it", name));
    for (size_t i = 0; i < shape.size(); ++i) {
      if (at[i] < 0 || at[i] >= shape[i])
        error("T0355", fmt::format("index {} of dimension {} is outside buffer {} with shape ({})", at[i], i,
                                   name, fmt::join(shape, ", ")));
      index = multiply_add(index, shape[i], at[i], name);
    }
    return index;
  }
  /// Where an element lies, from the values of its indices in one lane.
  int64_t offset(const Buffer& b, const std::vector<int64_t>& at, const Storage& s) {
    std::vector<int64_t> shape;
    for (const PrimExpr& d : b->shape) shape.push_back(integer(d));
    int64_t index;
    if (!s.mins.empty())
      index = flat(s.array.shape(), at, b->name);
    else if (b->strides.empty() && s.strides.empty())
      index = flat(shape, at, b->name);
    else {
      flat(shape, at, b->name);
      if (b->strides.empty() && s.strides.size() != at.size())
        error("T0350",
              fmt::format("buffer {} has another number of dimensions than the matched region behind it",
                          b->name));
      index = 0;
      for (size_t i = 0; i < at.size(); ++i)
        index =
            multiply_add(at[i], b->strides.empty() ? s.strides[i] : integer(b->strides[i]), index, b->name);
    }
    index = multiply_add(1, index, s.offset, b->name);
    if (b->elem_offset) index = multiply_add(1, index, integer(b->elem_offset), b->name);
    const int64_t size = s.array.size() / b->dtype.lanes;  // a vector is one element
    if (index < 0 || index >= size)
      error("T0355", fmt::format("element {} is outside the {} elements of the memory behind buffer {}",
                                 index, size, b->name));
    return index;
  }
  /// Values of the indices of lane `lane`, from the corner of what was realized.
  void position(const std::vector<Lanes>& indices, size_t lane, const Storage& s, std::vector<int64_t>& at,
                const Buffer& b) {
    if (!s.mins.empty() && s.mins.size() != indices.size())
      error("T0350",
            fmt::format("buffer {} has another number of dimensions than the memory behind it", b->name));
    at.resize(indices.size());
    for (size_t i = 0; i < at.size(); ++i)
      at[i] = int64_t(uint64_t(indices[i][indices[i].size() == 1 ? 0 : lane].i) -
                      uint64_t(s.mins.empty() ? 0 : s.mins[i]));
  }
  /// Floats seen as their bits, or the other way: the element as it lies in memory, under the other type.
  bool is_view(const NDArray& array, DataType type) const {
    return !options_.float64 && array.dtype().bits == type.bits &&
           array.dtype().is_float() != type.is_float();
  }
  Lanes read(const NDArray& array, int64_t index, DataType type) {
    if (is_view(array, type)) {
      const NDArray one = NDArray::empty({}, type.element());
      const size_t bytes = size_t(type.element().bytes());
      std::memcpy(one.data(), static_cast<const char*>(array.data()) + size_t(index) * bytes, bytes);
      return read(one, 0, type);
    }
    Lanes out(type.element());
    if (type.is_float())
      out[0].d = array.element(index);
    else
      out[0].i = array.element_int(index);
    return out;
  }
  Lanes load(const BufferLoad& n) {
    Storage& s = memory_of(n.buffer);
    Lanes out(n.dtype);
    Lanes mask = n.predicate ? eval(n.predicate) : Lanes();
    std::vector<Lanes> indices;
    for (const PrimExpr& i : n.indices) indices.push_back(eval(i));
    std::vector<int64_t> at;
    const size_t width = n.buffer->dtype.lanes;  // of one element
    for (size_t lane = 0; lane < out.size(); ++lane) {
      if (n.predicate && !mask[mask.size() == 1 ? 0 : lane].i) continue;  // a lane that is off gives 0
      position(indices, lane / width, s, at, n.buffer);
      out[lane] = read(s.array, offset(n.buffer, at, s) * int64_t(width) + int64_t(lane % width), n.dtype)[0];
    }
    return out;
  }
  void write(const NDArray& array, int64_t index, const Lane& v, DataType type) {
    if (is_read_only(array)) error("T0406", "the program writes to an argument that may only be read");
    if (is_view(array, type)) {
      const NDArray one = NDArray::empty({}, type.element());
      const size_t bytes = size_t(type.element().bytes());
      write(one, 0, v, type);
      std::memcpy(static_cast<char*>(array.data()) + size_t(index) * bytes, one.data(), bytes);
      return;
    }
    if (type.is_float())
      array.set_element(index, v.d);
    else
      array.set_element_int(index, v.i);
  }
  DataType stored(DataType t) const { return options_.float64 && t.is_float() ? f64 : t.element(); }
  Storage allocate(const Array<PrimExpr>& shape, DataType dtype) {
    std::vector<int64_t> dims;
    for (const PrimExpr& d : shape) dims.push_back(std::max<int64_t>(0, integer(d)));
    if (dtype.lanes > 1) {  // vectors lie one behind the other
      if (dims.empty()) dims.push_back(1);
      dims.back() = multiply_add(dims.back(), dtype.lanes, 0, "of vectors");
    }
    int64_t bytes = stored(dtype).bytes();
    for (int64_t d : dims)
      if (__builtin_mul_overflow(bytes, d, &bytes)) bytes = INT64_MAX;
    if (bytes > options_.max_bytes)
      error("T0351", fmt::format("an allocation of more than {} bytes", options_.max_bytes));
    NDArray a = NDArray::empty(dims, stored(dtype));
    // Undefined memory is filled with a value that shows when it is read.
    const int64_t n = a.size();
    for (int64_t i = 0; i < n; ++i) {
      if (a.dtype().is_float())
        a.set_element(i, std::nan(""));
      else
        a.set_element_int(i, -0x35014542);
    }
    return {a, 0, {}, {}};
  }

  /// A tensor without a buffer: storage, and which of its elements hold a value.
  struct Produced {
    NDArray array;
    std::vector<bool> stored;
  };
  Produced& produced(const DataProducer& p) {
    auto it = producers_.find(p.get());
    if (it == producers_.end()) {
      const NDArray array = allocate(p->shape, p->dtype).array;
      it = producers_.emplace(p.get(), Produced{array, std::vector<bool>(size_t(array.size()))}).first;
    }
    return it->second;
  }

  // ---------------------------------------------------------------- statements
  void count_step() {
    if (++steps_ > options_.max_steps) error("T0351", fmt::format("more than {} steps", options_.max_steps));
  }

  void exec(const Stmt& s) {
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

  /// Behind an iteration: does the loop have a next one?
  bool goes_on() {
    if (jump_ == Jump::next_iteration) jump_ = Jump::none;
    return jump_ == Jump::none;
  }
  /// Behind a loop: what led out of it has arrived.
  void left_loop() {
    if (jump_ != Jump::end_of_program) jump_ = Jump::none;
  }

  void realize(const BlockRealize& n) {
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

  void block(const Block& n, bool first) {
    const Block* outer = block_;
    block_ = &n;
    for (const Buffer& b : n.alloc_buffers) memory_[b->data.get()] = allocate_buffer(b);
    for (const MatchBufferRegion& m : n.match_buffers) match_buffer(m);
    if (n.init && first) exec(n.init);
    exec(n.body);
    block_ = outer;
  }

  // ---------------------------------------------------------------- reductions over nothing
  // A reduction gives its identity where there is nothing to reduce: when a loop has no iteration, the inits
  // below run, once for each value of the spatial iterators, for blocks of which that loop feeds only
  // iterators of the reduction.
  bool starts_reduction(const For& n) {
    auto [it, fresh] = starts_.emplace(&n, false);
    bool& found = it->second;
    if (!fresh) return found;
    pre_order(n.body, [&](const ObjectRef& x) {
      const auto* b = x.as<Block>();
      found = found || (b && b->init);
      return !found && x.is<StmtNode>();
    });
    return found;
  }
  bool uses_idle(const PrimExpr& e) const {
    bool found = false;
    if (e)
      pre_order(e, [&](const ObjectRef& x) {
        found = found || idle_.count(x.get());
        return !found;
      });
    return found;
  }
  void start_reductions(const Stmt& s) {
    if (const auto* n = s.as<For>()) {
      const int64_t first = integer(n->min), extent = integer(n->extent);
      if (extent <= 0) idle_.insert(n->loop_var.get());
      for (int64_t i = 0; i < std::max<int64_t>(1, extent); ++i) {
        vars_[n->loop_var.get()] = Lanes(n->loop_var->dtype, later(first, i));
        start_reductions(n->body);
        count_step();
      }
      idle_.erase(n->loop_var.get());
    } else if (const auto* n = s.as<SeqStmt>()) {
      for (const Stmt& t : n->seq) start_reductions(t);
    } else if (const auto* n = s.as<AttrStmt>()) {
      start_reductions(n->body);
    } else if (const auto* n = s.as<BlockRealize>()) {
      if (n->block->init) start_reduction(*n);
    }
  }
  void start_reduction(const BlockRealize& n) {
    bool waits = false;
    for (size_t i = 0; i < n.iter_values.size(); ++i) {
      const IterVar& v = n.block->iter_vars[i];
      const int64_t min = integer(v->dom->min);
      if (uses_idle(n.iter_values[i])) {
        if (v->kind != IterKind::reduce) return;
        waits = true;
        vars_[v->var.get()] = Lanes(v->var->dtype, min);
        continue;
      }
      const Lanes value = eval(n.iter_values[i]);
      const int64_t extent = integer(v->dom->extent);
      const bool in_domain =
          value[0].i >= min && extent > 0 && uint64_t(value[0].i) - uint64_t(min) < uint64_t(extent);
      if (v->kind == IterKind::reduce ? value[0].i != min : !in_domain) return;
      vars_[v->var.get()] = value;
    }
    if (!waits) return;
    std::vector<PrimExpr> conditions;
    if (n.predicate) conditions.push_back(n.predicate);
    while (!conditions.empty()) {
      const PrimExpr c = conditions.back();
      conditions.pop_back();
      if (const auto* both = c.as<And>()) {
        conditions.push_back(both->a);
        conditions.push_back(both->b);
      } else if (!uses_idle(c) && !integer(c)) {
        return;
      }
    }
    for (const MatchBufferRegion& m : n.block->match_buffers) match_buffer(m);
    exec(n.block->init);
  }

  /// The matched buffer is the same memory seen from the region's corner with the source's strides.
  void match_buffer(const MatchBufferRegion& m) {
    const Buffer& source = m->source->buffer;
    Storage& s = memory_of(source);
    std::vector<int64_t> corner;
    for (const Range& r : m->source->region) corner.push_back(integer(r->min));
    std::vector<int64_t> from = corner;
    if (!s.mins.empty() && s.mins.size() != corner.size())
      error("T0350", fmt::format("buffer {} has another number of dimensions than the memory behind it",
                                 source->name));
    for (size_t i = 0; i < s.mins.size(); ++i) from[i] = int64_t(uint64_t(from[i]) - uint64_t(s.mins[i]));
    const int64_t start = s.array.size() == 0 ? 0 : offset(source, from, s);
    std::vector<int64_t> strides(source->shape.size(), 1);
    for (size_t i = source->shape.size(); i-- > 0;)
      strides[i] = !source->strides.empty()  ? integer(source->strides[i])
                   : !s.strides.empty()      ? s.strides[i]
                   : i + 1 == strides.size() ? 1
                                             : strides[i + 1] * integer(source->shape[i + 1]);
    const size_t dropped = strides.size() - m->buffer->shape.size();
    for (size_t i = 0; i < m->buffer->shape.size(); ++i) {
      bind_or_check(m->buffer->shape[i], integer(m->source->region[i + dropped]->extent), m->buffer->name);
      if (!m->buffer->strides.empty())
        bind_or_check(m->buffer->strides[i], strides[i + dropped], m->buffer->name);
    }
    Storage view = s;
    view.mins.clear();
    view.strides.assign(strides.begin() + std::ptrdiff_t(dropped), strides.end());
    if (m->buffer->elem_offset && m->buffer->elem_offset.is<Var>()) {
      bind_or_check(m->buffer->elem_offset, start, m->buffer->name);
      view.offset = 0;
    } else
      view.offset = start;
    memory_[m->buffer->data.get()] = view;
  }
  void bind_or_check(const PrimExpr& e, int64_t value, const std::string& name) {
    if (const auto* v = e.as<Var>(); v && !vars_.count(v)) {
      vars_[v] = Lanes(e.dtype(), value);
      return;
    }
    if (e.is<Var>()) {
      vars_[e.as<Var>()] = Lanes(e.dtype(), value);
      return;
    }
    if (integer(e) != value)
      error("T0353", fmt::format("match_buffer {}: {} where the region has {}", name, integer(e), value));
  }

  const IRModule& module_;
  const InterpretOptions& options_;
  Arithmetic arithmetic_;
  int depth_;
  bool imports_ = false;  ///< the program brings C functions of its own
  int64_t steps_ = 0;
  Jump jump_ = Jump::none;        ///< under way
  const StmtNode* at_ = nullptr;  ///< the innermost statement that knows where it was written
  const Block* block_ = nullptr;  ///< the innermost block
  std::unordered_map<const For*, bool> starts_, waits_;
  interpret_detail::Team team_;
  ThreadPosition position_;  ///< of the thread that runs
  bool block_of_threads_ = false;
  std::map<std::pair<const Var*, int64_t>, Storage> shared_;      ///< with the number of the warp
  std::map<int64_t, std::pair<ThreadPosition, Lanes>> exchange_;  ///< what each thread brings, by its number
  std::map<std::pair<void*, DataType>, Storage> views_;           ///< they keep their memory
  std::vector<AsyncCopy> begun_;
  std::vector<std::vector<AsyncCopy>> groups_;
  std::unordered_set<const Object*> idle_;  ///< variables of loops without an iteration, in start_reductions
  std::unordered_map<const Var*, Lanes> vars_;
  std::unordered_map<const Var*, Storage> memory_;
  std::unordered_map<const DataProducerNode*, Produced> producers_;
};

}  // namespace tenon::prim_interpreter
