// SPDX-License-Identifier: Apache-2.0
// Scalar and vector values of tensor programs, which are sizes of graph types, too: expressions, buffers,
// iterators. Every node is a plain struct whose field list drives children, rewriting, equality, hashing,
// printing and JSON. Statements are in ir/tir.h.
#pragma once
#include "ir/node.h"

namespace tenon::tir {

// Parts of the nodes below.
struct RangeNode;
struct BufferNode;
struct BufferRegionNode;
struct IterVarNode;
struct CommReducerNode;
struct MatchBufferRegionNode;
struct PrimFuncNode;
using PartNodes = NodeSet<kTirPartBase, RangeNode, BufferNode, BufferRegionNode, IterVarNode, CommReducerNode,
                          MatchBufferRegionNode, PrimFuncNode>;

// ---------------------------------------------------------------- expressions
struct IntImm;
struct FloatImm;
struct StringImm;
struct Var;
struct Add;
struct Sub;
struct Mul;
struct Div;
struct Mod;
struct FloorDiv;
struct FloorMod;
struct Min;
struct Max;
struct EQ;
struct NE;
struct LT;
struct LE;
struct GT;
struct GE;
struct And;
struct Or;
struct Not;
struct Select;
struct Cast;
struct BufferLoad;
struct ProducerLoad;
struct Ramp;
struct Broadcast;
struct Shuffle;
struct Let;
struct Call;
struct Reduce;
using PrimExprNodes = NodeSet<kPrimExprBase + 1, IntImm, FloatImm, StringImm, Var, Add, Sub, Mul, Div, Mod,
                              FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or, Not, Select,
                              Cast, BufferLoad, ProducerLoad, Ramp, Broadcast, Shuffle, Let, Call, Reduce>;

/// A scalar or vector value. `dtype` follows from the fields (finish) or is given (Var, Cast, Call,
/// immediates).
struct PrimExprNode : Object {
  static constexpr std::string_view type_key = "tir.PrimExpr";
  static constexpr uint32_t node_set_first() { return kPrimExprBase; }
  static constexpr uint32_t child_slots = kStmtBase - kPrimExprBase - 1;
  using set = PrimExprNodes;
  DataType dtype;
};
template <class T>
struct PrimNode : PrimExprNode {
  using parent_type = PrimExprNode;
  using node_set = PrimExprNodes;
};

/// Handle to any expression. Integers become int64 immediates, floating values float32 immediates.
class PrimExpr : public Ref<PrimExprNode> {
 public:
  PrimExpr() = default;
  PrimExpr(std::nullptr_t) {}
  template <class T>
    requires std::is_base_of_v<PrimExprNode, T>
  PrimExpr(const Ref<T>& r) : Ref(r) {}
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  PrimExpr(T v) : PrimExpr(int_imm(static_cast<int64_t>(v), i64)) {}
  PrimExpr(double v) : PrimExpr(float_imm(v, f32)) {}
  DataType dtype() const { return get()->dtype; }
  static PrimExpr int_imm(int64_t v, DataType type);  ///< int, uint or bool immediate
  static PrimExpr float_imm(double v, DataType type);
};

/// Integer, unsigned or boolean constant, sign-extended to 64 bits.
struct IntImm : PrimNode<IntImm> {
  int64_t value = 0;
  static constexpr std::string_view type_key = "tir.IntImm";
  static void fields(auto& f) { f.add("dtype", &IntImm::dtype).add("value", &IntImm::value); }
};
/// Floating constant, already rounded to its type.
struct FloatImm : PrimNode<FloatImm> {
  double value = 0;
  static constexpr std::string_view type_key = "tir.FloatImm";
  static void fields(auto& f) { f.add("dtype", &FloatImm::dtype).add("value", &FloatImm::value); }
};
struct StringImm : PrimNode<StringImm> {
  std::string value;
  static constexpr std::string_view type_key = "tir.StringImm";
  static void fields(auto& f) { f.add("value", &StringImm::value); }
  void finish() { dtype = DataType::handle(); }
};
/// A variable; identity is the object, the name is a hint for people.
struct Var : PrimNode<Var> {
  std::string name;
  static constexpr std::string_view type_key = "tir.Var";
  static void fields(auto& f) { f.add("dtype", &Var::dtype).ignored("name", &Var::name); }
};
using VarRef = Ref<Var>;

/// Both operands have one type; the result has it too (arithmetic) or is boolean (comparison, logic).
/// Integers wrap; Div and Mod round to zero, FloorDiv and FloorMod to minus infinity; floats follow IEEE 754;
/// Min and Max propagate NaN; And and Or evaluate both sides (no short circuit) over booleans.
void finish_arithmetic(PrimExprNode* node, const PrimExpr& a, const PrimExpr& b);
void finish_comparison(PrimExprNode* node, const PrimExpr& a, const PrimExpr& b);
void finish_logic(PrimExprNode* node, const PrimExpr& a, const PrimExpr& b);

struct Add : PrimNode<Add> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.Add";
  static void fields(auto& f) { f.add("a", &Add::a).add("b", &Add::b); }
  void finish() { finish_arithmetic(this, a, b); }
};
struct Sub : PrimNode<Sub> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.Sub";
  static void fields(auto& f) { f.add("a", &Sub::a).add("b", &Sub::b); }
  void finish() { finish_arithmetic(this, a, b); }
};
struct Mul : PrimNode<Mul> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.Mul";
  static void fields(auto& f) { f.add("a", &Mul::a).add("b", &Mul::b); }
  void finish() { finish_arithmetic(this, a, b); }
};
struct Div : PrimNode<Div> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.Div";
  static void fields(auto& f) { f.add("a", &Div::a).add("b", &Div::b); }
  void finish() { finish_arithmetic(this, a, b); }
};
struct Mod : PrimNode<Mod> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.Mod";
  static void fields(auto& f) { f.add("a", &Mod::a).add("b", &Mod::b); }
  void finish() { finish_arithmetic(this, a, b); }
};
struct FloorDiv : PrimNode<FloorDiv> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.FloorDiv";
  static void fields(auto& f) { f.add("a", &FloorDiv::a).add("b", &FloorDiv::b); }
  void finish() { finish_arithmetic(this, a, b); }
};
struct FloorMod : PrimNode<FloorMod> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.FloorMod";
  static void fields(auto& f) { f.add("a", &FloorMod::a).add("b", &FloorMod::b); }
  void finish() { finish_arithmetic(this, a, b); }
};
struct Min : PrimNode<Min> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.Min";
  static void fields(auto& f) { f.add("a", &Min::a).add("b", &Min::b); }
  void finish() { finish_arithmetic(this, a, b); }
};
struct Max : PrimNode<Max> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.Max";
  static void fields(auto& f) { f.add("a", &Max::a).add("b", &Max::b); }
  void finish() { finish_arithmetic(this, a, b); }
};
struct EQ : PrimNode<EQ> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.EQ";
  static void fields(auto& f) { f.add("a", &EQ::a).add("b", &EQ::b); }
  void finish() { finish_comparison(this, a, b); }
};
struct NE : PrimNode<NE> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.NE";
  static void fields(auto& f) { f.add("a", &NE::a).add("b", &NE::b); }
  void finish() { finish_comparison(this, a, b); }
};
struct LT : PrimNode<LT> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.LT";
  static void fields(auto& f) { f.add("a", &LT::a).add("b", &LT::b); }
  void finish() { finish_comparison(this, a, b); }
};
struct LE : PrimNode<LE> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.LE";
  static void fields(auto& f) { f.add("a", &LE::a).add("b", &LE::b); }
  void finish() { finish_comparison(this, a, b); }
};
struct GT : PrimNode<GT> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.GT";
  static void fields(auto& f) { f.add("a", &GT::a).add("b", &GT::b); }
  void finish() { finish_comparison(this, a, b); }
};
struct GE : PrimNode<GE> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.GE";
  static void fields(auto& f) { f.add("a", &GE::a).add("b", &GE::b); }
  void finish() { finish_comparison(this, a, b); }
};
struct And : PrimNode<And> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.And";
  static void fields(auto& f) { f.add("a", &And::a).add("b", &And::b); }
  void finish() { finish_logic(this, a, b); }
};
struct Or : PrimNode<Or> {
  PrimExpr a, b;
  static constexpr std::string_view type_key = "tir.Or";
  static void fields(auto& f) { f.add("a", &Or::a).add("b", &Or::b); }
  void finish() { finish_logic(this, a, b); }
};
struct Not : PrimNode<Not> {
  PrimExpr a;
  static constexpr std::string_view type_key = "tir.Not";
  static void fields(auto& f) { f.add("a", &Not::a); }
  void finish();
};
/// Both values are evaluated; the condition picks per lane. Unsafe accesses must be guarded by IfThenElse
/// or the lazy intrinsic `tir.if_then_else`.
struct Select : PrimNode<Select> {
  PrimExpr condition, true_value, false_value;
  static constexpr std::string_view type_key = "tir.Select";
  static void fields(auto& f) {
    f.add("condition", &Select::condition)
        .add("true_value", &Select::true_value)
        .add("false_value", &Select::false_value);
  }
  void finish();
};
/// Float to integer saturates (NaN gives 0); integer to integer wraps; to bool means "not equal to zero".
struct Cast : PrimNode<Cast> {
  PrimExpr value;
  static constexpr std::string_view type_key = "tir.Cast";
  static void fields(auto& f) { f.add("dtype", &Cast::dtype).add("value", &Cast::value); }
};

