// SPDX-License-Identifier: Apache-2.0
// The code generator of the target `stack`: one walk over a lowered program. What it has no word for is
// refused, all of it at once.
#include <fmt/format.h>

#include <map>

#include "codegen/lowered.h"
#include "stack_target.h"

namespace custom_target {
namespace {

using namespace tenon;
using namespace tenon::tir;

class StackCode {
 public:
  StackCode(const codegen::Kernel& kernel, DiagnosticList& problems)
      : problems_(problems), name_(kernel.symbol) {
    word("kernel", kernel.symbol);
    // Numbers that the kernel is called with are the first variables, its tensors the first buffers.
    pre_order(kernel.function->body, [&](const ObjectRef& n) {
      const auto* call = n.as<tir::Call>();
      if (call && call->op == "tir.kernel_buffer") buffers_ = std::max(buffers_, number_of(*call) + 1);
      if (call && call->op == "tir.kernel_scalar") variables_ = std::max(variables_, number_of(*call) + 1);
      return true;
    });
    stmt(kernel.function->body);
    word("return");
  }
  const std::string& text() const { return text_; }

 private:
  template <class... Args>
  void word(std::string_view op, const Args&... args) {
    text_ += op;
    ((text_ += fmt::format(" {}", args)), ...);
    text_ += '\n';
  }
  void refuse(const std::string& what) {
    problems_.add(Diagnostic{"T0801", "the target stack has no word for " + what, "kernel " + name_, {}, {}});
  }
  static int64_t number_of(const tir::Call& kernel_argument) { return *as_int(kernel_argument.args[1]); }

  std::string type(DataType t) {
    if (t == f32) return "f32";
    if (t == i32) return "i32";
    if (t != i64) refuse("values of type " + to_string(t));
    return "i64";
  }
  int64_t buffer(const tir::Var* data) {
    const auto [it, fresh] = buffer_of_.emplace(data, buffers_);
    return fresh ? buffers_++ : it->second;
  }
  int64_t variable(const tir::Var* v) {
    const auto [it, fresh] = variable_of_.emplace(v, variables_);
    return fresh ? variables_++ : it->second;
  }

  void stmt(const Stmt& s) {
    if (const auto* n = s.as<SeqStmt>()) {
      for (const Stmt& x : n->seq) stmt(x);
    } else if (const auto* n = s.as<LetStmt>()) {
      let(n->var, n->value);
      stmt(n->body);
    } else if (const auto* n = s.as<DeclBuffer>()) {
      stmt(n->body);
    } else if (const auto* n = s.as<AttrStmt>()) {
      stmt(n->body);
    } else if (const auto* n = s.as<Allocate>()) {
      const auto count = codegen::constant_size(n->buffer);
      if (!count) refuse("memory of a size that is not constant");
      word("alloc", buffer(n->buffer->data.get()), count.value_or(0), type(n->buffer->dtype));
      stmt(n->body);
    } else if (const auto* n = s.as<BufferStore>()) {
      if (n->predicate) refuse("a store under a mask");
      expr(codegen::flat_index(n->buffer, n->indices));
      expr(n->value);
      word("store", buffer(n->buffer->data.get()), type(n->buffer->dtype));
    } else if (const auto* n = s.as<For>()) {
      loop(*n);  // one iteration after the other, whatever its kind
    } else if (const auto* n = s.as<IfThenElse>()) {
      choice(
          n->condition, [&] { stmt(n->then_case); },
          [&] {
            if (n->else_case) stmt(n->else_case);
          });
    } else {
      refuse(std::string(type_key_of(s)));
    }
  }
  void let(const VarRef& v, const PrimExpr& value) {
    const auto* call = value.as<tir::Call>();
    if (call && call->op == "tir.kernel_buffer") {
      buffer_of_[v.get()] = number_of(*call);
    } else if (call && call->op == "tir.kernel_scalar") {
      variable_of_[v.get()] = number_of(*call);
    } else {
      expr(value);
      word("set", variable(v.get()));
    }
  }
  void loop(const For& n) {
    const int64_t at = variable(n.loop_var.get()), end = variables_++, begin = labels_++, behind = labels_++;
    expr(n.min), word("set", at);
    expr(n.min), expr(n.extent), word("add.i"), word("set", end);
    word("label", begin);
    word("get", at), word("get", end), word("lt.i"), word("jump_if_not", behind);
    stmt(n.body);
    word("get", at), word("const.i", 1), word("add.i"), word("set", at);
    word("jump", begin);
    word("label", behind);
  }
  void choice(const PrimExpr& condition, FunctionRef<void()> yes, FunctionRef<void()> no) {
    const int64_t otherwise = labels_++, behind = labels_++;
    expr(condition), word("jump_if_not", otherwise);
    yes();
    word("jump", behind);
    word("label", otherwise);
    no();
    word("label", behind);
  }

