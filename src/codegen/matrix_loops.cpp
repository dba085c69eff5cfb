// SPDX-License-Identifier: Apache-2.0
#include "codegen/matrix_loops.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/region.h"
#include "analysis/simplify.h"
#include "codegen/lowered.h"
#include "ir/find_node.h"
#include "ir/structural.h"
#include "target/matrix_registers.h"

namespace tenon::codegen {

using namespace tir;

namespace {

bool in_registers(const Buffer& b) { return b->scope == kMatrixScope; }

bool uses(const PrimExpr& e, const VarRef& v) { return mentions(e, v.get(), not_in_buffers); }

/// An index without the casts of narrow_data_type: all of it in int64, in which nothing wraps.
PrimExpr wide(const PrimExpr& e) {
  if (const auto* c = e.as<Cast>(); c && c->value.dtype().is_integer()) return wide(c->value);
  if (const auto* i = e.as<IntImm>()) return PrimExpr(i->value);
  if (const auto* n = e.as<Add>()) return wide(n->a) + wide(n->b);
  if (const auto* n = e.as<Sub>()) return wide(n->a) - wide(n->b);
  if (const auto* n = e.as<Mul>()) return wide(n->a) * wide(n->b);
  if (const auto* n = e.as<FloorDiv>()) return floordiv(wide(n->a), wide(n->b));
  if (const auto* n = e.as<FloorMod>()) return floormod(wide(n->a), wide(n->b));
  return e.dtype() == i64 ? e : cast(i64, e);
}

bool zero(const PrimExpr& e) {
  const auto* f = e.as<FloatImm>();
  return f ? f->value == 0 : is_zero(e);
}

/// An operand, widened: i32 of a byte, f32 of a bfloat16, which may be its bits in the upper half.
const BufferLoad* widened(const PrimExpr& e) {
  PrimExpr value = e, bits;
  if (const auto* let = e.as<Let>()) value = substitute(let->body, {{let->var.get(), let->value}});
  const auto* cast_of = value.as<Cast>();
  const auto* number = value.as<Call>();
  if (number && number->op == "tir.reinterpret" && value.dtype() == f32) {
    const auto* shifted = number->args[0].as<Call>();
    const bool upper = shifted && shifted->op == "tir.shift_left" && is_const_int(shifted->args[1], 16);
    cast_of = upper ? shifted->args[0].as<Cast>() : nullptr;
    const auto* l = cast_of ? cast_of->value.as<BufferLoad>() : nullptr;
    return l && l->buffer->dtype == DataType::uint(16) && !l->predicate ? l : nullptr;
  }
  const auto* l = cast_of ? cast_of->value.as<BufferLoad>() : nullptr;
  if (!l || l->predicate || in_registers(l->buffer)) return nullptr;
  const DataType t = l->buffer->dtype;
  const bool byte = t.is_integer() && t.bits == 8 && value.dtype() == i32;
  return byte || (t == DataType::bfloat16() && value.dtype() == f32) ? l : nullptr;
}

/// Two or three loops around one store, read as accesses along them.
class Reader {
 public:
  std::optional<MatrixLoops> read(const For& n) {
    if (!enter(n)) return std::nullopt;
    const int64_t rows = *as_int(loops_[0]->extent);
    if (rows > kMatrixRows || *as_int(loops_[1]->extent) != kMatrixLanes) return std::nullopt;
    out_.shape.rows = rows;
    const bool done = !in_registers(store_->buffer) ? copy()
                      : loops_.size() == 2          ? first_value()
                                                    : products();
    return done ? std::optional(out_) : std::nullopt;
  }

