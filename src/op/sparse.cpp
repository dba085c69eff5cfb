// SPDX-License-Identifier: Apache-2.0
// Sparse matrices (compressed rows: data, indices, row begins; or coordinates) and segments: rows that are
// folded by a number each has.
#include "op/attrs_sparse.h"

#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "op/family.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// Arguments first, first + 1 and first + 2 are data, column indices and row begins.
bool expect_rows(InferContext& ctx, size_t first) {
  for (size_t i = 0; i < 3; ++i) {
    const auto& t = ctx.tensor(first + i);
    if (!ctx.expect_rank(t, ctx.name(first + i), 1) ||
        !ctx.expect_domain(t.dtype, i ? Domain::integer : Domain::number))
      return false;
  }
  auto d = shape_of(ctx.tensor(first)), c = shape_of(ctx.tensor(first + 1)),
       r = shape_of(ctx.tensor(first + 2));
  if (!d || !c || !r)
    return ctx.error("the sizes of the sparse matrix are not known", "give them by match_cast");
  if (ctx.require_equal(*d, *c)) return true;
  return ctx.error(fmt::format("{} values at {} positions", show(*d), show(*c)));
}
PrimExpr rows_of(const Call& call, size_t first) {
  return simplify((*shape_of(tensor_arg(call, first + 2)))[0] - 1);
}
/// A loop over the entries of a row: the body gets the entry's number, always one of [0, n).
tir::Stmt entries(const tir::Buffer& begins, const PrimExpr& row, const PrimExpr& n,
                  const std::function<tir::Stmt(const PrimExpr&)>& body) {
  auto begin = [&](const PrimExpr& i) {
    return tir::max(tir::min(tir::cast(i64, tir::load(begins, {i})), n), PrimExpr(0));
  };
  return named("begin", begin(row), [&](const PrimExpr& first) {
    return named("count", tir::max(begin(row + 1) - first, PrimExpr(0)), [&](const PrimExpr& count) {
      return each("e", count, [&](const PrimExpr& e) { return body(first + e); });
    });
  });
}
tir::Stmt clear(const tir::Buffer& b, double value = 0) {
  return each_of(b->shape, [&](const Shape& at) { return tir::store(b, constant(b->dtype, value), at); });
}
tir::Stmt add_to(const tir::Buffer& b, const PrimExpr& v, const Shape& at) {
  return tir::store(b, tir::load(b, at) + v, at);
}

// ---------------------------------------------------------------- compressed rows
Type infer_csr_to_dense(InferContext& ctx) {
  if (!expect_rows(ctx, 0)) return {};
  const PrimExpr rows = rows_of(ctx.call, 0);
  const auto size = ctx.shape(3);
  if (!size) return make_type(std::nullopt, 2, ctx.tensor(0).dtype);
  if (size->size() != 2 || !ctx.require_equal((*size)[0], rows))
    return ctx.error(fmt::format("{} rows in a matrix of {}", show(Shape{rows}), show(*size)));
  return make_type(size, 2, ctx.tensor(0).dtype);
}
Tensors def_csr_to_dense(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    return tir::seq({clear(outs[0]), each("row", out.shape[0], [&](const PrimExpr& row) {
                       return entries(ins[2], row, in[0].shape()[0], [&](const PrimExpr& e) {
                         const PrimExpr column = safe_index(tir::load(ins[1], {e}), out.shape[1]);
                         return add_to(outs[0], tir::load(ins[0], {e}), {row, column});
                       });
                     })});
  };
  return te::external({out.shape}, {out.dtype}, in, body, "csr_to_dense");
}