  void binary(const char* op, const PrimExpr& a, const PrimExpr& b, DataType result) {
    expr(a), expr(b);
    word(std::string(op) + (a.dtype().is_float() ? ".f" : ".i"));
    if (!result.is_bool()) word("round", type(result));
  }
  void expr(const PrimExpr& e) {
    if (e.dtype().is_vector())
      return refuse("vectors (" + to_string(e.dtype()) + "); compile without a schedule");
    const DataType t = e.dtype();
    match(
        e, [&](const IntImm& n) { word("const.i", n.value); },
        [&](const FloatImm& n) { word("const.f", n.value); },
        [&](const tir::Var& n) { word("get", variable(&n)); },
        [&](const BufferLoad& n) {
          if (n.predicate) refuse("a load under a mask");
          expr(codegen::flat_index(n.buffer, n.indices));
          word("load", buffer(n.buffer->data.get()), type(n.buffer->dtype));
        },
        [&](const Add& n) { binary("add", n.a, n.b, t); }, [&](const Sub& n) { binary("sub", n.a, n.b, t); },
        [&](const Mul& n) { binary("mul", n.a, n.b, t); },
        [&](const FloorDiv& n) { binary("div", n.a, n.b, t); },
        [&](const FloorMod& n) { binary("mod", n.a, n.b, t); },
        [&](const tir::Min& n) { binary("min", n.a, n.b, t); },
        [&](const tir::Max& n) { binary("max", n.a, n.b, t); },
        [&](const EQ& n) { binary("eq", n.a, n.b, t); }, [&](const NE& n) { binary("ne", n.a, n.b, t); },
        [&](const LT& n) { binary("lt", n.a, n.b, t); }, [&](const LE& n) { binary("le", n.a, n.b, t); },
        [&](const GT& n) { binary("lt", n.b, n.a, t); }, [&](const GE& n) { binary("le", n.b, n.a, t); },
        [&](const And& n) { binary("mul", n.a, n.b, t); }, [&](const Or& n) { binary("max", n.a, n.b, t); },
        [&](const Not& n) { expr(n.a), word("not"); },
        [&](const Select& n) {
          choice(n.condition, [&] { expr(n.true_value); }, [&] { expr(n.false_value); });
        },
        [&](const Cast& n) {
          expr(n.value);
          if (n.value.dtype().is_float() != t.is_float()) word(t.is_float() ? "float" : "int");
          if (!t.is_bool()) word("round", type(t));
        },
        [&](const Let& n) { let(n.var, n.value), expr(n.body); },
        [&](const tir::Call& n) {
          if (n.op == "tir.likely" || n.op == "tir.exact") return expr(n.args[0]);
          refuse("`" + n.op + "`");
        },
        [&](const PrimExprNode& n) { refuse(std::string(type_of(&n)->key)); });
  }

  DiagnosticList& problems_;
  std::string name_, text_;
  std::map<const tir::Var*, int64_t> buffer_of_, variable_of_;
  int64_t buffers_ = 0, variables_ = 0, labels_ = 0;
};

std::string text_of(const IRModule& lowered, const Target&, int, const codegen::TextOptions&) {
  DiagnosticList problems;
  std::string text;
  for (const codegen::Kernel& kernel : codegen::collect_kernels(lowered)) {
    text += StackCode(kernel, problems).text();
    for (const std::string& alias : kernel.aliases)
      text += "kernel " + alias + "\nas " + kernel.symbol + "\n";
  }
  problems.throw_if_any();
  return text;
}

}  // namespace

void register_stack_target() {
  codegen::register_code_generator(
      {.target = {.name = "stack", .doc = "text for a small stack machine"},
       .check = [](const IRModule& lowered, const Target& target) { text_of(lowered, target, 0, {}); },
       .texts =
           {{.name = "stack", .ending = ".stack", .doc = "text of the stack machine", .kernels = text_of}},
       .object = [](const IRModule& lowered, const Target& target, int opt_level, int) -> ObjectCode {
         ObjectCode out;
         out.modules = {{"stack", text_of(lowered, target, opt_level, {})}};
         return out;
       }});
}

}  // namespace custom_target
