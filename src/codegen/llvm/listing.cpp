// SPDX-License-Identifier: Apache-2.0
// Assembly text with marks: directives `.loc 1 LINE` say which loop (LINE - 2) the instructions behind them
// come from.
#include "codegen/llvm/listing.h"

#include <algorithm>
#include <cstdio>

namespace tenon::codegen {

namespace {

/// One blank where there was any white space, none at the ends.
std::string plain(std::string_view line) {
  std::string out;
  for (char c : line) {
    const bool blank = c == ' ' || c == '\t';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out += blank ? ' ' : c;
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

void read_listing(const std::string& text, const std::vector<Kernel>& kernels,
                  std::vector<MachineFunction>& out) {
  MachineFunction* current = nullptr;
  int32_t loop = -1;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view raw(text.data() + at, end - at);
    at = end + 1;
    const std::string line = plain(raw);
    if (line.empty() || line[0] == '#' || line.starts_with("//")) continue;
    const bool indented = raw[0] == '\t' || raw[0] == ' ';
    if (!indented) {
      const std::string name = line.substr(0, line.find(':'));
      if (name.size() == line.size()) continue;
      if (name.starts_with(".L")) {
        if (name.starts_with(".Lfunc_end")) current = nullptr;
        // Places of debug information are no targets of jumps.
        if (current && name.starts_with(".LBB")) current->lines.push_back({name, true, -1});
        continue;
      }
      current = nullptr;
      for (const Kernel& k : kernels)
        if (name == k.symbol || name.starts_with(k.symbol + ".parallel.")) {
          out.push_back({k.symbol, name, {}});
          current = &out.back();
        }
      loop = -1;
      continue;
    }
    if (line.starts_with(".loc ")) {
      int file = 0, number = 0;
      // Line 0 is code that LLVM made of several places: it stays with what it stands beside.
      if (std::sscanf(line.c_str(), ".loc %d %d", &file, &number) == 2 && number > 0)
        loop = std::max(-1, number - 2);
      continue;
    }
    if (line[0] == '.' || !current) continue;
    current->lines.push_back({line, false, loop});
  }
}

}  // namespace tenon::codegen
