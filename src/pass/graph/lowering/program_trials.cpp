// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/lowering/program_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "analysis/region.h"
#include "ir/find_node.h"
#include "ir/walk.h"

namespace tenon::tir {
namespace {

// Few operations make a trial cheap, naive loops do about 10⁹ of them in a second: all trials of a program
// together take seconds at most, and three always run.
constexpr double kTrialWork = 4e9;
constexpr int kLeastTrials = 3;
/// Above that, sizes that may be chosen are chosen small.
constexpr double kWorkOfChosenSizes = 2e7;
// Around the widths of vectors and tiles, where schedules go wrong.
constexpr int64_t kSizes[] = {5, 1, 17, 2, 8, 3, 33, 16, 7, 9, 31};
constexpr int64_t kSmallSizes[] = {2, 1, 3};
/// Sums of so many products of whole numbers up to this are exact in float32.
constexpr int64_t kWhole = 4;
constexpr double kLeastPositive = 0.5, kMostPositive = 2;
constexpr int kBeyondDouble = 11;  ///< bits of 64 that a double in [0, 1) does not hold

enum class Values { whole, random, positive, zeros, one_nan, one_infinity, extremes };
constexpr Values kKinds[] = {Values::whole,   Values::random,       Values::positive, Values::zeros,
                             Values::one_nan, Values::one_infinity, Values::extremes};

std::string_view words_of(Values v) {
  switch (v) {
    case Values::whole:
      return "whole numbers";
    case Values::random:
      return "random numbers in [-1, 1)";
    case Values::positive:
      return "random numbers in [0.5, 2)";
    case Values::zeros:
      return "zeros";
    case Values::one_nan:
      return "one NaN among whole numbers";
    case Values::one_infinity:
      return "one infinity among whole numbers";
    case Values::extremes:
      return "the largest, the smallest and special numbers";
  }
  return {};
}

/// Variables that stand for sizes and scalars: parameters without a tensor, then what shapes name besides.
std::vector<VarRef> size_variables(const PrimFunc& f) {
  std::vector<VarRef> out;
  const auto add = [&](const VarRef& v) {
    if (std::ranges::none_of(out, [&](const VarRef& o) { return o.same_as(v); })) out.push_back(v);
  };
  for (const VarRef& p : f->params)
    if (!f->buffer_map.find(p) && !p->dtype.is_handle()) add(p);
  for (const VarRef& p : f->params)
    if (const auto b = f->buffer_map.find(p))
      for (const PrimExpr& d : (*b)->shape)
        for (const VarRef& v : free_vars(d)) add(v);
  return out;
}

/// The builders fold constants, so that rebuilding an expression of numbers gives a number.
PrimFunc folded(const PrimFunc& f) {
  const auto whole = [](const auto& n) { return n.dtype.is_integer() && n.dtype.is_scalar(); };
  return rewrite(
      f, [&](const Add& n) { return whole(n) ? n.a + n.b : PrimExpr(); },
      [&](const Sub& n) { return whole(n) ? n.a - n.b : PrimExpr(); },
      [&](const Mul& n) { return whole(n) ? n.a * n.b : PrimExpr(); },
      [&](const FloorDiv& n) { return whole(n) && !is_zero(n.b) ? floordiv(n.a, n.b) : PrimExpr(); },
      [&](const FloorMod& n) { return whole(n) && !is_zero(n.b) ? floormod(n.a, n.b) : PrimExpr(); },
      [&](const Min& n) { return whole(n) ? tir::min(n.a, n.b) : PrimExpr(); },
      [&](const Max& n) { return whole(n) ? tir::max(n.a, n.b) : PrimExpr(); },
      [&](const Cast& n) { return whole(n) ? cast(n.dtype, n.value) : PrimExpr(); });
}

/// Data that are indices must be below this; nothing where no index comes from data.
std::optional<int64_t> index_limit(const PrimFunc& f) {
  std::optional<int64_t> least;
  const auto look = [&](const Buffer& b, const Array<PrimExpr>& indices) {
    for (size_t d = 0; d < indices.size() && d < b->shape.size(); ++d) {
      if (!has_node<BufferLoad>(indices[d])) continue;
      const int64_t n = as_int(b->shape[d]).value_or(1);
      least = std::min(least.value_or(n), n);
    }
  };
  bool by_name = false;  // an index may hide behind a name: then every buffer counts
  pre_order(f->body, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>()) look(l->buffer, l->indices);
    if (const auto* s = n.as<BufferStore>()) look(s->buffer, s->indices);
    if (const auto* l = n.as<LetStmt>()) by_name = by_name || has_node<BufferLoad>(l->value);
    if (const auto* l = n.as<Let>()) by_name = by_name || has_node<BufferLoad>(l->value);
    if (const auto* r = n.as<BlockRealize>())
      for (const PrimExpr& v : r->iter_values) by_name = by_name || has_node<BufferLoad>(v);
    return true;
  });
  if (by_name) least = 1;
  return least;
}

struct Numbers {
  std::mt19937_64 random;
  Values kind;
  std::optional<int64_t> limit;

  double unit() { return double(random() >> kBeyondDouble) * 0x1p-53; }
  int64_t below(int64_t n) { return int64_t(random() % uint64_t(std::max<int64_t>(1, n))); }

