// SPDX-License-Identifier: Apache-2.0
// Expressions as C text. A printed expression is parenthesised unless it is a name, a call or an access.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen/c/c_emitter.h"
#include "ir/find_node.h"
#include "ir/lookup.h"
#include "ir/node_groups.h"

namespace tenon::codegen {

using namespace tir;
namespace {
template <class T>
constexpr uint32_t kind = PrimExprNodes::index_of<T>();
bool narrow_float(DataType t) { return t.is_float() && t.bits < 32; }
/// Does an operation below e take other lanes of the variable than the one it gives?
bool crosses_lanes(const PrimExpr& e, const tir::Var* v) {
  return any_node(e, [&](const ObjectRef& node) {
    const auto* call = node.as<tir::Call>();
    return (node.is<Shuffle>() ||
            (call && (call->op == "tir.dot" || call->op.starts_with("tir.vector_reduce_")))) &&
           mentions(node, v);
  });
}
std::string wide_unsigned(DataType t) { return t.bits == 64 ? "uint64_t" : "uint32_t"; }
}  // namespace

std::string CEmitter::value_type(DataType t) {
  if (t.is_bool()) return "bool";
  if (t.is_handle()) return "void*";
  if (narrow_float(t)) return fmt::format("uint{}_t", t.bits);  // moved as bits
  if (t.is_float()) return t.bits == 64 ? "double" : "float";
  if (t.is_void()) return "int32_t";
  return fmt::format("{}int{}_t", t.is_uint() ? "u" : "", t.bits);
}
std::string CEmitter::memory_type(DataType t) { return t.is_bool() ? "uint8_t" : value_type(t); }

std::string CEmitter::literal(int64_t v, DataType t) const {
  if (t.is_bool()) return v ? "true" : "false";
  if (t.is_uint())
    return t.bits == 64   ? fmt::format("UINT64_C({})", uint64_t(v))
           : t.bits == 32 ? fmt::format("{}u", uint32_t(v))
                          : fmt::format("(({}){}u)", value_type(t), uint32_t(v) & ((1u << t.bits) - 1));
  if (t.bits < 32) return fmt::format("(({}){})", value_type(t), v);
  if (v == INT64_MIN) return "INT64_MIN";
  if (v == INT32_MIN) return "INT32_MIN";
  const std::string digits = std::to_string(v < 0 ? -v : v),
                    number = std::abs(v) > INT32_MAX ? "INT64_C(" + digits + ")" : digits;
  return v < 0 ? "(-" + number + ")" : number;
}
std::string CEmitter::literal(double v, DataType t) const {
  if (narrow_float(t)) {
    NDArray bits = NDArray::empty({}, t);
    bits.set_element(0, v);
    return literal(int64_t(t.bits == 16 ? *bits.as_ptr<uint16_t>() : *bits.as_ptr<uint8_t>()),
                   DataType::uint(t.bits));
  }
  const bool d = t.bits == 64;
  if (std::isnan(v)) return d ? "((double)NAN)" : "NAN";
  if (std::isinf(v)) return fmt::format("({}{}INFINITY)", v < 0 ? "-" : "", d ? "(double)" : "");
  std::string text = d ? fmt::format("{}", std::fabs(v)) : fmt::format("{}", float(std::fabs(v)));
  if (text.find_first_of(".e") == text.npos) text += ".0";
  if (!d) text += "f";
  return std::signbit(v) ? "(-" + text + ")" : text;
}

// ---------------------------------------------------------------- sharing
/// Counts the uses of each node below e, each shared node entered once.
void CEmitter::count(const PrimExpr& e) {
  std::vector<ObjectRef> todo{e};
  while (!todo.empty()) {
    const ObjectRef node = todo.back();
    todo.pop_back();
    const auto* n = node.as<PrimExprNode>();
    if (!n || node.is<IntImm>() || node.is<FloatImm>() || node.is<tir::Var>()) continue;
    if (++counts_[n] > 1) continue;
    for (const ObjectRef& c : children(node)) todo.push_back(c);
  }
}
std::string CEmitter::root(const PrimExpr& e) {
  begin_root();
  count(e);
  return expr(e);
}

std::string CEmitter::expr(const PrimExpr& e) {
  const auto shared = counts_.find(e.get());
  const bool hoist = shared != counts_.end() && shared->second > 1 && !e.dtype().is_handle() &&
                     !e.is<Broadcast>() && !e.is<Ramp>() && (e.dtype().is_scalar() || !lane_.empty());
  if (!hoist) return compute(e);
  const std::pair key(e.get(), e.dtype().is_vector() ? lane_ : std::string());
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  const std::string value = compute(e);
  if (value.size() < 24) return value;
  const std::string name = fresh("t");
  line(fmt::format("const {} {} = {};", value_type(e.dtype().element()), name, bare(value)));
  memo_[key] = name;
  return name;
}

// ---------------------------------------------------------------- arithmetic
std::string CEmitter::combine(uint32_t node, DataType t, const std::string& a, const std::string& b) {
  t = t.element();
  const char* sign = node == kind<Add> ? "+" : node == kind<Sub> ? "-" : node == kind<Mul> ? "*" : "/";
  if (t.is_float()) {
    const bool d = t.bits == 64;
    switch (node) {
      case kind<Min>:
        return fmt::format("{}({}, {})", helpers_.floating("min", t), bare(a), bare(b));
      case kind<Max>:
        return fmt::format("{}({}, {})", helpers_.floating("max", t), bare(a), bare(b));
      case kind<Mod>:
        return fmt::format("{}({}, {})", d ? "fmod" : "fmodf", bare(a), bare(b));
      case kind<FloorDiv>:
        return fmt::format("{}({}, {})", helpers_.floating("floordiv", t), bare(a), bare(b));
      case kind<FloorMod>:
        return fmt::format("{}({}, {})", helpers_.floating("floormod", t), bare(a), bare(b));
      default:
        return fmt::format("({} {} {})", a, sign, b);
    }
  }
  if (t.is_bool()) {
    if (node == kind<Add> || node == kind<Max>) return fmt::format("({} || {})", a, b);
    if (node == kind<Mul> || node == kind<Min>) return fmt::format("({} && {})", a, b);
    return fmt::format("({} != {})", a, b);
  }
  if (node == kind<Min> || node == kind<Max>)
    return fmt::format("{}({}, {})", helpers_.integer(node == kind<Min> ? "min" : "max", t), bare(a),
                       bare(b));
  // Wraps: computed without a sign.
  return fmt::format("(({0})(({1}){2} {3} ({1}){4}))", value_type(t), wide_unsigned(t), a, sign, b);
}

std::string CEmitter::binary(uint32_t node, const PrimExpr& ea, const PrimExpr& eb) {
  const DataType t = ea.dtype().element();
  const bool division =
      node == kind<Div> || node == kind<Mod> || node == kind<FloorDiv> || node == kind<FloorMod>;
  const std::string a = expr(ea), b = expr(eb);
  if (!division || t.is_float()) return combine(node, t, a, b);
  const bool quotient = node == kind<Div> || node == kind<FloorDiv>;
  if (bounds_(ea).min >= 0 && bounds_(eb).min > 0) {
    const std::string text = fmt::format("({} {} {})", a, quotient ? "/" : "%", b);
    return t.bits < 32 ? fmt::format("(({}){})", value_type(t), text) : text;
  }
  const char* name = node == kind<Div>        ? "div"
                     : node == kind<Mod>      ? "mod"
                     : node == kind<FloorDiv> ? "floordiv"
                                              : "floormod";
  return fmt::format("{}({}, {})", helpers_.integer(name, t), bare(a), bare(b));
}

std::string CEmitter::cast(const std::string& v, DataType from, DataType to) {
  from = from.element();
  to = to.element();
  if (from == to) return v;
  if (narrow_float(from) || narrow_float(to))
    fail("T0801",
         fmt::format("the C text cannot express a conversion of {} to {}", to_string(from), to_string(to)),
         "kernel " + symbol_, "the passes *_compute_legalize and *_storage_legalize replace it for target c");
  if (to.is_bool())
    return from.is_float() ? fmt::format("({} != {})", v, from.bits == 64 ? "0.0" : "0.0f")
                           : fmt::format("({} != 0)", v);
  if (from.is_float() && to.is_integer())
    return fmt::format("{}({}{})", helpers_.saturate(to), from.bits == 64 ? "" : "(double)", v);
  if (from.is_float()) {
    if (to == f64) return fmt::format("((double){})", v);
    return fmt::format("((float){})", v);
  }
  if (to.is_float()) return fmt::format("(({}){})", to == f64 ? "double" : "float", v);
  if (to.is_handle()) return fmt::format("((void*)(uintptr_t){})", v);
  if (from.is_handle()) return fmt::format("(({})(uintptr_t){})", value_type(to), v);
  return fmt::format("(({}){})", value_type(to), v);
}

// ---------------------------------------------------------------- memory
std::string CEmitter::index(const PrimExpr& e) {
  // The outer sums and products of an index cannot wrap: the element they name exists.
  if (e.dtype().element() == i64) {
    auto pair = [&](const PrimExpr& a, const char* sign, const PrimExpr& b) {
      const std::string x = index(a);
      return fmt::format("({}{} {} {})", a.is<IntImm>() && b.is<IntImm>() ? "(int64_t)" : "", x, sign,
                         index(b));
    };
    if (const auto* n = e.as<Add>()) return pair(n->a, "+", n->b);
    if (const auto* n = e.as<Sub>()) return pair(n->a, "-", n->b);
    if (const auto* n = e.as<Mul>()) return pair(n->a, "*", n->b);
    if (const auto* n = e.as<Ramp>(); n && !lane_.empty()) {
      if (is_one(n->stride))
        return is_zero(n->base) ? lane_ : fmt::format("({} + {})", index(n->base), lane_);
      const std::string base = index(n->base);
      return fmt::format("({} + {} * {})", base, lane_, index(n->stride));
    }
    if (const auto* n = e.as<Broadcast>()) return index(n->value);
  }
  return expr(e);
}

std::string CEmitter::element(const Buffer& b, const std::string& at) const {
  auto name = names_.find(b->data.get());
  CHECK(name != names_.end(),
        fmt::format("kernel {}: the memory of buffer {} is not defined", symbol_, b->name));
  auto type = typed_.find(b->data.get());
  if (type != typed_.end() && memory_type(type->second) == memory_type(b->dtype))
    return fmt::format("{}[{}]", name->second, bare(at));
  return fmt::format("(({}*){})[{}]", memory_type(b->dtype), name->second, bare(at));
}

std::string CEmitter::load(const BufferLoad& n) {
  const PrimExpr at = flat_index(n.buffer, n.indices);
  std::string access = element(n.buffer, index(at));
  const DataType t = n.buffer->dtype;
  if (t.is_bool()) access = fmt::format("({} != 0)", access);
  if (!n.predicate || is_const_int(n.predicate, 1)) return access;
  return fmt::format("({} ? {} : {})", expr(n.predicate), access,
                     t.is_float() ? literal(0.0, t) : literal(int64_t(0), t));
}

void CEmitter::lanes(int64_t n, FunctionRef<void()> f) {
  const std::string outer = lane_;
  lane_ = fresh("lane");
  const auto memo = memo_;
  open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", lane_, n));
  f();
  close();
  memo_ = memo;
  lane_ = outer;
}
std::string CEmitter::materialise(const PrimExpr& v) {
  const DataType t = v.dtype();
  const std::string name = fresh("v");
  line(fmt::format("{} {}[{}];", value_type(t.element()), name, t.lanes));
  lanes(t.lanes, [&] {
    const std::string x = expr(v);
    line(fmt::format("{}[{}] = {};", name, lane_, bare(x)));
  });
  return name;
}

/// A signed sum or product that its type is known to hold: plain C arithmetic will do.
bool CEmitter::cannot_wrap(const PrimExpr& e) const {
  const DataType t = e.dtype();
  if (!t.is_int() || t.bits < 32) return false;
  const Bounds b = bounds_(e);
  return b.min > -(__int128(1) << (t.bits - 1)) || b.max < (__int128(1) << (t.bits - 1)) - 1;
}

// ---------------------------------------------------------------- nodes
std::string CEmitter::compute(const PrimExpr& e) {
  const DataType t = e.dtype().element();
  auto compare = [&](const auto& n, const char* sign) {
    const std::string a = expr(n.a);
    return fmt::format("({} {} {})", a, sign, expr(n.b));
  };
  auto arithmetic = [&](const auto& n) {
    const bool sum = n.type_index == kind<Add> || n.type_index == kind<Sub> || n.type_index == kind<Mul>;
    if (!sum || !cannot_wrap(e)) return binary(n.type_index, n.a, n.b);
    const std::string a = expr(n.a);
    return fmt::format("({} {} {})", a,
                       n.type_index == kind<Add>   ? "+"
                       : n.type_index == kind<Sub> ? "-"
                                                   : "*",
                       expr(n.b));
  };
  CHECK(e.dtype().is_scalar() || !lane_.empty(), "a vector outside a loop over lanes");
  return match<std::string>(
      e, [&](const IntImm& n) { return literal(n.value, t); },
      [&](const FloatImm& n) { return literal(n.value, t); },
      [&](const tir::StringImm&) -> std::string {
        CHECK(false, "a string outside a call");
        return {};
      },
      [&](const tir::Var& n) -> std::string {
        auto it = names_.find(&n);
        CHECK(it != names_.end(), fmt::format("kernel {}: variable {} is not defined", symbol_, n.name));
        return n.dtype.is_vector() && !lane_vars_.contains(&n) ? fmt::format("{}[{}]", it->second, lane_)
                                                               : it->second;
      },
      [&](const ArithmeticNode auto& n) { return arithmetic(n); },
      [&](const EQ& n) { return compare(n, "=="); }, [&](const NE& n) { return compare(n, "!="); },
      [&](const LT& n) { return compare(n, "<"); }, [&](const LE& n) { return compare(n, "<="); },
      [&](const GT& n) { return compare(n, ">"); }, [&](const GE& n) { return compare(n, ">="); },
      [&](const And& n) { return compare(n, "&&"); }, [&](const Or& n) { return compare(n, "||"); },
      [&](const Not& n) { return fmt::format("(!{})", expr(n.a)); },
      [&](const Select& n) {
        const std::string c = expr(n.condition), a = expr(n.true_value);
        return fmt::format("({} ? {} : {})", c, a, expr(n.false_value));
      },
      [&](const Cast& n) { return cast(expr(n.value), n.value.dtype(), n.dtype); },
      [&](const BufferLoad& n) { return load(n); },
      [&](const Ramp& n) -> std::string {
        const std::string base = expr(n.base), stride = expr(n.stride);
        return fmt::format("(({0})(({1}){2} + ({1}){3} * ({1}){4}))", value_type(t), wide_unsigned(t), base,
                           lane_, stride);
      },
      [&](const Broadcast& n) { return expr(n.value); },
      [&](const Shuffle& n) -> std::string {
        int64_t total = 0;
        for (const PrimExpr& v : n.vectors) total += v.dtype().lanes;
        const std::string all = fresh("v");
        line(fmt::format("{} {}[{}];", value_type(t), all, total));
        int64_t at = 0;
        for (const PrimExpr& v : n.vectors) {
          if (v.dtype().is_scalar())
            line(fmt::format("{}[{}] = {};", all, at, bare(expr(v))));
          else
            lanes(v.dtype().lanes, [&] {
              const std::string x = expr(v);
              line(fmt::format("{}[{} + {}] = {};", all, at, lane_, bare(x)));
            });
          at += v.dtype().lanes;
        }
        if (n.indices.size() == 1) return fmt::format("{}[{}]", all, n.indices[0]);
        const std::string order = fresh("order");
        line(fmt::format("static const int {}[] = {{{}}};", order, fmt::join(n.indices.vec(), ", ")));
        return fmt::format("{}[{}[{}]]", all, order, lane_);
      },
      [&](const Let& n) {
        if (n.value.dtype().is_vector() && !lane_.empty() && !crosses_lanes(n.body, n.var.get())) {
          // One lane is all that is asked for here.
          const std::string value = expr(n.value), name = fresh(n.var->name);
          line(fmt::format("const {} {} = {};", value_type(n.var->dtype.element()), name, bare(value)));
          names_[n.var.get()] = name;
          lane_vars_.insert(n.var.get());
        } else {
          let(n.var, n.value);
        }
        return expr(n.body);
      },
      [&](const tir::Call& n) { return call(n); },
      [&](const PrimExprNode& n) -> std::string {
        CHECK(false, "expression not in the lowered form: " + std::string(type_of(&n)->key));
        return {};
      });
}

std::string CEmitter::if_then_else(const tir::Call& n) {
  const std::string condition = expr(n.args[0]), outer = std::move(out_);
  const auto memo = memo_;
  // Each arm prints aside: what it needs beforehand may run only when it is chosen.
  ++indent_;
  auto arm = [&](const PrimExpr& e) {
    out_.clear();
    std::string value = expr(e);
    memo_ = memo;
    return std::pair(out_, value);
  };
  auto [then_before, then_value] = arm(n.args[1]);
  auto [else_before, else_value] = arm(n.args[2]);
  --indent_;
  out_ = outer;
  if (then_before.empty() && else_before.empty())
    return fmt::format("({} ? {} : {})", condition, then_value, else_value);
  const std::string name = fresh("t");
  line(fmt::format("{} {};", value_type(n.dtype.element()), name));
  open(fmt::format("if ({})", bare(condition)));
  out_ += then_before;
  line(fmt::format("{} = {};", name, bare(then_value)));
  --indent_;
  open("} else");
  out_ += else_before;
  line(fmt::format("{} = {};", name, bare(else_value)));
  close();
  return name;
}

std::string CEmitter::reduce(const tir::Call& n) {
  const DataType t = n.args[0].dtype();
  if (t.is_scalar()) return expr(n.args[0]);
  const uint32_t node = n.op == "tir.vector_reduce_add"   ? kind<Add>
                        : n.op == "tir.vector_reduce_max" ? kind<Max>
                                                          : kind<Min>;
  const std::string r = materialise(n.args[0]), left = fresh("n"), half = fresh("h"), k = fresh("k");
  // Lanes k and k + n/2 are combined until one is left: the order is part of the meaning.
  open(fmt::format("for (int {0} = {1}; {0} > 1;)", left, t.lanes));
  line(fmt::format("const int {} = {} / 2;", half, left));
  line(fmt::format(
      "for (int {0} = 0; {0} < {1}; ++{0}) {2}[{0}] = {3};", k, half, r,
      bare(combine(node, t, fmt::format("{}[{}]", r, k), fmt::format("{}[{} + {}]", r, k, half)))));
  line(fmt::format("if ({} % 2 != 0) {}[{}] = {}[{} - 1];", left, r, half, r, left));
  line(fmt::format("{0} = {1} + {0} % 2;", left, half));
  close();
  return r + "[0]";
}

std::string CEmitter::math(const std::string& name, const tir::Call& n) {
  const DataType t = n.args[0].dtype().element();
  std::vector<std::string> raw, args;  // each printed once: an argument may print lines of its own
  for (const PrimExpr& a : n.args) {
    raw.push_back(expr(a));
    args.push_back(bare(raw.back()));
  }
  if (!t.is_float()) {
    std::vector<std::string> same;
    for (size_t k = 0; k < args.size(); ++k) same.push_back(bare(cast(raw[k], n.args[k].dtype(), t)));
    if (const bool shift = name == "shift_left" || name == "shift_right";
        shift && n.args[1].dtype().bits > t.bits) {  // too many bits are so before the count is made narrow
      const DataType wide = DataType::uint(64);
      same[1] = bare(cast(fmt::format("{}({}, {})", helpers_.integer("min", wide),
                                      bare(cast(raw[1], n.args[1].dtype(), wide)), t.bits),
                          wide, t));
    }
    auto helper = [&](std::string_view op) {
      return cast(fmt::format("{}({})", helpers_.integer(op, t), fmt::join(same, ", ")), t, n.dtype);
    };
    auto bits = [&](const char* sign) {
      return fmt::format("(({})(({}) {} ({})))", value_type(t), same[0], sign, same[1]);
    };
    if (name == "bitwise_and") return bits("&");
    if (name == "bitwise_or") return bits("|");
    if (name == "bitwise_xor") return bits("^");
    if (name == "bitwise_not")
      return t.is_bool() ? fmt::format("(!({}))", args[0])
                         : fmt::format("(({})~({}))", value_type(t), args[0]);
    if (name == "shift_left" || name == "shift_right" || name == "popcount" || name == "clz" ||
        name == "abs" || name == "pow")
      return helper(name);
    if (name == "floor" || name == "ceil" || name == "round" || name == "trunc") return raw[0];
    if (name == "isnan" || name == "isinf") return cast("false", boolean, n.dtype);
    if (name == "isfinite") return cast("true", boolean, n.dtype);
    fail("T0801", fmt::format("code generation cannot express `{}` of {}", n.op, to_string(t)),
         "kernel " + symbol_);
  }
  const std::string f = t.bits == 64 ? "" : "f";
  if (name == "isnan" || name == "isinf" || name == "isfinite")
    return cast(fmt::format("({}({}) != 0)", name, args[0]), boolean, n.dtype);
  if (name == "round") return fmt::format("nearbyint{}({})", f, args[0]);
  if (name == "abs") return fmt::format("fabs{}({})", f, args[0]);
  if (name == "ldexp") {
    const std::string power = n.args[1].dtype().is_float()
                                  ? cast(raw[1], n.args[1].dtype(), DataType::int_(32))
                                  : fmt::format("(int)({})", args[1]);
    return fmt::format("ldexp{}({}, {})", f, args[0], power);
  }
  static constexpr std::string_view exact[] = {"sqrt", "floor", "ceil", "trunc", "fma", "copysign", "fmod"};
  if (t.bits < 64 && std::find(std::begin(exact), std::end(exact), name) == std::end(exact))
    fail("T0801", fmt::format("code generation cannot express `{}` of {}", n.op, to_string(t)),
         "kernel " + symbol_, "the pass lower_intrin replaces mathematical functions");
  return fmt::format("{}{}({})", name, f, fmt::join(args, ", "));
}

/// One lane: its accumulator plus the products of its neighbours, in order.
std::string CEmitter::dot(const tir::Call& n) {
  const int64_t group = dot_group(n.args[0], n.args[1], n.args[2]);
  CHECK(group > 0, "a dot product of types that do not fit");
  if (n.dtype.is_float())
    fail("T0801", "the C text cannot express a dot product of floats of 16 bits", "kernel " + symbol_,
         "the passes f16_compute_legalize and bf16_compute_legalize replace it");
  // Neighbours in memory are read where they are; other operands are computed first.
  struct Operand {
    std::string values, base;
    const BufferLoad* load = nullptr;
    bool shared = false;
  };
  auto operand = [&](const PrimExpr& e) {
    Operand o;
    o.shared = e.dtype().lanes == group || lane_.empty();
    const auto* l = e.as<BufferLoad>();
    const auto* r = l && !l->predicate && l->indices.size() == 1 ? l->indices[0].as<Ramp>() : nullptr;
    if (r && is_one(r->stride)) {
      o.load = l;
      o.base = index(r->base);
    } else {
      o.values = materialise(e);
    }
    return o;
  };
  auto element_of = [&](const Operand& o, int64_t q) {
    const std::string at = o.shared ? std::to_string(q) : fmt::format("{} * {} + {}", group, lane_, q);
    if (!o.load) return fmt::format("{}[{}]", o.values, at);
    return element(o.load->buffer, fmt::format("({} + {})", o.base, at));
  };
  const Operand a = operand(n.args[1]), b = operand(n.args[2]);
  std::string sum = expr(n.args[0]);
  for (int64_t q = 0; q < group; ++q) {
    const std::string x = element_of(a, q), y = element_of(b, q);
    sum = fmt::format("((int32_t)((uint32_t){} + (uint32_t){} * (uint32_t){}))", sum, x, y);
  }
  return sum;
}

std::string CEmitter::atomic(const tir::Call& n) {
  const DataType t = n.args[1].dtype();
  const std::string op = n.op.substr(11), a = "a", v = "v";
  const uint32_t node = op == "add" ? kind<Add> : op == "max" ? kind<Max> : kind<Min>;
  const std::string next = op == "exchange"           ? v
                           : op == "compare_exchange" ? "a == v ? w : a"
                           : op == "and"              ? fmt::format("({})(a & v)", value_type(t))
                           : op == "or"               ? fmt::format("({})(a | v)", value_type(t))
                           : op == "xor"              ? fmt::format("({})(a ^ v)", value_type(t))
                                                      : bare(combine(node, t, a, v));
  const std::string helper = helpers_.atomic(op, t, value_type(t), memory_type(t), next);
  // The effect happens once: a line of its own keeps the old value.
  std::vector<std::string> args;
  for (const PrimExpr& e : n.args) args.push_back(bare(expr(e)));
  const std::string old = fresh("old");
  line(fmt::format("const {} {} = {}({});", value_type(t), old, helper, fmt::join(args, ", ")));
  line(fmt::format("(void){};", old));
  return old;
}

std::string CEmitter::call(const tir::Call& n) {
  const std::string name = n.op.substr(4);
  if (name.starts_with("atomic_")) return atomic(n);
  if (name == "dot") return dot(n);
  if (name == "lookup") {
    std::string table;
    for (uint8_t byte : lookup_table(n)) table += fmt::format("\\{:03o}", byte);
    return cast(fmt::format("((const uint8_t*)\"{}\")[(uint8_t)({})]", table, bare(expr(n.args[0]))),
                DataType::uint(8), n.dtype);
  }
  if (name == "kernel_buffer") return fmt::format("{}[{}]", expr(n.args[0]), *as_int(n.args[1]));
  if (name == "kernel_scalar" || name == "kernel_size") {
    const std::string word = fmt::format("{}[{}]", expr(n.args[0]), *as_int(n.args[1]));
    return n.dtype == i64 ? word : cast(word, i64, n.dtype);
  }
  if (name == "if_then_else") {
    if (auto known = as_int(n.args[0])) return expr(n.args[*known ? 1 : 2]);
    return if_then_else(n);
  }
  if (name == "select_rare") return if_then_else(n);  // a lane stands alone here
  if (name == "exact" || name == "ordered_term") return expr(n.args[0]);
  if (name == "likely") return expr(n.args[0]);
  if (name == "wide_term") return cast(expr(n.args[0]), f32, n.dtype);
  if (name == "undef") return n.dtype.is_float() ? literal(0.0, n.dtype) : literal(int64_t(0), n.dtype);
  if (name.starts_with("vector_reduce_")) return reduce(n);
  if (name == "assume" || name == "prefetch") return "0";
  if (name == "address_of") {
    const auto* l = n.args[0].as<BufferLoad>();
    return fmt::format("((void*)&{})", element(l->buffer, index(flat_index(l->buffer, l->indices))));
  }
  if (name == "reinterpret") {
    const DataType from = n.args[0].dtype().element(), to = n.dtype.element();
    std::string v = expr(n.args[0]);
    if (from == to) return v;
    if (from.is_handle() || to.is_handle()) return cast(v, from, to);
    if (memory_type(from) != memory_type(to))
      v = fmt::format("{}({})", helpers_.reinterpret(memory_type(from), memory_type(to)), bare(v));
    return to.is_bool() ? fmt::format("({} != 0)", v) : v;
  }
  if (name == "call_prim_func") {
    std::vector<std::string> pointers, scalars;
    for (size_t k = 1; k < n.args.size(); ++k) {
      const DataType t = n.args[k].dtype();
      const std::string v = expr(n.args[k]);
      if (t.is_handle())
        pointers.push_back(bare(fmt::format("((void*){})", v)));
      else if (t.is_float())
        scalars.push_back(
            fmt::format("{}({})", helpers_.reinterpret("double", "int64_t"), bare(cast(v, t, f64))));
      else
        scalars.push_back(bare(cast(v, t, i64)));
    }
    if (pointers.empty()) pointers.push_back("0");
    if (scalars.empty()) scalars.push_back("0");
    const std::string b = fresh("call_buffers"), s = fresh("call_scalars"), c = fresh("code");
    line(fmt::format("void* {}[] = {{{}}};", b, fmt::join(pointers, ", ")));
    line(fmt::format("const int64_t {}[] = {{{}}};", s, fmt::join(scalars, ", ")));
    line(fmt::format("const int32_t {} = {}({}, {}, context);", c, n.args[0].as<tir::StringImm>()->value, b,
                     s));
    open(fmt::format("if ({} != 0)", c));
    return_code(c);
    close();
    return "0";
  }
  if (name.starts_with("call_llvm_"))
    fail("T0801",
         fmt::format("C text cannot express the LLVM intrinsic `{}`", n.args[0].as<tir::StringImm>()->value),
         "kernel " + symbol_, "compile for the target llvm, or use a function of the script");
  if (name == "call_extern") return call_extern(n);
  if (name == "call_packed") return call_packed(n);
  return math(name, n);
}

}  // namespace tenon::codegen
