// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression. A box at hand is compared with a vector of those that were kept at a time, whose
// corners lie side by side.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_vision.h"
#include "op/boxes.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using tir::Buffer, tir::Stmt;
using Tensors = std::vector<te::Tensor>;

constexpr int64_t kCompared = 16;  ///< boxes at a time
constexpr int64_t kCorners = 4;    ///< numbers of a box

PrimExpr room(const Call& call, const PrimExpr& boxes) {
  const int64_t most = attrs_of<NmsAttrs>(call).max_boxes;
  return most > 0 ? simplify(tir::min(boxes, PrimExpr(most))) : boxes;
}
Type infer_nms(InferContext& ctx) {
  for (size_t i = 0; i < 2; ++i) {
    if (!ctx.expect_rank(ctx.tensor(i), i ? "scores" : "boxes", 3)) return {};
    if (!ctx.expect_domain(ctx.tensor(i).dtype, Domain::floating)) return {};
  }
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  Shape boxes, scores;
  if (!ctx.expect_shape(ctx.tensor(0), ctx.name(0), boxes) ||
      !ctx.expect_shape(ctx.tensor(1), ctx.name(1), scores))
    return {};
  if (!expect_boxes(ctx, boxes, "boxes")) return {};
  if (!ctx.require_equal(boxes[0], scores[0]) || !ctx.require_equal(boxes[1], scores[2]))
    return ctx.error(fmt::format("boxes {} and scores {} do not belong together", show(boxes), show(scores)),
                     "scores are (batch, classes, boxes)");
  for (size_t i = 2; i < 5; ++i)
    if (ctx.tensor(i).ndim > 0) return ctx.error(ctx.name(i) + " must be a scalar");
  if (!ctx.expect_domain(ctx.tensor(2).dtype, Domain::integer)) return {};
  const PrimExpr most = simplify(scores[0] * scores[1] * room(ctx.call, boxes[1]));
  return graph::tuple_type({make_type(Shape{most, PrimExpr(3)}, 2, i64), make_type(Shape(), 0, i64)});
}

/// One run: buffers and sizes.
struct Suppression {
  Array<Buffer> in;     ///< boxes, scores, most boxes, both thresholds, boxes by falling score
  Buffer found, count;  ///< results
  Buffer state, kept;   ///< boxes found before this class, is the box at hand covered; corners of those kept
  PrimExpr classes, n, limit;
  DataType number;
  bool centred;

  PrimExpr total() const { return tir::load(count, {}); }
  PrimExpr before() const { return tir::load(state, {PrimExpr(0)}); }
  PrimExpr covered() const { return tir::load(state, {PrimExpr(1)}); }

  /// `c` against those kept of its class, until one covers it.
  Stmt compare(const Corners& c, const PrimExpr& number_kept) const {
    auto lanes = [&](const PrimExpr& e) { return splat(e, kCompared); };
    const Corners all{lanes(c.low_y), lanes(c.low_x), lanes(c.high_y), lanes(c.high_x)};
    const PrimExpr most = lanes(tir::cast(number, tir::load(in[3], {})));
    auto block = [&](const PrimExpr& k) {
      const PrimExpr lane = make<tir::Ramp>(k * kCompared, PrimExpr(1), kCompared);
      auto of = [&](int64_t i) { return tir::load(kept, {PrimExpr(i), lane}); };
      const PrimExpr share = overlap(all, Corners{of(0), of(1), of(2), of(3)});
      const PrimExpr some = tir::logical_and(tir::gt(share, most), tir::lt(lane, lanes(number_kept)));
      const PrimExpr any =
          tir::call(i32, "tir.vector_reduce_max", {tir::cast(i32.with_lanes(int(kCompared)), some)});
      return when(tir::eq(covered(), PrimExpr(0)), tir::store(state, tir::cast(i64, any), {PrimExpr(1)}));
    };
    return tir::seq({tir::store(state, PrimExpr(0), {PrimExpr(1)}),
                     each("block", simplify(tir::ceildiv(number_kept, PrimExpr(kCompared))), block)});
  }

