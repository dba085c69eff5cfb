// SPDX-License-Identifier: Apache-2.0
// Evaluates nodes whose inputs are small known tensors: the shape arithmetic of exported models.
#include <algorithm>
#include <set>

#include "analysis/analyzer.h"
#include "import/onnx/importer.h"
#include "import/onnx/small_arithmetic.h"

namespace tenon::onnx {

namespace {

using Items = std::vector<PrimExpr>;
using Dims = std::vector<int64_t>;

int64_t count_of(const Dims& d) {
  int64_t n = 1;
  for (int64_t x : d)
    if (__builtin_mul_overflow(n, x, &n)) return INT64_MAX;
  return n;
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

  /// Small input i as integers; nothing where they are not all known.
  std::optional<Dims> ints(size_t i) {
    const SmallRef s = n.small(i);
    return s ? ints_of(*s) : std::nullopt;
  }

  std::optional<Values> elementwise2() {
    Dims dims;
    if (n.inputs() != 2 || !b || a->dtype != b->dtype) return {};
    if (!broadcast(a->dims, b->dims, &dims) || count_of(dims) > kMaxSmall) return {};
    if (op == "Mod" && n.attr_int("fmod", 0) != 0) return {};
    Items out;
    for (int64_t i = 0; i < count_of(dims); ++i) {
      out.push_back(arithmetic(op, a->dtype, broadcast_item(*a, dims, i), broadcast_item(*b, dims, i)));
      if (!out.back()) return {};
    }
    return one(compares(op) ? boolean : a->dtype, dims, std::move(out));
  }

  std::optional<Values> elementwise1() {
    Items out;
    for (const PrimExpr& e : a->items) {
      out.push_back(arithmetic(op, a->dtype, e));
      if (!out.back()) return {};
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
      return one(i64, {}, {simplify(total)});
    }
    auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + r : v, 0, r); };
    const int64_t begin = clamp(n.attr_int("start", 0)), end = std::max(begin, clamp(n.attr_int("end", r)));
    Items out;
    for (int64_t i = begin; i < end; ++i) out.push_back((*s)[size_t(i)]);
    const int64_t count = int64_t(out.size());
    return one(i64, {count}, std::move(out));
  }

  std::optional<Values> gather() {
    const auto index = ints(1);
    if (!index || a->dims.empty()) return {};
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
    return n.has(input) ? ints(input) : Dims{};
  }

  /// The axes of Squeeze and Unsqueeze, of a tensor of rank r, each once.
  std::set<int64_t> distinct(const Dims& axes, int64_t r) {
    std::set<int64_t> at;
    for (int64_t x : axes)
      if (!at.insert(n.axis(x, r)).second) n.malformed(fmt::format("axis {} is given twice", x));
    return at;
  }

  std::optional<Values> unsqueeze() {
    const auto axes = axes_of("axes", 1);
    if (!axes) return {};
    const int64_t r = a->rank() + int64_t(axes->size());
    const std::set<int64_t> at = distinct(*axes, r);
    Dims dims;
    for (int64_t i = 0, k = 0; i < r; ++i) dims.push_back(at.count(i) ? 1 : a->dims[size_t(k++)]);
    return one(a->dtype, dims, a->items);
  }

  std::optional<Values> squeeze() {
    const auto axes = axes_of("axes", 1);
    if (!axes) return {};
    const std::set<int64_t> at = distinct(*axes, a->rank());
    Dims dims;
    for (int64_t i = 0; i < a->rank(); ++i) {
      const int64_t extent = a->dims[size_t(i)];
      const bool drop = at.empty() ? extent == 1 : at.count(i) > 0;
      if (drop && extent != 1) n.malformed(fmt::format("axis {} of extent {} cannot be squeezed", i, extent));
      if (!drop) dims.push_back(extent);
    }
    return one(a->dtype, dims, a->items);
  }

