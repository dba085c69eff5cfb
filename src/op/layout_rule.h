// SPDX-License-Identifier: Apache-2.0
// How operators work on other layouts than the program's. A rule (OpDef::layout) sees one call whose operands
// may be there in another layout, and answers with the call that computes its result in one; convert_layout
// drives the rules over a function.
#pragma once
#include <set>

#include "op/build.h"
#include "op/layout.h"
#include "target/target.h"

namespace tenon::op {

/// Channels of a value that lie side by side, with those added behind them that fill the last block.
struct ChannelRun {
  int64_t channels = 0, filled = 0;
  bool operator==(const ChannelRun&) const = default;
};
using ChannelRuns = std::vector<ChannelRun>;

/// A value in another layout than the program's.
struct LaidOut {
  Expr tensor;
  Layout layout;
  /// Elements of axis C: more than the value has where blocks were filled up. What the added ones hold means
  /// nothing.
  int64_t channels = 0;
  /// Where they were added inside, too (parts that were joined); empty: behind the last channel at most.
  ChannelRuns parts = {};
  bool same_layout(const LaidOut& o) const {
    return layout == o.layout && channels == o.channels && parts == o.parts;
  }
  /// The runs of a value of so many channels.
  ChannelRuns runs(int64_t of) const { return parts.empty() ? ChannelRuns{{of, channels}} : parts; }
  /// Another tensor whose channels lie as those of this one.
  LaidOut with(Expr other) const { return {std::move(other), layout, channels, parts}; }
};
/// A value whose channels lie in these runs.
LaidOut in_runs(Expr tensor, Layout layout, const ChannelRuns& runs);

/// One call as a layout rule sees it, and what a rule may do.
class LayoutContext {
 public:
  LayoutContext(const Call& call, Shape shape, DataType dtype, Target target)
      : call(call), shape(std::move(shape)), dtype(dtype), target(std::move(target)) {}
  virtual ~LayoutContext() = default;
  const Call& call;
  const Shape shape;  ///< of the result, in the program's layout
  const DataType dtype;
  const Target target;
  std::set<int64_t> cuts = {};  ///< channels of the result at which slices of it begin

  /// Binds a value in front of the call.
  virtual Expr emit(const Expr& value) = 0;
  /// The variable's value in another layout; null: there is none.
  virtual const LaidOut* laid_out(const Expr& variable) const = 0;
  /// What the variable is bound to; null for parameters.
  virtual Expr definition(const Expr& variable) const = 0;
  /// How many neighbours one dot instruction of the target multiplies; 0: it has none for these types.
  virtual int64_t dot_group(DataType data, DataType weight, DataType sum) const = 0;

  /// A call at the place of this one.
  Expr make(std::string_view op, Array<Expr> args, ObjectRef attrs = {}) const;
  /// Binds a call that prepares an operand; it stands for nothing of the source.
  Expr emit_op(std::string_view op, Array<Expr> args, ObjectRef attrs = {}) {
    return emit(graph::call(graph::get_op(op), std::move(args), std::move(attrs)));
  }
  /// Binds the transformation of x between two layouts.
  Expr emit_transform(const Expr& x, std::string from, std::string to) {
    return emit(
        make("layout_transform", {x}, make_attrs<LayoutTransformAttrs>(std::move(from), std::move(to))));
  }

  // ---- operands
  /// The variable in blocks of channels that are its last axis, none added; null: it is not there so.
  const LaidOut* in_blocks(const Expr& variable) const;
  /// x of the given shape in a layout.
  Expr arranged(const Expr& x, const Shape& shape, const Layout& layout);
  /// x, of the shape (n, c or 1, …), to be combined with `like` element by element; null when that needs a
  /// copy with added channels of what is no constant.
  Expr in_layout_of(const Expr& x, const Shape& shape, const LaidOut& like);
  /// x with zeros behind the `have` elements of an axis, so that it has `want`.
  Expr padded(const Expr& x, int64_t axis, int64_t have, int64_t want);
  /// x with zeros behind each run of an axis.
  Expr filled(const Expr& x, int64_t axis, const ChannelRuns& runs);
  /// The tensor of x, which has so many channels, with zeros in those that were added: a weight of 0 does not
  /// stop what is no number.
  Expr with_zeros(const LaidOut& x, int64_t channels);

  // ---- result
  /// The call that gives the result back in the program's layout.
  Expr back(const LaidOut& result);

 private:
  Expr slice(const Expr& x, int64_t axis, int64_t begin, int64_t end) const;
};

/// The layout of the program's tensors of so many axes: "NCHW" of four; nullopt: their axes have no names.
std::optional<Layout> program_layout(size_t rank);
/// Block of the channels when it is the last axis of the layout and nothing else is in blocks, else 0.
int64_t trailing_block(const Layout& layout);

/// The operator's rule; what it has none of its own follows from its kind: operators that are element-wise or
/// broadcast take any layout.
LayoutRule layout_rule(const OpDef& def);
/// The rule of operators that stay in the program's layout.
std::optional<LaidOut> keep_layout(LayoutContext& ctx);
/// The rule of operators that compute element by element from operands broadcast together.
std::optional<LaidOut> layout_of_elements(LayoutContext& ctx);
/// The same over operands that stand for shapes (arguments in order), with another operator in the call's
/// place.
std::optional<LaidOut> layout_of_elements(LayoutContext& ctx, std::string_view op, ObjectRef attrs,
                                          const std::vector<Shape>& shapes);

/// The rule of operators that fold all spatial axes of an image; `op` does it with ReduceAttrs.
std::optional<LaidOut> layout_of_image_fold(LayoutContext& ctx, std::string_view op);

}  // namespace tenon::op