/// [min, min + extent)
struct RangeNode : Object {
  using node_set = PartNodes;
  PrimExpr min, extent;
  static constexpr std::string_view type_key = "tir.Range";
  static void fields(auto& f) { f.add("min", &RangeNode::min).add("extent", &RangeNode::extent); }
};
using Range = Ref<RangeNode>;

/// A piece of typed memory with a shape. `data` is the pointer variable; `strides` empty means row-major
/// contiguous; `elem_offset` is added to every flat index. Scopes: "global", "local", "shared", ….
struct BufferNode : Object {
  using node_set = PartNodes;
  VarRef data;
  DataType dtype;
  Array<PrimExpr> shape, strides;
  PrimExpr elem_offset;  ///< null means 0
  std::string name;
  std::string scope = "global";
  int64_t align = 64;  ///< bytes
  Array<int64_t> axis_separators;
  static constexpr std::string_view type_key = "tir.Buffer";
  static void fields(auto& f) {
    f.def("data", &BufferNode::data)
        .add("dtype", &BufferNode::dtype)
        .add("shape", &BufferNode::shape)
        .add("strides", &BufferNode::strides)
        .add("elem_offset", &BufferNode::elem_offset)
        .ignored("name", &BufferNode::name)
        .add("scope", &BufferNode::scope)
        .add("align", &BufferNode::align)
        .add("axis_separators", &BufferNode::axis_separators);
  }
};
using Buffer = Ref<BufferNode>;
struct BufferRegionNode : Object {
  using node_set = PartNodes;
  Buffer buffer;
  Array<Range> region;
  static constexpr std::string_view type_key = "tir.BufferRegion";
  static void fields(auto& f) {
    f.add("buffer", &BufferRegionNode::buffer).add("region", &BufferRegionNode::region);
  }
};
using BufferRegion = Ref<BufferRegionNode>;

