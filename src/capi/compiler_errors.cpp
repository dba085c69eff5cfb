// SPDX-License-Identifier: Apache-2.0
// "compiler.errors": every error code, for `tenon explain` and docs/errors.md.
#include <nlohmann/json.hpp>

#include "base/error_codes/error_codes.h"
#include "base/function.h"

namespace tenon {
namespace {

using json = nlohmann::ordered_json;

AttrMap errors(AttrMap) {
  json groups = json::array();
  for (const ErrorGroup& group : error_groups()) {
    json codes = json::array();
    for (const ErrorCode& c : group.codes)
      codes.push_back({{"code", c.code}, {"sentence", c.sentence}, {"cause", c.cause}, {"remedy", c.remedy}});
    groups.push_back({{"prefix", group.prefix}, {"title", group.title}, {"codes", codes}});
  }
  return {{"json", json{{"groups", groups}}.dump()}};
}

const bool errors_registered = [] {
  registry::add("compiler.errors", TypedFunction<AttrMap(AttrMap)>(errors, "compiler.errors").packed(), false,
                "every error code with its meaning, cause and remedy");
  return true;
}();

}  // namespace
}  // namespace tenon
