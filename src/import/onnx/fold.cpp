// SPDX-License-Identifier: Apache-2.0
// Evaluates nodes whose inputs are small known tensors: the shape arithmetic of exported models.
#include <algorithm>
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/importer.h"

namespace tenon::onnx {

bool not_negative(const PrimExpr& e) {
  if (const auto* i = e.as<tir::IntImm>()) return i->value >= 0;
  if (e.is<tir::Var>()) return true;
  Analyzer analyzer;
  for (const tir::VarRef& v : tir::free_vars(e)) analyzer.assume_size(v);
  return analyzer.can_prove_ge(e, 0);
}

namespace {

using Items = std::vector<PrimExpr>;
using Dims = std::vector<int64_t>;

int64_t count_of(const Dims& d) {
  int64_t n = 1;
  for (int64_t x : d)
    if (__builtin_mul_overflow(n, x, &n)) return INT64_MAX;
  return n;
}

/// Immediates of a type: integers wrap, floats are rounded.
PrimExpr number(DataType t, double v) {
  return t.is_float() ? PrimExpr::float_imm(t == f32 ? double(float(v)) : v, t)
                      : PrimExpr::int_imm(int64_t(v), t);
}
PrimExpr integer(DataType t, int64_t v) {
  if (t.is_bool()) return PrimExpr::int_imm(v != 0, t);
  const int shift = 64 - t.bits;
  if (shift > 0)
    v = t.is_int() ? int64_t(uint64_t(v) << shift) >> shift : int64_t(uint64_t(v) << shift >> shift);
  return PrimExpr::int_imm(v, t);
}

/// A number of uint64 from 2⁶³ on, which is held as a negative one.
bool is_huge(const PrimExpr& e) {
  const auto v = tir::as_int(e);
  return v && *v < 0 && e.dtype().is_uint();
}
/// What a float becomes that may be beyond the type: its nearest number, of NaN 0.
PrimExpr nearest_integer(DataType t, double v) {
  if (std::isnan(v)) return integer(t, 0);
  const double top = std::ldexp(1.0, t.is_uint() ? t.bits : t.bits - 1);
  if (t.is_uint() && v < 0) return integer(t, 0);
  if (v >= top) return integer(t, t.is_uint() ? -1 : int64_t(~uint64_t(0) >> (65 - t.bits)));
  if (v < -top) return integer(t, int64_t(uint64_t(-1) << (t.bits - 1)));
  return std::abs(v) < 9e15 ? integer(t, int64_t(v)) : PrimExpr();
}

/// The integer expression inside of a float that is exactly one: float(n) and constants.
PrimExpr exact_integer(const PrimExpr& e) {
  if (e.dtype().is_integer()) return e;
  if (const auto* c = e.as<tir::Cast>(); c && c->value.dtype() == i64) return c->value;
  if (const auto* f = e.as<tir::FloatImm>();
      f && std::floor(f->value) == f->value && std::abs(f->value) < 9e15)
    return int64_t(f->value);
  return {};
}

PrimExpr tidy(const PrimExpr& e) { return e.is<tir::IntImm>() || e.is<tir::Var>() ? e : simplify(e); }

/// One arithmetic step on sizes or numbers; null when it cannot be done here.
PrimExpr arithmetic(const std::string& op, DataType t, const PrimExpr& a, const PrimExpr& b) {
  const auto x = number_of(a), y = number_of(b);
  if (x && y) {
    if (t.is_float()) {
      if (op == "Add") return number(t, *x + *y);
      if (op == "Sub") return number(t, *x - *y);
      if (op == "Mul") return number(t, *x * *y);
      if (op == "Div") return number(t, *x / *y);
      if (op == "Min") return number(t, std::isnan(*x) || std::isnan(*y) ? NAN : std::min(*x, *y));
      if (op == "Max") return number(t, std::isnan(*x) || std::isnan(*y) ? NAN : std::max(*x, *y));
      return {};
    }
    const int64_t i = *tir::as_int(a), j = *tir::as_int(b);
    if (op == "Add") return integer(t, int64_t(uint64_t(i) + uint64_t(j)));
    if (op == "Sub") return integer(t, int64_t(uint64_t(i) - uint64_t(j)));
    if (op == "Mul") return integer(t, int64_t(uint64_t(i) * uint64_t(j)));
    if (is_huge(a) || is_huge(b)) return {};
    if (op == "Min") return integer(t, std::min(i, j));
    if (op == "Max") return integer(t, std::max(i, j));
    if (j == 0 || (j == -1 && i == INT64_MIN)) return {};
    if (op == "Div") return integer(t, i / j);
    const int64_t rest = i % j;
    if (op == "Mod") return integer(t, rest != 0 && (rest < 0) != (j < 0) ? rest + j : rest);
    return {};
  }
  PrimExpr i = exact_integer(a), j = exact_integer(b);
  if (!i || !j || i.dtype() != i64 || j.dtype() != i64) return {};
  PrimExpr r;
  if (op == "Add")
    r = i + j;
  else if (op == "Sub")
    r = i - j;
  else if (op == "Mul")
    r = i * j;
  else if (op == "Min")
    r = tir::min(i, j);
  else if (op == "Max")
    r = tir::max(i, j);
  else if (op == "Div" && is_one(j))
    r = i;
  else if ((op == "Div" || op == "Mod") && t.is_integer()) {
    const auto c = tir::as_int(j);
    if (c ? *c <= 0 : !not_negative(j)) return {};
    const PrimExpr divisor = c ? j : tir::max(j, PrimExpr(1));  // nothing traps where a size is 0
    if (op == "Mod")
      r = tir::floormod(i, divisor);
    else if (not_negative(i))
      r = tir::floordiv(i, divisor);
    else {  // rounds towards 0, which between -c and 0 is all there is below
      r = tir::floordiv(tir::max(i, PrimExpr(0)), divisor);
      if (!c || !not_negative(i + (*c - 1)))
        r = r - tir::floordiv(tir::max(PrimExpr(0) - i, PrimExpr(0)), divisor);
    }
  } else if (op == "Div") {
    // A float division of sizes is a size only when it comes out even.
    const auto c = tir::as_int(j);
    if (!c || *c <= 0 || !is_zero(tidy(tir::floormod(i, j)))) return {};
    r = tir::floordiv(i, j);
  }
  if (!r) return {};
  r = tidy(r);
  return t == i64 ? r : tir::cast(t, r);
}

/// Minus an integer number; the least one stays what it is.
PrimExpr negative(const PrimExpr& e) { return integer(e.dtype(), int64_t(-uint64_t(*tir::as_int(e)))); }

std::optional<int> compare(const PrimExpr& a, const PrimExpr& b) {
  const auto x = number_of(a), y = number_of(b);
  if (is_huge(a) || is_huge(b)) return std::nullopt;
  if (x && y) {
    const auto i = tir::as_int(a), j = tir::as_int(b);
    if (i && j) return *i < *j ? -1 : *i > *j;
    if (std::isnan(*x) || std::isnan(*y)) return std::nullopt;
    return *x < *y ? -1 : *x > *y;
  }
  if (a.dtype() != i64 || b.dtype() != i64) return std::nullopt;
  PrimExpr d = tidy(a - b);
  if (auto v = tir::as_int(d)) return *v < 0 ? -1 : *v > 0;
  // A size is never a negative number.
  if (auto v = tir::as_int(b); v && *v < 0 && not_negative(a)) return 1;
  if (auto v = tir::as_int(a); v && *v < 0 && not_negative(b)) return -1;
  return std::nullopt;
}

PrimExpr convert(DataType t, const PrimExpr& e) {
  if (e.dtype() == t) return e;
  if (const auto i = tir::as_int(e)) {
    if (!t.is_float()) return integer(t, *i);
    if (is_huge(e)) return {};
    return number(t, t == f32 ? double(float(*i)) : double(*i));
  }
  if (const auto v = number_of(e)) {
    if (t.is_float()) return number(t, *v);
    if (t.is_bool()) return integer(t, *v != 0);
    return nearest_integer(t, *v);
  }
  if (e.dtype() == i64 && (t == f32 || t == f64)) return tir::cast(t, e);  // exact_integer looks inside
  if (e.dtype() == i64 && t == i32) return tir::cast(t, e);
  if (PrimExpr i = exact_integer(e); i && t == i64) return i;
  if (const auto* c = e.as<tir::Cast>(); c && e.dtype() == i32 && c->value.dtype() == i64)
    return convert(t, c->value);
  return {};
}

bool broadcast(const Dims& a, const Dims& b, Dims* out) {
  const size_t n = std::max(a.size(), b.size());
  out->assign(n, 1);
  for (size_t i = 0; i < n; ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    (*out)[n - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

/// Element of s for flat index `flat` of an output of shape `dims` that s broadcasts to.
const PrimExpr& broadcast_item(const Small& s, const Dims& dims, int64_t flat) {
  int64_t at = 0, step = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    const size_t d = dims.size() - 1 - k;
    const int64_t index = flat % dims[d];
    flat /= dims[d];
    if (k >= s.dims.size()) continue;
    const int64_t extent = s.dims[s.dims.size() - 1 - k];
    if (extent != 1) at += index * step;
    step *= extent;
  }
  return s.items[size_t(at)];
}

struct Folder {
  NodeContext& n;
  const std::string& op;
  SmallRef a, b, c;

  std::optional<Values> one(DataType t, Dims dims, Items items) {
    return Values{Value(small_of(t, std::move(dims), std::move(items)))};
  }

  std::optional<Values> elementwise2() {
    if (!a || !b) return {};
    Dims dims;
    if (!broadcast(a->dims, b->dims, &dims) || count_of(dims) > kMaxSmall || a->dtype != b->dtype) return {};
    Items out;
    const bool comparison =
        op == "Equal" || op == "Less" || op == "Greater" || op == "LessOrEqual" || op == "GreaterOrEqual";
    const bool logic = op == "And" || op == "Or";
    if (op == "Mod" && n.attr_int("fmod", 0) != 0) return {};
    for (int64_t i = 0; i < count_of(dims); ++i) {
      const PrimExpr &x = broadcast_item(*a, dims, i), &y = broadcast_item(*b, dims, i);
      PrimExpr r;
      if (comparison) {
        const auto o = compare(x, y);
        if (!o) return {};
        r = integer(boolean, op == "Equal"         ? *o == 0
                             : op == "Less"        ? *o < 0
                             : op == "Greater"     ? *o > 0
                             : op == "LessOrEqual" ? *o <= 0
                                                   : *o >= 0);
      } else if (logic) {
        const auto p = tir::as_int(x), q = tir::as_int(y);
        if (!p || !q) return {};
        r = integer(boolean, op == "And" ? *p && *q : *p || *q);
      } else {
        r = arithmetic(op, a->dtype, x, y);
      }
      if (!r) return {};
      out.push_back(r);
    }
    return one(comparison ? boolean : a->dtype, dims, std::move(out));
  }

  std::optional<Values> elementwise1() {
    Items out;
    for (const PrimExpr& e : a->items) {
      const auto v = number_of(e);
      PrimExpr r;
      if (op == "Floor" || op == "Ceil" || op == "Round") {
        if (v)
          r = number(a->dtype, op == "Floor"  ? std::floor(*v)
                               : op == "Ceil" ? std::ceil(*v)
                                              : std::nearbyint(*v));
        else if (exact_integer(e))
          r = e;
      } else if (op == "Sqrt") {
        if (v) r = number(a->dtype, std::sqrt(*v));
      } else if (op == "Not") {
        if (v) r = integer(boolean, *v == 0);
      } else if (op == "Abs") {
        if (v)
          r = a->dtype.is_float()                  ? number(a->dtype, std::abs(*v))
              : *tir::as_int(e) < 0 && !is_huge(e) ? negative(e)
                                                   : e;
        else if (not_negative(e))
          r = e;
      } else if (op == "Neg") {
        if (v)
          r = a->dtype.is_float() ? number(a->dtype, -*v) : negative(e);
        else if (a->dtype == i64)
          r = tidy(PrimExpr(0) - e);
      }
      if (!r) return {};
      out.push_back(r);
    }
    return one(a->dtype, a->dims, std::move(out));
  }

  std::optional<Values> shape() {
    std::optional<Array<PrimExpr>> s;
    if (SmallRef known = n.small(0)) {
      s.emplace();
      for (int64_t d : known->dims) s->push_back(PrimExpr(d));
    } else {
      s = graph::known_shape(n.in(0));
    }
    if (!s) return {};
    const int64_t r = int64_t(s->size());
    if (op == "Size") {
      PrimExpr total = 1;
      for (const PrimExpr& d : *s) total = total * d;
      return one(i64, {}, {tidy(total)});
    }
    auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + r : v, 0, r); };
    const int64_t begin = clamp(n.attr_int("start", 0)), end = std::max(begin, clamp(n.attr_int("end", r)));
    Items out;
    for (int64_t i = begin; i < end; ++i) out.push_back((*s)[size_t(i)]);
    const int64_t count = int64_t(out.size());
    return one(i64, {count}, std::move(out));
  }

  std::optional<Values> gather() {
    if (!a || !b || a->dims.empty()) return {};
    const auto index = ints_of(*b);
    if (!index) return {};
    const int64_t axis = n.axis(n.attr_int("axis", 0), a->rank());
    const int64_t extent = a->dims[size_t(axis)];
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < axis; ++i) outer *= a->dims[size_t(i)];
    for (int64_t i = axis + 1; i < a->rank(); ++i) inner *= a->dims[size_t(i)];
    if (outer * inner * int64_t(index->size()) > kMaxSmall) return {};
    Items out;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i : *index) {
        if (i < -extent || i >= extent)
          n.malformed(fmt::format("index {} of Gather is outside of {} elements", i, extent));
        for (int64_t k = 0; k < inner; ++k)
          out.push_back(a->items[size_t((o * extent + (i < 0 ? i + extent : i)) * inner + k)]);
      }
    Dims dims(a->dims.begin(), a->dims.begin() + axis);
    dims.insert(dims.end(), b->dims.begin(), b->dims.end());
    dims.insert(dims.end(), a->dims.begin() + axis + 1, a->dims.end());
    return one(a->dtype, dims, std::move(out));
  }

