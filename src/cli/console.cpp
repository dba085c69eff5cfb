// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/diagnostic.h"

namespace tenon::cli {

using Clock = std::chrono::steady_clock;

void Console::print(const std::string& line) {
  if (!as_json) fmt::print("{}\n", line);
}
void Console::result(const json& document) {
  if (as_json) fmt::print("{}\n", document.dump(2, ' ', false, json::error_handler_t::replace));
}
void Console::note(const std::string& line) {
  if (quiet) return;
  end_progress();
  fmt::print(stderr, "{}\n", line);
}

void Console::progress(const std::string& what, int64_t done, int64_t total) {
  if (quiet) return;
  const auto now = Clock::now();
  if (first_ == Clock::time_point{}) first_ = last_ = now;
  const bool terminal = isatty(STDERR_FILENO);
  // Short work shows nothing; a terminal is redrawn ten times a second, a pipe gets a line every five.
  const double wait = terminal ? (shown_.empty() ? 0.3 : 0.1) : 5;
  if (std::chrono::duration<double>(now - last_).count() < wait) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - first_).count();
  std::string line = total > 0 ? fmt::format("{} {}/{} ({:.0f} s)", what, done, total, elapsed)
                               : fmt::format("{} ({:.0f} s)", what, elapsed);
  if (terminal) {
    fmt::print(stderr, "\r\x1b[2K{}", line.substr(0, 78));
    shown_ = line;
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
}
void Console::end_progress() {
  if (!shown_.empty()) fmt::print(stderr, "\r\x1b[2K");
  shown_.clear();
  first_ = {};
}

std::string bytes_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} KB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}
std::string time_text(double ms) {
  if (ms < 0.1) return fmt::format("{:.1f} µs", ms * 1e3);
  if (ms < 1000) return fmt::format("{:.2f} ms", ms);
  return fmt::format("{:.2f} s", ms / 1e3);
}

static json one(const std::string& code, const std::string& message, const std::string& location,
                const std::string& hint) {
  return {{"code", code}, {"message", message}, {"location", location}, {"hint", hint}};
}
json error_json(const Error& e) {
  json out = {{"error", one(e.code, e.message, e.location, e.hint)}};
  if (const auto* list = dynamic_cast<const DiagnosticError*>(&e); list && list->diagnostics.size() > 1) {
    out["diagnostics"] = json::array();
    for (const Diagnostic& d : list->diagnostics)
      out["diagnostics"].push_back(one(d.code, d.message, d.location, d.hint));
  }
  return out;
}

}  // namespace tenon::cli