 private:
  bool enter(const For& n) {
    Stmt s = n.body;
    if (!add(n)) return false;
    while (s) {
      Stmt inside;
      if (const auto* f = s.as<For>()) {
        if (!add(*f)) return false;
        inside = f->body;
      } else if (const auto* l = s.as<LetStmt>()) {
        names_[l->var.get()] = substitute(l->value, names_), inside = l->body;
      } else if (const auto* d = s.as<DeclBuffer>()) {
        inside = d->body;
      } else {
        store_ = s.as<BufferStore>();
      }
      s = inside;
    }
    return store_ && !store_->predicate && (loops_.size() == 2 || loops_.size() == 3);
  }
  bool add(const For& n) {
    if (!is_zero(n.min) || !as_int(n.extent) || *as_int(n.extent) < 1) return false;
    loops_.push_back(&n);
    a_.bind(n.loop_var, range(n.min, n.extent), true);
    return true;
  }
  const VarRef& row() const { return loops_[0]->loop_var; }
  const VarRef& lane() const { return loops_[1]->loop_var; }

  /// The access as begin + row · rows + the steps that it must have; `k`: the sum's loop in other variables.
  std::optional<MatrixRows> rows_of(const Buffer& b, const Array<PrimExpr>& indices, const VarRef& rows,
                                    const std::vector<std::pair<VarRef, int64_t>>& steps,
                                    const PrimExpr& k = {}) {
    PrimExpr at = wide(substitute(flat_index(b, indices), names_));
    if (k) at = substitute(at, {{loops_[2]->loop_var.get(), k}});
    std::vector<VarRef> terms{rows};
    for (auto& [v, step] : steps) terms.push_back(v);
    at = a_.simplify(inside_panels(a_.simplify(at), terms));
    const auto form = affine_form(at, terms, a_);
    if (!form) return std::nullopt;
    for (const For* f : loops_)
      if (uses(form->base, f->loop_var)) return std::nullopt;
    for (const VarRef& v : terms)
      if (uses(form->base, v)) return std::nullopt;
    auto step_of = [&](const VarRef& v) {
      for (auto& [x, c] : form->terms)
        if (x.same_as(v)) return c;
      return int64_t(0);
    };
    for (auto& [v, step] : steps)
      if (step_of(v) != step) return std::nullopt;
    return MatrixRows{b, form->base, step_of(rows) * b->dtype.bytes()};
  }

  /// Quotients and remainders of tiles that lie inside panels: (16 * i + l) // 48 is 16 * i // 48 for 16
  /// lanes.
  PrimExpr inside_panels(const PrimExpr& e, const std::vector<VarRef>& terms) {
    // The numerator as what stands still and what the loops add, when both stay inside one panel.
    auto apart = [&](const PrimExpr& numerator,
                     const PrimExpr& panel) -> std::optional<std::pair<PrimExpr, PrimExpr>> {
      const auto width = as_int(panel);
      const auto form = width ? affine_form(numerator, terms, a_) : std::nullopt;
      if (!form || *width <= 0 || form->terms.empty()) return std::nullopt;
      const PrimExpr added = a_.simplify(numerator - form->base);
      for (int64_t tile = 2; tile <= *width; ++tile)
        if (*width % tile == 0 && a_.can_prove(lt(added, PrimExpr(tile))))
          return a_.can_prove(ge(added, PrimExpr(0))) &&
                         is_zero(a_.simplify(floormod(form->base, PrimExpr(tile))))
                     ? std::optional(std::pair(form->base, added))
                     : std::nullopt;
      return std::nullopt;
    };
    return rewrite_any(
               e,
               [&](const ObjectRef& n) -> ObjectRef {
                 if (const auto* d = n.as<FloorDiv>())
                   if (const auto parts = apart(d->a, d->b)) return floordiv(parts->first, d->b);
                 if (const auto* d = n.as<FloorMod>())
                   if (const auto parts = apart(d->a, d->b))
                     return floormod(parts->first, d->b) + parts->second;
                 return {};
               },
               [](const ObjectRef& n) { return n.is<BufferNode>(); })
        .cast<PrimExprNode>();
  }