  double number(DataType t) {
    switch (kind) {
      case Values::random:
        return unit() * 2 - 1;
      case Values::positive:
        return kLeastPositive + (kMostPositive - kLeastPositive) * unit();
      case Values::zeros:
        return 0;
      case Values::extremes: {
        const double most = t.bits == 64   ? std::numeric_limits<double>::max()
                            : t == f16     ? 65504.0
                            : t.bits >= 16 ? double(std::numeric_limits<float>::max())
                                           : 240.0;
        const double least = t.bits == 64 ? 5e-324 : t == f16 ? 6e-8 : 1e-45;
        const double special[] = {0.0,       -0.0, 1.0,  -1.0,  0.5,   3.0,   INFINITY,
                                  -INFINITY, NAN,  most, -most, least, -least};
        return special[below(std::size(special))];
      }
      default:
        return double(below(2 * kWhole + 1) - kWhole);
    }
  }
  int64_t integer(DataType t) {
    if (t.is_bool()) return kind == Values::zeros ? 0 : below(2);
    if (kind == Values::zeros) return 0;
    if (limit) return below(*limit);
    if (kind == Values::extremes && t.bits <= 32) {
      const int64_t most = (int64_t(1) << (t.bits - (t.is_uint() ? 0 : 1))) - 1;
      const int64_t special[] = {0, 1, most, t.is_uint() ? 2 : -most - 1, t.is_uint() ? most - 1 : -1};
      return special[below(std::size(special))];
    }
    return t.is_uint() ? below(2 * kWhole + 1) : below(2 * kWhole + 1) - kWhole;
  }
  NDArray array(const std::vector<int64_t>& shape, DataType t) {
    NDArray a = NDArray::empty(shape, t);
    const int64_t n = a.size();
    for (int64_t i = 0; i < n; ++i)
      t.is_float() ? a.set_element(i, number(t)) : a.set_element_int(i, integer(t));
    if (n > 0 && t.is_float() && (kind == Values::one_nan || kind == Values::one_infinity))
      a.set_element(below(n), kind == Values::one_nan ? NAN : INFINITY);
    return a;
  }
};

}  // namespace

PrimFunc at_sizes(const PrimFunc& f, const std::vector<int64_t>& sizes) {
  const std::vector<VarRef> variables = size_variables(f);
  if (variables.empty()) return f;
  VarMap values;
  for (size_t i = 0; i < variables.size(); ++i) {
    const DataType t = variables[i]->dtype;
    const int64_t n = i < sizes.size() ? sizes[i] : 1;
    values[variables[i].get()] = t.is_float() ? PrimExpr::float_imm(double(n), t) : PrimExpr::int_imm(n, t);
  }
  return folded(specialize(f, values));
}

double longest_reduction(const PrimFunc& f) {
  double longest = 1;
  pre_order(f->body, [&](const ObjectRef& n) {
    const auto* block = n.as<Block>();
    double length = 1;
    for (size_t i = 0; block && i < block->iter_vars.size(); ++i)
      if (const IterVar& v = block->iter_vars[i]; v->kind == IterKind::reduce && v->dom)
        length *= double(as_int(v->dom->extent).value_or(1));
    longest = std::max(longest, length);
    return !n.is<PrimExprNode>();
  });
  return longest;
}

ProgramTrials::ProgramTrials(PrimFunc program, int64_t num_outputs)
    : program_(std::move(program)), num_outputs_(num_outputs) {
  for (const VarRef& v : size_variables(program_)) symbols_.push_back(v->name);
  pre_order(program_->body, [&](const ObjectRef& n) {
    if (const auto* block = n.as<Block>())
      for (const IterVar& v : block->iter_vars) accumulates_ = accumulates_ || v->kind != IterKind::spatial;
    return !n.is<PrimExprNode>();
  });
  const int kinds = int(std::size(kKinds)) - accumulates_;  // extremes: their sums depend on the order
  const int wanted = symbols_.empty() ? kinds : 2 * kinds;
  double work = 0;
  while (count_ < wanted && (count_ < kLeastTrials || work < kTrialWork)) {
    const WorkEstimate w = estimate_work(at_sizes(program_, sizes_of(count_))->body);
    work += w.flop + w.bytes;
    ++count_;
  }
}

std::vector<int64_t> ProgramTrials::sizes_of(int number) const {
  if (symbols_.empty()) return {};
  std::mt19937_64 random(uint64_t(number) + 1);
  const auto draw = [&](std::span<const int64_t> from) {
    std::vector<int64_t> out;
    for (size_t i = 0; i < symbols_.size(); ++i)
      out.push_back(number < 2 ? from[size_t(number)] : from[random() % from.size()]);
    return out;
  };
  const std::vector<int64_t> sizes = draw(kSizes);
  const WorkEstimate w = estimate_work(at_sizes(program_, sizes)->body);
  return w.flop + w.bytes > kWorkOfChosenSizes ? draw(kSmallSizes) : sizes;
}

Trial ProgramTrials::trial(int number) const {
  const size_t kinds = std::size(kKinds) - size_t(accumulates_);
  const Values kind = kKinds[size_t(number) % kinds];
  Trial out;
  out.values = words_of(kind);
  out.few_values = kind != Values::random && kind != Values::positive;
  out.sizes = sizes_of(number);
  const PrimFunc f = at_sizes(program_, out.sizes);
  Numbers numbers{std::mt19937_64(uint64_t(number) + 1), kind, index_limit(f)};
  std::vector<Buffer> tensors;
  for (const VarRef& p : f->params)
    if (const auto b = f->buffer_map.find(p)) tensors.push_back(*b);
  for (int64_t i = 0; i + num_outputs_ < int64_t(tensors.size()); ++i) {
    const Buffer& b = tensors[size_t(i)];
    std::vector<int64_t> shape;
    for (const PrimExpr& d : b->shape) shape.push_back(std::max<int64_t>(0, as_int(d).value_or(1)));
    out.inputs.push_back(numbers.array(shape, b->dtype));
  }
  return out;
}

std::string ProgramTrials::sizes_text(const Trial& trial) const {
  std::string out;
  for (size_t i = 0; i < symbols_.size(); ++i)
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", symbols_[i], trial.sizes[i]);
  return out;
}

}  // namespace tenon::tir
