// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

namespace tenon {

static std::string describe(const std::string& code, const std::string& message, const std::string& location,
                            const std::string& hint) {
  std::string text = "error[" + code + "]: " + message;
  if (!location.empty()) text += "\n  --> " + location;
  if (!hint.empty()) text += "\n  = help: " + hint;
  return text;
}

Error::Error(ErrorKind kind, std::string code, std::string message, std::string location, std::string hint)
    : std::runtime_error(describe(code, message, location, hint)),
      kind(kind),
      code(std::move(code)),
      message(std::move(message)),
      location(std::move(location)),
      hint(std::move(hint)) {}

void check_failed(const char* condition, const char* file, int line, std::string message) {
  std::string_view path = file;
  if (auto at = path.rfind("src/"); at != path.npos) path.remove_prefix(at);
  throw InternalError("internal check `" + std::string(condition) + "` failed at " + std::string(path) + ":" +
                      std::to_string(line) + (message.empty() ? "" : ": " + message));
}

}  // namespace tenon
