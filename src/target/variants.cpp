// SPDX-License-Identifier: Apache-2.0
#include "target/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/diagnostic.h"

namespace tenon {
namespace {

/// No machine takes the second of two that ask for the same.
void refuse_alike(const std::vector<Target>& targets) {
  std::map<std::set<std::string>, std::string> seen;
  for (const Target& t : targets) {
    const auto [same, first] = seen.emplace(std::set(t->features.begin(), t->features.end()), t->cpu);
    if (!first)
      fail("T0901", fmt::format("the processors `{}` and `{}` have the same features", same->second, t->cpu),
           {}, "name one of them: no machine would take the other", ErrorKind::usage);
  }
}

}  // namespace

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
  refuse_alike(out);
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
