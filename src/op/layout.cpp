// SPDX-License-Identifier: Apache-2.0
#include "op/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "op/op_def.h"

namespace tenon::op {
namespace {

constexpr int64_t kLargestBlock = 10'000'000;
const char* const kSpatial[] = {"W", "HW", "DHW"};

Layout layout_of_letters(std::string_view letters) {
  Layout out;
  for (char c : letters) out.axes.push_back({c});
  return out;
}

}  // namespace

std::optional<Layout> Layout::parse(std::string_view text) {
  Layout out;
  int64_t block = 0;
  auto there = [&](char letter, bool is_block) {
    return std::ranges::any_of(
        out.axes, [&](const Axis& a) { return a.letter == letter && (a.block != 0) == is_block; });
  };
  for (char ch : text) {
    const auto c = static_cast<unsigned char>(ch);
    if (std::isdigit(c)) {
      block = block * 10 + (ch - '0');
      if (block > kLargestBlock) return std::nullopt;
      continue;
    }
    const char letter = char(std::toupper(c));
    if (!std::isalpha(c) || (std::isupper(c) != 0) != (block == 0) || (!block && there(letter, false)))
      return std::nullopt;
    out.axes.push_back({letter, block});
    block = 0;
  }
  if (block || out.axes.empty()) return std::nullopt;
  for (const Axis& a : out.axes)
    if (!there(a.letter, false) || out.block(a.letter) > kLargestBlock) return std::nullopt;
  return out;
}

std::string Layout::name() const {
  std::string out;
  for (const Axis& a : axes)
    out += a.block ? fmt::format("{}{}", a.block, char(std::tolower(static_cast<unsigned char>(a.letter))))
                   : std::string(1, a.letter);
  return out;
}

int64_t Layout::block(char letter) const {
  int64_t all = 1;
  for (const Axis& a : axes)
    // Beyond the largest block it is refused: no need to count on.
    if (a.letter == letter && a.block && all <= kLargestBlock) all *= a.block;
  return all;
}

std::vector<int64_t> Layout::steps() const {
  std::vector<int64_t> out(axes.size(), 1);
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t k = axes[i].block ? i + 1 : 0; k < axes.size(); ++k)
      if (axes[k].letter == axes[i].letter && axes[k].block) out[i] *= axes[k].block;
  return out;
}

std::string Layout::letters() const {
  std::string out;
  for (const Axis& a : axes)
    if (!a.block) out += a.letter;
  std::ranges::sort(out);
  return out;
}

bool Layout::has_blocks() const {
  return std::ranges::any_of(axes, [](const Axis& a) { return a.block != 0; });
}

Layout Layout::blocked(char letter, int64_t block) const {
  Layout out = *this;
  if (block) out.axes.push_back({letter, block});
  return out;
}

PrimExpr Layout::size(char letter, const Array<PrimExpr>& shape) const {
  PrimExpr n = 1;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].letter == letter) n = n * shape[i];
  return n;
}

Array<PrimExpr> Layout::shape(const Layout& from, const Array<PrimExpr>& shape) const {
  Array<PrimExpr> out;
  for (const Axis& a : axes)
    out.push_back(a.block ? PrimExpr(a.block)
                          : simplify(tir::ceildiv(from.size(a.letter, shape), PrimExpr(block(a.letter)))));
  return out;
}

Array<PrimExpr> Layout::index(const Layout& from, const Array<PrimExpr>& index) const {
  const std::vector<int64_t> there = from.steps(), here = steps();
  Array<PrimExpr> out;
  for (size_t i = 0; i < axes.size(); ++i) {
    PrimExpr along;
    for (size_t k = 0; k < from.axes.size(); ++k) {
      if (from.axes[k].letter != axes[i].letter) continue;
      const PrimExpr part = there[k] == 1 ? index[k] : index[k] * PrimExpr(there[k]);
      along = along ? along + part : part;
    }
    if (here[i] != 1) along = tir::floordiv(along, PrimExpr(here[i]));
    out.push_back(axes[i].block ? tir::floormod(along, PrimExpr(axes[i].block)) : along);
  }
  return out;
}

bool Layout::same_memory(const Layout& from, const Array<PrimExpr>& shape) const {
  const Layout& other = *this;
  auto blocks_in_blocks = [](const Layout& l) {
    return std::ranges::any_of(l.axes,
                               [&](const Axis& a) { return a.block && a.block != l.block(a.letter); });
  };
  if (blocks_in_blocks(from) || blocks_in_blocks(other)) return from == other;
  // Both as lists of parts, an axis that the other one has in blocks as two; parts of one element are
  // nowhere.
  auto parts = [&](const Layout& layout, const Layout& blocks_of) {
    std::vector<Axis> out;
    for (const Axis& a : layout.axes) {
      const int64_t block = blocks_of.block(a.letter);
      const PrimExpr size = simplify(from.size(a.letter, shape));
      if (tir::is_one(size) || a.block == 1) continue;
      out.push_back(a);
      if (!a.block && block != 1 && layout.block(a.letter) == 1) out.push_back({a.letter, block});
    }
    return out;
  };
  for (const Axis& a : other.axes)
    if (a.block && from.block(a.letter) != a.block) {
      const auto size = tir::as_int(simplify(from.size(a.letter, shape)));
      if (from.block(a.letter) != 1 || !size || *size % a.block) return false;  // the last block is filled up
    }
  return parts(other, from) == parts(from, other);
}

Layout data_layout(size_t spatial) { return layout_of_letters(std::string("NC") + kSpatial[spatial - 1]); }
Layout kernel_layout(size_t spatial) { return layout_of_letters(std::string("OI") + kSpatial[spatial - 1]); }

std::optional<int64_t> data_block(std::string_view layout, size_t n) {
  if (layout.empty()) return 0;
  const auto l = Layout::parse(layout);
  if (!l) return std::nullopt;
  const int64_t block = l->block('C') == 1 ? 0 : l->block('C');
  if (*l != data_layout(n).blocked('C', block)) return std::nullopt;
  return block;
}

std::optional<KernelBlocks> kernel_blocks(std::string_view layout, size_t n) {
  if (layout.empty()) return KernelBlocks{};
  const auto l = Layout::parse(layout);
  if (!l) return std::nullopt;
  auto block = [&](char letter) { return l->block(letter) == 1 ? 0 : l->block(letter); };
  // The innermost block of the input channels: a group, where there is another around it.
  const int64_t group = l->axes.back().letter == 'I' ? l->axes.back().block : 0;
  const KernelBlocks in_blocks{block('I'), block('O'), 0}, in_groups{0, block('O'), block('I')},
      in_taps{0, block('O'), 0, block(kSpatial[n - 1][0])},
      in_both{group ? block('I') / group : 0, block('O'), group};
  for (const KernelBlocks& b : {in_blocks, in_groups, in_taps, in_both})
    if (l->name() == kernel_layout_name(n, b)) return b;
  return std::nullopt;
}

std::string grouped_data_layout(size_t n) { return std::string("NGC") + kSpatial[n - 1]; }
std::string grouped_kernel_layout(size_t n) { return "G" + kernel_layout(n).name(); }

std::string data_layout_name(size_t n, int64_t block) { return data_layout(n).blocked('C', block).name(); }
std::string kernel_layout_name(size_t n, KernelBlocks blocks) {
  return kernel_layout(n)
      .blocked('I', blocks.in)
      .blocked('O', blocks.out)
      .blocked('I', blocks.group)
      .blocked(kSpatial[n - 1][0], blocks.taps)
      .name();
}

}  // namespace tenon::op
