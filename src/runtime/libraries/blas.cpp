// SPDX-License-Identifier: Apache-2.0
// libtenon_blas: products by a library of the system, a BLAS or oneDNN, opened at the first call: what a
// model calls when its target named the library ("-libs=cblas,dnnl", op/strategy.h). TENON_BLAS and
// TENON_DNNL name another file to open. How many threads the library uses is its own business
// (OMP_NUM_THREADS).
#include <dlfcn.h>

#include <cstdlib>

#include "runtime/libraries/register.h"
#include "runtime/ndarray.h"

namespace tenon {
namespace {

/// One product, or as many as the batch has, whose matrices lie one behind the other.
struct Product {
  int64_t batch, rows, columns, inputs;
  const float *a, *b;
  float* c;
  bool transposed;  ///< b lies as (columns, inputs)
  int64_t stride_a() const { return inputs > 0 ? inputs : 1; }
  int64_t stride_b() const { return transposed ? stride_a() : columns; }
};

/// The function `symbol` of the file that `variable` names, or of the first of `files` that has it.
void* find_symbol(const char* variable, std::initializer_list<const char*> files, const char* symbol) {
  const auto found = [&](const char* file) -> void* {
    void* library = file && *file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : nullptr;
    return library ? dlsym(library, symbol) : nullptr;
  };
  if (void* given = found(std::getenv(variable))) return given;
  for (const char* file : files)
    if (void* f = found(file)) return f;
  return nullptr;
}

/// CBLAS, as its C interface has it (netlib's cblas.h).
struct Cblas {
  static void multiply(const Product& p) {
    using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                           const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
    static const auto sgemm = reinterpret_cast<Sgemm>(
        find_symbol("TENON_BLAS", {"libopenblas.so.0", "libcblas.so.3", "libblas.so.3"}, "cblas_sgemm"));
    if (!sgemm)
      throw Error(
          ErrorKind::io, "T3010", "no BLAS library is found on this machine", {},
          "install libopenblas0 or libblas3, name a file in TENON_BLAS, or compile without -libs=cblas");
    constexpr int row_major = 101, as_it_is = 111, turned = 112;
    sgemm(row_major, as_it_is, p.transposed ? turned : as_it_is, int(p.rows), int(p.columns), int(p.inputs),
          1, p.a, int(p.stride_a()), p.b, int(p.stride_b()), 0, p.c, int(p.columns));
  }
};

/// oneDNN (its C interface, "Matrix-matrix multiplication": one signature in its versions 1 to 3).
struct Dnnl {
  static void multiply(const Product& p) {
    using Sgemm =
        int (*)(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
    static const auto sgemm = reinterpret_cast<Sgemm>(
        find_symbol("TENON_DNNL", {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so.1"}, "dnnl_sgemm"));
    if (!sgemm)
      throw Error(ErrorKind::io, "T3010", "oneDNN is not found on this machine", {},
                  "install libdnnl2, name a file in TENON_DNNL, or compile without -libs=dnnl");
    if (const int status = sgemm('N', p.transposed ? 'T' : 'N', p.rows, p.columns, p.inputs, 1, p.a,
                                 p.stride_a(), p.b, p.stride_b(), 0, p.c, p.columns))
      throw Error(ErrorKind::io, "T3011", "oneDNN cannot multiply: its status is " + std::to_string(status));
  }
};

/// c = a · b, or a · bᵀ. The leading axes of a are rows where b has two axes, else a batch that b has, too.
Product product_of(const NDArray& a, const NDArray& b, const NDArray& c, bool transposed) {
  const DataType t = DataType::float_(32);
  const auto &p = a.shape(), &q = b.shape();
  bool fits = a.dtype() == t && b.dtype() == t && c.dtype() == t && !p.empty() && q.size() >= 2 &&
              (q.size() == 2 || q.size() == p.size()) && p.back() == q[q.size() - (transposed ? 1 : 2)];
  int64_t batch = 1;
  for (size_t i = 0; fits && i + 2 < q.size(); ++i) {
    fits = p[i] == q[i];
    batch *= q[i];
  }
  const int64_t k = fits ? p.back() : 0, n = fits ? q[q.size() - (transposed ? 2 : 1)] : 0;
  const int64_t rows = fits ? (k ? a.size() / k : n ? c.size() / n : 0) : 0, m = batch ? rows / batch : 0;
  constexpr int64_t most = INT32_MAX;
  if (!fits || c.size() != batch * m * n || m > most || n > most || k > most)
    throw Error(ErrorKind::model, "T0410", "the operands of a library's product do not fit together");
  return {batch, m, n, k, a.as_ptr<float>(), b.as_ptr<float>(), c.as_ptr<float>(), transposed};
}

template <class Library, bool transposed>
Any entry(Arguments args) {
  if (args.size() != 3) argument_count_error("a product of a library", 3, args.size());
  Product p = product_of(args[0].as<NDArray>(), args[1].as<NDArray>(), args[2].as<NDArray>(), transposed);
  for (int64_t i = 0; i < p.batch && p.rows > 0 && p.columns > 0; ++i) {
    Library::multiply(p);
    p.a += p.rows * p.inputs, p.b += p.inputs * p.columns, p.c += p.rows * p.columns;
  }
  return Any();
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.cblas.matmul", entry<Cblas, false>,
                        "(a, b, c): c = a · b by cblas_sgemm, for each member of a batch");
  register_unless_taken("tenon.cblas.dense", entry<Cblas, true>, "(a, b, c): c = a · bᵀ by cblas_sgemm");
  register_unless_taken("tenon.dnnl.matmul", entry<Dnnl, false>,
                        "(a, b, c): c = a · b by dnnl_sgemm, for each member of a batch");
  register_unless_taken("tenon.dnnl.dense", entry<Dnnl, true>, "(a, b, c): c = a · bᵀ by dnnl_sgemm");
  return true;
}();

}  // namespace
}  // namespace tenon