  bool sums(const Buffer& b, const Array<PrimExpr>& indices) {
    const auto rows = rows_of(b, indices, row(), {{lane(), 1}});
    const auto at = rows ? as_int(rows->begin) : std::nullopt;
    if (!at) return false;
    out_.sums = b, out_.sums_begin = *at;
    out_.sums_row = out_.shape.rows == 1 ? kMatrixLanes : rows->row_bytes / b->dtype.bytes();
    return true;
  }
  bool memory(const Buffer& b, const Array<PrimExpr>& indices) {
    const auto rows = rows_of(b, indices, row(), {{lane(), 1}});
    if (!rows || b->dtype.bytes() * kMatrixLanes != kMatrixRowBytes) return false;
    out_.memory = *rows;
    return true;
  }
  bool copy() {
    const auto* from = store_->value.as<BufferLoad>();
    out_.kind = MatrixLoops::Kind::store;
    return from && !from->predicate && in_registers(from->buffer) && loops_.size() == 2 &&
           sums(from->buffer, from->indices) && memory(store_->buffer, store_->indices);
  }
  bool first_value() {
    if (!sums(store_->buffer, store_->indices)) return false;
    if (zero(store_->value)) return true;
    // x[l], or 0 + x[l], which begins at 0 where x has a -0.
    const auto* sum = store_->value.as<Add>();
    const auto* first = (sum && zero(sum->a) ? sum->b : store_->value).as<BufferLoad>();
    out_.kind = MatrixLoops::Kind::load;
    return first && !first->predicate && !in_registers(first->buffer) &&
           memory(first->buffer, first->indices);
  }
  bool products() {
    const PrimExpr value = substitute(store_->value, names_);
    const auto* sum = value.as<Add>();
    if (!sum || !sums(store_->buffer, store_->indices)) return false;
    const bool left_sum = sum->a.is<BufferLoad>();
    const auto* before = (left_sum ? sum->a : sum->b).as<BufferLoad>();
    const auto* product = (left_sum ? sum->b : sum->a).as<Mul>();
    if (!before || before->predicate || !product || !before->buffer.same_as(store_->buffer) ||
        !structural_equal(before->indices, store_->indices))
      return false;
    const BufferLoad* loads[] = {widened(product->a), widened(product->b)};
    if (!loads[0] || !loads[1]) return false;
    const bool swapped = uses(flat_index(loads[0]->buffer, loads[0]->indices), lane());
    const BufferLoad &x = *loads[swapped ? 1 : 0], &y = *loads[swapped ? 0 : 1];
    if (store_->buffer->dtype != (x.buffer->dtype.bits == 8 ? i32 : f32)) return false;
    const int64_t steps = *as_int(loops_[2]->extent),
                  group = kMatrixGroupBytes / std::max(1, x.buffer->dtype.bytes());
    if (x.buffer->dtype.bits != y.buffer->dtype.bits || group < 2 || steps % group != 0) return false;
    out_.kind = MatrixLoops::Kind::multiply;
    out_.shape.row_bytes = steps * x.buffer->dtype.bytes();
    if (out_.shape.row_bytes > kMatrixRowBytes) return false;
    const auto left = rows_of(x.buffer, x.indices, row(), {{loops_[2]->loop_var, 1}});
    // Along the sum the right operand lies in groups.
    const VarRef high = var("group"), low = var("neighbour");
    a_.bind(high, range(PrimExpr(0), PrimExpr(steps / group)), true);
    a_.bind(low, range(PrimExpr(0), PrimExpr(group)), true);
    const auto right =
        rows_of(y.buffer, y.indices, high, {{lane(), group}, {low, 1}}, high * PrimExpr(group) + low);
    if (!left || !right) return false;
    out_.left = *left, out_.right = *right;
    return true;
  }

