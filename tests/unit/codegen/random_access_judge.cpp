// SPDX-License-Identifier: Apache-2.0
#include "random_access_judge.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "base/diagnostic.h"
#include "base/temporary_folder.h"
#include "ir/symbols.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "kernels.h"
#include "pipeline/pass_lists.h"

namespace tenon::test {
namespace {

using namespace tir;

constexpr int64_t kRedZone = 64;
constexpr unsigned char kCanary = 0xC5;

/// Values of a buffer between red zones.
struct Guarded {
  explicit Guarded(const NDArray& a) : bytes(a.byte_size() + 2 * kRedZone, kCanary) {
    if (a.byte_size()) std::memcpy(data(), a.data(), a.byte_size());
  }
  unsigned char* data() { return bytes.data() + kRedZone; }
  bool untouched() const {
    for (size_t i = 0; i < size_t(kRedZone); ++i)
      if (bytes[i] != kCanary || bytes[bytes.size() - 1 - i] != kCanary) return false;
    return true;
  }
  std::vector<unsigned char> bytes;
};

void found(AccessCase& c, AccessFault fault, const std::string& said) {
  if (c.fault != AccessFault::none) return;
  c.fault = fault;
  c.said = said;
}

std::vector<NDArray> inputs_of(const RandomAccessProgram& p, uint64_t seed) {
  std::vector<NDArray> out{random_array({p.rows, p.columns}, p.element, seed),
                           NDArray::empty({p.indices}, p.index),
                           random_array({p.results}, p.element, seed + 1)};
  std::mt19937_64 random(seed);
  // Mostly small, sometimes such that sums of it overflow.
  const bool narrow = p.index == i32;
  const int64_t far[] = {narrow ? INT32_MAX : INT64_MAX, narrow ? INT32_MIN : INT64_MIN, -1, 1 << 20};
  for (int64_t i = 0; i < p.indices; ++i)
    out[1].set_element_int(i, random() % 40 == 0 ? far[random() % 4] : int64_t(random() % 5));
  return out;
}

bool has_line(const Diagnostic& d) { return d.span || d.location.find(':') != std::string::npos; }

void interpret_case(AccessCase& c) {
  const IRModule m = parse_module(c.program.text);
  for (const NDArray& a : c.inputs) c.wanted.push_back(a.copy());
  try {
    interpret_prim_func(m.find(c.name).cast<PrimFuncNode>(), c.wanted, m);
  } catch (const Error& e) {
    c.interpreted = e.code;
  }
}

/// As a compilation lowers it; null when it is refused.
PrimFunc lowered(AccessCase& c, const Target& target) {
  PassContext context;
  context.target = target;
  try {
    IRModule m = parse_module(c.program.text);
    verify_or_throw(m);
    m = run_pass("lower_jumps", m, context);
    m = run_pass("prove_programs", m, context);
    m = run_passes(m, schedule_passes(), context);
    c.scalars.clear();
    for (const VarRef& v : kernel_scalars(m.find(c.name).cast<PrimFuncNode>()))
      c.scalars.push_back(v->name == "n" ? c.program.columns : c.program.results);
    m = run_passes(m, tensor_passes(), context);
    return m.find(c.name).cast<PrimFuncNode>();
  } catch (const DiagnosticError& e) {
    c.refused = e.diagnostics[0].code;
    if (!has_line(e.diagnostics[0])) found(c, AccessFault::refused, c.refused + " has no line");
  } catch (const Error& e) {
    c.refused = e.code;
  }
  return {};
}

/// Interprets the program and lowers it for both.
void prepare(AccessCase& c) {
  try {
    verify_or_throw(parse_module(c.program.text));
  } catch (const Error& e) {
    // What is wrong in any run is refused by the verifier already.
    c.refused = e.code;
    if (e.code != "T0335" && e.code != "T0336" && e.code != "T0337")
      return found(c, AccessFault::unread, e.what());
  }
  interpret_case(c);
  c.native = lowered(c, host_target());
  const std::string by_native = c.refused;
  c.text = lowered(c, parse_target("c"));
  if (c.refused != by_native)
    found(c, AccessFault::refused, fmt::format("`{}` for LLVM and `{}` for C", by_native, c.refused));
  if (c.refused == "T0336" || c.refused == "T0337") {
    if (c.interpreted.empty()) found(c, AccessFault::refused, c.refused + ", and the interpreter ends well");
  } else if (!c.refused.empty() && c.refused != "T0335") {
    found(c, AccessFault::refused, c.refused);
  }
}

/// Is the kernel's code that of an access?
bool names_access(const PrimFunc& kernel, int32_t code) {
  if (code < 1 || !kernel->attrs.contains("tenon.asserts")) return false;
  const auto messages = kernel->attrs.at("tenon.asserts").as<Array<std::string>>();
  return size_t(code) <= messages.size() &&
         messages[size_t(code) - 1].find(" is not in [0, ") != std::string::npos;
}

/// Both end with an error of an access, or both give these values.
void compare(AccessCase& c, const PrimFunc& kernel, int32_t code, std::vector<Guarded>& got,
             const std::string& how) {
  for (Guarded& g : got)
    if (!g.untouched()) return found(c, AccessFault::outside, how + " writes outside");
  if ((code != 0) != !c.interpreted.empty())
    return found(c, AccessFault::differs,
                 fmt::format("{} returned {}, the interpreter says `{}`", how, code, c.interpreted));
  if (code) {
    if (!names_access(kernel, code)) found(c, AccessFault::error, fmt::format("{} returned {}", how, code));
    if (c.interpreted != "T0355" && c.interpreted != "T0356")
      found(c, AccessFault::error, "the interpreter says " + c.interpreted);
    return;
  }
  for (size_t k = 0; k < got.size(); ++k)
    if (c.wanted[k].byte_size() && std::memcmp(got[k].data(), c.wanted[k].data(), c.wanted[k].byte_size()))
      return found(c, AccessFault::differs, fmt::format("{}: buffer {} differs", how, k));
}

// ---------------------------------------------------------------- LLVM
/// From the last iteration to the first: what a race would leave differs from the order of the program.
int32_t backwards(const TenonKernelContext* context, TenonParallelBody body, void* closure, int64_t extent,
                  int64_t) {
  for (int64_t i = extent; i-- > 0;)
    if (const int32_t code = body(closure, i, i + 1, context)) return code;
  return 0;
}
/// Memory that holds nothing useful.
void* scratch(const TenonKernelContext*, int64_t bytes) {
  const size_t size = size_t(bytes + 127) / 64 * 64;
  void* p = std::aligned_alloc(64, size);
  std::memset(p, kCanary, size);
  return p;
}
void give_back(const TenonKernelContext*, void* p) { std::free(p); }

void run_native(std::vector<AccessCase>& cases) {
  std::vector<PrimFunc> kernels;
  for (const AccessCase& c : cases)
    if (c.native) kernels.push_back(c.native);
  if (kernels.empty()) return;
  const auto jit =
      codegen::load_elf(codegen::llvm_object(module_of(kernels), host_target(), 2), host_target());
  for (AccessCase& c : cases) {
    if (!c.native) continue;
    const auto kernel = reinterpret_cast<TenonKernel>(jit.find(c.name));
    if (!kernel) {
      found(c, AccessFault::differs, "LLVM makes no kernel");
      continue;
    }
    std::vector<Guarded> buffers;
    for (const NDArray& a : c.inputs) buffers.emplace_back(a);
    void* pointers[] = {buffers[0].data(), buffers[1].data(), buffers[2].data()};
    const TenonKernelContext context{backwards, scratch, give_back, nullptr};
    compare(c, c.native, kernel(pointers, c.scalars.data(), &context), buffers, "LLVM");
  }
}

// ---------------------------------------------------------------- C
const char* const kDriver = R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int32_t backwards(const TenonKernelContext* c, TenonParallelBody body, void* closure, int64_t extent,
                         int64_t cost) {
  (void)cost;
  for (int64_t i = extent; i-- > 0;) {
    const int32_t code = body(closure, i, i + 1, c);
    if (code) return code;
  }
  return 0;
}
static void* scratch(const TenonKernelContext* c, int64_t bytes) {
  (void)c;
  const size_t size = (size_t)(bytes + 127) / 64 * 64;
  return memset(aligned_alloc(64, size), 0xC5, size);
}
static void give_back(const TenonKernelContext* c, void* p) { (void)c; free(p); }
typedef struct {
  int32_t (*kernel)(void* const*, const int64_t*, const TenonKernelContext*);
  const unsigned char* data[3];
  size_t size[3];
  int64_t scalars[2];
} Case;
static void run(int number, const Case* c) {
  const TenonKernelContext context = {backwards, scratch, give_back, 0};
  void* buffers[3];
  printf("%d ", number);
  fflush(stdout);
  for (int b = 0; b < 3; ++b) {
    buffers[b] = malloc(c->size[b]);
    if (c->size[b]) memcpy(buffers[b], c->data[b], c->size[b]);
  }
  printf("%d\n", (int)c->kernel(buffers, c->scalars, &context));
  for (int b = 0; b < 3; ++b) {
    for (size_t i = 0; i < c->size[b]; ++i) printf("%d ", ((unsigned char*)buffers[b])[i]);
    printf("\n");
    free(buffers[b]);
  }
}
int main(void) {
)";

/// The kernels with a program around them that runs all cases and writes what each leaves.
std::string c_program(const std::vector<AccessCase>& cases) {
  std::vector<PrimFunc> kernels;
  for (const AccessCase& c : cases)
    if (c.text) kernels.push_back(c.text);
  std::string text = c_text(module_of(kernels)) + kDriver;
  for (size_t k = 0; k < cases.size(); ++k) {
    const AccessCase& c = cases[k];
    if (!c.text) continue;
    text += "  {\n";
    std::string sizes;
    for (size_t b = 0; b < 3; ++b) {
      const NDArray& a = c.inputs[b];
      text += fmt::format("    static const unsigned char data{}[] = {{", b);
      for (size_t i = 0; i < a.byte_size(); ++i)
        text += fmt::format("{},", static_cast<const unsigned char*>(a.data())[i]);
      text += "0};\n";
      sizes += fmt::format("{}{}", b ? ", " : "", a.byte_size());
    }
    std::vector<int64_t> scalars = c.scalars;
    scalars.resize(2);
    text += fmt::format(
        "    static const Case c = {{{}, {{data0, data1, data2}}, {{{}}}, {{{}, {}}}}};\n    run({}, &c);\n  "
        "}}\n",
        c.name, sizes, scalars[0], scalars[1], k);
  }
  return text + "  return 0;\n}\n";
}

std::string contents(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Lines of the program are a case and its code, and the bytes of each buffer; where it is ended, the case at
/// work has no code.
void run_text(std::vector<AccessCase>& cases, bool sanitize) {
  if (std::none_of(cases.begin(), cases.end(), [](const AccessCase& c) { return bool(c.text); })) return;
  const TemporaryFolder temporary("a test");
  const std::string dir = temporary.path.string();
  std::ofstream(dir + "/k.c") << c_program(cases);
  const std::string command = fmt::format(
      "gcc -std=c11 {1} -ffp-contract=off -w -o {0}/k {0}/k.c -lm > {0}/log 2>&1 && {0}/k > {0}/out 2>> "
      "{0}/log",
      dir, sanitize ? "-O1 -fsanitize=address" : "-O2");
  const int ended = std::system(command.c_str());
  std::istringstream out(contents(dir + "/out"));
  size_t k = 0;
  std::vector<bool> seen(cases.size(), false);
  while (out >> k) {
    AccessCase& c = cases[k];
    seen[k] = true;
    int32_t code = 0;
    if (!(out >> code)) return found(c, AccessFault::outside, contents(dir + "/log").substr(0, 4000));
    std::vector<Guarded> got;
    for (const NDArray& a : c.inputs) {
      got.emplace_back(a);
      for (size_t i = 0; i < a.byte_size(); ++i) {
        int byte = 0;
        out >> byte;
        got.back().data()[i] = static_cast<unsigned char>(byte);
      }
    }
    compare(c, c.text, code, got, "C");
  }
  for (size_t i = 0; i < cases.size(); ++i)
    if (cases[i].text && (ended || !seen[i]))
      return found(cases[i], AccessFault::differs, "C: " + contents(dir + "/log").substr(0, 4000));
}

// ---------------------------------------------------------------- smaller ones
size_t depth_of(const std::string& line) { return line.find_first_not_of(' '); }

/// The text without a line and all that stands below it, or (`keep`) with that moved out.
std::string without(const std::vector<std::string>& lines, size_t at, bool keep) {
  std::string out;
  size_t below = at + 1;
  while (below < lines.size() && depth_of(lines[below]) > depth_of(lines[at])) ++below;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool inside = i > at && i < below;
    if (i == at || (inside && !keep)) continue;
    out += (inside ? lines[i].substr(depth_of(lines[at + 1]) - depth_of(lines[at])) : lines[i]) + "\n";
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

}  // namespace

AccessCase access_case(const RandomAccessProgram& program, uint64_t seed, const std::string& name) {
  AccessCase c;
  c.program = program;
  c.seed = seed;
  c.name = name;
  c.inputs = inputs_of(program, seed);
  return c;
}

void judge(std::vector<AccessCase>& cases, WithC with_c) {
  for (AccessCase& c : cases) prepare(c);
  run_native(cases);
  if (with_c != WithC::no) run_text(cases, with_c == WithC::sanitized);
}

std::string reduced(const AccessCase& wrong, WithC with_c) {
  AccessCase smallest = wrong;
  for (bool smaller = true; smaller;) {
    smaller = false;
    const std::vector<std::string> lines = lines_of(smallest.program.text);
    for (size_t at = lines.size(); !smaller && at-- > 2;)
      for (const bool keep : {false, true}) {
        if (keep && (at + 1 == lines.size() || depth_of(lines[at + 1]) <= depth_of(lines[at]))) continue;
        RandomAccessProgram p = wrong.program;
        p.text = without(lines, at, keep);
        std::vector<AccessCase> one{access_case(p, wrong.seed, wrong.name)};
        judge(one, with_c);
        smaller = one[0].fault == wrong.fault && one[0].refused == wrong.refused;
        if (!smaller) continue;
        smallest = one[0];
        break;
      }
  }
  return smallest.program.text;
}

}  // namespace tenon::test
