// SPDX-License-Identifier: Apache-2.0
// The fuzz target of models without libFuzzer, in any build: each seed gives decisions, batches run in
// processes of their own. A finding, a crash or a case over its time is printed with its seed.
//   random_models [--seed FIRST] [--cases N | --seconds S] [--jobs N] [--limit SECONDS]
// Exit code: 0 nothing was found, 1 something was, 2 usage.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr uint64_t kBatch = 50;     // a process each: memory that a case leaves behind goes with it
constexpr size_t kDecisions = 120;  // more than a case takes

struct Options {
  uint64_t seed = 1, cases = 1000;
  double seconds = 0;
  unsigned jobs = 1, limit = 60;
};

void run_seed(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(kDecisions);
  for (uint8_t& b : bytes) b = uint8_t(random());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

/// Runs seeds [from, to); `at` says to the parent which one runs.
[[noreturn]] void run_batch(uint64_t from, uint64_t to, volatile uint64_t* at, unsigned limit) {
  for (uint64_t seed = from; seed < to; ++seed) {
    *at = seed;
    alarm(limit);
    run_seed(seed);
  }
  *at = to;
  std::fflush(nullptr);
  std::exit(0);  // leaks are looked for
}

bool parse(int argc, char** argv, Options& o) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const double v = std::atof(argv[i + 1]);
    if (name == "--seed")
      o.seed = uint64_t(v);
    else if (name == "--cases")
      o.cases = uint64_t(v);
    else if (name == "--seconds")
      o.seconds = v;
    else if (name == "--jobs")
      o.jobs = unsigned(v);
    else if (name == "--limit")
      o.limit = unsigned(v);
    else
      return false;
  }
  return argc % 2 == 1 && o.jobs > 0 && o.jobs <= 64;
}

struct Batch {
  uint64_t end;
  volatile uint64_t* at;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse(argc, argv, o)) {
    std::fprintf(
        stderr,
        "usage: random_models [--seed FIRST] [--cases N | --seconds S] [--jobs N] [--limit SECONDS]\n");
    return 2;
  }
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  auto* places = static_cast<uint64_t*>(
      mmap(nullptr, o.jobs * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (places == MAP_FAILED) return 2;
  std::map<pid_t, Batch> running;
  uint64_t next = o.seed, found = 0;
  const uint64_t last = o.seconds > 0 ? UINT64_MAX : o.seed + o.cases;
  double said = 0;
  const auto begin = [&](uint64_t from, uint64_t to, volatile uint64_t* at) {
    std::fflush(nullptr);
    *at = from;
    const pid_t child = fork();
    if (child == 0) run_batch(from, to, at, o.limit);
    running[child] = {to, at};
  };
  const auto fresh = [&](volatile uint64_t* at) {
    if (next >= last || (o.seconds > 0 && passed() > o.seconds)) return;
    const uint64_t to = std::min(last, next + kBatch);
    begin(next, to, at);
    next = to;
  };
  for (unsigned i = 0; i < o.jobs; ++i) fresh(places + i);
  while (!running.empty()) {
    int status = 0;
    const pid_t child = wait(&status);
    if (child < 0) break;
    const Batch b = running[child];
    running.erase(child);
    if (status != 0) {
      ++found;
      const char* why = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "takes too long"
                        : WIFSIGNALED(status)                              ? strsignal(WTERMSIG(status))
                                                                           : "ended the process";
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(*b.at), why);
      std::fflush(stdout);
    }
    if (status != 0 && *b.at + 1 < b.end)
      begin(*b.at + 1, b.end, b.at);
    else
      fresh(b.at);
    if (passed() - said > 60) {
      said = passed();
      std::fprintf(stderr, "%.0f s: seeds to %llu, %llu found\n", said, static_cast<unsigned long long>(next),
                   static_cast<unsigned long long>(found));
    }
  }
  std::printf("%llu models from seed %llu in %.0f s, %llu found\n",
              static_cast<unsigned long long>(next - o.seed), static_cast<unsigned long long>(o.seed),
              passed(), static_cast<unsigned long long>(found));
  return found ? 1 : 0;
}