  std::optional<Values> slice() {
    if (a->rank() < 1) return {};
    Dims starts, ends, axes{0}, steps{1};
    if (n.since < 10) {
      starts = n.attr_ints("starts"), ends = n.attr_ints("ends");
    } else {
      for (size_t i = 1; i <= 4; ++i) {
        if (!n.has(i)) continue;
        const auto v = ints(i);
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
    const auto want = ints(1);
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
    if (!b || !c || a->items.size() != 1 || b->items.size() != 1 || c->items.size() != 1) return {};
    const auto s = tir::as_int(a->items[0]), e = tir::as_int(b->items[0]), d = tir::as_int(c->items[0]);
    const auto fits = [](int64_t v) { return v < int64_t(1) << 60 && v > -(int64_t(1) << 60); };
    if (!s || !e || !d || *d == 0 || !fits(*s) || !fits(*e) || !fits(*d)) return {};
    const int64_t count = std::max<int64_t>(0, *d > 0 ? (*e - *s + *d - 1) / *d : (*s - *e - *d - 1) / -*d);
    if (count > kMaxSmall) return {};
    Items out;
    for (int64_t i = 0; i < count; ++i) out.push_back(integer(a->dtype, *s + i * *d));
    return one(a->dtype, {count}, std::move(out));
  }

  std::optional<Values> expand() {
    const auto want = b && b->rank() == 1 ? ints_of(*b) : std::nullopt;
    Dims dims;
    if (!want || !broadcast(a->dims, *want, &dims)) return {};
    if (std::ranges::any_of(dims, [](int64_t d) { return d < 0; }) || count_of(dims) > kMaxSmall) return {};
    Items out;
    for (int64_t i = 0; i < count_of(dims); ++i) out.push_back(broadcast_item(*a, dims, i));
    return one(a->dtype, dims, std::move(out));
  }

  /// Copies of a vector, one behind the other.
  std::optional<Values> tile() {
    const auto r = a->rank() == 1 ? ints(1) : std::nullopt;
    if (!r || r->size() != 1 || (*r)[0] < 0 || (*r)[0] > kMaxSmall) return {};
    const int64_t count = (*r)[0] * int64_t(a->items.size());
    if (count > kMaxSmall) return {};
    Items out;
    for (int64_t i = 0; i < (*r)[0]; ++i) out.insert(out.end(), a->items.begin(), a->items.end());
    return one(a->dtype, {count}, std::move(out));
  }

  std::optional<Values> flatten() {
    const int64_t axis = n.attr_int("axis", 1), count = int64_t(a->items.size());
    if (a->rank() != 1 || axis < -1 || axis > 1) return {};
    return one(a->dtype, axis == 1 ? Dims{count, 1} : Dims{1, count}, a->items);
  }

  std::optional<Values> identity() { return one(a->dtype, a->dims, a->items); }

  std::optional<Values> cast() {
    const DataType t = element_type(int(n.need_int("to")));
    if (!(t.is_integer() || t.is_bool() || t == f32 || t == f64) || t.bits < 8) return {};
    Items out;
    for (const PrimExpr& e : a->items) {
      out.push_back(convert(t, e));
      if (!out.back()) return {};
    }
    return one(t, a->dims, std::move(out));
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
    if (!b || !c || b->dtype != c->dtype) return {};
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
      const auto v = ints(1);
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
      const auto v = ints(1);
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
    if (r < 2 ? perm == Dims(size_t(r), 0) : perm == Dims{0, 1}) return identity();
    if (r != 2 || perm != Dims{1, 0}) return {};
    Items out;
    for (int64_t j = 0; j < a->dims[1]; ++j)
      for (int64_t i = 0; i < a->dims[0]; ++i) out.push_back(a->items[size_t(i * a->dims[1] + j)]);
    return one(a->dtype, {a->dims[1], a->dims[0]}, std::move(out));
  }
};

using Fold = std::optional<Values> (Folder::*)();
struct Folded {
  Fold fold;
  std::set<std::string_view> operators;
};

Fold fold_of(const std::string& op) {
  static const std::vector<Folded> folds = {
      {&Folder::elementwise1, {"Floor", "Ceil", "Round", "Sqrt", "Not", "Abs", "Neg"}},
      {&Folder::elementwise2,
       {"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "And", "Or", "Equal", "Less", "Greater",
        "LessOrEqual", "GreaterOrEqual"}},
      {&Folder::reduce, {"ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin"}},
      {&Folder::cast, {"Cast"}},
      {&Folder::concat, {"Concat"}},
      {&Folder::constant_of_shape, {"ConstantOfShape"}},
      {&Folder::expand, {"Expand"}},
      {&Folder::flatten, {"Flatten"}},
      {&Folder::gather, {"Gather"}},
      {&Folder::identity, {"Identity"}},
      {&Folder::nonzero, {"NonZero"}},
      {&Folder::range, {"Range"}},
      {&Folder::reshape, {"Reshape"}},
      {&Folder::slice, {"Slice"}},
      {&Folder::split, {"Split"}},
      {&Folder::squeeze, {"Squeeze"}},
      {&Folder::tile, {"Tile"}},
      {&Folder::transpose, {"Transpose"}},
      {&Folder::unsqueeze, {"Unsqueeze"}},
      {&Folder::where, {"Where"}}};
  for (const Folded& f : folds)
    if (f.operators.count(op)) return f.fold;
  return nullptr;
}

}  // namespace

std::optional<Values> fold_node(NodeContext& n) {
  const std::string& op = n.op_type();
  Folder f{n, op, {}, {}, {}};
  if ((op == "Shape" || op == "Size") && n.has(0)) return f.shape();
  const Fold fold = fold_of(op);
  if (!fold || n.inputs() == 0 || !n.has(0)) return std::nullopt;
  for (size_t i = 0; i < n.inputs(); ++i)
    if (n.has(i) && !n.small(i)) return std::nullopt;
  f.a = n.small(0), f.b = n.small(1), f.c = n.small(2);
  return (f.*fold)();
}

}  // namespace tenon::onnx
