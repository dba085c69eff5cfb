// SPDX-License-Identifier: Apache-2.0
// Every float32 through a function, judged against its true value. Not part of the usual run:
//   TENON_ALL_FLOATS=exp,log (or `all`)  the functions
//   TENON_ALL_FLOATS_TARGET              "llvm -mcpu=x86-64-v2", or "c": the C text; else this machine
//   TENON_ALL_FLOATS_CC                  what compiles the C text, with its options
//   TENON_ALL_FLOATS_STEP=16             only each 16th float
// It says where the worst result is, and how many are not the nearest float.
#include <bit>
#include <cmath>
#include <memory>
#include <optional>

#include "ir/tir.h"
#include "math_reference.h"

namespace tenon::test {
namespace {

using namespace tir;

/// A function over `n` floats, from the machine's code or the C text.
class FloatKernel {
 public:
  FloatKernel(const std::string& name, int64_t n, const Target& target, const std::string& compiler) {
    const std::string symbol = "k_" + name;
    if (target->kind == "c") {
      c_.emplace(std::vector{unary_program(name, n, 1).lowered}, compiler);
      kernel_ = c_->find(symbol);
    } else {
      const IRModule module = as_code_takes_it({unary_program(name, n, 16).lowered}, target);
      jit_ = std::make_unique<codegen::LoadedCode>(
          codegen::load_elf(codegen::llvm_object(module, target), target));
      kernel_ = reinterpret_cast<TenonKernel>(jit_->find(symbol));
    }
  }
  void operator()(const NDArray& in, const NDArray& out) {
    ASSERT_NE(kernel_, nullptr);
    void* pointers[] = {in.data(), out.data()};
    ASSERT_EQ(kernel_(pointers, nullptr, &context_.context), 0);
  }

 private:
  std::optional<CLibrary> c_;
  std::unique_ptr<codegen::LoadedCode> jit_;
  TenonKernel kernel_ = nullptr;
  TestContext context_;
};

TEST(Math, EveryFloat) {
  const char* asked = std::getenv("TENON_ALL_FLOATS");
  if (!asked) GTEST_SKIP() << "TENON_ALL_FLOATS=exp,log,… or all";
  const std::string names = std::string(",") + asked + ",";
  const char *on = std::getenv("TENON_ALL_FLOATS_TARGET"), *with = std::getenv("TENON_ALL_FLOATS_CC"),
             *of = std::getenv("TENON_ALL_FLOATS_STEP");
  const Target target = on ? parse_target(on) : host_target();
  const uint64_t step = of ? std::max<uint64_t>(1, std::strtoull(of, nullptr, 10)) : 1;
  constexpr int64_t n = 1 << 14;  // stays in the cache
  const NDArray in = NDArray::zeros({n}, f32), out = NDArray::zeros({n}, f32),
                other = NDArray::zeros({n}, f32), mirrored = NDArray::zeros({n}, f32);
  std::vector<double> about(size_t(n), 0.0);
  for (const MathCase& c : math_cases()) {
    if (names != ",all," && names.find("," + std::string(c.name) + ",") == std::string::npos) continue;
    FloatKernel kernel(c.name, n, target, with ? with : "gcc -std=c11 -O2 -ffp-contract=off");
    WorstError worst;
    // Of an odd or even function one half is judged, and the other half compared with the first.
    const bool half = c.parity != MathCase::neither;
    const uint32_t turned = c.parity == MathCase::odd ? 0x80000000u : 0;
    uint64_t judged = 0;
    for (uint64_t first = 0; first < (uint64_t(1) << (half ? 31 : 32)); first += uint64_t(n) * step) {
      for (int64_t i = 0; i < n; ++i)
        in.as_ptr<uint32_t>()[i] = uint32_t(first + uint64_t(i) * step) & (half ? 0x7fffffffu : ~0u);
      kernel(in, out);
      if (HasFatalFailure()) return;
      if (half) {
        for (int64_t i = 0; i < n; ++i) other.as_ptr<uint32_t>()[i] = in.as_ptr<uint32_t>()[i] | 0x80000000u;
        kernel(other, mirrored);
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; ++i) {
          const uint32_t there = mirrored.as_ptr<uint32_t>()[i] ^ turned;
          wrong += there != out.as_ptr<uint32_t>()[i] && !std::isnan(out.as_ptr<float>()[i]);
        }
        ASSERT_EQ(wrong, 0) << c.name << " near " << in.as_ptr<float>()[0];
      }
      judge(c, in.as_ptr<float>(), out.as_ptr<float>(), n, about.data(), worst);
      judged += uint64_t(half ? 2 * n : n);
    }
    if (half) worst.inexact *= 2;
    std::printf("%s: worst %.6f ULP at %a; not the nearest float: %lld of %llu\n", c.name, worst.ulps,
                double(worst.at), static_cast<long long>(worst.inexact),
                static_cast<unsigned long long>(judged));
    std::fflush(stdout);
    EXPECT_LE(worst.ulps, c.ulps) << c.name << " at " << worst.at;
  }
}

}  // namespace
}  // namespace tenon::test
