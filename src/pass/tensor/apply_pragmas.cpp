// SPDX-License-Identifier: Apache-2.0
// apply_pragmas
//   before: for i in T.parallel(n, annotations={"pragma_parallel_chunk": 4}): B[i] = …
//   after:  for j in T.parallel(ceildiv(n, 4)): for k in range(min(4, n - j * 4)): B[j * 4 + k] = …
// Pragmas become loops and attributes, or annotations of the loops that they speak of, where other passes
// read them: unroll_loop the limits of a block or an outer loop, which each loop inside gets here. One that
// is unknown, or that has no meaning on this machine, is refused by name (T0823). Needs: nothing. Keeps:
// every value.
#include <map>

#include "analysis/races.h"
#include "ir/attr_keys.h"
#include "ir/imported_code.h"
#include "ir/origin.h"
#include "pass/tensor/lowering.h"
#include "pass/tensor/pragmas.h"

namespace tenon {

using namespace tir;

namespace tensor_detail {

std::span<const Pragma> pragmas() {
  using Value = Pragma::Value;
  static constexpr Pragma table[] = {
      {"auto_unroll_max_step", Value::number,
       "the loop and those inside it are written out, innermost first, as long as a constant number of "
       "iterations makes at most so many statements of them",
       ""},
      {"unroll_explicit", Value::flag,
       "0: loops to unroll stay loops, which LLVM unrolls (a C compiler decides itself); 1, the default: "
       "they are "
       "written out",
       ""},
      {"unroll", Value::flag, "the loop is one of `T.unroll`", ""},
      {"no_unroll", Value::flag, "neither `auto_unroll_max_step` nor LLVM unrolls the loop", ""},
      {"vectorize", Value::flag,
       "the loop is one of `T.vectorized`; its iterations have to be provably independent", ""},
      {"parallel_chunk", Value::number,
       "threads take so many iterations of the parallel loop at a time, in order", ""},
      {"parallel_barrier_when_finish", Value::flag,
       "all iterations of the parallel loop end before what follows begins, as they do without it", ""},
      {"parallel_launch_point", Value::flag, "",
       "threads are started once for the process, and each parallel loop hands its iterations to them"},
      {"parallel_stride_pattern", Value::flag, "",
       "a thread takes iterations that follow one another; `pragma_parallel_chunk` says how many"},
      {"scope", Value::text,
       "\"seq\": what stands inside runs in order, as loops that are neither parallel nor vectors do", ""},
      {"loop_partition_hint", Value::flag,
       "loop_partition cuts the loop also when it holds other loops, or is large", ""},
      {"import_c", Value::text,
       "C11 text whose functions the program calls: the function attribute `import_c`", ""},
      {"import_llvm", Value::text,
       "LLVM IR whose functions the program calls: the function attribute `import_llvm`", ""},
      {"debug_skip_region", Value::flag, "", "a result without what the region computes would be wrong"},
  };
  return table;
}

const Pragma* find_pragma(std::string_view key) {
  for (const Pragma& p : pragmas())
    if (p.key == key) return &p;
  return nullptr;
}

}  // namespace tensor_detail

namespace {

using tensor_detail::find_pragma;
using tensor_detail::imm;
using tensor_detail::Pragma;

constexpr std::string_view kPragmaPrefix = "pragma_";
constexpr const char* kScope = "pragma_scope";
/// Of no code generator here: copies of a pipeline that run beside the program.
constexpr const char* kAsyncStages = "software_pipeline_async_stages";

std::optional<int64_t> number_of(const Any& value) {
  if (const auto i = value.try_as<int64_t>()) return i;
  const auto e = value.try_as<PrimExpr>();
  return e && *e ? as_int(*e) : std::nullopt;
}
std::optional<std::string> text_of(const Any& value) {
  if (const auto s = value.try_as<std::string>()) return s;
  const auto e = value.try_as<PrimExpr>();
  const auto* text = e && *e ? e->as<StringImm>() : nullptr;
  return text ? std::optional(text->value) : std::nullopt;
}

class ApplyPragmas {
 public:
  explicit ApplyPragmas(std::string name) : name_(std::move(name)) {}
  std::map<std::string, std::string> imports;  ///< by attribute

  Stmt stmt(const Stmt& s) {
    if (!s) return s;
    if (const auto* n = s.as<AttrStmt>(); n && n->key.starts_with(kPragmaPrefix)) {
      AttrMap one;
      one.set(n->key, Any(n->value));
      return under(one, s, n->body);
    }
    if (const auto* n = s.as<Block>(); n && has_pragmas(n->annotations)) {
      AttrMap kept;
      for (const auto& [key, value] : n->annotations)
        if (!key.starts_with(kPragmaPrefix)) kept.set(key, value);
      const Stmt body = under(n->annotations, s, n->body), init = stmt(n->init);
      return tensor_detail::edited<Block>(s, [&](Block* m) {
        m->annotations = kept;
        m->init = init;
        m->body = body;
      });
    }
    if (const auto* n = s.as<For>()) return loop(s, *n, n->annotations);
    return map_children(s,
                        [&](const ObjectRef& c) -> ObjectRef {
                          return c.is<StmtNode>() ? ObjectRef(stmt(c.cast<StmtNode>())) : c;
                        })
        .cast<StmtNode>();
  }

