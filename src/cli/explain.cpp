// SPDX-License-Identifier: Apache-2.0
// tenon explain: what an error code means, its cause and its remedy; the codes of a group; the groups.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "cli/compiler.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

void print_code(const json& code, Console& console) {
  console.print(
      fmt::format("{}: {}", code.at("code").get<std::string>(), code.at("sentence").get<std::string>()));
  console.print("  cause: " + code.at("cause").get<std::string>());
  if (const std::string remedy = code.at("remedy"); !remedy.empty()) console.print("  remedy: " + remedy);
}

/// The codes whose numbers are nearest to that of an unknown one: the numbers of one subject lie together.
std::vector<std::string> nearest(const json& groups, const std::string& wanted) {
  constexpr size_t kMost = 3;
  const size_t digits = std::min(wanted.find_first_of("0123456789"), wanted.size());
  int number = 0;
  if (std::from_chars(wanted.data() + digits, wanted.data() + wanted.size(), number).ec != std::errc())
    return {};
  std::vector<std::pair<int, std::string>> found;
  for (const json& group : groups)
    for (const json& code : group.at("codes")) {
      const std::string name = code.at("code");
      found.emplace_back(std::abs(std::stoi(name.substr(1)) - number), name);
    }
  std::ranges::sort(found);
  std::vector<std::string> out;
  for (size_t i = 0; i < kMost; ++i) out.push_back(found[i].second);
  return out;
}

void explain(const std::string& wanted, Console& console) {
  const json groups = ask_compiler("errors", {}).at("groups");
  if (wanted.empty()) {
    console.result({{"groups", groups}});
    for (const json& group : groups)
      console.print(fmt::format("{}…  {:<54} {:>3} codes", group.at("prefix").get<std::string>(),
                                group.at("title").get<std::string>(), group.at("codes").size()));
    return;
  }
  for (const json& group : groups) {
    if (group.at("prefix") == wanted) {
      console.result({{"groups", json::array({group})}});
      for (const json& code : group.at("codes"))
        console.print(fmt::format("{}  {}", code.at("code").get<std::string>(),
                                  code.at("sentence").get<std::string>()));
      return;
    }
    for (const json& code : group.at("codes"))
      if (code.at("code") == wanted) {
        console.result(code);
        return print_code(code, console);
      }
  }
  const std::vector<std::string> found = nearest(groups, wanted);
  throw Error(ErrorKind::usage, "T0932", fmt::format("there is no error code `{}`", wanted), {},
              found.empty() ? "`tenon explain` lists the groups"
                            : fmt::format("the nearest are {}", fmt::join(found, ", ")));
}

}  // namespace

void add_explain(CLI::App& app, Console& console) {
  auto code = std::make_shared<std::string>();
  CLI::App* verb = add_verb(app, console, "explain", "what an error code means, its cause and its remedy",
                            "tenon explain T0501; tenon explain T05; tenon explain");
  verb->add_option("CODE", *code, "a code, or the first three characters of a group");
  verb->callback([code, &console] { explain(*code, console); });
}

}  // namespace tenon::cli
