// SPDX-License-Identifier: Apache-2.0
// The loader of the target `stack`: text into kernels that the runtime calls. It knows the runtime only.
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "base/function.h"
#include "runtime/ndarray.h"
#include "stack_target.h"

namespace custom_target {
namespace {

using namespace tenon;

union Word {
  int64_t i;
  double f;
};
enum class Type : uint8_t { f32, i32, i64 };

struct Machine {
  std::vector<char*> buffers;
  std::vector<std::vector<int64_t>> memory;  ///< of allocated buffers
  std::vector<Word> variables, stack;
  Word pop() {
    const Word w = stack.back();
    stack.pop_back();
    return w;
  }
};

Word as_held(Word w, Type t) {
  if (t == Type::f32) return {.f = double(float(w.f))};
  if (t == Type::i32) return {.i = int64_t(int32_t(w.i))};
  return w;
}
Word loaded(const char* from, int64_t k, Type t) {
  if (t == Type::f32) return {.f = double(reinterpret_cast<const float*>(from)[k])};
  if (t == Type::i32) return {.i = reinterpret_cast<const int32_t*>(from)[k]};
  return {.i = reinterpret_cast<const int64_t*>(from)[k]};
}
void stored(char* to, int64_t k, Type t, Word w) {
  if (t == Type::f32)
    reinterpret_cast<float*>(to)[k] = float(w.f);
  else if (t == Type::i32)
    reinterpret_cast<int32_t*>(to)[k] = int32_t(w.i);
  else
    reinterpret_cast<int64_t*>(to)[k] = w.i;
}

/// Tenon's division rounds down, and a zero divisor counts as one.
int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return a;
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
using Binary = Word (*)(Word, Word);
const std::map<std::string, Binary> kBinary = {
    {"add.i", [](Word a, Word b) -> Word { return {.i = int64_t(uint64_t(a.i) + uint64_t(b.i))}; }},
    {"sub.i", [](Word a, Word b) -> Word { return {.i = int64_t(uint64_t(a.i) - uint64_t(b.i))}; }},
    {"mul.i", [](Word a, Word b) -> Word { return {.i = int64_t(uint64_t(a.i) * uint64_t(b.i))}; }},
    {"div.i", [](Word a, Word b) -> Word { return {.i = floor_div(a.i, b.i)}; }},
    {"mod.i", [](Word a, Word b) -> Word { return {.i = b.i == 0 ? 0 : a.i - floor_div(a.i, b.i) * b.i}; }},
    {"min.i", [](Word a, Word b) -> Word { return {.i = std::min(a.i, b.i)}; }},
    {"max.i", [](Word a, Word b) -> Word { return {.i = std::max(a.i, b.i)}; }},
    {"eq.i", [](Word a, Word b) -> Word { return {.i = a.i == b.i}; }},
    {"ne.i", [](Word a, Word b) -> Word { return {.i = a.i != b.i}; }},
    {"lt.i", [](Word a, Word b) -> Word { return {.i = a.i < b.i}; }},
    {"le.i", [](Word a, Word b) -> Word { return {.i = a.i <= b.i}; }},
    {"add.f", [](Word a, Word b) -> Word { return {.f = a.f + b.f}; }},
    {"sub.f", [](Word a, Word b) -> Word { return {.f = a.f - b.f}; }},
    {"mul.f", [](Word a, Word b) -> Word { return {.f = a.f * b.f}; }},
    {"div.f", [](Word a, Word b) -> Word { return {.f = std::floor(a.f / b.f)}; }},
    {"mod.f", [](Word a, Word b) -> Word { return {.f = a.f - std::floor(a.f / b.f) * b.f}; }},
    // NaN is what comes of it, whichever operand it is.
    {"min.f", [](Word a, Word b) -> Word { return {.f = a.f < b.f || std::isnan(a.f) ? a.f : b.f}; }},
    {"max.f", [](Word a, Word b) -> Word { return {.f = a.f > b.f || std::isnan(a.f) ? a.f : b.f}; }},
    {"eq.f", [](Word a, Word b) -> Word { return {.i = a.f == b.f}; }},
    {"ne.f", [](Word a, Word b) -> Word { return {.i = a.f != b.f}; }},
    {"lt.f", [](Word a, Word b) -> Word { return {.i = a.f < b.f}; }},
    {"le.f", [](Word a, Word b) -> Word { return {.i = a.f <= b.f}; }},
};

/// A step of a kernel: runs, and says which comes next.
using Step = std::function<size_t(Machine&, size_t at)>;
struct Kernel {
  std::vector<Step> steps;
  std::map<std::string, size_t> labels;
  size_t buffers = 0, variables = 0;
};
using Kernels = std::map<std::string, std::shared_ptr<Kernel>>;

[[noreturn]] void refuse(const std::string& line) {
  throw Error(ErrorKind::model, "T0614", "the stack machine does not know the line `" + line + "`", {},
              "compile the model again");
}
Type type_of(const std::string& word, const std::string& line) {
  if (word == "f32") return Type::f32;
  if (word == "i32") return Type::i32;
  if (word == "i64") return Type::i64;
  refuse(line);
}

Step step_of(Kernel& kernel, const std::string& op, std::istringstream& rest, const std::string& line) {
  auto next = [](auto f) {
    return Step([f](Machine& m, size_t at) {
      f(m);
      return at + 1;
    });
  };
  auto word = [&] {
    std::string w;
    if (!(rest >> w)) refuse(line);
    return w;
  };
  auto number = [&](size_t& count) {
    const size_t n = std::stoul(word());
    count = std::max(count, n + 1);
    return n;
  };
  if (const auto b = kBinary.find(op); b != kBinary.end())
    return next([f = b->second](Machine& m) {
      const Word right = m.pop(), left = m.pop();
      m.stack.push_back(f(left, right));
    });
  if (op == "const.i") return next([w = Word{.i = std::stoll(word())}](Machine& m) { m.stack.push_back(w); });
  if (op == "const.f") return next([w = Word{.f = std::stod(word())}](Machine& m) { m.stack.push_back(w); });
  if (op == "get")
    return next([v = number(kernel.variables)](Machine& m) { m.stack.push_back(m.variables[v]); });
  if (op == "set") return next([v = number(kernel.variables)](Machine& m) { m.variables[v] = m.pop(); });
  if (op == "load") {
    const size_t b = number(kernel.buffers);
    return next([b, t = type_of(word(), line)](Machine& m) {
      m.stack.push_back(loaded(m.buffers[b], m.pop().i, t));
    });
  }
  if (op == "store") {
    const size_t b = number(kernel.buffers);
    return next([b, t = type_of(word(), line)](Machine& m) {
      const Word value = m.pop();
      stored(m.buffers[b], m.pop().i, t, value);
    });
  }
  if (op == "alloc") {
    const size_t b = number(kernel.buffers), count = std::stoul(word());
    return next([b, count](Machine& m) {  // eight bytes for an element of any type
      m.buffers[b] = reinterpret_cast<char*>(m.memory.emplace_back(std::max<size_t>(1, count)).data());
    });
  }
  if (op == "not") return next([](Machine& m) { m.stack.back().i = m.stack.back().i == 0; });
  if (op == "float") return next([](Machine& m) { m.stack.back().f = double(m.stack.back().i); });
  if (op == "int") return next([](Machine& m) { m.stack.back().i = int64_t(m.stack.back().f); });
  if (op == "round")
    return next([t = type_of(word(), line)](Machine& m) { m.stack.back() = as_held(m.stack.back(), t); });
  if (op == "jump") return [&kernel, to = word()](Machine&, size_t) { return kernel.labels.at(to); };
  if (op == "jump_if_not")
    return
        [&kernel, to = word()](Machine& m, size_t at) { return m.pop().i ? at + 1 : kernel.labels.at(to); };
  if (op == "return") return [&kernel](Machine&, size_t) { return kernel.steps.size(); };
  refuse(line);
}

Kernels parse(const std::string& text) {
  Kernels out;
  std::shared_ptr<Kernel> kernel;
  std::string name, op, label;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> op;
    if (op == "kernel" && words >> name)
      kernel = out[name] = std::make_shared<Kernel>();
    else if (op == "as" && words >> label && out.count(label))
      kernel = out[name] = out[label];
    else if (!kernel)
      refuse(line);
    else if (op == "label" && words >> label)
      kernel->labels[label] = kernel->steps.size();
    else
      kernel->steps.push_back(step_of(*kernel, op, words, line));
  }
  return out;
}

/// Tensors first, then numbers, as the kernel takes them.
Any run(const Kernel& kernel, Arguments arguments) {
  Machine m;
  for (const Any& a : arguments)
    if (const auto tensor = a.try_as<NDArray>())
      m.buffers.push_back(tensor->as_ptr<char>());
    else
      m.variables.push_back({.i = a.as<int64_t>()});
  m.buffers.resize(std::max(m.buffers.size(), kernel.buffers));
  m.variables.resize(std::max(m.variables.size(), kernel.variables));
  for (size_t at = 0; at < kernel.steps.size();) at = kernel.steps[at](m, at);
  return {};
}

}  // namespace

void register_stack_loader() {
  registry::add("loader.stack", Function([](Arguments text) {
                  const Kernels kernels = parse(text[0].as<std::string>());
                  return Any(Function([kernels](Arguments name) -> Any {
                    const auto found = kernels.find(name[0].as<std::string>());
                    if (found == kernels.end()) return {};
                    return Any(Function([kernel = found->second](Arguments a) { return run(*kernel, a); }));
                  }));
                }));
}

}  // namespace custom_target
