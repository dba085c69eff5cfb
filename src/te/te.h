// SPDX-License-Identifier: Apache-2.0
// Tensor expressions: what a tensor is, element by element, before any loop order. `create_prim_func` turns a
// graph of them into a tensor program of blocks.
#pragma once
#include "analysis/analyzer.h"
#include "ir/intrinsic.h"

namespace tenon::te {

struct OperationNode;
using Operation = Ref<OperationNode>;

/// Output `index` of an operation.
struct TensorNode : tir::DataProducerNode {
  using parent_type = tir::DataProducerNode;
  static constexpr std::string_view type_key = "te.Tensor";
  static void fields(auto&) {}  // an identity: walks do not look inside
  Operation op;
  int64_t index = 0;
};
class Tensor : public Ref<TensorNode> {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorNode> r) : Ref(std::move(r)) {}
  /// The element at `indices`, as an expression.
  PrimExpr operator()(Array<PrimExpr> indices) const;
  const Array<PrimExpr>& shape() const { return get()->shape; }
  DataType dtype() const { return get()->dtype; }
  size_t ndim() const { return get()->shape.size(); }
};

enum class OperationKind { placeholder, compute, scan, external };
struct OperationNode : Object {
  static constexpr std::string_view type_key = "te.Operation";
  OperationKind kind = OperationKind::placeholder;
  std::string name, tag;
  AttrMap attrs;
  Array<PrimExpr> shape;                             ///< placeholder, compute
  DataType dtype;                                    ///< placeholder
  Array<tir::IterVar> axis, reduce_axis;             ///< compute
  Array<PrimExpr> body;                              ///< compute: one per output, of one shape
  Array<Tensor> inputs;                              ///< scan, external; compute: derived from the body
  Array<tir::Buffer> input_buffers, output_buffers;  ///< external
  tir::Stmt statement;                               ///< external: tensor-program text over the buffers
  Array<Tensor> init, update, state;                 ///< scan: one of each per output
  tir::IterVar scan_axis;                            ///< scan: from the first step that `update` makes
  std::vector<Tensor> outputs() const;
};

using Lambda = std::function<PrimExpr(const Array<tir::VarRef>&)>;
using MultiLambda = std::function<Array<PrimExpr>(const Array<tir::VarRef>&)>;
Tensor placeholder(Array<PrimExpr> shape, DataType dtype, std::string name = "placeholder");
/// One output: `f` receives one spatial variable per dimension. Rank 0 is allowed.
Tensor compute(Array<PrimExpr> shape, Lambda f, std::string name = "compute", std::string tag = "",
               AttrMap attrs = {});
std::vector<Tensor> compute_multi(Array<PrimExpr> shape, MultiLambda f, std::string name = "compute",
                                  std::string tag = "", AttrMap attrs = {});
tir::IterVar reduce_axis(tir::Range dom, std::string name = "k");
/// Steps along dimension 0. `state` (placeholders) stands for the result while it is made: `init` computes
/// its first rows, `update` the row of one step from rows before it. Operations between state and update run
/// once a step. One result per state.
std::vector<Tensor> scan(Array<Tensor> init, Array<Tensor> update, Array<Tensor> state,
                         std::string name = "scan", std::string tag = "");
/// A tensor made by a tensor-program statement written by hand; the builder gets buffers of inputs and
/// outputs.
std::vector<Tensor> external(
    Array<Array<PrimExpr>> shapes, std::vector<DataType> dtypes, Array<Tensor> inputs,
    std::function<tir::Stmt(const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs)> body,
    std::string name = "extern", AttrMap attrs = {});

// Reductions of an expression over axes.
PrimExpr sum(PrimExpr e, Array<tir::IterVar> axis, PrimExpr condition = {});
PrimExpr prod(PrimExpr e, Array<tir::IterVar> axis, PrimExpr condition = {});
PrimExpr max(PrimExpr e, Array<tir::IterVar> axis, PrimExpr condition = {});
PrimExpr min(PrimExpr e, Array<tir::IterVar> axis, PrimExpr condition = {});
/// A reducer of tuples: combine(lhs, rhs) and the identities. Returns one Reduce per value.
using Combine = std::function<Array<PrimExpr>(const Array<tir::VarRef>& lhs, const Array<tir::VarRef>& rhs)>;
Array<PrimExpr> reduce(Array<PrimExpr> values, Combine combine, Array<PrimExpr> identity,
                       Array<tir::IterVar> axis, PrimExpr condition = {});
/// A reducer to be called with values and axes, as `sum` is.
class Reducer {
 public:
  using Identity = std::function<Array<PrimExpr>(const std::vector<DataType>&)>;
  Reducer(Combine combine, Identity identity)
      : combine_(std::move(combine)), identity_(std::move(identity)) {}
  Array<PrimExpr> operator()(Array<PrimExpr> values, Array<tir::IterVar> axis, PrimExpr condition = {}) const;

 private:
  Combine combine_;
  Identity identity_;
};
/// `combine` must be associative and commutative, `identity` neutral for it.
Reducer comm_reducer(Combine combine, Reducer::Identity identity);
/// Index (dtype of `index`) and value of the extreme; the first of equals wins.
Array<PrimExpr> argmax(PrimExpr index, PrimExpr value, Array<tir::IterVar> axis);
Array<PrimExpr> argmin(PrimExpr index, PrimExpr value, Array<tir::IterVar> axis);

/// A PrimFunc with the tensors of `args` as parameters (inputs, then outputs, in the caller's order);
/// symbolic sizes not bound by an input's shape become trailing scalar parameters when listed in `symbolic`.
tir::PrimFunc create_prim_func(Array<Tensor> args, Array<tir::VarRef> symbolic = {});
/// The same, and which block each operation became (a scan: those of its inits that are copies, or none).
struct Program {
  tir::PrimFunc function;
  std::vector<std::pair<Operation, std::string>> blocks;
};
Program create_program(const Array<Tensor>& args, const Array<tir::VarRef>& symbolic = {});

}  // namespace tenon::te