/// x (n, k) · Wᵀ for a sparse W (m, k): each row of W is a column of the result.
Type infer_sparse_dense(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_rank(x, "x", 2)) return {};
  if (!expect_rows(ctx, 1)) return {};
  const PrimExpr rows = rows_of(ctx.call, 1);
  if (!ctx.expect_same_type(x.dtype, ctx.tensor(1).dtype)) return {};
  auto s = shape_of(x), values = shape_of(ctx.tensor(1));
  if (s && values && !ctx.expect_elements(*s, 1, (*values)[0])) return {};
  return make_type(s ? std::optional(Shape{(*s)[0], rows}) : std::nullopt, 2, x.dtype);
}
Tensors def_sparse_dense(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  const DataType t = wide_type(out.dtype);
  const PrimExpr k = in[0].shape()[1];
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    return each_of(
        out.shape,
        [&](const Shape& at) {
          return tir::seq(
              {tir::store(outs[0], constant(t, 0), at),
               entries(ins[3], at[1], in[1].shape()[0], [&](const PrimExpr& e) {
                 const PrimExpr x = tir::load(ins[0], {at[0], safe_index(tir::load(ins[2], {e}), k)});
                 return add_to(outs[0], tir::cast(t, x) * tir::cast(t, tir::load(ins[1], {e})), at);
               })});
        },
        true);
  };
  return {cast_to(te::external({out.shape}, {t}, in, body, "sparse_dense")[0], out.dtype)};
}

Type infer_csr_add(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_rank(x, "x", 2)) return {};
  if (!expect_rows(ctx, 1)) return {};
  const PrimExpr rows = rows_of(ctx.call, 1);
  auto s = shape_of(x);
  if ((s && !ctx.require_equal((*s)[0], rows)) || x.dtype != ctx.tensor(1).dtype)
    return ctx.error(fmt::format("x {} of {} and a sparse matrix of {}", s ? show(*s) : "?",
                                 to_string(x.dtype), to_string(ctx.tensor(1).dtype)));
  return like(x, x.dtype);
}
Tensors def_csr_add(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const tir::Stmt copy =
        each_of(out.shape, [&](const Shape& at) { return tir::store(outs[0], tir::load(ins[0], at), at); });
    return tir::seq({copy, each("row", out.shape[0], [&](const PrimExpr& row) {
                       return entries(ins[3], row, in[1].shape()[0], [&](const PrimExpr& e) {
                         const Shape at{row, safe_index(tir::load(ins[2], {e}), out.shape[1])};
                         const PrimExpr sum = wide(tir::load(outs[0], at)) + wide(tir::load(ins[1], {e}));
                         return tir::store(outs[0], tir::cast(out.dtype, sum), at);
                       });
                     })});
  };
  return te::external({out.shape}, {out.dtype}, in, body, "csr_add");
}

/// Entries sorted by column: count, sum up, place. The rows' order within a column stays.
Type infer_csr_transpose(InferContext& ctx) {
  if (!expect_rows(ctx, 0)) return {};
  const auto size = ctx.shape(3);
  if (size && (size->size() != 2 || tir::is_zero((*size)[1])))
    return ctx.error(fmt::format("{} is no matrix with columns", show(*size)));
  const auto &data = ctx.tensor(0), &columns = ctx.tensor(1), &begins = ctx.tensor(2);
  return graph::tuple_type(
      {like(data, data.dtype), like(columns, columns.dtype),
       make_type(size ? std::optional(Shape{simplify((*size)[1] + 1)}) : std::nullopt, 1, begins.dtype)});
}
Tensors def_csr_transpose(const Call& call, const Tensors& in) {
  const Shape size = *shape_arg(call, 3);
  const PrimExpr n = in[0].shape()[0];
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const tir::Buffer &data = outs[0], &rows = outs[1], &begins = outs[2], &next = outs[3];
    auto column = [&](const PrimExpr& e) { return safe_index(tir::load(ins[1], {e}), size[1]); };
    const tir::Stmt count = each("e", n, [&](const PrimExpr& e) {
      return add_to(begins, constant(begins->dtype, 1), {column(e) + 1});
    });
    const tir::Stmt sums = each("c", size[1], [&](const PrimExpr& c) {
      return tir::seq({tir::store(next, tir::cast(i64, tir::load(begins, {c})), {c}),
                       add_to(begins, tir::load(begins, {c}), {c + 1})});
    });
    const tir::Stmt place = each("row", size[0], [&](const PrimExpr& row) {
      return entries(ins[2], row, in[0].shape()[0], [&](const PrimExpr& e) {
        return named("c", column(e), [&](const PrimExpr& c) {
          return named("to", tir::load(next, {c}), [&](const PrimExpr& to) {
            return when(tir::lt(to, n), tir::seq({tir::store(data, tir::load(ins[0], {e}), {to}),
                                                  tir::store(rows, tir::cast(rows->dtype, row), {to}),
                                                  tir::store(next, to + 1, {c})}));
          });
        });
      });
    });
    return tir::seq({clear(data), clear(rows), clear(begins), count, sums, place});
  };
  Tensors r = te::external({in[0].shape(), in[1].shape(), Shape{simplify(size[1] + 1)}, Shape{size[1]}},
                           {in[0].dtype(), in[1].dtype(), in[2].dtype(), i64}, in, body, "csr_transpose");
  r.pop_back();
  return r;
}