  Stmt keep(const PrimExpr& b, const PrimExpr& c, const PrimExpr& box, const Corners& at,
            const PrimExpr& place) const {
    const PrimExpr corner[] = {at.low_y, at.low_x, at.high_y, at.high_x};
    Array<Stmt> all;
    for (int64_t i = 0; i < kCorners; ++i) all.push_back(tir::store(kept, corner[i], {PrimExpr(i), place}));
    const PrimExpr row[] = {b, c, box};
    for (int64_t i = 0; i < int64_t(std::size(row)); ++i)
      all.push_back(tir::store(found, row[i], {total(), PrimExpr(i)}));
    all.push_back(tir::store(count, total() + 1, {}));
    return tir::seq(all);
  }

  /// The box that is `rank`-th by score.
  Stmt consider(const PrimExpr& b, const PrimExpr& c, const PrimExpr& rank) const {
    return named("box", tir::load(in[5], {b, c, rank}), [&](const PrimExpr& box) {
      return named("kept", total() - before(), [&](const PrimExpr& place) {
        const PrimExpr high =
            tir::gt(wide(tir::load(in[1], {b, c, box})), tir::cast(number, tir::load(in[4], {})));
        auto number_of = [&](int64_t k) { return tir::load(in[0], {b, box, PrimExpr(k)}); };
        const Corners given = corners(number_of, centred);
        const Stmt work = named("low_y", given.low_y, [&](const PrimExpr& low_y) {
          return named("low_x", given.low_x, [&](const PrimExpr& low_x) {
            return named("high_y", given.high_y, [&](const PrimExpr& high_y) {
              return named("high_x", given.high_x, [&](const PrimExpr& high_x) {
                const Corners at{low_y, low_x, high_y, high_x};
                return tir::seq(
                    {compare(at, place), when(tir::eq(covered(), PrimExpr(0)), keep(b, c, box, at, place))});
              });
            });
          });
        });
        return when(tir::logical_and(high, tir::lt(place, limit)), work);
      });
    });
  }

  Stmt all(const PrimExpr& batch) const {
    auto each_class = [&](const Shape& at) {
      return tir::seq({tir::store(state, total(), {PrimExpr(0)}),
                       each("r", n, [&](const PrimExpr& r) { return consider(at[0], at[1], r); })});
    };
    auto clear = [](const Buffer& b, const PrimExpr& value) {
      return each_of(b->shape, [&](const Shape& at) { return tir::store(b, value, at); });
    };
    return tir::seq({clear(found, PrimExpr(0)), clear(kept, constant(number, 0)),
                     tir::store(count, PrimExpr(0), {}), each_of({batch, classes}, each_class)});
  }
};

/// Classes one after the other, boxes by falling score: each is kept unless it overlaps one that was.
Tensors def_nms(const Call& call, const Tensors& in) {
  const PrimExpr n = in[1].shape()[2];
  const Shape out = output_info(call).shape;
  const te::Tensor order = order_of(in[1], 2, true);
  const DataType number = wide_type(in[1].dtype());
  const PrimExpr places = simplify(tir::ceildiv(room(call, n), PrimExpr(kCompared)) * kCompared);
  auto body = [&](const Array<Buffer>& ins, const Array<Buffer>& outs) {
    const PrimExpr limit = tir::min(tir::cast(i64, tir::load(ins[2], {})), room(call, n));
    return Suppression{ins,     outs[0],
                       outs[1], outs[2],
                       outs[3], in[1].shape()[1],
                       n,       limit,
                       number,  attrs_of<NmsAttrs>(call).center_point_box}
        .all(in[1].shape()[0]);
  };
  const Tensors r = te::external({out, Shape(), Shape{PrimExpr(2)}, Shape{PrimExpr(kCorners), places}},
                                 {i64, i64, i64, number}, {in[0], in[1], in[2], in[3], in[4], order}, body,
                                 "non_max_suppression");
  return {r[0], r[1]};
}

const bool nms_registered = [] {
  register_op(
      "vision.non_max_suppression",
      "Boxes by falling score that overlap no box kept before, per class: (batch, class, box) each, and how "
      "many.",
      FusionKind::opaque, infer_nms, def_nms)
      .argument("boxes", "Tensor", "(batch, boxes, 4)")
      .argument("scores", "Tensor", "(batch, classes, boxes)")
      .argument("max_output_boxes_per_class", "Tensor", "integer scalar")
      .argument("iou_threshold", "Tensor", "scalar: boxes that share more than this are one")
      .argument("score_threshold", "Tensor", "scalar: scores not above it are no boxes")
      .attrs<NmsAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::NmsAttrs>;
