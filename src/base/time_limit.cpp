// SPDX-License-Identifier: Apache-2.0
#include "base/time_limit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tenon {

thread_local constinit TimeLimit::Thread TimeLimit::current_;

AtWork::AtWork(std::function<std::string()> words)
    : words_(std::move(words)), outer_(TimeLimit::current_.work) {
  TimeLimit::current_.work = this;
}
AtWork::~AtWork() { TimeLimit::current_.work = outer_; }

TimeLimit::TimeLimit(double seconds) : seconds_(seconds), outer_(current_.limit) {
  if (!(seconds > 0)) return;
  // Longer than anybody waits, and no overflow of the clock.
  constexpr double kMostSeconds = 1e9;
  end_ =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                             std::chrono::duration<double>(std::min(seconds, kMostSeconds)));
  if (!outer_ || end_ < outer_->end_) current_.limit = this;
}
TimeLimit::~TimeLimit() { current_.limit = outer_; }

void TimeLimit::check_clock() {
  const TimeLimit& limit = *current_.limit;
  if (std::chrono::steady_clock::now() < limit.end_) return;
  std::string where;
  for (const AtWork* at = current_.work; at; at = at->outer_)
    where = at->words_() + (where.empty() ? "" : ", ") + where;
  throw Error(ErrorKind::limit, "T1005",
              fmt::format("the compilation took longer than {} s{}{}", limit.seconds_,
                          where.empty() ? "" : ": it was at ", where),
              {}, "allow it more time (--compile-timeout), or compile with a lower level (-O 1)");
}

}  // namespace tenon