// ---------------------------------------------------------------- coordinates
Type infer_to_dense(InferContext& ctx) {
  const auto &at = ctx.tensor(0), &values = ctx.tensor(1), &other = ctx.tensor(2);
  if (!ctx.expect_domain(at.dtype, Domain::integer)) return {};
  if (!ctx.expect_rank(at, "the positions", 2)) return {};
  if (!ctx.expect_rank(values, "the values", 1)) return {};
  if (other.ndim > 0 || other.dtype != values.dtype)
    return ctx.error("the default must be a scalar of the values' type");
  const auto size = ctx.shape(3);
  auto s = shape_of(at), v = shape_of(values);
  if (s && v && !ctx.require_equal((*s)[0], (*v)[0]))
    return ctx.error(fmt::format("{} values at {} positions", show(*v), show(*s)));
  if (size && s && !ctx.require_equal((*s)[1], PrimExpr(int64_t(size->size()))))
    return ctx.error(fmt::format("positions {} in a tensor {}", show(*s), show(*size)));
  return make_type(size, size ? int64_t(size->size()) : -1, values.dtype);
}
Tensors def_to_dense(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const tir::Stmt fill =
        each_of(out.shape, [&](const Shape& at) { return tir::store(outs[0], tir::load(ins[2], {}), at); });
    return tir::seq({fill, each("e", in[0].shape()[0], [&](const PrimExpr& e) {
                       Shape at;
                       for (size_t i = 0; i < out.shape.size(); ++i)
                         at.push_back(safe_index(tir::load(ins[0], {e, PrimExpr(int64_t(i))}), out.shape[i]));
                       return tir::store(outs[0], tir::load(ins[1], {e}), at);
                     })});
  };
  return te::external({out.shape}, {out.dtype}, in, body, "sparse_to_dense");
}