  std::optional<Values> concat() {
    std::vector<SmallRef> parts;
    for (size_t i = 0; i < n.inputs(); ++i) {
      parts.push_back(n.small(i));
      if (!parts.back() || parts.back()->rank() != 1 || parts.back()->dtype != parts[0]->dtype) return {};
    }
    if (parts.empty()) return {};
    n.axis(n.need_int("axis"), 1);
    Items out;
    for (const SmallRef& p : parts) out.insert(out.end(), p->items.begin(), p->items.end());
    const int64_t count = int64_t(out.size());
    if (count > kMaxSmall) return {};
    return one(parts[0]->dtype, {count}, std::move(out));
  }

  std::optional<Dims> axes_of(const char* attribute, size_t input) {
    if (n.since < 13) return n.attr_ints(attribute);
    if (!n.has(input)) return Dims{};
    SmallRef s = n.small(input);
    if (!s) return {};
    return ints_of(*s);
  }

  std::optional<Values> unsqueeze(bool add) {
    auto axes = axes_of("axes", 1);
    if (!axes) return {};
    const int64_t r = a->rank() + (add ? int64_t(axes->size()) : 0);
    std::set<int64_t> at;
    for (int64_t x : *axes)
      if (!at.insert(n.axis(x, r)).second) n.malformed(fmt::format("axis {} is given twice", x));
    Dims dims;
    if (add) {
      for (int64_t i = 0, k = 0; i < r; ++i) dims.push_back(at.count(i) ? 1 : a->dims[size_t(k++)]);
    } else {
      for (int64_t i = 0; i < r; ++i) {
        const bool drop = at.empty() ? a->dims[size_t(i)] == 1 : at.count(i) > 0;
        if (drop && a->dims[size_t(i)] != 1)
          n.malformed(fmt::format("axis {} of extent {} cannot be squeezed", i, a->dims[size_t(i)]));
        if (!drop) dims.push_back(a->dims[size_t(i)]);
      }
    }
    return one(a->dtype, dims, a->items);
  }