 private:
  /// What holds for the loops inside.
  struct Limits {
    std::optional<int64_t> steps, is_explicit;
  };

  static bool has_pragmas(const AttrMap& map) {
    for (const auto& [key, value] : map)
      if (key.starts_with(kPragmaPrefix)) return true;
    return false;
  }
  [[noreturn]] void refuse(const std::string& key, const Stmt& at, const std::string& why,
                           std::string hint = {}) const {
    const std::string where = place(at->origin);
    const auto* loop = at.as<For>();
    const std::string what = loop ? fmt::format("program `{}`, loop `{}`", name_, loop->loop_var->name)
                                  : "program `" + name_ + "`";
    fail("T0823", fmt::format("{}: `{}` {}", what, key, why), where, std::move(hint));
  }
  int64_t number(const std::string& key, const Any& value, const Stmt& at, int64_t least) const {
    const auto n = number_of(value);
    if (!n || *n < least) refuse(key, at, fmt::format("takes a number of {} or more", least));
    return *n;
  }
  bool flag(const AttrMap& map, const std::string& key, const Stmt& at) const {
    const auto value = map.find(key);
    if (!value) return false;
    const auto n = number_of(*value);
    if (!n || *n < 0 || *n > 1) refuse(key, at, "takes 0 or 1");
    return *n == 1;
  }

  void check_known(const AttrMap& map, const Stmt& at) const {
    if (map.contains(kAsyncStages))
      refuse(kAsyncStages, at, "has no meaning here: copies run in the program's order",
             "leave it out: software_pipeline_stage and software_pipeline_order say what overlaps");
    for (const auto& [key, value] : map) {
      if (!key.starts_with(kPragmaPrefix)) continue;
      const Pragma* known = find_pragma(std::string_view(key).substr(kPragmaPrefix.size()));
      if (!known) {
        std::string list;
        for (const Pragma& p : tensor_detail::pragmas())
          if (p.refused.empty()) list += (list.empty() ? "" : ", ") + std::string(p.key);
        refuse(key, at, "is no pragma", "pragmas are " + list + "; notes have no prefix");
      }
      if (!known->refused.empty()) refuse(key, at, "has no meaning here: " + std::string(known->refused));
    }
  }

  void check_scope(const Any& value, const Stmt& at) const {
    if (text_of(value) != "seq") refuse(kScope, at, "takes the text \"seq\"");
    pre_order(at, [&](const ObjectRef& o) {
      if (const auto* l = o.as<For>(); l && (l->kind == ForKind::parallel || l->kind == ForKind::vectorized))
        refuse(kScope, at, fmt::format("holds the loop `{}`, which runs in any order", l->loop_var->name));
      return true;
    });
  }
  /// Texts go to the function, limits to the loops inside.
  void take_common(const AttrMap& map, const Stmt& at) {
    check_known(map, at);
    for (const ImportedCode::Language language : kImportLanguages) {
      const std::string attribute = import_attribute(language), key = std::string(kPragmaPrefix) + attribute;
      if (const auto value = map.find(key)) {
        const auto text = text_of(*value);
        if (!text) refuse(key, at, "takes a text");
        std::string& all = imports[attribute];
        if (all.find(*text) == all.npos) all += all.empty() ? *text : "\n" + *text;
      }
    }
    if (const auto value = map.find(kScope)) check_scope(*value, at);
    if (const auto value = map.find(tensor_detail::kAutoUnroll))
      limits_.steps = number(tensor_detail::kAutoUnroll, *value, at, 0);
    if (map.contains(tensor_detail::kUnrollExplicit))
      limits_.is_explicit = flag(map, tensor_detail::kUnrollExplicit, at);
  }

  /// Pragmas around a statement: those of a loop belong to the loop that it is.
  Stmt under(const AttrMap& map, const Stmt& at, const Stmt& body) {
    const Limits outer = limits_;
    take_common(map, at);
    Stmt out;
    if (const auto* n = body.as<For>()) {
      AttrMap all = n->annotations;
      for (const auto& [key, value] : map)
        if (key.starts_with(kPragmaPrefix) && !all.contains(key)) all.set(key, value);
      out = loop(body, *n, all);
    } else {
      for (const char* key :
           {"pragma_unroll", "pragma_no_unroll", "pragma_vectorize", "pragma_parallel_chunk",
            "pragma_parallel_barrier_when_finish", "pragma_loop_partition_hint"})
        if (map.contains(key)) refuse(key, at, "stands around no loop", "annotate the loop itself");
      out = stmt(body);
    }
    limits_ = outer;
    return out;
  }

