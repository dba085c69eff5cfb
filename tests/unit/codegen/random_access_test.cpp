// SPDX-License-Identifier: Apache-2.0
// Random programs with accesses anywhere end alike when they are interpreted, compiled by LLVM and as C text:
// with the same values, or refused, and nothing around their buffers is touched.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/diagnostic.h"
#include "base/temporary_folder.h"
#include "codegen/elf.h"
#include "ir/symbols.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "kernels.h"
#include "pipeline/pass_lists.h"
#include "random_access.h"

namespace tenon::test {
namespace {

using namespace tir;

constexpr int64_t kBatch = 25;  ///< programs that are compiled together
constexpr int64_t kPartInC =
    4;  ///< one batch of so many is compiled by a C compiler, every other with the sanitizer
constexpr int64_t kRedZone = 64;
constexpr unsigned char kCanary = 0xC5;

/// Values of a buffer between red zones.
struct Guarded {
  explicit Guarded(const NDArray& a) : bytes(a.byte_size() + 2 * kRedZone, kCanary) {
    std::memcpy(data(), a.data(), a.byte_size());
  }
  unsigned char* data() { return bytes.data() + kRedZone; }
  bool untouched() const {
    for (size_t i = 0; i < size_t(kRedZone); ++i)
      if (bytes[i] != kCanary || bytes[bytes.size() - 1 - i] != kCanary) return false;
    return true;
  }
  std::vector<unsigned char> bytes;
};

struct Case {
  RandomAccessProgram program;
  PrimFunc lowered;         ///< null when it is refused
  std::string refused;      ///< by which code
  std::string interpreted;  ///< the code with which the interpreter ends it
  std::vector<NDArray> inputs, wanted;
  std::vector<int64_t> scalars;
};

std::vector<NDArray> inputs_of(const RandomAccessProgram& p, uint64_t seed) {
  std::vector<NDArray> out{random_array({p.rows, p.columns}, f32, seed), NDArray::empty({p.indices}, i64),
                           random_array({p.results}, f32, seed + 1)};
  std::mt19937_64 random(seed);
  // Mostly small, sometimes such that sums of it overflow.
  const int64_t far[] = {INT64_MAX, INT64_MIN, -1, 1 << 20};
  for (int64_t i = 0; i < p.indices; ++i)
    out[1].set_element_int(i, random() % 40 == 0 ? far[random() % 4] : int64_t(random() % 5));
  return out;
}

/// As a compilation lowers it.
void lower(Case& c, const std::string& name, const Target& target) {
  PassContext context;
  context.target = target;
  try {
    IRModule m = parse_module(c.program.text);
    verify_or_throw(m);
    m = run_pass("prove_programs", m, context);
    m = run_passes(m, schedule_passes(), context);
    c.scalars.clear();
    for (const VarRef& v : kernel_scalars(m.find(name).cast<PrimFuncNode>())) {
      ASSERT_EQ(v->name, "n");
      c.scalars.push_back(c.program.columns);
    }
    m = run_passes(m, tensor_passes(), context);
    c.lowered = m.find(name).cast<PrimFuncNode>();
  } catch (const DiagnosticError& e) {
    c.refused = e.diagnostics[0].code;
  }
}

void interpret_case(Case& c, const std::string& name) {
  const IRModule m = parse_module(c.program.text);
  for (const NDArray& a : c.inputs) c.wanted.push_back(a.copy());
  try {
    interpret_prim_func(m.find(name).cast<PrimFuncNode>(), c.wanted, m);
  } catch (const Error& e) {
    c.interpreted = e.code;
  }
}

/// What is the same: both end with an error, or both give these values.
void compare(const Case& c, int32_t code, std::vector<Guarded>& got, const std::string& how) {
  ASSERT_EQ(code != 0, !c.interpreted.empty())
      << how << " returned " << code << ", the interpreter says `" << c.interpreted << "`\n"
      << c.program.text;
  for (Guarded& g : got) ASSERT_TRUE(g.untouched()) << how << " writes outside\n" << c.program.text;
  if (code) return;
  for (size_t k = 0; k < got.size(); ++k)
    ASSERT_EQ(std::memcmp(got[k].data(), c.wanted[k].data(), c.wanted[k].byte_size()), 0)
        << how << ", buffer " << k << "\n"
        << c.program.text;
}

int32_t backwards(const TenonKernelContext* context, TenonParallelBody body, void* closure, int64_t extent,
                  int64_t) {
  for (int64_t i = extent; i-- > 0;)
    if (const int32_t code = body(closure, i, i + 1, context)) return code;
  return 0;
}
void* scratch(const TenonKernelContext*, int64_t bytes) { return std::calloc(1, size_t(bytes + 127)); }
void give_back(const TenonKernelContext*, void* p) { std::free(p); }

void run_case(const Case& c, TenonKernel kernel, const std::string& how) {
  ASSERT_TRUE(kernel);
  std::vector<Guarded> buffers;
  for (const NDArray& a : c.inputs) buffers.emplace_back(a);
  void* pointers[] = {buffers[0].data(), buffers[1].data(), buffers[2].data()};
  const TenonKernelContext context{backwards, scratch, give_back, nullptr};
  const int32_t code = kernel(pointers, c.scalars.data(), &context);
  compare(c, code, buffers, how);
}

struct Totals {
  int64_t programs = 0, refused = 0, ended = 0;
};

/// A program of C that runs all cases and says where one ends otherwise; for the address sanitizer.
std::string driver(const std::vector<Case>& cases, const std::string& source) {
  std::string text = source + "\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + R"(
static int32_t backwards(const TenonKernelContext* c, TenonParallelBody body, void* closure, int64_t extent,
                         int64_t cost) {
  (void)cost;
  for (int64_t i = extent; i-- > 0;) {
    const int32_t code = body(closure, i, i + 1, c);
    if (code) return code;
  }
  return 0;
}
static void* scratch(const TenonKernelContext* c, int64_t bytes) { (void)c; return malloc((size_t)bytes); }
static void give_back(const TenonKernelContext* c, void* p) { (void)c; free(p); }
static void* copy(const unsigned char* from, size_t size) {
  void* p = malloc(size);
  memcpy(p, from, size);
  return p;
}
static void show(void* p, size_t size) {
  for (size_t i = 0; i < size; ++i) printf("%d ", ((unsigned char*)p)[i]);
  printf("\n");
  free(p);
}
int main(void) {
  const TenonKernelContext context = {backwards, scratch, give_back, 0};
)";
  for (size_t k = 0; k < cases.size(); ++k) {
    if (!cases[k].lowered) continue;
    text += "  {\n    void* buffers[3];\n";
    for (size_t b = 0; b < 3; ++b) {
      const NDArray& a = cases[k].inputs[b];
      text += fmt::format("    static const unsigned char data{}[] = {{0", b);
      for (size_t i = 0; i < a.byte_size(); ++i)
        text += fmt::format(",{}", static_cast<const unsigned char*>(a.data())[i]);
      text += fmt::format("}};\n    buffers[{0}] = copy(data{0} + 1, {1});\n", b, a.byte_size());
    }
    text += fmt::format(
        "    const int64_t scalars[] = {{{}}};\n    const int32_t code = p{}(buffers, scalars, &context);\n"
        "    printf(\"{} %d\\n\", code != 0);\n",
        cases[k].program.columns, k, k);
    for (size_t b = 0; b < 3; ++b)
      text += fmt::format("    show(buffers[{}], {});\n", b, cases[k].inputs[b].byte_size());
    text += "  }\n";
  }
  return text + "  return 0;\n}\n";
}

/// The C text with that program around it, compiled and run: its lines are a case, whether it ended with an
/// error, and the bytes of its buffers.
void run_c(const std::vector<Case>& cases, const std::string& source, bool sanitize) {
  const TemporaryFolder temporary("a test");
  const std::string dir = temporary.path.string();
  std::ofstream(dir + "/k.c") << driver(cases, source);
  const std::string command = fmt::format(
      "gcc -std=c11 -O1 -ffp-contract=off -w {1} -o {0}/k {0}/k.c -lm 2> {0}/log && "
      "{0}/k > {0}/out 2>> {0}/log",
      dir, sanitize ? "-fsanitize=address" : "");
  const int ended = std::system(command.c_str());
  std::ifstream log(dir + "/log"), out(dir + "/out");
  ASSERT_EQ(ended, 0) << std::string(std::istreambuf_iterator<char>(log), {}).substr(0, 4000);
  int64_t seen = 0, ran = 0;
  for (size_t k = 0; k < cases.size(); ++k) ran += bool(cases[k].lowered);
  size_t k = 0;
  int32_t code = 0;
  while (out >> k >> code) {
    ++seen;
    std::vector<Guarded> got;
    for (const NDArray& a : cases[k].inputs) {
      got.emplace_back(a);
      for (size_t i = 0; i < a.byte_size(); ++i) {
        int byte = 0;
        out >> byte;
        got.back().data()[i] = static_cast<unsigned char>(byte);
      }
    }
    compare(cases[k], code, got, "C");
  }
  EXPECT_EQ(seen, ran);
}

void batch(uint64_t first, bool c_text, bool sanitize, Totals& totals) {
  std::vector<Case> native(kBatch), text;
  for (int64_t k = 0; k < kBatch; ++k) {
    Case& c = native[size_t(k)];
    const std::string name = fmt::format("p{}", k);
    c.program = random_access_program(first + uint64_t(k), name);
    c.inputs = inputs_of(c.program, first + uint64_t(k));
    interpret_case(c, name);
  }
  text = native;
  std::vector<PrimFunc> for_llvm, for_c;
  for (int64_t k = 0; k < kBatch; ++k) {
    const std::string name = fmt::format("p{}", k);
    Case& c = native[size_t(k)];
    lower(c, name, host_target());
    lower(text[size_t(k)], name, parse_target("c"));
    ASSERT_EQ(c.refused, text[size_t(k)].refused);
    ++totals.programs;
    totals.refused += !c.refused.empty();
    totals.ended += !c.interpreted.empty();
    if (c.refused == "T0336" || c.refused == "T0337")
      ASSERT_FALSE(c.interpreted.empty()) << c.refused << "\n" << c.program.text;
    else
      ASSERT_TRUE(c.refused.empty() || c.refused == "T0335") << c.refused << "\n" << c.program.text;
    if (!c.lowered) continue;
    for_llvm.push_back(c.lowered);
    for_c.push_back(text[size_t(k)].lowered);
  }
  const auto jit =
      codegen::load_elf(codegen::llvm_object(module_of(for_llvm), host_target(), 2), host_target());
  const std::string source = codegen::c_source(module_of(for_c));
  if (c_text) run_c(text, source, sanitize);
  for (int64_t k = 0; k < kBatch; ++k)
    if (native[size_t(k)].lowered)
      run_case(native[size_t(k)], reinterpret_cast<TenonKernel>(jit.find(fmt::format("p{}", k))), "LLVM");
}

TEST(RandomAccesses, EndAlikeEverywhere) {
  const char* given = std::getenv("TENON_RANDOM_ACCESSES");
  const char* from = std::getenv("TENON_RANDOM_FIRST");
  const int64_t count = given ? std::atoll(given) : 300;
  uint64_t first = from ? std::strtoull(from, nullptr, 10) : 1;
  Totals totals;
  for (int64_t done = 0; done < count && !HasFatalFailure(); done += kBatch, first += kBatch)
    batch(first, (done / kBatch) % kPartInC == 0, (done / kBatch) % (2 * kPartInC) == 0, totals);
  fmt::print("{} programs: {} refused, {} end with an error\n", totals.programs, totals.refused,
             totals.ended);
  EXPECT_LT(totals.refused * 4, totals.programs);
  EXPECT_LT(totals.ended * 4, totals.programs * 3);
  EXPECT_GT(totals.ended * 20, totals.programs);
}

}  // namespace
}  // namespace tenon::test
