// SPDX-License-Identifier: Apache-2.0
// ONNX's backend suite, every case in a process of its own with limits, compiled and interpreted:
//
//   conformance [--data FOLDER|ARCHIVE] [--list FILE] [--json FILE] [--only TEXT] [--jobs N] [--update]
//
// Prints a table by group and what does not pass with the reason. `--list` names the cases that do not pass,
// each with its outcomes; a case with other ones ends the program with 1, also one with better ones (--update
// writes the list anew). Without data the program ends with 77.
//
// Outcomes: passed; a code (Txxxx): refused or ended so; wrong; random (numbers that are drawn differ, their
// types and shapes do not); data (the case's values cannot be read); crash, memory or time; - where the
// interpreter does not run a case of that size.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "../unit/import/files.h"
#include "../unit/import/judge.h"
#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "pipeline/emit.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr int kSeconds = 120;                 // of processor time of one case
constexpr rlim_t kMemory = rlim_t(6) << 30;   // address space of one case
constexpr int64_t kMostInterpreted = 60'000;  // elements of a case's data
constexpr std::array<const char*, 2> kRoutes{"compiled", "interpreted"};

struct Options {
  std::string data, list, json, only;
  size_t jobs = 2;
  bool update = false;
};
struct Outcome {
  std::string word, why;
};

/// Nothing when they cannot be read.
std::optional<std::vector<Any>> read_all(const fs::path& set, const std::string& kind,
                                         const std::vector<onnx::OnnxValueInfo>& declared) {
  std::vector<Any> out;
  for (size_t i = 0;; ++i) {
    const fs::path path = set / (kind + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return out;
    try {
      out.push_back(onnx::read_value_proto(path, i < declared.size() ? declared[i].container : ""));
    } catch (const DiagnosticError&) {
      return std::nullopt;
    }
  }
}

/// Whether the model draws random numbers, which no two implementations do alike.
bool draws(const onnx::OnnxInfo& info) {
  for (const auto& [domain, op, count, known] : info.operators)
    if (op == "Bernoulli" || op == "Dropout" || op == "Multinomial" || op.starts_with("Random")) return true;
  return false;
}

/// A model of one output gives it, one of several a tuple of them.
std::vector<Any> outputs_of(const Any& result, size_t count) {
  if (count == 1) return {result};
  return result.as<Array<Any>>().vec();
}
int64_t elements(const Any& v) {
  if (const auto a = v.try_as<NDArray>(); a && *a) return a->size();
  int64_t sum = 0;
  if (const auto list = v.try_as<Ref<ArrayObj>>(); list && *list)
    for (const Any& item : (*list)->items) sum += elements(item);
  return sum;
}

Outcome run_case(const fs::path& folder, size_t route) {
  const std::string path = folder / "model.onnx";
  const IRModule module = onnx::import_onnx(path);
  const onnx::OnnxInfo info = onnx::read_onnx_info(path);
  std::unique_ptr<Session> session;
  for (int k = 0; fs::exists(folder / ("test_data_set_" + std::to_string(k))); ++k) {
    const fs::path set = folder / ("test_data_set_" + std::to_string(k));
    const auto inputs = read_all(set, "input", info.inputs), want = read_all(set, "output", info.outputs);
    if (!inputs || !want) return {"data", "values that are no tensors of known types"};
    std::vector<Any> got;
    if (route == 0) {
      if (!session) session = std::make_unique<Session>(jit_artifact(compile(module, {})));
      const auto plain = [](const Any& v) {
        return v.try_as<NDArray>().value_or(NDArray()).get() != nullptr;
      };
      if (std::all_of(inputs->begin(), inputs->end(), plain) &&
          std::all_of(want->begin(), want->end(), plain)) {
        std::vector<NDArray> tensors;
        for (const Any& v : *inputs) tensors.push_back(v.as<NDArray>());
        for (NDArray& a : session->invoke(tensors)) got.push_back(Any(std::move(a)));
      } else {
        got = outputs_of(session->call("main", *inputs), info.outputs.size());
      }
    } else {
      int64_t work = 0;
      for (const auto* list : {&*inputs, &*want})
        for (const Any& x : *list) work += elements(x);
      if (work > kMostInterpreted) return {"-", ""};
      std::vector<Any> arguments = *inputs;
      arguments.resize(module.find("main").as<graph::Function>()->params.size());
      got = outputs_of(interpret(module, "main", arguments), info.outputs.size());
    }
    if (got.size() != want->size()) return {"wrong", "another number of outputs"};
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string d = test::difference(got[i], (*want)[i]);
      if (d.empty()) continue;
      const bool random = draws(info) && test::difference(got[i], (*want)[i], true).empty();
      return {random ? "random" : "wrong", "output " + std::to_string(i) + ": " + d};
    }
  }
  return {"passed", ""};
}

