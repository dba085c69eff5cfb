// SPDX-License-Identifier: Apache-2.0
// Facts that follow from the iterators and accesses of a block.
#include "analysis/cost/nest.h"

#include <algorithm>
#include <bit>

namespace tenon::cost {

namespace {
constexpr int64_t kMany = int64_t(1) << 50;  ///< as many as counts
}

int64_t Access::step(int iterator, int64_t tile) const {
  const size_t i = size_t(iterator);
  const bool in_panels = stride[i] == kIrregular && i < panel.size() && panel[i] > 0 && panel[i] % tile == 0;
  return in_panels ? panel_stride[i] : stride[i];
}

bool Access::all_plain() const {
  return std::all_of(index.begin(), index.end(), [](const Index& i) { return i.plain; });
}

int64_t Nest::instances(bool only_spatial) const {
  int64_t n = 1;
  for (size_t i = 0; i < extent.size(); ++i) {
    if (only_spatial && std::find(spatial.begin(), spatial.end(), int(i)) == spatial.end()) continue;
    if (extent[i] == kUnknown) return kUnknown;
    if (extent[i] > 0 && n > kMany / extent[i]) return kMany;
    n *= extent[i];
  }
  return n;
}

bool Nest::is_row_block() const {
  return std::ranges::any_of(most, [](int64_t n) { return n > 0; });
}

double Nest::known_instances() const {
  double n = 1;
  for (int64_t e : extent)
    if (e != kUnknown) n *= double(e);
  return n;
}

bool Nest::is_batch(int iterator) const {
  const auto known =
      std::ranges::count_if(spatial, [&](int i) { return !symbolic(i) && extent[size_t(i)] != 1; });
  return symbolic(iterator) && result_dim(iterator) == 0 && size_t(known) >= kMatrixAxes;
}

int64_t Nest::instances_of_one() const {
  for (size_t i = 0; i < extent.size(); ++i)
    if (symbolic(int(i)) && !is_batch(int(i))) return kUnknown;
  return int64_t(std::min(known_instances(), double(kMany)));
}

int Nest::result_dim(int iterator) const {
  for (size_t d = 0; d < write.index.size(); ++d)
    if (write.index[d].plain && write.index[d].iterators == std::vector<int>{iterator}) return int(d);
  return -1;
}

int64_t elements_of(const tir::Buffer& b) {
  int64_t size = 1;
  for (const PrimExpr& d : b->shape) size *= tir::as_int(d).value_or(0);
  return size;
}

int64_t lanes_for(int64_t bits, const Target& target) {
  return int64_t(
      std::bit_floor(uint64_t(std::max<int64_t>(1, target->vector_bits / std::max<int64_t>(8, bits)))));
}

int64_t lanes_for(const Nest& nest, const Target& target) {
  int64_t bits = nest.write.element_bits();
  for (const Access& l : nest.loads) bits = std::max(bits, l.element_bits());
  return lanes_for(bits, target);
}

}  // namespace tenon::cost