  std::vector<const For*> loops_;
  const BufferStore* store_ = nullptr;
  VarMap names_;
  Analyzer a_;
  MatrixLoops out_;
};

}  // namespace

std::optional<MatrixLoops> matrix_loops(const For& loops) { return Reader().read(loops); }

namespace {

/// The registers of one buffer of sums.
struct SumRegisters {
  int64_t rows = 0, row = 0;  ///< of each; sums from row to row
  std::set<int64_t> begins;
  std::set<int64_t> row_bytes;  ///< of the left operands of its products

  /// One more; false where registers differ in shape, overlap, or are too many.
  bool add(const MatrixLoops& loops) {
    if (begins.empty()) rows = loops.shape.rows, row = loops.sums_row;
    if (rows != loops.shape.rows || row != loops.sums_row || row < kMatrixLanes) return false;
    if (loops.kind == MatrixLoops::Kind::multiply) row_bytes.insert(loops.shape.row_bytes);
    for (const int64_t b : begins)
      if (b != loops.sums_begin && std::abs(b / row - loops.sums_begin / row) < rows &&
          std::abs(b % row - loops.sums_begin % row) < kMatrixLanes)
        return false;
    begins.insert(loops.sums_begin);
    return int64_t(begins.size()) <= kMatrixSums && row_bytes.size() <= 1;
  }
};

/// Registers are counted for each buffer by itself, and belong to one function.
bool shares_registers(const Stmt& s, bool parallel_apart) {
  bool found = false;
  pre_order(s, [&](const ObjectRef& n) {
    const auto* a = n.as<Allocate>();
    const auto* f = n.as<For>();
    found = found || (a && in_registers(a->buffer)) ||
            (f && parallel_apart && f->kind == ForKind::parallel && !is_one(f->extent));
    return !found && (n.is<StmtNode>() || n.is<ArrayObj>());
  });
  return found;
}

}  // namespace

std::optional<std::vector<MatrixShape>> matrix_shapes(const Stmt& s, bool parallel_apart,
                                                      const Target& target) {
  std::vector<MatrixShape> out;
  std::map<const Var*, SumRegisters> registers;  // of the buffers that are allocated here
  bool fit = true;
  auto loops_fit = [&](const For& f) {
    const auto loops = matrix_loops(f);
    const auto known = loops ? registers.find(loops->sums->data.get()) : registers.end();
    if (known == registers.end() || !known->second.add(*loops)) return false;
    for (const MatrixRows* rows : {&loops->memory, &loops->left, &loops->right})
      if (rows->buffer.get() && registers.count(rows->buffer->data.get())) return false;
    if (loops->kind != MatrixLoops::Kind::multiply) return true;
    const DataType x = loops->left.buffer->dtype, bf16 = DataType::bfloat16();
    if (!multiplies_matrices(target, x.bits == 8 ? x : bf16, x.bits == 8 ? loops->right.buffer->dtype : bf16))
      return false;
    if (std::ranges::find(out, loops->shape) == out.end()) out.push_back(loops->shape);
    return true;
  };
  pre_order(s, [&](const ObjectRef& n) {
    if (!fit || n.is<BufferNode>()) return false;
    if (const auto* a = n.as<Allocate>(); a && in_registers(a->buffer)) {
      registers[a->buffer->data.get()];
      fit = !shares_registers(a->body, parallel_apart);
    }
    const auto* f = n.as<For>();
    if (f && parallel_apart && f->kind == ForKind::parallel && !is_one(f->extent)) return false;
    if (f && f->annotations.contains(kMatrixLoops)) {
      fit = loops_fit(*f);
      return false;
    }
    const auto* l = n.as<BufferLoad>();
    const auto* t = n.as<BufferStore>();
    auto touches = [&](const Buffer& b) { return in_registers(b) || registers.count(b->data.get()) > 0; };
    fit = fit && !(l && touches(l->buffer)) && !(t && touches(t->buffer));
    return fit;
  });
  return fit ? std::optional(out) : std::nullopt;
}

}  // namespace tenon::codegen