/// Reads one element (vector index in the last dimension: several). `predicate`: null, or a boolean vector;
/// lanes that are off are not read and give 0.
struct BufferLoad : PrimNode<BufferLoad> {
  Buffer buffer;
  Array<PrimExpr> indices;
  PrimExpr predicate;
  static constexpr std::string_view type_key = "tir.BufferLoad";
  static void fields(auto& f) {
    f.add("buffer", &BufferLoad::buffer)
        .add("indices", &BufferLoad::indices)
        .add("predicate", &BufferLoad::predicate);
  }
  void finish();
};
/// What a ProducerLoad reads before it has a buffer: a tensor of tensor expressions (src/te derives from it),
/// or plain storage of a function, which its first store brings to life.
struct DataProducerNode : Object {
  Array<PrimExpr> shape;
  DataType dtype;
  std::string name;
  static constexpr std::string_view type_key = "tir.DataProducer";
  static constexpr uint32_t child_slots = 4;
  static void fields(auto& f) {
    f.add("shape", &DataProducerNode::shape)
        .add("dtype", &DataProducerNode::dtype)
        .ignored("name", &DataProducerNode::name);
  }
};
using DataProducer = Ref<DataProducerNode>;
struct ProducerLoad : PrimNode<ProducerLoad> {
  DataProducer producer;
  Array<PrimExpr> indices;
  static constexpr std::string_view type_key = "tir.ProducerLoad";
  static void fields(auto& f) {
    f.add("producer", &ProducerLoad::producer).add("indices", &ProducerLoad::indices);
  }
  void finish();
};
/// base, base + stride, … (lanes values)
struct Ramp : PrimNode<Ramp> {
  PrimExpr base, stride;
  int64_t lanes = 1;
  static constexpr std::string_view type_key = "tir.Ramp";
  static void fields(auto& f) {
    f.add("base", &Ramp::base).add("stride", &Ramp::stride).add("lanes", &Ramp::lanes);
  }
  void finish();
};
struct Broadcast : PrimNode<Broadcast> {
  PrimExpr value;
  int64_t lanes = 1;
  static constexpr std::string_view type_key = "tir.Broadcast";
  static void fields(auto& f) { f.add("value", &Broadcast::value).add("lanes", &Broadcast::lanes); }
  void finish();
};
/// Lanes of the concatenated `vectors`, picked by constant `indices`.
struct Shuffle : PrimNode<Shuffle> {
  Array<PrimExpr> vectors;
  Array<int64_t> indices;
  static constexpr std::string_view type_key = "tir.Shuffle";
  static void fields(auto& f) { f.add("vectors", &Shuffle::vectors).add("indices", &Shuffle::indices); }
  void finish();
};
struct Let : PrimNode<Let> {
  VarRef var;
  PrimExpr value, body;
  static constexpr std::string_view type_key = "tir.Let";
  static void fields(auto& f) { f.add("value", &Let::value).def("var", &Let::var).add("body", &Let::body); }
  void finish() { dtype = body.dtype(); }
};
/// An intrinsic ("tir.exp"; see ir/intrinsic.h for the table), `tir.call_extern` (first argument StringImm,
/// a C symbol) or `tir.call_prim_func` (first argument StringImm, a function of the module).
struct Call : PrimNode<Call> {
  std::string op;
  Array<PrimExpr> args;
  static constexpr std::string_view type_key = "tir.Call";
  static void fields(auto& f) { f.add("dtype", &Call::dtype).add("op", &Call::op).add("args", &Call::args); }
};

