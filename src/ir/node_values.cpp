// SPDX-License-Identifier: Apache-2.0
// What fields may hold beyond their C++ types, for nodes that come from outside: the parser of script text
// and the builders of C++ see to the same.
#include <fmt/format.h>

#include "ir/intrinsic.h"
#include "ir/make_node.h"
#include "ir/tir.h"

namespace tenon {
namespace {

using Problem = FunctionRef<void(const std::string&)>;

void integer(const PrimExpr& e, const char* field, Problem problem) {
  if (!e.dtype().is_integer() || e.dtype().is_vector())
    problem(fmt::format("`{}` holds integers, not {}", field, to_string(e.dtype())));
}
void sizes(const Array<PrimExpr>& list, const char* field, Problem problem) {
  for (const PrimExpr& e : list) {
    integer(e, field, problem);
    if (const auto size = tir::as_int(e); size && *size < 0)
      problem(fmt::format("`{}` holds the negative size {}", field, *size));
  }
}
/// The kind of an enumeration of `count` values.
void kind(int64_t value, int64_t count, Problem problem) {
  if (value < 0 || value >= count) problem(fmt::format("`kind` is 0 to {}, not {}", count - 1, value));
}
/// Numbers of lanes are kept in 16 bits, negative where the length of the machine's vectors scales them.
void lanes(int64_t value, Problem problem) {
  if (value == 0 || value > INT16_MAX || value < -INT16_MAX)
    problem(fmt::format("`lanes` is a number of lanes from 1 to {}, not {}", INT16_MAX, value));
}

void check(const tir::IntImm& n, Problem problem) {
  const DataType t = n.dtype;
  if (!t.is_scalar() || !(t.is_integer() || t.is_bool() || t.is_handle()))
    problem(fmt::format("`dtype` is a type of integers, not {}", to_string(t)));
  if (!t.is_handle() && tir::wrap(n.value, t) != n.value)
    problem(fmt::format("`value` {} does not fit into {}", n.value, to_string(t)));
}
void check(const tir::FloatImm& n, Problem problem) {
  if (!n.dtype.is_float() || n.dtype.is_vector())
    problem(fmt::format("`dtype` is a floating type, not {}", to_string(n.dtype)));
}
void check(const tir::Shuffle& n, Problem problem) {
  if (n.vectors.empty() || n.indices.empty()) problem("a shuffle takes at least one lane of one vector");
  int64_t count = 0;
  for (const PrimExpr& v : n.vectors) {
    if (v.dtype().element() != n.vectors[0].dtype().element())
      problem(fmt::format("`vectors` hold values of one type, not {} and {}", to_string(n.vectors[0].dtype()),
                          to_string(v.dtype())));
    count += v.dtype().lanes;
  }
  for (const int64_t i : n.indices)
    if (i < 0 || i >= count) problem(fmt::format("`indices` names lane {} of {}", i, count));
}
void check(const tir::BufferNode& n, Problem problem) {
  if (n.dtype.is_void()) problem("`dtype` is missing");
  if (!n.data->dtype.is_handle())
    problem(fmt::format("`data` is a pointer, not a variable of {}", to_string(n.data->dtype)));
  sizes(n.shape, "shape", problem);
  for (const PrimExpr& e : n.strides) integer(e, "strides", problem);
  if (!n.strides.empty() && n.strides.size() != n.shape.size())
    problem(fmt::format("`strides` has {} items for {} dimensions", n.strides.size(), n.shape.size()));
  if (n.elem_offset) integer(n.elem_offset, "elem_offset", problem);
  if (n.align <= 0 || (n.align & (n.align - 1)))
    problem(fmt::format("`align` is a power of two, not {}", n.align));
}
void indices(const tir::Buffer& b, const Array<PrimExpr>& list, Problem problem) {
  if (list.size() != b->shape.size())
    problem(fmt::format("`indices` has {} items for `{}` of {} dimensions", list.size(), b->name,
                        b->shape.size()));
  for (const PrimExpr& e : list)
    if (!e.dtype().is_integer())
      problem(fmt::format("`indices` holds integers, not {}", to_string(e.dtype())));
}
void check(const tir::RangeNode& n, Problem problem) {
  integer(n.min, "min", problem);
  integer(n.extent, "extent", problem);
}
void check(const graph::TensorType& n, Problem problem) {
  if (n.ndim < -1) problem(fmt::format("`ndim` is -1 where it is not known, not {}", n.ndim));
  if (const auto* shape = n.shape.as<graph::ShapeExpr>()) {
    sizes(shape->values, "shape", problem);
    if (n.ndim != int64_t(shape->values.size()))
      problem(fmt::format("`ndim` is {} beside a shape of {} sizes", n.ndim, shape->values.size()));
  }
}
void check(const graph::ShapeType& n, Problem problem) {
  if (n.ndim < -1 || (n.known && n.ndim != int64_t(n.values.size())))
    problem(fmt::format("`ndim` is {} beside {} values", n.ndim, n.values.size()));
}

}  // namespace

void check_values(const ObjectRef& o, Problem problem) {
  if (const auto* n = o.as<tir::IntImm>()) return check(*n, problem);
  if (const auto* n = o.as<tir::FloatImm>()) return check(*n, problem);
  if (const auto* n = o.as<tir::Shuffle>()) return check(*n, problem);
  if (const auto* n = o.as<tir::BufferNode>()) return check(*n, problem);
  if (const auto* n = o.as<tir::BufferLoad>()) return indices(n->buffer, n->indices, problem);
  if (const auto* n = o.as<tir::BufferStore>()) return indices(n->buffer, n->indices, problem);
  if (const auto* n = o.as<tir::RangeNode>()) return check(*n, problem);
  if (const auto* n = o.as<graph::TensorType>()) return check(*n, problem);
  if (const auto* n = o.as<graph::ShapeType>()) return check(*n, problem);
  if (const auto* n = o.as<tir::Ramp>()) return lanes(n->lanes, problem);
  if (const auto* n = o.as<tir::Broadcast>()) return lanes(n->lanes, problem);
  if (const auto* n = o.as<tir::DataProducerNode>()) return sizes(n->shape, "shape", problem);
  if (const auto* n = o.as<tir::For>()) return kind(int64_t(n->kind), 5, problem);
  if (const auto* n = o.as<tir::IterVarNode>()) return kind(int64_t(n->kind), 5, problem);
  if (const auto* n = o.as<tir::Var>(); n && n->dtype.is_void()) problem("`dtype` is missing");
  if (const auto* n = o.as<tir::Cast>(); n && n->dtype.is_void()) problem("`dtype` is missing");
  if (const auto* n = o.as<graph::TupleGetItem>(); n && n->index < 0)
    problem(fmt::format("`index` counts from 0, not {}", n->index));
}

}  // namespace tenon
