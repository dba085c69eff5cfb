// SPDX-License-Identifier: Apache-2.0
// The strategies of operators that bring rows in order: which way for how many elements of which type.
#include <fmt/format.h>

#include "op/attrs_sort.h"
#include "op/family.h"
#include "op/strategy.h"
#include "op/topk.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// The size of an axis of a tensor; null: its shape is not known.
PrimExpr size_along(const graph::TensorType& t, int64_t axis) {
  const auto shape = shape_of(t);
  return shape ? (*shape)[size_t(normal_axis(axis, int64_t(shape->size())))] : PrimExpr();
}
std::optional<int64_t> known_along(const graph::TensorType& t, int64_t axis) {
  const PrimExpr n = size_along(t, axis);
  return n ? tir::as_int(n) : std::nullopt;
}
std::string no_codes_along(const Call& call, int64_t axis) {
  const auto& x = tensor_arg(call, 0);
  const PrimExpr n = size_along(x, axis);
  return no_codes(x.dtype, n ? n : PrimExpr(0));
}

// ---------------------------------------------------------------- the first k
/// How many; null: it is not known how many there are.
PrimExpr count_wanted(const Call& call) {
  const auto* types = call.type ? call.type.as<graph::TupleType>() : nullptr;
  const auto* y = types ? types->items[0].as<graph::TensorType>() : nullptr;
  return y ? size_along(*y, attrs_of<TopKAttrs>(call).axis) : PrimExpr();
}
std::optional<int64_t> first_wanted(const Call& call) {
  const PrimExpr k = count_wanted(call);
  return k ? tir::as_int(k) : std::nullopt;
}
std::string too_many_of_row(const Call& call, const Target&) {
  const PrimExpr all = size_along(tensor_arg(call, 0), attrs_of<TopKAttrs>(call).axis),
                 wanted = count_wanted(call);
  if (!all || !wanted || !much_of_row(wanted, all)) return {};
  if (const auto k = tir::as_int(wanted))
    return fmt::format("{} of {} are more than a heap gains on", *k, *tir::as_int(all));
  return "the whole row is wanted";
}
std::string no_insertion(const Call& call, const Target&) {
  if (std::string none = no_codes_along(call, attrs_of<TopKAttrs>(call).axis); !none.empty()) return none;
  const auto wanted = first_wanted(call);
  if (!wanted) return "how many are wanted is not known";
  const graph::TensorType& x = tensor_arg(call, 0);
  const auto shape = shape_of(x);
  const bool across =
      shape && side_by_side(*shape, size_t(normal_axis(attrs_of<TopKAttrs>(call).axis, x.ndim)));
  const int64_t most = across ? kMostInsertedAcross : kMostInserted;
  if (*wanted <= most) return {};
  return fmt::format("{} are more than the {} that are kept in order", *wanted, most);
}
Strategy topk_strategy() {
  return Strategy([](const Call&, const Target&) {
    auto by = [](FirstWay way) {
      return [way](const Call& c, const Tensors& in) { return define_topk(c, in, way); };
    };
    OpImpl insert{
        .name = "topk.insert", .priority = 12, .refuse = no_insertion, .define = by(FirstWay::insert)};
    OpImpl heap{.name = "topk.heap", .priority = 10, .define = by(FirstWay::heap)};
    heap.refuse = [](const Call& call, const Target& target) {
      std::string none = no_codes_along(call, attrs_of<TopKAttrs>(call).axis);
      return none.empty() ? too_many_of_row(call, target) : none;
    };
    OpImpl wide{
        .name = "topk.wide_heap", .priority = 8, .refuse = too_many_of_row, .define = by(FirstWay::plain)};
    OpImpl sort{.name = "topk.sort", .priority = 5, .define = define_topk_by_sort};
    return std::vector<OpImpl>{std::move(insert), std::move(heap), std::move(wide), std::move(sort)};
  });
}

// ---------------------------------------------------------------- whole rows
Strategy sort_strategy(bool positions) {
  return Strategy([positions](const Call& call, const Target&) {
    auto way = [&](const char* name, int priority, SortWay by) {
      OpImpl impl{.name = short_name(call) + "." + name, .priority = priority};
      impl.define = [positions, by](const Call& c, const Tensors& in) {
        return define_sort(c, in, positions, by);
      };
      impl.refuse = [by](const Call& c, const Target&) -> std::string {
        const int64_t axis = attrs_of<SortAttrs>(c).axis;
        if (by == SortWay::plain) return {};
        if (std::string none = no_codes_along(c, axis); !none.empty()) return none;
        const auto n = known_along(tensor_arg(c, 0), axis);
        if (by == SortWay::ranks && !n) return "the length of a row is not known";
        if (by == SortWay::ranks && *n > kMostRanked)
          return fmt::format("each of {} elements would be compared with all others", *n);
        if (by == SortWay::radix && n && *n < kLeastRadix)
          return fmt::format("{} elements are fewer than its counters pay for", *n);
        return {};
      };
      return impl;
    };
    return std::vector<OpImpl>{way("ranks", 12, SortWay::ranks), way("radix", 10, SortWay::radix),
                               way("merge", 8, SortWay::merge), way("wide_merge", 5, SortWay::plain)};
  });
}

const bool order_strategies_registered = [] {
  register_strategy("topk", topk_strategy());
  register_strategy("sort", sort_strategy(false));
  register_strategy("argsort", sort_strategy(true));
  return true;
}();

}  // namespace
}  // namespace tenon::op