enum class IterKind : int64_t { spatial = 0, reduce = 1, scan = 2, opaque = 3, thread_index = 4 };
/// A block's (or tensor expression's) iterator: its domain, variable and kind.
struct IterVarNode : Object {
  using node_set = PartNodes;
  Range dom;
  VarRef var;
  IterKind kind = IterKind::spatial;
  std::string thread_tag;
  static constexpr std::string_view type_key = "tir.IterVar";
  static void fields(auto& f) {
    f.add("dom", &IterVarNode::dom)
        .def("var", &IterVarNode::var)
        .add("kind", &IterVarNode::kind)
        .add("thread_tag", &IterVarNode::thread_tag);
  }
};
using IterVar = Ref<IterVarNode>;
/// An associative, commutative combination of tuples: `result` in terms of lhs and rhs, `identity` per value.
struct CommReducerNode : Object {
  using node_set = PartNodes;
  Array<VarRef> lhs, rhs;
  Array<PrimExpr> result, identity;
  static constexpr std::string_view type_key = "tir.CommReducer";
  static void fields(auto& f) {
    f.def("lhs", &CommReducerNode::lhs)
        .def("rhs", &CommReducerNode::rhs)
        .add("result", &CommReducerNode::result)
        .add("identity", &CommReducerNode::identity);
  }
};
using CommReducer = Ref<CommReducerNode>;
/// Value `value_index` of the reduction of `source` over `axis`; only inside tensor expressions.
struct Reduce : PrimNode<Reduce> {
  CommReducer combiner;
  Array<PrimExpr> source, init;  ///< init empty: the identity
  Array<IterVar> axis;
  PrimExpr condition;  ///< null: always
  int64_t value_index = 0;
  static constexpr std::string_view type_key = "tir.Reduce";
  static void fields(auto& f) {
    f.add("combiner", &Reduce::combiner)
        .def("axis", &Reduce::axis)
        .add("source", &Reduce::source)
        .add("init", &Reduce::init)
        .add("condition", &Reduce::condition)
        .add("value_index", &Reduce::value_index);
  }
  void finish() { dtype = source[size_t(value_index)].dtype(); }
};

