// SPDX-License-Identifier: Apache-2.0
#include "cli/profile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/show.h"

namespace tenon::cli {
namespace {

double milliseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

}  // namespace

RunProfile::RunProfile(Session& session) : session_(session), thread_(gettid()) {
  session_.set_instruction_profile([this](const ProfileEvent& e) {
    const auto clock = [](double ms) {
      return Time(std::chrono::duration_cast<Time::duration>(std::chrono::duration<double, std::milli>(ms)));
    };
    instructions_.push_back({std::string(e.function), std::string(e.callee), e.instruction, clock(e.begin_ms),
                             clock(e.begin_ms + e.ms), session_.memory_used()});
  });
  session_.set_task_profile([this](Time begin) {
    const Time end = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    tasks_.push_back({gettid(), begin, end});
  });
}

RunProfile::~RunProfile() {
  session_.set_instruction_profile({});
  session_.set_task_profile({});
}

json RunProfile::show(Console& console) const {
  struct Line {
    const Instruction* first;
    int64_t calls = 0;
    double ms = 0;
  };
  std::vector<Line> lines;
  std::map<std::pair<std::string, int64_t>, size_t> index;
  double total = 0;
  for (const Instruction& i : instructions_) {
    const auto [it, fresh] = index.emplace(std::pair(i.function, i.number), lines.size());
    if (fresh) lines.push_back({&i});
    ++lines[it->second].calls;
    lines[it->second].ms += milliseconds(i.end - i.begin);
    total += milliseconds(i.end - i.begin);
  }
  json out = json::array();
  console.print("      time  share    calls  instruction");
  for (const Line& l : lines) {
    const double share = total > 0 ? l.ms / total : 0;
    console.print(fmt::format("{:>10}  {:>4.1f}%  {:>7}  {}:{} {}", time_text(l.ms), 100 * share, l.calls,
                              l.first->function, l.first->number, l.first->callee));
    out.push_back({{"function", l.first->function},
                   {"instruction", l.first->number},
                   {"callee", l.first->callee},
                   {"calls", l.calls},
                   {"ms", l.ms},
                   {"share", share}});
  }
  return out;
}

json RunProfile::chrome_trace() const {
  const int64_t process = getpid();
  Time start = Time::max();
  for (const Instruction& i : instructions_) start = std::min(start, i.begin);
  for (const Task& t : tasks_) start = std::min(start, t.begin);
  const auto event = [&](const std::string& name, const char* category, int64_t thread, Time begin,
                         Time end) {
    return json{{"name", name},
                {"cat", category},
                {"ph", "X"},
                {"ts", 1000 * milliseconds(begin - start)},
                {"dur", 1000 * milliseconds(end - begin)},
                {"pid", process},
                {"tid", thread}};
  };
  json events = json::array();
  std::set<int64_t> threads{thread_};
  for (const Instruction& i : instructions_) {
    json e = event(i.callee, "instruction", thread_, i.begin, i.end);
    e["args"] = {{"function", i.function}, {"instruction", i.number}};
    events.push_back(std::move(e));
    events.push_back({{"name", "memory"},
                      {"ph", "C"},
                      {"ts", 1000 * milliseconds(i.end - start)},
                      {"pid", process},
                      {"args", {{"bytes", i.bytes}}}});
  }
  // A part of a parallel loop begins inside the instruction that it is of, on whichever thread; that it has
  // ended may be noted behind the instruction's end.
  for (const Task& t : tasks_) {
    const auto of = std::ranges::find_if(
        instructions_, [&](const Instruction& i) { return i.begin <= t.begin && t.begin <= i.end; });
    const bool known = of != instructions_.end();
    events.push_back(event(known ? of->callee : "parallel loop", "task", t.thread, t.begin,
                           known ? std::min(t.end, of->end) : t.end));
    threads.insert(t.thread);
  }
  for (const int64_t t : threads)
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", process},
                      {"tid", t},
                      {"args", {{"name", t == thread_ ? "instructions" : "worker"}}}});
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

}  // namespace tenon::cli
