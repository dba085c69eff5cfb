// SPDX-License-Identifier: Apache-2.0
// Statements as C text, and the file around them.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/c/c_emitter.h"
#include "codegen/calls.h"
#include "codegen/kernel_abi_text.h"
#include "ir/imported_code.h"
#include "ir/structural.h"

namespace tenon::codegen {

using namespace tir;

std::string bare(const std::string& text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return text;
  int depth = 0;
  for (size_t k = 0; k < text.size(); ++k) {
    if (text[k] == '(') ++depth;
    if (text[k] == ')' && --depth == 0) return k + 1 == text.size() ? text.substr(1, text.size() - 2) : text;
  }
  return text;
}

std::string CEmitter::fresh(const std::string& hint) {
  std::string name;
  for (char c : hint) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "v" + name;
  if (name[0] == '_') name = "v" + name;
  if (name.size() > 48) name.resize(48);
  std::string unique = name;
  for (int& k = numbers_[name]; reserved_.count(unique) || !used_.insert(unique).second;)
    unique = fmt::format("{}_{}", name, ++k);
  return unique;
}

/// Which memories are written, what types they are seen as, which variables are used at all.
void CEmitter::scan(const Stmt& body) {
  auto use = [&](const PrimExpr& e) {
    if (const auto* v = e.as<tir::Var>()) referenced_.insert(v);
  };
  pre_order(body, [&](const ObjectRef& node) {
    if (node.is<AssertStmt>() && !options_.asserts) return false;
    if (const auto* b = node.as<BufferNode>()) {
      element_types_[b->data.get()].insert(b->dtype);
      for (const PrimExpr& d : b->shape) use(d);
      for (const PrimExpr& d : b->strides) use(d);
      if (b->elem_offset) use(b->elem_offset);
    } else if (const auto* n = node.as<BufferLoad>()) {
      referenced_.insert(n->buffer->data.get());
      for (const PrimExpr& i : n->indices) use(i);
      if (n->predicate) use(n->predicate);
    } else if (const auto* n = node.as<BufferStore>()) {
      referenced_.insert(n->buffer->data.get());
      stored_.insert(n->buffer->data.get());
      for (const PrimExpr& i : n->indices) use(i);
      use(n->value);
      if (n->predicate) use(n->predicate);
    } else if (const auto* n = node.as<LetStmt>()) {
      use(n->value);
      if (n->var->dtype.is_handle())
        for (const tir::Var* v : used_vars(make<Evaluate>(n->value)))
          stored_.insert(v);  // views may be written through
    } else if (const auto* n = node.as<Let>()) {
      use(n->value);
      use(n->body);
    } else if (const auto* n = node.as<For>()) {
      use(n->min);
      use(n->extent);
    } else if (const auto* n = node.as<tir::Call>()) {
      for (const PrimExpr& a : n->args) {
        use(a);
        if (const auto* l = a.as<BufferLoad>(); l && n->op == "tir.address_of")
          stored_.insert(l->buffer->data.get());
        if (const auto* v = a.as<tir::Var>()) stored_.insert(v);
      }
    } else if (!node.is<tir::Var>()) {
      for (const ObjectRef& c : children(node))
        if (const auto* v = c.as<tir::Var>()) referenced_.insert(v);
    }
    return true;
  });
}

std::string CEmitter::pointer_type(const tir::Var* data) const {
  auto it = element_types_.find(data);
  const bool typed = it != element_types_.end() && it->second.size() == 1;
  return std::string(stored_.count(data) ? "" : "const ") +
         (typed ? memory_type(*it->second.begin()) : "void") + "*";
}

void CEmitter::return_code(const std::string& code) {
  for (size_t k = workspaces_.size(); k-- > 0;)
    line(fmt::format("context->workspace_release(context, {});", workspaces_[k]));
  line(fmt::format("return {};", code));
}

void CEmitter::let(const VarRef& v, const PrimExpr& value) {
  const DataType t = v->dtype;
  if (t.is_handle()) {
    const std::string text = expr(value), type = pointer_type(v.get()), name = fresh(v->name);
    const bool restricted =
        noalias_ && value.as<tir::Call>() && value.as<tir::Call>()->op == "tir.kernel_buffer";
    line(fmt::format("{}{}{} = ({}){};", type, restricted ? " restrict " : " ", name, type, text));
    auto it = element_types_.find(v.get());
    if (it != element_types_.end() && it->second.size() == 1) typed_[v.get()] = *it->second.begin();
    names_[v.get()] = name;
    if (!referenced_.count(v.get())) line(fmt::format("(void){};", name));
    return;
  }
  if (t.is_vector()) {
    const std::string name = fresh(v->name);
    line(fmt::format("{} {}[{}];", value_type(t.element()), name, t.lanes));
    lanes(t.lanes, [&] {
      const std::string x = expr(value);
      line(fmt::format("{}[{}] = {};", name, lane_, bare(x)));
    });
    names_[v.get()] = name;
    if (!referenced_.count(v.get())) line(fmt::format("(void){};", name));
    return;
  }
  const std::string text = t == i64 && cannot_wrap(value) ? index(value) : expr(value), name = fresh(v->name);
  line(fmt::format("const {} {} = {};", value_type(t), name, bare(text)));
  names_[v.get()] = name;
  if (t.is_integer()) bounds_.set(v.get(), bounds_(value));
  if (!referenced_.count(v.get())) line(fmt::format("(void){};", name));
}

bool CEmitter::allocate(const Buffer& b) {
  const std::optional<int64_t> count = constant_size(b);
  const std::string name = fresh(b->name);
  names_[b->data.get()] = name;
  const DataType t = b->dtype;
  if (count && *count * t.bytes() <= kStackBytes && stack_bytes_ + *count * t.bytes() <= kStackTotal) {
    stack_bytes_ += *count * t.bytes();
    line(fmt::format("_Alignas({}) {} {}[{}];", options_.alignment, memory_type(t), name,
                     std::max<int64_t>(1, *count)));
    typed_[b->data.get()] = t;
    if (!referenced_.count(b->data.get())) line(fmt::format("(void){};", name));
    return false;
  }
  std::string bytes = std::to_string(t.bytes());
  for (const PrimExpr& d : b->shape) bytes += " * " + root(d);
  auto it = element_types_.find(b->data.get());
  const bool typed = it != element_types_.end() && it->second.size() == 1;
  const std::string type = typed ? memory_type(t) + "*" : "void*";
  line(fmt::format("{} const {} = ({})context->workspace(context, {});", type, name, type, bytes));
  open(fmt::format("if ({} == 0)", name));
  return_code("-1");
  close();
  if (typed) typed_[b->data.get()] = t;
  workspaces_.push_back(name);
  return true;
}

void CEmitter::constant(const AllocateConst& n) {
  const DataType t = n.buffer->dtype;
  const std::string name = fresh(n.buffer->name);
  std::string text;
  for (int64_t k = 0; k < n.data.size(); ++k) {
    std::string v;
    if (t.is_float() && t.bits >= 32)
      v = bare(literal(n.data.element(k), t));
    else if (t.bits == 16 && t.is_float())
      v = fmt::format("0x{:x}", n.data.as_ptr<uint16_t>()[k]);
    else if (t.is_float())
      v = fmt::format("0x{:x}", n.data.as_ptr<uint8_t>()[k]);
    else if (t.is_bool())
      v = n.data.element_int(k) ? "1" : "0";
    else
      v = bare(literal(n.data.element_int(k), t));
    text += (k ? ", " : "") + v;
  }
  line(fmt::format("_Alignas({}) static const {} {}[{}] = {{{}}};", options_.alignment, memory_type(t), name,
                   std::max<int64_t>(1, n.data.size()), text.empty() ? "0" : text));
  names_[n.buffer->data.get()] = name;
  typed_[n.buffer->data.get()] = t;
  if (!referenced_.count(n.buffer->data.get())) line(fmt::format("(void){};", name));
}

void CEmitter::store(const BufferStore& n) {
  begin_root();
  const PrimExpr at = flat_index(n.buffer, n.indices);
  count(n.value);
  count(at);
  if (n.predicate) count(n.predicate);
  const int64_t width = std::max<int64_t>(n.value.dtype().lanes, at.dtype().lanes);
  const bool masked = n.predicate && !is_const_int(n.predicate, 1);
  auto put = [&](const std::string& value) {
    if (masked) open(fmt::format("if ({})", bare(expr(n.predicate))));
    line(fmt::format("{} = {};", element(n.buffer, index(at)), bare(value)));
    if (masked) close();
  };
  open("");
  out_.replace(out_.rfind(" {"), 2, "{");
  const size_t mark = out_.size();
  if (width == 1) {
    put(expr(n.value));
  } else {
    // All lanes are read before any is written, unless no lane reads what another one writes.
    bool apart = noalias_;
    pre_order(n.value, [&](const ObjectRef& node) {
      if (const auto* l = node.as<BufferLoad>();
          l && l->buffer->data.same_as(n.buffer->data) && !structural_equal(l->indices, n.indices, true))
        apart = false;
      return apart;
    });
    if (apart) {
      lanes(width, [&] { put(expr(n.value)); });
    } else {
      PrimExpr value = n.value.dtype().is_vector() ? n.value : make<Broadcast>(n.value, width);
      const std::string all = materialise(value);
      lanes(width, [&] { put(fmt::format("{}[{}]", all, lane_)); });
    }
  }
  // A store of one line needs no block of its own.
  std::string inner = out_.substr(mark);
  if (std::count(inner.begin(), inner.end(), '\n') == 1) {
    --indent_;
    out_.resize(mark);
    out_.resize(out_.rfind('{'));
    while (!out_.empty() && out_.back() == ' ') out_.pop_back();
    line(inner.substr(inner.find_first_not_of(' '), inner.size() - inner.find_first_not_of(' ') - 1));
  } else {
    close();
  }
}

void CEmitter::loop(const For& n) {
  const auto extent = as_int(n.extent);
  if (extent && *extent <= 0) return;
  if (n.kind == ForKind::parallel && !parallel_ && !(extent && *extent == 1)) return parallel_loop(n);
  bounds_.set_loop(n);
  begin_root();
  const std::string first = index(n.min), count = index(n.extent), name = fresh(n.loop_var->name),
                    type = value_type(n.loop_var->dtype);
  names_[n.loop_var.get()] = name;
  const std::string end = is_zero(n.min) ? bare(count) : fmt::format("{} + {}", first, count);
  open(fmt::format("for ({0} {1} = {2}, {1}_end = {3}; {1} < {1}_end; ++{1})", type, name, bare(first), end));
  used_.insert(name + "_end");
  if (const IfThenElse* body = leaves_early(n)) {
    line(fmt::format("if (!({})) break;", bare(root(body->condition))));
    stmt(body->then_case);
  } else {
    stmt(n.body);
  }
  close();
}

void CEmitter::parallel_loop(const For& n) {
  bounds_.set_loop(n);
  begin_root();
  const std::string first = index(n.min), extent = index(n.extent);
  std::vector<const tir::Var*> captured;
  for (const tir::Var* v : used_vars(n.body))
    if (v != n.loop_var.get() && names_.count(v)) captured.push_back(v);
  const std::string body = fmt::format("{}_parallel_{}", symbol_, bodies_++), closure = body + "_closure";
  auto field_type = [&](const tir::Var* v) {
    if (!v->dtype.is_handle()) return value_type(v->dtype.element());
    auto it = typed_.find(v);
    if (it != typed_.end())
      return std::string(stored_.count(v) ? "" : "const ") + memory_type(it->second) + "*";
    return std::string(stored_.count(v) ? "" : "const ") + "void*";
  };
  std::string members = fmt::format("struct {} {{\n  {} first;\n", closure, value_type(n.loop_var->dtype));
  std::string values = fmt::format(".first = {}", bare(first));
  for (const tir::Var* v : captured) {
    const std::string& name = names_[v];
    if (v->dtype.is_vector()) {
      members += fmt::format("  const {}* c_{};\n", value_type(v->dtype.element()), name);
    } else {
      members += fmt::format("  {} c_{};\n", field_type(v), name);
    }
    values += fmt::format(", .c_{0} = {0}", name);
  }
  members += "};\n";

  // The body is a function of its own; the text around it waits.
  std::string text = std::move(out_);
  const int indent = indent_;
  const auto names = names_;
  const auto workspaces = std::move(workspaces_);
  const int64_t stack = stack_bytes_;
  stack_bytes_ = 0;
  out_.clear();
  workspaces_.clear();
  indent_ = 0;
  parallel_ = true;
  open(fmt::format(
      "static int32_t {}(void* closure, int64_t begin, int64_t end, const TenonKernelContext* context)",
      body));
  line(fmt::format("const struct {0}* const captured = (const struct {0}*)closure;", closure));
  line("(void)context;");
  for (const tir::Var* v : captured) {
    const std::string& name = names_[v];
    if (v->dtype.is_vector())
      line(fmt::format("const {0}* const {1} = captured->c_{1};", value_type(v->dtype.element()), name));
    else
      line(fmt::format("{0} const {1} = captured->c_{1};", field_type(v), name));
    if (!referenced_.count(v)) line(fmt::format("(void){};", name));
  }
  const std::string at = fresh("at"), name = fresh(n.loop_var->name), type = value_type(n.loop_var->dtype);
  open(fmt::format("for (int64_t {0} = begin; {0} < end; ++{0})", at));
  line(fmt::format("const {0} {1} = ({0})(captured->first + {2});", type, name, at));
  if (!referenced_.count(n.loop_var.get())) line(fmt::format("(void){};", name));
  names_[n.loop_var.get()] = name;
  stmt(n.body);
  close();
  line("return 0;");
  close();
  functions_ += members + "\n" + out_ + "\n";
  parallel_ = false;
  out_ = std::move(text);
  indent_ = indent;
  names_ = names;
  workspaces_ = workspaces;
  stack_bytes_ = stack;

  open("");
  out_.replace(out_.rfind(" {"), 2, "{");
  line(fmt::format("struct {} closure = {{{}}};", closure, values));
  line(fmt::format("const int32_t code = context->parallel_for(context, {}, &closure, {}, {});", body,
                   bare(extent), loop_cost(n)));
  open("if (code != 0)");
  return_code("code");
  close();
  close();
}

void CEmitter::stmt(Stmt s) {
  std::vector<std::string> held;
  for (Stmt next; s; s = next) {
    next = Stmt();
    match<void>(
        s, [&](const For& n) { loop(n); },
        [&](const tir::While& n) {
          open("for (;;)");
          line(fmt::format("if (!{}) break;", root(n.condition)));
          stmt(n.body);
          close();
        },
        [&](const IfThenElse& n) {
          open(fmt::format("if ({})", bare(root(n.condition))));
          stmt(n.then_case);
          if (n.else_case) {
            --indent_;
            open("} else");
            stmt(n.else_case);
          }
          close();
        },
        [&](const LetStmt& n) {
          begin_root();
          count(n.value);
          let(n.var, n.value);
          next = n.body;
        },
        [&](const Allocate& n) {
          if (allocate(n.buffer)) held.push_back(workspaces_.back());
          next = n.body;
        },
        [&](const AllocateConst& n) {
          constant(n);
          next = n.body;
        },
        [&](const DeclBuffer& n) { next = n.body; }, [&](const AttrStmt& n) { next = n.body; },
        [&](const BufferStore& n) { store(n); },
        [&](const AssertStmt& n) {
          if (!options_.asserts) return;
          open(fmt::format("if (!{})", root(n.condition)));
          return_code(std::to_string(1 + asserts_.at(&n)));
          close();
        },
        [&](const Evaluate& n) {
          if (n.value.dtype().is_vector()) return;
          const std::string v = root(n.value);
          if (v != "0") line(fmt::format("(void){};", v));
        },
        [&](const SeqStmt& n) {
          for (const Stmt& t : n.seq) {
            // Declarations of one statement are not seen by the next.
            const bool scope = t.is<LetStmt>() || t.is<Allocate>() || t.is<AllocateConst>() ||
                               t.is<Evaluate>() || t.is<AssertStmt>();
            if (scope) {
              open("");
              out_.replace(out_.rfind(" {"), 2, "{");
            }
            stmt(t);
            if (scope) close();
          }
        },
        [&](const StmtNode& n) {
          CHECK(false, "statement not in the lowered form: " + std::string(type_of(&n)->key));
        });
  }
  for (size_t k = held.size(); k-- > 0;) {
    line(fmt::format("context->workspace_release(context, {});", held[k]));
    workspaces_.pop_back();
  }
}

std::string CEmitter::emit(const Kernel& kernel) {
  const PrimFunc& f = kernel.function;
  symbol_ = kernel.symbol;
  numbers_.clear();
  used_ = {"buffers", "scalars", "context", "closure", "code", "captured", "begin", "end"};
  asserts_ = number_asserts(f);
  noalias_ = f->attrs.get_or("tir.noalias", Any(false)).try_as<bool>().value_or(false);
  scan(f->body);
  const char* names[] = {"buffers", "scalars", "context"};
  for (size_t k = 0; k < 3; ++k) names_[f->params[k].get()] = names[k];
  const std::string parameters =
      "(void* const* buffers, const int64_t* scalars, const TenonKernelContext* context)";
  open(fmt::format("int32_t {}{}", symbol_, parameters));
  line("(void)buffers;");
  line("(void)scalars;");
  line("(void)context;");
  stmt(f->body);
  line("return 0;");
  close();
  for (const std::string& alias : kernel.aliases) {
    out_ += "\n";
    open(fmt::format("int32_t {}{}", alias, parameters));
    line(fmt::format("return {}(buffers, scalars, context);", symbol_));
    close();
  }
  return functions_ + out_;
}

static constexpr const char* kPreamble = R"(/* Kernels compiled by Tenon: self-contained C11. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

)";