Outcome judged(const fs::path& folder, size_t route) {
  try {
    return run_case(folder, route);
  } catch (const Error& e) {
    return {e.code, e.what()};
  } catch (const std::exception& e) {
    return {"crash", e.what()};
  }
}

/// A case that runs in a child process and writes its outcome to a pipe.
struct Child {
  size_t at = 0, route = 0;
  pid_t pid = -1;
  int pipe = -1;
};
Child start(size_t at, size_t route, const fs::path& folder) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("no process");
  if (pid > 0) {
    ::close(ends[1]);
    return {at, route, pid, ends[0]};
  }
  const rlimit time{rlim_t(kSeconds), rlim_t(kSeconds) + 1}, memory{kMemory, kMemory}, core{0, 0};
  ::setrlimit(RLIMIT_CPU, &time), ::setrlimit(RLIMIT_AS, &memory), ::setrlimit(RLIMIT_CORE, &core);
  ::alarm(unsigned(20 * kSeconds));
  const int quiet = ::open("/dev/null", O_WRONLY);
  ::dup2(quiet, 1), ::dup2(quiet, 2);
  const Outcome o = judged(folder, route);
  const std::string text = o.word + "\n" + o.why.substr(0, 3000);
  (void)!::write(ends[1], text.data(), text.size());
  ::_exit(0);
}
Outcome finish(const Child& c, int status) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(c.pipe, buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  ::close(c.pipe);
  if (const size_t line = text.find('\n'); line != std::string::npos)
    return {text.substr(0, line), text.substr(line + 1)};
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == SIGXCPU || signal == SIGKILL || signal == SIGALRM)
    return {"time", "more than the time limit"};
  return {"crash", signal ? strsignal(signal) : "ended without an outcome"};
}

struct Case {
  std::string name;  ///< group/name
  fs::path folder;
  std::array<Outcome, 2> outcomes;
  bool passed() const {
    return outcomes[0].word == "passed" && (outcomes[1].word == "passed" || outcomes[1].word == "-");
  }
  std::string words() const { return outcomes[0].word + " " + outcomes[1].word; }
};

