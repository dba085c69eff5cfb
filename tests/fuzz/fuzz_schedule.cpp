// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: the bytes are decisions. They pick one of the test programs, change its text or its
// values, draw schedule steps (sensible ones, then a damaged copy of their trace), and what is accepted has
// to verify, to print and parse, and to compute what the interpreter made of the program before.
#include <nlohmann/json.hpp>

#include "decisions.h"
#include "ir/text.h"
#include "schedule/primitive.h"
#include "steps.h"

namespace tenon::testing {
namespace {

// ---------------------------------------------------------------- changes of a text
/// One token, line or number of the text becomes something else.
void change_text(std::string& text, Decisions& d) {
  std::vector<std::pair<size_t, size_t>> tokens;  // begin, length: words, numbers, single signs
  for (size_t i = 0; i < text.size();) {
    size_t j = i;
    auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
    while (j < text.size() && word(text[j])) ++j;
    if (j == i && !std::isspace(static_cast<unsigned char>(text[i]))) ++j;
    if (j > i) tokens.emplace_back(i, j - i);
    i = std::max(j, i + 1);
  }
  if (tokens.empty()) return;
  auto any = [&] { return tokens[size_t(d.below(tokens.size()))]; };
  const auto [at, length] = any();
  static const char* words[] = {"0",
                                "1",
                                "-1",
                                "7",
                                "64",
                                "9223372036854775807",
                                "T.int32(3)",
                                "T.float32(0)",
                                "\"float32\"",
                                "\"int8\"",
                                "\"float8_e4m3fn\"",
                                "\"int4\"",
                                "+",
                                "//",
                                "%",
                                "<",
                                "T.max",
                                "T.exp",
                                "T.Select",
                                "T.axis.reduce",
                                "T.axis.opaque",
                                "T.init",
                                "T.parallel",
                                "T.vectorized",
                                "T.thread_binding",
                                "T.Ramp(0, 1, 4)",
                                "T.Broadcast(T.float32(1), 4)",
                                "T.where(True)",
                                "n",
                                "A",
                                "(",
                                ")",
                                ":",
                                ","};
  switch (d.below(6)) {
    case 0:
      text.erase(at, length);
      break;
    case 1:
      text.replace(at, length, words[d.below(std::size(words))]);
      break;
    case 2: {
      const auto [from, size] = any();
      text.replace(at, length, text.substr(from, size));
      break;
    }
    case 3:
      text.insert(at, std::string(words[d.below(std::size(words))]) + " ");
      break;
    default: {  // a line is dropped, or stands twice, or moves in
      const size_t begin = text.rfind('\n', at) + 1, end = std::min(text.find('\n', at), text.size() - 1) + 1;
      const std::string line = text.substr(begin, end - begin);
      switch (d.below(3)) {
        case 0:
          text.erase(begin, end - begin);
          break;
        case 1:
          text.insert(begin, line);
          break;
        default:
          text.insert(begin, "    ");
      }
    }
  }
}

/// Values outside reductions get other operators and constants: what each iteration touches stays the same.
tir::PrimFunc change_values(const tir::PrimFunc& f, Decisions& d) {
  const int seed = d.below(256);
  int count = 0;
  bool reduction = false;
  auto value = [&](const PrimExpr& e) {
    return rewrite(e, [&](const tir::Add& n) -> PrimExpr {
      if (!n.dtype.is_float() || (seed + ++count * 37) % 5) return {};
      return (seed + count) % 2 ? n.a - n.b : tir::max(n.a, n.b);
    });
  };
  tir::Stmt body = rewrite(f->body, [&](const tir::Block& b) -> tir::Stmt {
    reduction = b.init || b.iter_vars.empty();
    for (const tir::IterVar& v : b.iter_vars) reduction = reduction || v->kind != tir::IterKind::spatial;
    const auto* s = b.body.as<tir::BufferStore>();
    if (reduction || !s) return {};
    Ref<tir::Block> out(&b);
    out.edit()->body = tir::store(s->buffer, value(s->value), s->indices, s->predicate);
    return out;
  });
  tir::PrimFunc out = f;
  out.edit()->body = body;
  return out;
}

// ---------------------------------------------------------------- changes of a trace
using json = nlohmann::ordered_json;

void leaves(json& j, std::vector<json*>& out) {
  if (j.is_structured())
    for (auto& x : j) leaves(x, out);
  if (!j.is_structured() || !j.empty()) out.push_back(&j);
}
void change_trace(json& j, Decisions& d) {
  std::vector<json*> all;
  leaves(j, all);
  if (all.empty()) return;
  json& x = *all[size_t(d.below(all.size()))];
  static const int64_t numbers[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    5,
                                    7,
                                    8,
                                    -1,
                                    -2,
                                    16,
                                    100,
                                    1000,
                                    1 << 20,
                                    INT32_MAX,
                                    INT32_MIN,
                                    INT64_MAX,
                                    INT64_MIN,
                                    int64_t(1) << 33};
  static const char* texts[] = {"",        "b0",         "l1",    "v0",     "local", "global",
                                "shared",  "read",       "write", "C",      "root",  "threadIdx.x",
                                "vthread", "test.copy4", "hint",  "float16"};
  switch (d.below(5)) {
    case 0:
      x = numbers[d.below(std::size(numbers))];
      break;
    case 1:
      x = texts[d.below(std::size(texts))];
      break;
    case 2:
      x = *all[size_t(d.below(all.size()))];
      break;
    case 3:
      if (x.is_array() && !x.empty()) x.erase(x.begin() + d.below(x.size()));
      break;
    default:
      if (x.is_array() && !x.empty()) {
        const json copy = x[size_t(d.below(x.size()))];
        x.insert(x.begin() + d.below(x.size() + 1), copy);
      } else if (x.is_string()) {
        x = std::string(primitives()[size_t(d.below(primitives().size()))]->name);
      } else {
        x = nullptr;
      }
  }
}

// ---------------------------------------------------------------- running
InterpretOptions limits() {
  InterpretOptions o;
  o.float64 = true;  // another order of a sum must not look like another sum
  o.max_steps = 200'000;
  o.max_bytes = 16 << 20;
  return o;
}
/// What the buffers hold at the end; nothing when the program may not be run, or not for so long.
std::optional<std::vector<NDArray>> result(const tir::PrimFunc& f,
                                           const std::map<std::string, int64_t>& sizes,
                                           std::string* why = nullptr) {
  for (const auto& [p, b] : f->buffer_map) {
    int64_t elements = 1;
    for (const PrimExpr& e : b->shape) {
      const auto n = tir::as_int(e);
      if (n && (*n < 0 || *n > 100'000)) return {};
      elements *= n.value_or(8);
      if (elements > 100'000) return {};
    }
  }
  try {
    std::vector<NDArray> args = arguments(f, sizes);
    for (NDArray& a : args)
      if (a.dtype().is_float() && a.ndim() > 0) {
        NDArray wide = NDArray::empty(a.shape(), f64);
        for (int64_t i = 0; i < a.size(); ++i) wide.set_element(i, a.element(i));
        a = wide;
      }
    interpret_prim_func(f, args, {}, limits());
    return args;
  } catch (const Error& e) {
    judge(e, print(f));
    if (why) *why = e.code;
  } catch (const std::out_of_range&) {  // a size without a value, in `arguments`
    if (why) *why = "size";
  } catch (const std::bad_optional_access&) {
    if (why) *why = "size";
  }
  return {};
}
bool agree(const std::vector<NDArray>& a, const std::vector<NDArray>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t j = 0; j < a[i].size(); ++j) {
      const double x = a[i].element(j), y = b[i].element(j);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (!(std::abs(x - y) <= 1e-5 * (1 + std::abs(x)))) return false;
    }
  return true;
}

/// A result that no check of the engine promises: the step says so itself.
bool unsafe(const Trace& t) {
  return std::ranges::any_of(t.steps, [](const TraceStep& s) { return s.primitive->trusts_caller; });
}

struct Case {
  Program program;
  bool honest = true;  ///< blocks do what they say
};

void check(const Case& c, const std::optional<std::vector<NDArray>>& expected, const Schedule& s) {
  const tir::PrimFunc f = s.function();
  const std::string before = print(c.program.function);
  auto trace = [&] { return s.trace().to_script() + print(f); };
  if (const std::string p = problems_of(f); !p.empty()) finding("not well formed:\n" + p, before, trace());
  IRModule m = IRModule::create();
  m.set("main", f);
  try {
    const IRModule again = parse_module(print(m));
    if (const std::string d = first_difference(m, again); !d.empty())
      finding("printed, it is another program: " + d, before, trace());
  } catch (const Error& e) {
    finding(std::string("printed, it is refused: ") + e.what(), before, trace());
  }
  std::string why;
  const auto got = result(f, c.program.sizes, &why);
  if (!c.honest || !expected || unsafe(s.trace())) return;
  if (!got && why != "T0351") finding("it fails with " + why, before, trace());
  if (got && !agree(*expected, *got)) finding("another result", before, trace());
}

void run_case(Decisions& d) {
  static const std::vector<Program> programs = [] {
    register_test_intrins();
    return all_programs();
  }();
  Case c{programs[size_t(d.below(programs.size()))]};
  const int kind = d.below(4);
  if (kind == 1) c.program.function = change_values(c.program.function, d);
  if (kind >= 2) {
    c.honest = false;
    IRModule m = IRModule::create();
    m.set("main", c.program.function);
    std::string text = print(m);
    for (int k = 1 + d.below(3); k > 0; --k) change_text(text, d);
    try {
      m = parse_module(text);
      if (m.functions().empty()) return;
      auto f = (*m.functions().begin()).second.cast<tir::PrimFuncNode>();
      if (!f) return;
      c.program.function = f;
    } catch (const Error& e) {
      return judge(e, text);
    }
    DiagnosticList problems;
    verify(m, problems);
    if (!problems.empty()) return;
  }
  std::string why;
  const auto expected = result(c.program.function, c.program.sizes, &why);
  std::optional<Schedule> s;
  try {
    s.emplace(c.program.function, uint64_t(d.below(256)));
  } catch (const Error& e) {
    return judge(e, print(c.program.function));
  }
  Counts counts;
  for (int k = d.below(9); k >= 0 && d.more(); --k) {
    Random r{std::mt19937_64(uint64_t(d.below(65536)))};
    const tir::PrimFunc before = s->function();
    try {
      act(*s, r, counts);
    } catch (const Error& e) {
      judge(e, print(before), s->trace().to_script());
    } catch (const std::out_of_range&) {  // no loops to choose from
    }
  }
  check(c, expected, *s);
  if (!d.more()) return;
  json trace = json::parse(s->trace().to_json());
  for (int k = 1 + d.below(4); k > 0; --k) change_trace(trace, d);
  try {
    const Trace damaged = Trace::from_json(trace.dump());
    Schedule again(c.program.function);
    bool whole = true;
    try {
      again.run(damaged);
    } catch (const Error& e) {
      judge(e, print(c.program.function), trace.dump(1));
      whole = false;
    }
    check(c, expected, again);  // the steps before a refused one, too
    if (whole) damaged.to_script();
  } catch (const Error& e) {
    judge(e, print(c.program.function), trace.dump(1));
  }
}

}  // namespace
}  // namespace tenon::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::testing::Decisions d(data, size);
  tenon::testing::run_case(d);
  return 0;
}