// ---------------------------------------------------------------- segments
enum class Segment { sum, mean, prod, max, min };
Type infer_segment(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &ids = ctx.tensor(1);
  if (!ctx.expect_domain(x.dtype, Domain::number)) return {};
  if (!ctx.expect_domain(ids.dtype, Domain::integer)) return {};
  if (!ctx.expect_rank(ids, "the segments", 1)) return {};
  const int64_t n = ctx.attrs<SegmentAttrs>().num_segments;
  if (n < 0) return ctx.error(fmt::format("{} segments", n));
  auto s = shape_of(x), k = shape_of(ids);
  if (!s) return make_type(std::nullopt, x.ndim, x.dtype);
  if (s->empty() || (k && !ctx.require_equal((*s)[0], (*k)[0])))
    return ctx.error(fmt::format("segments {} for x {}", k ? show(*k) : "?", show(*s)));
  s->set(0, PrimExpr(n));
  return make_type(s, 0, x.dtype);
}
Tensors def_segment(const Call& call, const Tensors& in, Segment kind) {
  const TensorInfo out = output_info(call);
  const te::Tensor& x = in[0];
  const DataType t = wide_type(x.dtype());
  auto identity = [&]() -> PrimExpr {
    if (kind == Segment::prod) return constant(t, 1);
    if (kind == Segment::max) return t.is_float() ? constant(t, -INFINITY) : tir::min_value(t);
    if (kind == Segment::min) return t.is_float() ? constant(t, INFINITY) : tir::max_value(t);
    return constant(t, 0);
  };
  auto join = [&](const PrimExpr& a, const PrimExpr& b) {
    return kind == Segment::prod  ? a * b
           : kind == Segment::max ? tir::max(a, b)
           : kind == Segment::min ? tir::min(a, b)
                                  : a + b;
  };
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const tir::Buffer &y = outs[0], &count = outs[1];
    const tir::Stmt start =
        each_of(out.shape, [&](const Shape& at) { return tir::store(y, identity(), at); });
    const Shape rest(x.shape().begin() + 1, x.shape().end());
    const tir::Stmt apply = each("row", x.shape()[0], [&](const PrimExpr& row) {
      return named("id", tir::cast(i64, tir::load(ins[1], {row})), [&](const PrimExpr& id) {
        const tir::Stmt fold = each_of(rest, [&](const Shape& r) {
          Shape from{row}, to{id};
          for (const PrimExpr& e : r) from.push_back(e), to.push_back(e);
          return tir::store(y, join(tir::load(y, to), tir::cast(t, tir::load(ins[0], from))), to);
        });
        const PrimExpr known = tir::logical_and(tir::ge(id, PrimExpr(0)), tir::lt(id, out.shape[0]));
        return when(known, tir::seq({add_to(count, PrimExpr(1), {id}), fold}));
      });
    });
    return tir::seq({start, clear(count), apply});
  };
  const Tensors r = te::external({out.shape, Shape{out.shape[0]}}, {t, i64}, in, body, short_name(call));
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr n = r[1]({v[0]}), value = r[0](indices(v));
        if (kind == Segment::mean)
          return tir::cast(out.dtype, tir::div(value, tir::cast(t, tir::max(n, PrimExpr(1)))));
        // What no row belongs to is 0 (a product: 1).
        const bool open = kind == Segment::max || kind == Segment::min;
        return tir::cast(out.dtype,
                         open ? tir::select(tir::gt(n, PrimExpr(0)), value, constant(t, 0)) : value);
      },
      "segments")};
}

/// Rows of a table, folded by bags: bag b holds the indices from offsets[b] up to offsets[b + 1].
Type infer_bag(InferContext& ctx) {
  const auto &table = ctx.tensor(0), &at = ctx.tensor(1), &offsets = ctx.tensor(2);
  const std::string& mode = ctx.attrs<BagAttrs>().mode;
  if (!ctx.expect_rank(table, "the table", 2)) return {};
  if (!ctx.expect_rank(at, "the indices", 1)) return {};
  if (!ctx.expect_rank(offsets, "the offsets", 1)) return {};
  if (!ctx.expect_domain(table.dtype, Domain::floating)) return {};
  if (!ctx.expect_domain(at.dtype, Domain::integer)) return {};
  if (!ctx.expect_domain(offsets.dtype, Domain::integer)) return {};
  if (!ctx.expect_one_of("mode", mode, {"sum", "mean", "max"})) return {};
  auto s = shape_of(table), o = shape_of(offsets), indices = shape_of(at);
  if (s && tir::is_zero((*s)[0])) return ctx.error(fmt::format("the table {} has no rows", show(*s)));
  if (s && indices && !ctx.expect_elements(*s, 0, (*indices)[0])) return {};
  return make_type(s && o ? std::optional(Shape{(*o)[0], (*s)[1]}) : std::nullopt, 2, table.dtype);
}
Tensors def_bag(const Call& call, const Tensors& in) {
  const std::string& mode = attrs_of<BagAttrs>(call).mode;
  const TensorInfo out = output_info(call);
  const DataType t = wide_type(out.dtype);
  const PrimExpr bags = out.shape[0], n = in[1].shape()[0];
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    auto offset = [&](const PrimExpr& b) {
      return tir::max(tir::min(tir::cast(i64, tir::load(ins[2], {b})), n), PrimExpr(0));
    };
    return each_of(
        out.shape,
        [&](const Shape& at) {
          const PrimExpr end = tir::if_then_else(tir::lt(at[0] + 1, bags), offset(at[0] + 1), n);
          return named("begin", offset(at[0]), [&](const PrimExpr& begin) {
            return named("count", tir::max(end - begin, PrimExpr(0)), [&](const PrimExpr& count) {
              const PrimExpr none = tir::eq(count, PrimExpr(0)), old = tir::load(outs[0], at);
              const PrimExpr start =
                  mode == "max" ? tir::select(none, constant(t, 0), constant(t, -INFINITY)) : constant(t, 0);
              const tir::Stmt fold = each("e", count, [&](const PrimExpr& e) {
                const PrimExpr row = safe_index(tir::load(ins[1], {begin + e}), in[0].shape()[0]);
                const PrimExpr value = tir::cast(t, tir::load(ins[0], {row, at[1]}));
                return tir::store(outs[0], mode == "max" ? tir::max(old, value) : old + value, at);
              });
              const tir::Stmt first = tir::store(outs[0], start, at);
              if (mode != "mean") return tir::seq({first, fold});
              const PrimExpr share = tir::div(old, tir::cast(t, tir::max(count, PrimExpr(1))));
              return tir::seq({first, fold, tir::store(outs[0], share, at)});
            });
          });
        },
        true);
  };
  return {cast_to(te::external({out.shape}, {t}, in, body, "embedding_bag")[0], out.dtype)};
}

