// SPDX-License-Identifier: Apache-2.0
// Functions of float32 and what they ought to give: true values, errors in units in the last place, samples.
// Double precision is the reference; where its own error could decide, MPFR does.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernels.h"

namespace tenon::test {

struct MathCase {
  const char* name;
  double (*meaning)(double);
  double ulps;  ///< docs/numerics.md states it
  enum Parity { neither, even, odd } parity = neither;
};
std::span<const MathCase> math_cases();

/// Distance from the true value in units in the last place of a float there.
double error_in_ulps(float got, double wanted);
/// The error of f(x) = got against 200 bits, in units in the last place of a type with so many binary digits
/// and this exponent of its smallest normal number; negative where MPFR is not at hand or has no such
/// function.
double true_error(const std::string& name, double x, double got, int digits, int least_exponent);

/// The largest error seen.
struct WorstError {
  double ulps = 0;
  float at = 0;
  int64_t inexact = 0;  ///< results that are not the nearest float
  void see(const MathCase& c, float x, float got, bool count = true);
};
/// Judges n results. `about` is room for n doubles when a fast reference is to be used, or null.
void judge(const MathCase& c, const float* x, const float* got, int64_t n, double* about, WorstError& worst);

/// Special values, neighbourhoods of breakpoints and of what arguments are reduced by, random floats: 2^19.
const std::vector<float>& math_samples();

/// b[i] = name(a[i]), the kernel `k_name`, in vectors of so many lanes.
Program unary_program(const std::string& name, int64_t n, int lanes, DataType type = f32);

}  // namespace tenon::test
