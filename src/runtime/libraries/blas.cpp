// SPDX-License-Identifier: Apache-2.0
// libtenon_blas: products by a BLAS library of the system, opened at the first call: what a model calls when
// its target named the library ("-libs=cblas", op/strategy.h). TENON_BLAS names another file to open.
#include <dlfcn.h>

#include <cstdlib>

#include "runtime/libraries/register.h"
#include "runtime/ndarray.h"

namespace tenon {
namespace {

using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);

Sgemm find_sgemm() {
  const char* given = std::getenv("TENON_BLAS");
  for (const char* name : {given, "libopenblas.so.0", "libcblas.so.3", "libblas.so.3"}) {
    void* library = name && *name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (void* symbol = library ? dlsym(library, "cblas_sgemm") : nullptr)
      return reinterpret_cast<Sgemm>(symbol);
  }
  return nullptr;
}

/// c = a · b, or a · bᵀ; the leading axes of a are rows.
void product(const NDArray& a, const NDArray& b, const NDArray& c, bool transposed) {
  static const Sgemm sgemm = find_sgemm();
  if (!sgemm)
    throw Error(
        ErrorKind::io, "T3010", "no BLAS library is found on this machine", {},
        "install libopenblas0 or libblas3, name a file in TENON_BLAS, or compile without -libs=cblas");
  const DataType t = DataType::float_(32);
  const bool fits = a.dtype() == t && b.dtype() == t && c.dtype() == t && a.ndim() >= 1 && b.ndim() == 2 &&
                    a.shape().back() == b.shape()[transposed ? 1 : 0];
  const int64_t k = fits ? a.shape().back() : 0, n = fits ? b.shape()[transposed ? 0 : 1] : 0;
  const int64_t m = fits ? (k ? a.size() / k : n ? c.size() / n : 0) : 0;
  constexpr int64_t most = INT32_MAX;
  if (!fits || c.size() != m * n || m > most || n > most || k > most)
    throw Error(ErrorKind::model, "T0410", "the operands of a BLAS product do not fit together");
  if (m == 0 || n == 0) return;
  constexpr int row_major = 101, as_it_is = 111, turned = 112;
  const int columns = int(n), inputs = int(k);
  sgemm(row_major, as_it_is, transposed ? turned : as_it_is, int(m), columns, inputs, 1, a.as_ptr<float>(),
        inputs > 0 ? inputs : 1, b.as_ptr<float>(), transposed ? (inputs > 0 ? inputs : 1) : columns, 0,
        c.as_ptr<float>(), columns);
}

template <bool transposed>
Any entry(Arguments args) {
  if (args.size() != 3) argument_count_error("tenon.cblas", 3, args.size());
  product(args[0].as<NDArray>(), args[1].as<NDArray>(), args[2].as<NDArray>(), transposed);
  return Any();
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.cblas.matmul", entry<false>, "(a, b, c): c = a · b by cblas_sgemm");
  register_unless_taken("tenon.cblas.dense", entry<true>, "(a, b, c): c = a · bᵀ by cblas_sgemm");
  return true;
}();

}  // namespace
}  // namespace tenon
