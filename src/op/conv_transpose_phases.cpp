// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions by phases of the stride: sums of all phases together, or of each apart, and the
// output that picks from them.
#include <algorithm>
#include <numeric>

#include "op/conv_transpose.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;
using Ints = std::vector<int64_t>;

/// A sum for each phase alone where the longest phase has so many times the products that all have; each is a
/// loop nest, so that there are not many.
constexpr double kPhasesApart = 1.25;
constexpr int64_t kMostPhases = 8;
bool phases_apart(const Ints& kernel, const Ints& strides, const Ints& taps) {
  double together = 1, apart = 1;
  int64_t phases = 1;
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] < strides[i]) return false;  // a phase without products
    together *= double(taps[i] * strides[i]), apart *= double(kernel[i]);
    phases *= strides[i];
  }
  return phases <= kMostPhases && together >= kPhasesApart * apart;
}

/// The sums of a phase, and the smallest q of each axis.
struct PhaseSum {
  te::Tensor sum;
  Ints first;
};

class Phases {
 public:
  Phases(const Call& call, const Tensors& in, const Ints& kernel, const std::optional<ChannelBlocks>& blocks)
      : out_(output_info(call)),
        n_(kernel.size()),
        c_(transpose_shape(attrs_of<ConvTransposeAttrs>(call), n_)),
        groups_(attrs_of<ConvTransposeAttrs>(call).groups),
        name_(short_name(call)),
        kernel_(kernel),
        blocks_(blocks),
        x_(in[0]),
        w_(in[1]),
        inputs_(blocks ? in[0].shape()[1] : simplify(tir::floordiv(in[0].shape()[1], PrimExpr(groups_)))) {
    for (size_t i = 0; i < n_; ++i) {
      taps_.push_back((kernel[i] + c_.strides[i] - 1) / c_.strides[i]);
      first_.push_back(c_.pads[i] / c_.strides[i]);
    }
    see_zeros_around();
  }

  te::Tensor result() {
    if (!phases_apart(kernel_, c_.strides, taps_)) {
      const te::Tensor sum = together();
      return te::compute(
          out_.shape, [&](const Vars& v) { return tir::cast(out_.dtype, of_its_phase(v, sum)); }, name_);
    }
    std::vector<PhaseSum> sums;
    Ints phase(n_, 0);
    for (bool more = true; more;) {
      sums.push_back(apart(phase));
      more = false;
      for (size_t i = n_; i-- > 0 && !more;) more = (phase[i] = (phase[i] + 1) % c_.strides[i]) > 0;
    }
    return te::compute(
        out_.shape, [&](const Vars& v) { return tir::cast(out_.dtype, of_its_phase(v, sums, 0, 0)); }, name_);
  }

 private:
  /// Places q of the output along an axis, from the smallest.
  PrimExpr places(size_t i, int64_t phase, int64_t first) const {
    const PrimExpr last =
        tir::floordiv(out_.shape[i + 2] + (c_.pads[i] - phase - 1), PrimExpr(c_.strides[i]));
    return simplify(last - first + 1);
  }

  /// The data with zeros around, so that all phases find what they take: its first element is the one at
  /// `first_` - `taps_` + 1.
  void see_zeros_around() {
    Shape seen = x_.shape();
    bool all_inside = true;
    for (size_t i = 0; i < n_; ++i) {
      seen.set(i + 2, simplify(places(i, 0, first_[i]) + (taps_[i] - 1)));
      all_inside =
          all_inside && first_[i] == taps_[i] - 1 && tir::is_zero(simplify(seen[i + 2] - x_.shape()[i + 2]));
    }
    if (all_inside) return;
    const te::Tensor x = x_;
    x_ = te::compute(
        seen,
        [&](const Vars& v) {
          Shape at(v.begin(), v.end());
          PrimExpr inside = tir::true_();
          for (size_t i = 0; i < n_; ++i) {
            at.set(i + 2, v[i + 2] + (first_[i] - taps_[i] + 1));
            inside = tir::logical_and(inside, tir::ge(at[i + 2], PrimExpr(0)));
            inside = tir::logical_and(inside, tir::lt(at[i + 2], x.shape()[i + 2]));
          }
          return tir::if_then_else(inside, x(at), constant(x.dtype(), 0));
        },
        "pad_temp");
  }