  std::optional<Values> slice() {
    if (!a || a->rank() < 1) return {};
    Dims starts, ends, axes{0}, steps{1};
    if (n.since < 10) {
      starts = n.attr_ints("starts"), ends = n.attr_ints("ends");
    } else {
      for (size_t i = 1; i <= 4; ++i) {
        if (!n.has(i)) continue;
        SmallRef s = n.small(i);
        const auto v = s ? ints_of(*s) : std::nullopt;
        if (!v) return {};
        (i == 1 ? starts : i == 2 ? ends : i == 3 ? axes : steps) = *v;
      }
    }
    if (starts.size() != 1 || ends.size() != 1 || axes.size() != 1 || steps.size() != 1 || steps[0] == 0)
      return {};
    const int64_t axis = n.axis(axes[0], a->rank()), r = a->dims[size_t(axis)], step = steps[0];
    auto clamp = [&](int64_t v) {
      return std::clamp<int64_t>(v < 0 ? (v < -r ? -1 : v + r) : v, step > 0 ? 0 : -1, step > 0 ? r : r - 1);
    };
    Dims picked;
    const int64_t e = clamp(ends[0]), first = r > 0 ? std::max<int64_t>(clamp(starts[0]), 0) : e;
    for (int64_t i = first; step > 0 ? i < e : i > e;) {
      picked.push_back(i);
      if (step > r || step < -r) break;
      i += step;
    }
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < axis; ++i) outer *= a->dims[size_t(i)];
    for (int64_t i = axis + 1; i < a->rank(); ++i) inner *= a->dims[size_t(i)];
    Items out;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i : picked)
        for (int64_t k = 0; k < inner; ++k) out.push_back(a->items[size_t((o * r + i) * inner + k)]);
    Dims dims = a->dims;
    dims[size_t(axis)] = int64_t(picked.size());
    return one(a->dtype, dims, std::move(out));
  }

  std::optional<Values> reshape() {
    if (!a || !b) return {};
    const auto want = ints_of(*b);
    if (!want) return {};
    Dims dims;
    int64_t rest = -1, product = 1;
    for (size_t i = 0; i < want->size(); ++i) {
      int64_t d = (*want)[i];
      if (d == 0 && n.attr_int("allowzero", 0) == 0 && i < a->dims.size()) d = a->dims[i];
      if (d < -1 || (d == -1 && rest >= 0)) return {};
      if (d == -1) rest = int64_t(i), d = 1;
      if (__builtin_mul_overflow(product, d, &product)) return {};
      dims.push_back(d);
    }
    const int64_t total = int64_t(a->items.size());
    if (rest >= 0) {
      if (product == 0 || total % product != 0) return {};
      dims[size_t(rest)] = total / product;
    }
    if (count_of(dims) != total) return {};
    return one(a->dtype, dims, a->items);
  }

  std::optional<Values> range() {
    if (!a || !b || !c || a->items.size() != 1 || b->items.size() != 1 || c->items.size() != 1) return {};
    const auto s = tir::as_int(a->items[0]), e = tir::as_int(b->items[0]), d = tir::as_int(c->items[0]);
    const auto fits = [](int64_t v) { return v < int64_t(1) << 60 && v > -(int64_t(1) << 60); };
    if (!s || !e || !d || *d == 0 || !fits(*s) || !fits(*e) || !fits(*d)) return {};
    const int64_t count = std::max<int64_t>(0, *d > 0 ? (*e - *s + *d - 1) / *d : (*s - *e - *d - 1) / -*d);
    if (count > kMaxSmall) return {};
    Items out;
    for (int64_t i = 0; i < count; ++i) out.push_back(integer(a->dtype, *s + i * *d));
    return one(a->dtype, {count}, std::move(out));
  }

  std::optional<Values> expand(const Dims& dims, const Small& from) {
    if (count_of(dims) > kMaxSmall || count_of(dims) < 0) return {};
    Items out;
    for (int64_t i = 0; i < count_of(dims); ++i) out.push_back(broadcast_item(from, dims, i));
    return one(from.dtype, dims, std::move(out));
  }

  std::optional<Values> constant_of_shape() {
    const auto dims = a->rank() <= 1 ? ints_of(*a) : std::nullopt;
    if (!dims || a->rank() != 1) return {};
    for (int64_t d : *dims)
      if (d < 0) return {};
    if (count_of(*dims) > kMaxSmall) return {};
    SmallRef v = small_of(f32, {1}, {number(f32, 0)});
    if (auto* t = n.attr_tensor("value")) {
      const Expr k = n.importer.constant_of(*t, n.where());
      v = small_of(k.as<graph::Constant>()->data);
    }
    if (!v || v->items.size() != 1) return {};
    return one(v->dtype, *dims, Items(size_t(count_of(*dims)), v->items[0]));
  }

  std::optional<Values> where() {
    if (!a || !b || !c || b->dtype != c->dtype) return {};
    Dims d1, dims;
    if (!broadcast(a->dims, b->dims, &d1) || !broadcast(d1, c->dims, &dims) || count_of(dims) > kMaxSmall)
      return {};
    Items out;
    for (int64_t i = 0; i < count_of(dims); ++i) {
      const auto p = tir::as_int(broadcast_item(*a, dims, i));
      if (!p) return {};
      out.push_back(broadcast_item(*p ? *b : *c, dims, i));
    }
    return one(b->dtype, dims, std::move(out));
  }

  /// ReduceProd, ReduceSum, ReduceMax, ReduceMin of a vector to one element.
  std::optional<Values> reduce() {
    if (a->rank() != 1 || a->items.empty()) return {};
    const int64_t since_input = op == "ReduceSum" ? 13 : 18;
    Dims axes = n.attr_ints("axes");
    if (n.opset >= since_input && n.has(1)) {
      SmallRef s = n.small(1);
      const auto v = s ? ints_of(*s) : std::nullopt;
      if (!v) return {};
      axes = *v;
    }
    if (axes.empty() && n.attr_int("noop_with_empty_axes", 0) != 0) return {};
    for (int64_t axis : axes) n.axis(axis, 1);
    const std::string step = op == "ReduceProd"  ? "Mul"
                             : op == "ReduceSum" ? "Add"
                             : op == "ReduceMax" ? "Max"
                                                 : "Min";
    PrimExpr r = a->items[0];
    for (size_t i = 1; i < a->items.size(); ++i) {
      r = arithmetic(step, a->dtype, r, a->items[i]);
      if (!r) return {};
    }
    return one(a->dtype, n.attr_int("keepdims", 1) != 0 ? Dims{1} : Dims{}, {r});
  }

  std::optional<Values> split() {
    if (a->rank() != 1) return {};
    n.axis(n.attr_int("axis", 0), 1);
    const int64_t total = int64_t(a->items.size()), parts = n.node.output_size();
    Dims sizes = n.since < 13 ? n.attr_ints("split") : Dims();
    if (n.since >= 13 && n.has(1)) {
      SmallRef s = n.small(1);
      const auto v = s ? ints_of(*s) : std::nullopt;
      if (!v) return {};
      sizes = *v;
    }
    if (sizes.empty()) {
      const int64_t each = (total + parts - 1) / std::max<int64_t>(1, parts);
      for (int64_t i = 0, left = total; i < parts; ++i, left -= each)
        sizes.push_back(std::clamp<int64_t>(left, 0, each));
    }
    Values out;
    int64_t at = 0;
    for (int64_t s : sizes) {
      if (s < 0 || s > total - at) return {};
      out.push_back(small_of(a->dtype, {s}, Items(a->items.begin() + at, a->items.begin() + at + s)));
      at += s;
    }
    if (at != total || int64_t(out.size()) != parts) return {};
    return out;
  }

  std::optional<Values> nonzero() {
    if (a->rank() != 1 || !a->all_const()) return {};
    Items out;
    for (size_t i = 0; i < a->items.size(); ++i)
      if (*number_of(a->items[i]) != 0) out.push_back(int64_t(i));
    const int64_t count = int64_t(out.size());
    return one(i64, {1, count}, std::move(out));
  }

  std::optional<Values> transpose() {
    Dims perm = n.attr_ints("perm");
    const int64_t r = a->rank();
    if (perm.empty())
      for (int64_t i = 0; i < r; ++i) perm.push_back(r - 1 - i);
    if (r < 2 ? perm == Dims(size_t(r), 0) : perm == Dims{0, 1}) return one(a->dtype, a->dims, a->items);
    if (r != 2 || perm != Dims{1, 0}) return {};
    Items out;
    for (int64_t j = 0; j < a->dims[1]; ++j)
      for (int64_t i = 0; i < a->dims[0]; ++i) out.push_back(a->items[size_t(i * a->dims[1] + j)]);
    return one(a->dtype, {a->dims[1], a->dims[0]}, std::move(out));
  }
};

}  // namespace