std::vector<Case> cases_of(const std::string& root, const std::string& only) {
  std::vector<Case> out;
  for (const auto& group : fs::directory_iterator(root))
    if (group.is_directory())
      for (const auto& e : fs::directory_iterator(group.path()))
        if (fs::exists(e.path() / "model.onnx")) {
          const std::string name = group.path().filename().string() + "/" + e.path().filename().string();
          if (name.find(only) != std::string::npos) out.push_back({name, e.path(), {}});
        }
  std::sort(out.begin(), out.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return out;
}

void run_all(std::vector<Case>& cases, size_t jobs) {
  std::map<pid_t, Child> running;
  for (size_t next = 0; next < 2 * cases.size() || !running.empty();) {
    if (next < 2 * cases.size() && running.size() < jobs) {
      const Child c = start(next / 2, next % 2, cases[next / 2].folder);
      running.emplace(c.pid, c);
      ++next;
      continue;
    }
    int status = 0;
    const auto done = running.find(::waitpid(-1, &status, 0));
    if (done == running.end()) continue;
    cases[done->second.at].outcomes[done->second.route] = finish(done->second, status);
    running.erase(done);
  }
}

void print(const std::vector<Case>& cases) {
  std::map<std::string, std::pair<int, int>> groups;
  for (const Case& c : cases) {
    auto& [passed, all] = groups[c.name.substr(0, c.name.find('/'))];
    passed += c.passed(), ++all;
    auto& [every_passed, every] = groups["~all"];
    every_passed += c.passed(), ++every;
    if (c.passed()) continue;
    for (size_t r = 0; r < kRoutes.size(); ++r)
      if (const Outcome& o = c.outcomes[r]; o.word != "passed" && o.word != "-")
        std::cout << c.name << ", " << kRoutes[r] << ": " << o.word << " " << o.why.substr(0, 300) << "\n";
  }
  std::cout << "\n| group | passed | cases |\n|---|---|---|\n";
  for (const auto& [name, n] : groups)
    std::cout << "| " << (name == "~all" ? "all" : name) << " | " << n.first << " | " << n.second << " |\n";
}

void write_json(const std::vector<Case>& cases, const std::string& path) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Case& c : cases) {
    nlohmann::ordered_json j{{"name", c.name}, {"passed", c.passed()}};
    for (size_t r = 0; r < kRoutes.size(); ++r)
      j[kRoutes[r]] = {{"outcome", c.outcomes[r].word}, {"reason", c.outcomes[r].why}};
    all.push_back(j);
  }
  std::ofstream(path) << all.dump(1) << "\n";
}

/// 1 when an outcome is not the listed one.
int compare(const std::vector<Case>& cases, const Options& o) {
  std::map<std::string, std::string> listed;
  std::ifstream in(o.list);
  for (std::string name, words; in >> name && std::getline(in >> std::ws, words);) listed[name] = words;
  if (o.update) {
    for (const Case& c : cases) {
      listed.erase(c.name);
      if (!c.passed()) listed[c.name] = c.words();
    }
    std::ofstream out(o.list);
    for (const auto& [name, words] : listed) out << name << " " << words << "\n";
    return 0;
  }
  int bad = 0;
  for (const Case& c : cases) {
    const auto l = listed.find(c.name);
    const std::string want = l == listed.end() ? "passed" : l->second,
                      got = c.passed() ? "passed" : c.words();
    if (want == got) continue;
    ++bad;
    std::cout << c.name << ": listed as " << want << ", is " << got << "\n";
  }
  if (o.only.empty())
    for (const auto& [name, words] : listed)
      if (std::none_of(cases.begin(), cases.end(), [&](const Case& c) { return c.name == name; })) {
        ++bad;
        std::cout << name << ": listed, and no case of the suite\n";
      }
  std::cout << (bad ? std::to_string(bad) + " outcomes are not those of " : "every outcome is that of ")
            << o.list << "\n";
  return bad ? 1 : 0;
}

int run(const Options& o) {
  const std::string root = o.data.empty() ? test::conformance_folder() : o.data;
  if (root.empty() || !fs::is_directory(root)) {
    std::cout << "the suite's data are missing: " << (o.data.empty() ? test::conformance_archive() : o.data)
              << "\n";
    return 77;
  }
  std::vector<Case> cases = cases_of(root, o.only);
  run_all(cases, o.jobs);
  print(cases);
  if (!o.json.empty()) write_json(cases, o.json);
  return o.list.empty() ? 0 : compare(cases, o);
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::Options o;
  const std::map<std::string, std::string*> texts{
      {"--data", &o.data}, {"--list", &o.list}, {"--json", &o.json}, {"--only", &o.only}};
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--update")
      o.update = true;
    else if (const auto t = texts.find(a); t != texts.end() && i + 1 < argc)
      *t->second = argv[++i];
    else if (a == "--jobs" && i + 1 < argc)
      o.jobs = std::max(1ul, std::strtoul(argv[++i], nullptr, 10));
    else {
      std::cerr << "conformance: " << a << " is not understood\n";
      return 2;
    }
  }
  return tenon::run(o);
}