  // ---- sums
  /// Batch and channels, and a block of them, around other axes.
  Shape around_channels(const Shape& others) const {
    Shape all{out_.shape[0], out_.shape[1]};
    for (const PrimExpr& e : others) all.push_back(e);
    if (blocks_) all.push_back(out_.shape.back());
    return all;
  }
  /// What is summed over: input channels, elements of the kernel along each axis, channels of a block.
  Array<tir::IterVar> summed(const Ints& taps) const {
    Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), inputs_), "rc")};
    for (size_t i = 0; i < n_; ++i)
      ks.push_back(
          te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(taps[i])), "r" + spatial_axis_name(n_, i)));
    if (blocks_) ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(blocks_->in)), "rb"));
    return ks;
  }
  /// The product of the data at these places and the weight of these kernel elements.
  PrimExpr product(const Vars& v, const te::Tensor& w, const Array<tir::IterVar>& ks, const Shape& places,
                   const Shape& elements) const {
    const DataType acc = accumulator_type(out_.dtype);
    Shape ix{v[0]}, iw;
    if (blocks_) {
      ix.push_back(ks[0]->var);
      iw = elements;
      for (const PrimExpr& e :
           {PrimExpr(v[1]), PrimExpr(ks[0]->var), PrimExpr(ks[n_ + 1]->var), PrimExpr(v.back())})
        iw.push_back(e);
    } else {
      const GroupIndex g = group_index(w, groups_, inputs_, v[1], ks[0]->var);
      ix.push_back(g.input);
      iw = {g.input, g.output};
      for (const PrimExpr& e : elements) iw.push_back(e);
    }
    for (const PrimExpr& e : places) ix.push_back(e);
    if (blocks_) ix.push_back(ks[n_ + 1]->var);
    return te::sum(tir::cast(acc, x_(ix)) * tir::cast(acc, w(iw)), ks);
  }

  /// The sums of all phases, of the shape (batch, channels, phases …, q …); kernel elements that a phase has
  /// not are 0.
  te::Tensor together() const {
    Shape none, missing, phases, q;
    bool whole = true;
    const size_t kernel_at = blocks_ ? 0 : 2;
    for (size_t i = 0; i < w_.shape().size(); ++i) none.push_back(PrimExpr(0));
    missing = none;
    for (size_t i = 0; i < n_; ++i) {
      const int64_t added = taps_[i] * c_.strides[i] - kernel_[i];
      missing.set(kernel_at + i, PrimExpr(added));
      whole = whole && added == 0;
      phases.push_back(PrimExpr(c_.strides[i]));
      q.push_back(places(i, 0, first_[i]));
    }
    const te::Tensor w = whole ? w_ : pad_with(w_, none, missing, constant(w_.dtype(), 0));
    const Array<tir::IterVar> ks = summed(taps_);
    for (const PrimExpr& e : q) phases.push_back(e);
    return te::compute(
        around_channels(phases),
        [&](const Vars& v) {
          Shape places, elements;
          for (size_t i = 0; i < n_; ++i) {
            const PrimExpr t = ks[i + 1]->var;
            places.push_back(v[2 + n_ + i] + t);
            elements.push_back(v[2 + i] + (taps_[i] - 1 - t) * PrimExpr(c_.strides[i]));
          }
          return product(v, w, ks, places, elements);
        },
        name_ + "_phases");
  }

  /// The sums of one phase with the kernel elements that it has.
  PhaseSum apart(const Ints& phase) const {
    PhaseSum out;
    Ints taps;
    Shape q;
    for (size_t i = 0; i < n_; ++i) {
      const int64_t s = c_.strides[i];
      taps.push_back((kernel_[i] - phase[i] + s - 1) / s);
      out.first.push_back(std::max<int64_t>(0, (c_.pads[i] - phase[i] + s - 1) / s));
      q.push_back(places(i, phase[i], out.first[i]));
    }
    const Array<tir::IterVar> ks = summed(taps);
    out.sum = te::compute(
        around_channels(q),
        [&](const Vars& v) {
          Shape places, elements;
          for (size_t i = 0; i < n_; ++i) {
            const PrimExpr t = ks[i + 1]->var;
            places.push_back(v[2 + i] + t + (out.first[i] - first_[i] + taps_[i] - taps[i]));
            elements.push_back((taps[i] - 1 - t) * PrimExpr(c_.strides[i]) + phase[i]);
          }
          return product(v, w_, ks, places, elements);
        },
        name_ + "_phase");
    return out;
  }

  // ---- the output
  PrimExpr phase_of(const Vars& v, size_t i) const {
    return tir::floormod(v[i + 2] + c_.pads[i], PrimExpr(c_.strides[i]));
  }
  PrimExpr place_of(const Vars& v, size_t i, int64_t first) const {
    return tir::floordiv(v[i + 2] + c_.pads[i], PrimExpr(c_.strides[i])) - first;
  }
  static Shape with_block(const Vars& v, Shape at, bool blocks) {
    at.set(0, v[0]), at.set(1, v[1]);
    if (blocks) at.push_back(v.back());
    return at;
  }
  PrimExpr of_its_phase(const Vars& v, const te::Tensor& sum) const {
    Shape at{v[0], v[1]};
    for (size_t i = 0; i < n_; ++i) at.push_back(phase_of(v, i));
    for (size_t i = 0; i < n_; ++i) at.push_back(place_of(v, i, first_[i]));
    return sum(with_block(v, at, blocks_.has_value()));
  }
  /// From the sums of each phase, those of the last axis side by side: the phase of one axis after the other
  /// is asked for, so that what is the same for a row of the output is asked once. `from`: of the sums with
  /// the phases of the axes before.
  PrimExpr of_its_phase(const Vars& v, const std::vector<PhaseSum>& sums, size_t axis, size_t from) const {
    if (axis == n_) {
      Shape at{v[0], v[1]};
      for (size_t i = 0; i < n_; ++i) at.push_back(place_of(v, i, sums[from].first[i]));
      return sums[from].sum(with_block(v, at, blocks_.has_value()));
    }
    const int64_t each = std::accumulate(c_.strides.begin() + std::ptrdiff_t(axis) + 1, c_.strides.end(),
                                         int64_t(1), std::multiplies<>());
    PrimExpr value;
    for (int64_t phase = c_.strides[axis]; phase-- > 0;) {
      const PrimExpr one = of_its_phase(v, sums, axis + 1, from + size_t(phase * each));
      value = value ? tir::if_then_else(tir::eq(phase_of(v, axis), PrimExpr(phase)), one, value) : one;
    }
    return value;
  }

  const TensorInfo out_;
  const size_t n_;
  const TransposeShape c_;
  const int64_t groups_;
  const std::string name_;
  const Ints kernel_;
  const std::optional<ChannelBlocks> blocks_;
  te::Tensor x_, w_;
  PrimExpr inputs_;    ///< channels, or blocks of them, that an output sums up
  Ints taps_, first_;  ///< elements of the longest phase; the smallest q
};

}  // namespace

std::vector<te::Tensor> define_by_phases(const Call& call, const std::vector<te::Tensor>& in,
                                         const std::vector<int64_t>& kernel,
                                         const std::optional<ChannelBlocks>& blocks) {
  return {Phases(call, in, kernel, blocks).result()};
}

}  // namespace tenon::op