std::optional<Values> fold_node(NodeContext& n) {
  const std::string& op = n.op_type();
  Folder f{n, op, {}, {}, {}};
  if ((op == "Shape" || op == "Size") && n.has(0)) return f.shape();
  for (size_t i = 0; i < n.inputs(); ++i)
    if (n.has(i) && !n.small(i)) return std::nullopt;
  if (n.inputs() == 0 || !n.has(0)) return std::nullopt;
  f.a = n.small(0), f.b = n.small(1), f.c = n.small(2);
  static const std::set<std::string_view> binary{"Add",  "Sub",     "Mul",         "Div",
                                                 "Mod",  "Min",     "Max",         "Equal",
                                                 "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
                                                 "And",  "Or"};
  static const std::set<std::string_view> unary{"Floor", "Ceil", "Round", "Sqrt", "Not", "Abs", "Neg"};
  if (binary.count(op)) return n.inputs() == 2 ? f.elementwise2() : std::nullopt;
  if (unary.count(op)) return f.elementwise1();
  if (op == "Identity") return Values{Value(f.a)};
  if (op == "Cast") {
    const DataType t = element_type(int(n.need_int("to")));
    if (!(t.is_integer() || t.is_bool() || t == f32 || t == f64) || t.bits < 8) return std::nullopt;
    Items out;
    for (const PrimExpr& e : f.a->items) {
      out.push_back(convert(t, e));
      if (!out.back()) return std::nullopt;
    }
    return f.one(t, f.a->dims, std::move(out));
  }
  if (op == "Gather") return f.gather();
  if (op == "Concat") return f.concat();
  if (op == "Unsqueeze") return f.unsqueeze(true);
  if (op == "Squeeze") return f.unsqueeze(false);
  if (op == "Slice") return f.slice();
  if (op == "Reshape") return f.reshape();
  if (op == "Flatten" && f.a->rank() == 1) {
    const int64_t axis = n.attr_int("axis", 1), count = int64_t(f.a->items.size());
    if (axis < -1 || axis > 1) return std::nullopt;
    return f.one(f.a->dtype, axis == 1 ? Dims{count, 1} : Dims{1, count}, f.a->items);
  }
  if (op == "Range") return f.range();
  if (op == "ConstantOfShape") return f.constant_of_shape();
  if (op == "Where") return f.where();
  if (op == "ReduceProd" || op == "ReduceSum" || op == "ReduceMax" || op == "ReduceMin") return f.reduce();
  if (op == "Split") return f.split();
  if (op == "NonZero") return f.nonzero();
  if (op == "Transpose") return f.transpose();
  if (op == "Expand") {
    const auto want = f.b && f.b->rank() == 1 ? ints_of(*f.b) : std::nullopt;
    Dims dims;
    if (!want || !broadcast(f.a->dims, *want, &dims)) return std::nullopt;
    for (int64_t d : dims)
      if (d < 0) return std::nullopt;
    return f.expand(dims, *f.a);
  }
  if (op == "Tile" && f.a->rank() == 1) {
    const auto r = f.b ? ints_of(*f.b) : std::nullopt;
    if (!r || r->size() != 1 || (*r)[0] < 0 || (*r)[0] > kMaxSmall ||
        (*r)[0] * int64_t(f.a->items.size()) > kMaxSmall)
      return std::nullopt;
    Items out;
    for (int64_t i = 0; i < (*r)[0]; ++i) out.insert(out.end(), f.a->items.begin(), f.a->items.end());
    const int64_t count = int64_t(out.size());
    return f.one(f.a->dtype, {count}, std::move(out));
  }
  return std::nullopt;
}

}  // namespace tenon::onnx
