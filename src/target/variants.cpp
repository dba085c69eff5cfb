// SPDX-License-Identifier: Apache-2.0
#include "target/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/diagnostic.h"

namespace tenon {

std::vector<Target> parse_targets(std::string_view text) {
  constexpr std::string_view option = "-mcpu=";
  const size_t at = text.starts_with("{") ? text.npos : text.find(option);
  const size_t begin = at == text.npos ? text.size() : at + option.size();
  const size_t end = std::min(text.find(' ', begin), text.size());
  const std::string_view names = text.substr(begin, end - begin);
  if (names.find(',') == names.npos) return {parse_target(text)};
  std::vector<Target> out;
  std::set<std::string> seen;
  // A comma at the end names a processor, too: one without a name.
  for (size_t from = 0; from <= names.size();) {
    const size_t comma = std::min(names.find(',', from), names.size());
    const std::string name(names.substr(from, comma - from));
    if (!seen.insert(name).second)
      fail("T0901", fmt::format("the processor `{}` is named twice", name), {}, {}, ErrorKind::usage);
    out.push_back(parse_target(fmt::format("{}{}{}", text.substr(0, begin), name, text.substr(end))));
    from = comma + 1;
  }
  return out;
}

Target best_for_host(const std::vector<Target>& targets) {
  const Target host = host_target();
  const Target* best = nullptr;
  for (const Target& t : targets) {
    const bool fits =
        t->triple == host->triple && std::all_of(t->features.begin(), t->features.end(),
                                                 [&](const std::string& f) { return host->has(f); });
    if (fits && (!best || t->features.size() > (*best)->features.size())) best = &t;
  }
  return best ? *best : targets.at(0);
}

}  // namespace tenon
