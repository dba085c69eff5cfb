// SPDX-License-Identifier: Apache-2.0
// How long a compilation may take. What may take long asks between its steps whether the time is over, and
// says where it is.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace tenon {

/// What a thread is doing: scopes from the outside in, which a worker takes over from who waits for it.
class AtWork {
 public:
  /// `words`: "the pass `fuse_ops`"; called only for a sentence about it, while this lives.
  explicit AtWork(std::function<std::string()> words);
  ~AtWork();
  AtWork(const AtWork&) = delete;

 private:
  friend class TimeLimit;
  std::function<std::string()> words_;
  const AtWork* outer_;
};

/// While one lives, its thread, and those that work for it, may compute for so long.
class TimeLimit {
 public:
  /// Seconds from now on, at most those that are left of the limit around; 0 is no limit of its own.
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  /// Error T1005 when the time is over, with what is at work.
  static void check() {
    if (current_.limit) check_clock();
  }

  /// The limit of a thread and what it is doing, to be handed to another.
  struct Thread {
    const TimeLimit* limit = nullptr;
    const AtWork* work = nullptr;
  };
  static Thread of_this_thread() { return current_; }
  /// In a thread that works for another, which waits.
  static void take_over(const Thread& from) { current_ = from; }

 private:
  friend class AtWork;
  static void check_clock();
  /// Of the thread, because a proof deep inside of an analysis asks for it, below signatures that are not
  /// about compilations; for_each_parallel hands it on to its workers.
  static thread_local constinit Thread current_;
  std::chrono::steady_clock::time_point end_;
  double seconds_;
  const TimeLimit* outer_;
};

}  // namespace tenon