namespace {
/// The C texts that programs import, as they are. T0801 for other languages.
std::string imported_text(const IRModule& lowered) {
  std::string out;
  for (const tir::ImportedCode& code : tir::imported_code(lowered)) {
    if (code.language != tir::ImportedCode::Language::c)
      fail("T0801", "C text cannot hold what a program imports in LLVM IR (import_llvm)", {},
           "import C, or use the target llvm", ErrorKind::usage);
    out += code.text + "\n\n";
  }
  return out;
}
}  // namespace

std::string c_source(const IRModule& lowered, const COptions& options) {
  std::string out;
  with_deep_stack([&] {
    const std::vector<Kernel> kernels = collect_kernels(lowered);
    std::set<std::string> reserved = {
        "auto",   "break",    "case",     "char",     "const",    "continue", "default", "do",     "double",
        "else",   "enum",     "extern",   "float",    "for",      "goto",     "if",      "inline", "int",
        "long",   "register", "restrict", "return",   "short",    "signed",   "sizeof",  "static", "struct",
        "switch", "typedef",  "union",    "unsigned", "void",     "volatile", "while",   "bool",   "true",
        "false",  "asm",      "typeof",   "NAN",      "INFINITY", "memcpy",   "signgam", "j0",     "j1",
        "jn",     "y0",       "y1",       "yn",       "gamma",    "main",     "linux",   "unix"};
    for (const Intrinsic& i : all_intrinsics()) {
      const std::string name(i.name.substr(4));
      reserved.insert(name);
      reserved.insert(name + "f");
    }
    for (const char* name : {"fabs", "fabsf", "nearbyint", "nearbyintf", "log10f", "cbrt", "rint", "fmin",
                             "fmax", "tgamma", "lgamma", "remainder", "exp", "index"})
      reserved.insert(name);
    std::string declarations, bodies;
    for (const Kernel& k : kernels) {
      std::vector<std::string> symbols{k.symbol};
      symbols.insert(symbols.end(), k.aliases.begin(), k.aliases.end());
      for (const std::string& s : symbols) {
        reserved.insert(s);
        declarations += fmt::format(
            "int32_t {}(void* const* buffers, const int64_t* scalars, const TenonKernelContext* context);\n",
            s);
      }
    }
    CHelpers helpers;
    std::set<std::string> externals;
    for (const auto& [kernel, names] : external_functions(lowered))
      externals.insert(names.begin(), names.end());
    for (const std::string& name : externals)
      declarations += fmt::format("extern void tenon_external_{0}(void) __asm__(\"{0}\");\n", name);
    for (const Kernel& k : kernels) bodies += CEmitter(helpers, reserved, options, externals).emit(k) + "\n";
    out = std::string(helpers.atomics() ? "#include <stdatomic.h>\n" : "") + kPreamble + kernel_abi_text() +
          "\n" + imported_text(lowered) + declarations + "\n" + helpers.text() + bodies;
  });
  return out;
}

}  // namespace tenon::codegen
