// SPDX-License-Identifier: Apache-2.0
// Tensor programs: statements over the values of ir/prim_expr.h, and PrimFunc.
#pragma once
#include "ir/prim_expr.h"
#include "runtime/ndarray.h"

namespace tenon::tir {

// ---------------------------------------------------------------- statements
struct For;
struct While;
struct IfThenElse;
struct LetStmt;
struct BlockRealize;
struct Block;
struct Allocate;
struct AllocateConst;
struct DeclBuffer;
struct BufferRealize;
struct BufferStore;
struct Prefetch;
struct ProducerStore;
struct AssertStmt;
struct Evaluate;
struct SeqStmt;
struct AttrStmt;
using StmtNodes = NodeSet<kStmtBase + 1, For, While, IfThenElse, LetStmt, BlockRealize, Block, Allocate,
                          AllocateConst, DeclBuffer, BufferRealize, BufferStore, Prefetch, ProducerStore,
                          AssertStmt, Evaluate, SeqStmt, AttrStmt>;
struct StmtNode : Object {
  static constexpr std::string_view type_key = "tir.Stmt";
  static constexpr uint32_t node_set_first() { return kStmtBase; }
  static constexpr uint32_t child_slots = kTypeBase - kStmtBase - 1;
  using set = StmtNodes;
  Origin origin;
};
template <class T>
struct StmtBase : StmtNode {
  using parent_type = StmtNode;
  using node_set = StmtNodes;
};

enum class ForKind : int64_t { serial = 0, parallel = 1, vectorized = 2, unrolled = 3, thread_binding = 4 };
/// for loop_var in [min, min + extent): iterations of `parallel` and `vectorized` loops are independent.
struct For : StmtBase<For> {
  VarRef loop_var;
  PrimExpr min, extent;
  ForKind kind = ForKind::serial;
  Stmt body;
  std::string thread_tag;  ///< for thread_binding: "blockIdx.x", …
  AttrMap annotations;
  static constexpr std::string_view type_key = "tir.For";
  static void fields(auto& f) {
    f.add("min", &For::min)
        .add("extent", &For::extent)
        .add("kind", &For::kind)
        .def("loop_var", &For::loop_var)
        .add("thread_tag", &For::thread_tag)
        .add("annotations", &For::annotations)
        .add("body", &For::body);
  }
};
struct While : StmtBase<While> {
  PrimExpr condition;
  Stmt body;
  static constexpr std::string_view type_key = "tir.While";
  static void fields(auto& f) { f.add("condition", &While::condition).add("body", &While::body); }
};
struct IfThenElse : StmtBase<IfThenElse> {
  PrimExpr condition;
  Stmt then_case, else_case;  ///< else_case may be null
  static constexpr std::string_view type_key = "tir.IfThenElse";
  static void fields(auto& f) {
    f.add("condition", &IfThenElse::condition)
        .add("then_case", &IfThenElse::then_case)
        .add("else_case", &IfThenElse::else_case);
  }
};
struct LetStmt : StmtBase<LetStmt> {
  VarRef var;
  PrimExpr value;
  Stmt body;
  static constexpr std::string_view type_key = "tir.LetStmt";
  static void fields(auto& f) {
    f.add("value", &LetStmt::value).def("var", &LetStmt::var).add("body", &LetStmt::body);
  }
};
/// `source` region of an outer buffer seen as `buffer` inside the block.
struct MatchBufferRegionNode : Object {
  using node_set = PartNodes;
  Buffer buffer;
  BufferRegion source;
  static constexpr std::string_view type_key = "tir.MatchBufferRegion";
  static void fields(auto& f) {
    f.add("source", &MatchBufferRegionNode::source).def("buffer", &MatchBufferRegionNode::buffer);
  }
};
using MatchBufferRegion = Ref<MatchBufferRegionNode>;
/// A unit of computation with its own iteration domain: for given iterator values it reads `reads`, writes
/// `writes` and nothing else. `init` runs at the first value of the reduction iterators.
struct Block : StmtBase<Block> {
  Array<IterVar> iter_vars;
  Array<BufferRegion> reads, writes;
  std::string name;
  Stmt body;
  Stmt init;  ///< may be null
  Array<Buffer> alloc_buffers;
  Array<MatchBufferRegion> match_buffers;
  AttrMap annotations;
  static constexpr std::string_view type_key = "tir.Block";
  static void fields(auto& f) {
    f.def("iter_vars", &Block::iter_vars)
        .def("alloc_buffers", &Block::alloc_buffers)
        .add("match_buffers", &Block::match_buffers)
        .add("reads", &Block::reads)
        .add("writes", &Block::writes)
        .ignored("name", &Block::name)
        .add("annotations", &Block::annotations)
        .add("init", &Block::init)
        .add("body", &Block::body);
  }
};
/// Runs `block` with its iterators bound to `iter_values`, if `predicate` holds.
struct BlockRealize : StmtBase<BlockRealize> {
  Array<PrimExpr> iter_values;
  PrimExpr predicate;
  Ref<Block> block;
  static constexpr std::string_view type_key = "tir.BlockRealize";
  static void fields(auto& f) {
    f.add("iter_values", &BlockRealize::iter_values)
        .add("predicate", &BlockRealize::predicate)
        .add("block", &BlockRealize::block);
  }
};
struct Allocate : StmtBase<Allocate> {
  Buffer buffer;  ///< defines buffer->data; shape is the extents (flat after flattening)
  Stmt body;
  AttrMap annotations;
  static constexpr std::string_view type_key = "tir.Allocate";
  static void fields(auto& f) {
    f.def("buffer", &Allocate::buffer)
        .add("annotations", &Allocate::annotations)
        .add("body", &Allocate::body);
  }
};
struct AllocateConst : StmtBase<AllocateConst> {
  Buffer buffer;
  NDArray data;
  Stmt body;
  static constexpr std::string_view type_key = "tir.AllocateConst";
  static void fields(auto& f) {
    f.def("buffer", &AllocateConst::buffer)
        .add("data", &AllocateConst::data)
        .add("body", &AllocateConst::body);
  }
};
/// A second view (`buffer`) of memory whose pointer variable is already defined.
struct DeclBuffer : StmtBase<DeclBuffer> {
  Buffer buffer;
  Stmt body;
  static constexpr std::string_view type_key = "tir.DeclBuffer";
  static void fields(auto& f) { f.add("buffer", &DeclBuffer::buffer).add("body", &DeclBuffer::body); }
};
struct BufferRealize : StmtBase<BufferRealize> {
  Buffer buffer;
  Array<Range> bounds;
  PrimExpr condition;
  Stmt body;
  static constexpr std::string_view type_key = "tir.BufferRealize";
  static void fields(auto& f) {
    f.def("buffer", &BufferRealize::buffer)
        .add("bounds", &BufferRealize::bounds)
        .add("condition", &BufferRealize::condition)
        .add("body", &BufferRealize::body);
  }
};
struct BufferStore : StmtBase<BufferStore> {
  Buffer buffer;
  PrimExpr value;
  Array<PrimExpr> indices;
  PrimExpr predicate;  ///< predicate: null or boolean vector
  static constexpr std::string_view type_key = "tir.BufferStore";
  static void fields(auto& f) {
    f.add("buffer", &BufferStore::buffer)
        .add("value", &BufferStore::value)
        .add("indices", &BufferStore::indices)
        .add("predicate", &BufferStore::predicate);
  }
};
struct Prefetch : StmtBase<Prefetch> {
  Buffer buffer;
  Array<Range> bounds;
  static constexpr std::string_view type_key = "tir.Prefetch";
  static void fields(auto& f) { f.add("buffer", &Prefetch::buffer).add("bounds", &Prefetch::bounds); }
};
struct ProducerStore : StmtBase<ProducerStore> {
  DataProducer producer;
  PrimExpr value;
  Array<PrimExpr> indices;
  static constexpr std::string_view type_key = "tir.ProducerStore";
  static void fields(auto& f) {
    f.add("producer", &ProducerStore::producer)
        .add("value", &ProducerStore::value)
        .add("indices", &ProducerStore::indices);
  }
};
struct AssertStmt : StmtBase<AssertStmt> {
  PrimExpr condition;
  std::string message;
  static constexpr std::string_view type_key = "tir.AssertStmt";
  static void fields(auto& f) {
    f.add("condition", &AssertStmt::condition).add("message", &AssertStmt::message);
  }
};
struct Evaluate : StmtBase<Evaluate> {
  PrimExpr value;
  static constexpr std::string_view type_key = "tir.Evaluate";
  static void fields(auto& f) { f.add("value", &Evaluate::value); }
};
/// Statements in order; never nested in one another and never of one element once made by `seq`.
struct SeqStmt : StmtBase<SeqStmt> {
  Array<Stmt> seq;
  static constexpr std::string_view type_key = "tir.SeqStmt";
  static void fields(auto& f) { f.add("seq", &SeqStmt::seq); }
};
/// Attribute `key` = `value` of `node` holds in `body`.
struct AttrStmt : StmtBase<AttrStmt> {
  ObjectRef node;
  std::string key;
  PrimExpr value;
  Stmt body;
  static constexpr std::string_view type_key = "tir.AttrStmt";
  static void fields(auto& f) {
    f.add("node", &AttrStmt::node)
        .add("key", &AttrStmt::key)
        .add("value", &AttrStmt::value)
        .add("body", &AttrStmt::body);
  }
};

/// A tensor function. A parameter with an entry in `buffer_map` is a tensor; others are scalars. Symbolic
/// sizes are variables of the buffers' shapes. Destination passing: outputs are the last parameters.
/// Attributes: "global_symbol", "tir.noalias", "num_outputs" (int; default 1), "op_pattern" (int), …
struct PrimFuncNode : Object {
  using node_set = PartNodes;
  static constexpr std::string_view type_key = "tir.PrimFunc";
  Array<VarRef> params;
  Map<VarRef, Buffer> buffer_map;
  Stmt body;
  DataType ret_type;  ///< void unless the function returns a scalar
  AttrMap attrs;
  static void fields(auto& f) {
    f.def("params", &PrimFuncNode::params)
        .def("buffer_map", &PrimFuncNode::buffer_map)
        .add("ret_type", &PrimFuncNode::ret_type)
        .add("attrs", &PrimFuncNode::attrs)
        .add("body", &PrimFuncNode::body);
  }
};

// ---------------------------------------------------------------- builders
Stmt store(const Buffer& b, PrimExpr value, Array<PrimExpr> indices, PrimExpr predicate = {});
Stmt seq(Array<Stmt> stmts);  ///< flattens; one statement stays itself
Stmt for_(VarRef v, PrimExpr min, PrimExpr extent, Stmt body, ForKind kind = ForKind::serial);

}  // namespace tenon::tir
