// SPDX-License-Identifier: Apache-2.0
// Names of layouts read and written.
#include "op/layout.h"

#include <fmt/format.h>

namespace tenon::op {
namespace {

const char* const kData[] = {"NCW", "NCHW", "NCDHW"};
const char* const kKernel[] = {"OIW", "OIHW", "OIDHW"};

/// Reads "16c": the number before `letter`, which it takes off the text; 0 when it is not there.
int64_t take_block(std::string_view& text, char letter) {
  size_t digits = 0;
  int64_t block = 0;
  while (digits < text.size() && digits < 4 && text[digits] >= '0' && text[digits] <= '9')
    block = block * 10 + (text[digits++] - '0');
  if (digits == 0 || digits >= text.size() || text[digits] != letter) return 0;
  text.remove_prefix(digits + 1);
  return block;
}

}  // namespace

std::optional<int64_t> data_block(std::string_view layout, size_t n) {
  if (layout.empty()) return 0;
  if (!layout.starts_with(kData[n - 1])) return std::nullopt;
  layout.remove_prefix(n + 2);
  const int64_t block = take_block(layout, 'c');
  if (!layout.empty()) return std::nullopt;
  return block;
}

std::optional<KernelBlocks> kernel_blocks(std::string_view layout, size_t n) {
  if (layout.empty()) return KernelBlocks{};
  if (!layout.starts_with(kKernel[n - 1])) return std::nullopt;
  layout.remove_prefix(n + 2);
  KernelBlocks blocks;
  blocks.in = take_block(layout, 'i');
  blocks.out = take_block(layout, 'o');
  if (!blocks.in && blocks.out) blocks.group = take_block(layout, 'i');
  if (!layout.empty()) return std::nullopt;
  return blocks;
}

std::string grouped_data_layout(size_t n) { return std::string("NG").append(kData[n - 1] + 1); }
std::string grouped_kernel_layout(size_t n) { return std::string("G").append(kKernel[n - 1]); }

std::string data_layout_name(size_t n, int64_t block) {
  return block ? fmt::format("{}{}c", kData[n - 1], block) : kData[n - 1];
}

std::string kernel_layout_name(size_t n, KernelBlocks blocks) {
  std::string out = kKernel[n - 1];
  if (blocks.in) out += fmt::format("{}i", blocks.in);
  if (blocks.out) out += fmt::format("{}o", blocks.out);
  if (blocks.group) out += fmt::format("{}i", blocks.group);
  return out;
}

}  // namespace tenon::op