  Stmt loop(const Stmt& s, const For& n, const AttrMap& map) {
    const Limits outer = limits_;
    take_common(map, s);
    AttrMap kept;
    for (const auto& [key, value] : map)
      if (!key.starts_with(kPragmaPrefix)) kept.set(key, value);
    if (limits_.steps) kept.set(tensor_detail::kAutoUnroll, Any(*limits_.steps));
    if (limits_.is_explicit) kept.set(tensor_detail::kUnrollExplicit, Any(*limits_.is_explicit));
    for (const char* key : {tensor_detail::kNoUnroll, tensor_detail::kPartitionHint})
      if (flag(map, key, s)) kept.set(key, Any(int64_t(1)));
    const ForKind kind = kind_of(s, n, map);
    if (flag(map, "pragma_parallel_barrier_when_finish", s) && kind != ForKind::parallel)
      refuse("pragma_parallel_barrier_when_finish", s, "stands at a loop that is not parallel");
    inside_.emplace_back(n.loop_var, range(n.min, n.extent));
    const Stmt body = stmt(n.body);
    inside_.pop_back();
    limits_ = outer;
    const bool same = body.same_as(n.body) && kind == n.kind && kept.size() == n.annotations.size() &&
                      !has_pragmas(n.annotations);
    const Stmt out = same ? s : tensor_detail::edited<For>(s, [&](For* m) {
      m->body = body;
      m->kind = kind;
      m->annotations = kept;
    });
    const auto chunk = map.find("pragma_parallel_chunk");
    return chunk ? in_chunks(out, number("pragma_parallel_chunk", *chunk, s, 1)) : out;
  }

  ForKind kind_of(const Stmt& s, const For& n, const AttrMap& map) const {
    const bool unrolled = flag(map, "pragma_unroll", s), vectorized = flag(map, "pragma_vectorize", s);
    if (unrolled && n.kind != ForKind::serial && n.kind != ForKind::unrolled)
      refuse("pragma_unroll", s, "stands at a loop that is not serial");
    if (unrolled && vectorized) refuse("pragma_unroll", s, "and `pragma_vectorize` exclude each other");
    if (unrolled) return ForKind::unrolled;
    if (!vectorized || n.kind == ForKind::vectorized) return n.kind;
    if (n.kind != ForKind::serial) refuse("pragma_vectorize", s, "stands at a loop that is not serial");
    Analyzer analyzer;
    for (const auto& [v, r] : inside_) analyzer.bind(v, r);
    analyzer.bind(n.loop_var, range(n.min, n.extent));
    if (const std::string why = shared_by_iterations(n, analyzer); !why.empty())
      refuse("pragma_vectorize", s, "stands at a loop whose iterations are not independent: " + why);
    return ForKind::vectorized;
  }

  /// A parallel loop over chunks of consecutive iterations.
  Stmt in_chunks(const Stmt& s, int64_t chunk) const {
    const auto& n = *s.as<For>();
    if (n.kind != ForKind::parallel)
      refuse("pragma_parallel_chunk", s, "stands at a loop that is not parallel");
    const DataType t = n.loop_var->dtype;
    const PrimExpr size = PrimExpr::int_imm(chunk, t);
    const VarRef part = var(n.loop_var->name + "_chunk", t), at = var(n.loop_var->name, t);
    const PrimExpr first = simplify(part * size);
    const Stmt body = substitute(n.body, {{n.loop_var.get(), n.min + first + at}});
    const Stmt inner =
        for_(at, PrimExpr::int_imm(0, t), simplify(min(size, n.extent - first)), body, ForKind::serial);
    return tensor_detail::edited<For>(s, [&](For* m) {
      m->loop_var = part;
      m->min = PrimExpr::int_imm(0, t);
      m->extent = simplify(ceildiv(n.extent, size));
      m->body = inner;
    });
  }

  const std::string name_;
  Limits limits_;
  std::vector<std::pair<VarRef, Range>> inside_;  ///< loops around
};

}  // namespace

static IRModule apply_pragmas(IRModule module, PassContext&) {
  return module.map_prim([](const std::string& name, const PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains(kKernelAttr) || !f->body || find_jump(f->body)) return {};
    ApplyPragmas apply(name);
    const Stmt body = apply.stmt(f->body);
    if (body.same_as(f->body) && apply.imports.empty()) return {};
    PrimFunc out = f;
    out.edit()->body = body;
    for (const auto& [attribute, text] : apply.imports) {
      const auto own = f->attrs.find(attribute);
      out.edit()->attrs.set(attribute, Any(own ? own->as<std::string>() + "\n" + text : text));
    }
    return out;
  });
}

const Pass& apply_pragmas_pass = register_pass({
    .name = "apply_pragmas",
    .run = apply_pragmas,
    .level = 0,
    .summary = "pragmas take effect or are refused",
});

}  // namespace tenon