const bool sparse_registered = [] {
  auto add = [](OpName name, const char* doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc)
        .infer(std::move(infer))
        .fusion(FusionKind::opaque)
        .tensor_def(std::move(def));
  };
  auto csr = [](OpRegistration r) {
    return r.argument("data", "Tensor", "values, row by row")
        .argument("indices", "Tensor", "column of each value")
        .argument("indptr", "Tensor", "where each row begins, and the end");
  };
  csr(add("sparse.csr_to_dense", "A sparse matrix as a plain one; values at one place are added.",
          infer_csr_to_dense, def_csr_to_dense))
      .argument("size", "Shape", "rows and columns");
  csr(add("sparse.csr_transpose", "The transposed sparse matrix: data, indices, row begins.",
          infer_csr_transpose, def_csr_transpose))
      .argument("size", "Shape", "rows and columns");
  csr(add("nn.sparse_dense", "x · Wᵀ for a sparse W.", infer_sparse_dense, def_sparse_dense)
          .argument("x", "Tensor", "(batch, inputs)"));
  csr(add("sparse.csr_add", "x and a sparse matrix.", infer_csr_add, def_csr_add)
          .argument("x", "Tensor", "(rows, columns)"));
  add("sparse.to_dense", "Values at positions of a tensor that holds one value elsewhere.", infer_to_dense,
      def_to_dense)
      .argument("positions", "Tensor", "(values, axes)")
      .argument("values", "Tensor", "one per position; the last of several at one place counts")
      .argument("otherwise", "Tensor", "scalar")
      .argument("size", "Shape", "of the result");
  struct Kind {
    OpName name;
    const char* doc;
    Segment kind;
  };
  for (const Kind& k : {Kind{"segment_sum", "Sums of rows of one number.", Segment::sum},
                        Kind{"segment_mean", "Means of rows of one number.", Segment::mean},
                        Kind{"segment_prod", "Products of rows of one number.", Segment::prod},
                        Kind{"segment_max", "Largest elements of rows of one number.", Segment::max},
                        Kind{"segment_min", "Smallest elements of rows of one number.", Segment::min}})
    add(k.name, k.doc, infer_segment,
        [kind = k.kind](const Call& c, const Tensors& in) { return def_segment(c, in, kind); })
        .argument("x", "Tensor", "the rows")
        .argument("segments", "Tensor", "the number of each row, in any order; others than 0 … are left out")
        .attrs<SegmentAttrs>();
  add("nn.embedding_bag", "Rows of a table, folded by bags.", infer_bag, def_bag)
      .argument("table", "Tensor", "(rows, width)")
      .argument("indices", "Tensor", "the rows of all bags")
      .argument("offsets", "Tensor", "where each bag begins in the indices")
      .attrs<BagAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::SegmentAttrs, tenon::op::BagAttrs>;