// Statements and functions (ir/tir.h), named here so that values can speak of them.
struct StmtNode;
using Stmt = Ref<StmtNode>;
using PrimFunc = Ref<PrimFuncNode>;

// ---------------------------------------------------------------- builders
VarRef var(std::string name, DataType dtype = i64);
Range range(PrimExpr min, PrimExpr extent);
IterVar iter_var(Range dom, std::string name, IterKind kind = IterKind::spatial);
Buffer buffer(std::string name, Array<PrimExpr> shape, DataType dtype, std::string scope = "global");
/// Operands of one type, or a constant beside a value (the constant takes the value's type), or a scalar
/// beside a vector (broadcast). Integer constants fold. DiagnosticError "T0301" when types conflict.
PrimExpr operator+(const PrimExpr& a, const PrimExpr& b);
PrimExpr operator-(const PrimExpr& a, const PrimExpr& b);
PrimExpr operator*(const PrimExpr& a, const PrimExpr& b);
PrimExpr operator-(const PrimExpr& a);
PrimExpr div(const PrimExpr& a, const PrimExpr& b);  ///< float division, or truncating for integers
PrimExpr truncmod(const PrimExpr& a, const PrimExpr& b);
PrimExpr floordiv(const PrimExpr& a, const PrimExpr& b);
PrimExpr floormod(const PrimExpr& a, const PrimExpr& b);
PrimExpr ceildiv(const PrimExpr& a, const PrimExpr& b);
PrimExpr min(const PrimExpr& a, const PrimExpr& b);
PrimExpr max(const PrimExpr& a, const PrimExpr& b);
PrimExpr eq(const PrimExpr& a, const PrimExpr& b);
PrimExpr ne(const PrimExpr& a, const PrimExpr& b);
PrimExpr lt(const PrimExpr& a, const PrimExpr& b);
PrimExpr le(const PrimExpr& a, const PrimExpr& b);
PrimExpr gt(const PrimExpr& a, const PrimExpr& b);
PrimExpr ge(const PrimExpr& a, const PrimExpr& b);
PrimExpr logical_and(const PrimExpr& a, const PrimExpr& b);  ///< folds constants true and false
PrimExpr logical_or(const PrimExpr& a, const PrimExpr& b);
PrimExpr logical_not(const PrimExpr& a);
PrimExpr select(const PrimExpr& condition, const PrimExpr& t, const PrimExpr& f);
PrimExpr if_then_else(const PrimExpr& condition, const PrimExpr& t,
                      const PrimExpr& f);              ///< lazy: tir.if_then_else
PrimExpr cast(DataType dtype, const PrimExpr& value);  ///< folds immediates; identity when equal
PrimExpr call(DataType dtype, std::string op, Array<PrimExpr> args);
PrimExpr const_of(DataType dtype, double value);  ///< immediate (broadcast when dtype has lanes)
PrimExpr load(const Buffer& b, Array<PrimExpr> indices, PrimExpr predicate = {});
PrimExpr true_();
/// Value of an integer (or boolean) immediate, seen through nothing else.
std::optional<int64_t> as_int(const PrimExpr& e);
bool is_const_int(const PrimExpr& e, int64_t value);
inline bool is_zero(const PrimExpr& e) { return is_const_int(e, 0); }
inline bool is_one(const PrimExpr& e) { return is_const_int(e, 1); }

}  // namespace tenon::tir

namespace tenon {
using tir::PrimExpr;
}
