// SPDX-License-Identifier: Apache-2.0
// What a run did and when: a table of its instructions (`run --profile`), and a trace for chrome://tracing or
// ui.perfetto.dev (`run --trace`).
#pragma once
#include <chrono>
#include <mutex>

#include "cli/console.h"
#include "runtime/vm.h"

namespace tenon::cli {

class RunProfile {
 public:
  /// Listens to the session from here on, until it goes. The session outlives it.
  explicit RunProfile(Session& session);
  ~RunProfile();
  RunProfile(const RunProfile&) = delete;
  RunProfile& operator=(const RunProfile&) = delete;

  /// The instructions in the order of their first run, printed and as JSON.
  json show(Console& console) const;
  /// The run as Trace Event Format has it ("Trace Event Format", Google, 2016): complete events ("X") of the
  /// instructions and of the parts of parallel loops by thread, and a counter ("C") of the session's bytes.
  /// Times are microseconds from the first event on.
  json chrome_trace() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Instruction {
    std::string function, callee;
    int64_t number = 0;
    Time begin, end;
    int64_t bytes = 0;  ///< of the session, behind it
  };
  struct Task {
    int64_t thread = 0;
    Time begin, end;
  };
  Session& session_;
  int64_t thread_;  ///< which runs the instructions
  std::vector<Instruction> instructions_;
  std::mutex mutex_;  // of the tasks
  std::vector<Task> tasks_;
};

}  // namespace tenon::cli
