// SPDX-License-Identifier: Apache-2.0
// What every verb shares: how results, progress and notes reach people and programs.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/error.h"

namespace tenon::cli {

using json = nlohmann::ordered_json;

/// Results go to standard output: text for people, or one JSON document and nothing else. Everything else
/// goes to standard error.
class Console {
 public:
  bool as_json = false, quiet = false;
  int verbose = 0;
  /// A line of the result; dropped when the result is JSON.
  void print(const std::string& line);
  /// The result as JSON; dropped otherwise.
  void result(const json& document);
  /// A remark on standard error; dropped with -q.
  void note(const std::string& line);
  /// Long work: a redrawn line on a terminal, a plain line every few seconds in a pipe, nothing with -q.
  void progress(const std::string& what, int64_t done, int64_t total);
  void end_progress();

 private:
  std::string shown_;
  std::chrono::steady_clock::time_point last_{}, first_{};
};

/// "1.5 KB", "14.0 MB".
std::string bytes_text(double bytes);
/// "0.12 ms", "3.4 s", "85 µs".
std::string time_text(double ms);
/// `{"error": {code, message, location, hint}, "diagnostics": [...]}`.
json error_json(const Error& e);

}  // namespace tenon::cli
