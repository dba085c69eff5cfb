// SPDX-License-Identifier: Apache-2.0
#include "pipeline/program_entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/attr_keys.h"
#include "ir/packed_call.h"
#include "ir/pass.h"
#include "ir/walk.h"
#include "pipeline/te_build.h"

namespace tenon {
namespace {

[[noreturn]] void refuse(std::string message, const tir::PrimFunc& f, std::string help) {
  fail("T0928", std::move(message),
       f && f->body->origin && f->body->origin->span ? f->body->origin->span.to_string() : std::string(),
       std::move(help), ErrorKind::model);
}

/// What a program stores to, by the data of its buffers.
class Stored {
 public:
  explicit Stored(const tir::PrimFuncNode& f) {
    walk(f.body, nullptr);
    for (size_t round = 0; round <= parts_.size(); ++round) {
      const size_t before = all.size();
      for (const auto& [whole, part] : parts_)
        if (all.count(part)) all.insert(whole);
      if (all.size() == before) break;
    }
  }
  std::set<const tir::Var*> all;
  std::map<const tir::Var*, std::string> perhaps;  ///< the packed function that is given it

 private:
  using Regions = Array<tir::BufferRegion>;
  static bool names(const Regions& regions, const tir::Var* data) {
    return std::any_of(regions.begin(), regions.end(),
                       [&](const tir::BufferRegion& r) { return r->buffer->data.get() == data; });
  }

  void walk(const ObjectRef& root, const tir::Block* around) {
    pre_order(root, [&](const ObjectRef& n) {
      if (const auto* s = n.as<tir::BufferStore>()) all.insert(s->buffer->data.get());
      if (const auto* b = n.as<tir::Block>()) {
        block(*b);
        return false;
      }
      const auto* c = n.as<tir::Call>();
      if (c && c->op == "tir.call_packed") packed(*c, around);
      if (const auto* l = c && c->op == "tir.access_ptr" ? c->args[0].as<tir::BufferLoad>() : nullptr;
          l && (tir::as_int(c->args[3]).value_or(0) & 2))
        all.insert(l->buffer->data.get());
      return !n.is<tir::BufferNode>() && !(c && c->op == "tir.tensor_view");
    });
  }
  void block(const tir::Block& b) {
    for (const tir::MatchBufferRegion& m : b.match_buffers)
      parts_.emplace_back(m->source->buffer->data.get(), m->buffer->data.get());
    walk(b.init, &b);
    walk(b.body, &b);
    // What a called function writes is known by the regions alone.
    for (const tir::BufferRegion& w : b.writes)
      if (!perhaps.count(w->buffer->data.get()) || !names(b.reads, w->buffer->data.get()))
        all.insert(w->buffer->data.get());
  }
  /// Of what is given for reading and writing, the block around may say more.
  void packed(const tir::Call& n, const tir::Block* around) {
    for (const PrimExpr& a : n.args) {
      const auto view = tir::tensor_view(a);
      const auto* pointer = view ? view->pointer.as<tir::Call>() : nullptr;
      const auto* l =
          pointer && pointer->op == "tir.access_ptr" ? pointer->args[0].as<tir::BufferLoad>() : nullptr;
      if (!l || !(view->access & 2)) continue;
      const tir::Var* data = l->buffer->data.get();
      if (view->access == 2)
        all.insert(data);
      else if (!around || names(around->writes, data))
        perhaps.emplace(data, n.args[0].as<tir::StringImm>()->value);
    }
  }
  std::vector<std::pair<const tir::Var*, const tir::Var*>> parts_;  // match_buffer: what it is of, itself
};

/// What a program certainly does first with a tensor: it reads it, which holds nothing yet if it is a result.
class FirstUse {
 public:
  explicit FirstUse(const tir::Var* data) : data_(data) {}
  bool reads(const tir::Stmt& body) { return stmt(body) == Use::read; }

 private:
  enum class Use : uint8_t { none, read, other };  ///< other: stored, or not known

  Use stmt(const tir::Stmt& s) {
    if (!s) return Use::none;
    if (const auto* n = s.as<tir::SeqStmt>()) {
      for (const tir::Stmt& c : n->seq)
        if (const Use use = stmt(c); use != Use::none) return use;
      return Use::none;
    }
    if (const auto* n = s.as<tir::BufferStore>()) {
      for (const PrimExpr& i : n->indices)
        if (loads(i)) return Use::read;
      return loads(n->value) ? Use::read : n->buffer->data.get() == data_ ? Use::other : Use::none;
    }
    if (const auto* n = s.as<tir::For>()) return then(loads(n->extent), n->body);
    if (const auto* n = s.as<tir::LetStmt>()) return then(loads(n->value), n->body);
    if (const auto* n = s.as<tir::Allocate>()) return stmt(n->body);
    if (const auto* n = s.as<tir::BlockRealize>(); n && tir::is_one(n->predicate)) return block(*n->block);
    return names(s) ? Use::other : Use::none;
  }
  Use block(const tir::Block& b) {
    for (const tir::MatchBufferRegion& m : b.match_buffers)
      if (m->source->buffer->data.get() == data_) return Use::other;
    const Use init = stmt(b.init);
    return init == Use::none ? stmt(b.body) : init;
  }
  Use then(bool read, const tir::Stmt& body) { return read ? Use::read : stmt(body); }
  /// In an operand that is always computed.
  bool loads(const PrimExpr& e) const {
    bool found = false;
    if (e)
      pre_order(e, [&](const ObjectRef& n) {
        const auto* l = n.as<tir::BufferLoad>();
        found = found || (l && !l->predicate && l->buffer->data.get() == data_);
        return !found && !n.is<tir::Call>() && !n.is<tir::Select>() && !n.is<tir::And>() &&
               !n.is<tir::Or>() && !n.is<tir::Reduce>() && !n.is<tir::BufferNode>();
      });
    return found;
  }
  bool names(const tir::Stmt& s) const {
    bool found = false;
    pre_order(s, [&](const ObjectRef& n) {
      found = found || n.get() == static_cast<const Object*>(data_);
      return !found;
    });
    return found;
  }
  const tir::Var* data_;
};

/// How many of the last tensors of a program are its results: those that it stores to.
int64_t results_of(const std::string& name, const tir::PrimFunc& f) {
  const Stored stored(*f);
  int64_t count = 0;
  for (const tir::VarRef& p : f->params) {
    const auto b = f->buffer_map.find(p);
    if (!b) continue;
    const tir::Var* data = (*b)->data.get();
    const bool written = stored.all.count(data) != 0;
    if (const auto given = stored.perhaps.find(data); !written && given != stored.perhaps.end())
      refuse(
          fmt::format("whether the packed function `{}` writes to the tensor `{}` of the program `{}` is not "
                      "known",
                      given->second, (*b)->name, name),
          f,
          "say it where it is given: T.tensor_view(X, \"r\") or \"w\"; or by T.reads and T.writes of a block "
          "around the call, or T.func_attr({\"num_outputs\": 1})");
    if (!written && count > 0)
      refuse(fmt::format("the program `{}` reads the tensor `{}`, which stands behind one that it stores to",
                         name, (*b)->name),
             f, "give inputs first, then results; or call the program from a graph function");
    if (written && FirstUse(data).reads(f->body))
      refuse(fmt::format("the program `{}` reads the tensor `{}`, its result, before it stores to it", name,
                         (*b)->name),
             f, "give what it begins with as another tensor, or call the program by R.call_tir_inplace");
    count += written;
  }
  if (count == 0)
    refuse(fmt::format("the program `{}` stores to none of its tensors", name), f,
           "results are the last parameters of a program");
  return count;
}

// ---------------------------------------------------------------- inputs that are tuples
using graph::Expr;
using graph::Type;
using graph::VarRef;

/// A tuple of what the caller of a model can give: tensors, and shapes and numbers as tensors.
bool is_given_in_parts(const Type& type) {
  const auto* t = type ? type.as<graph::TupleType>() : nullptr;
  return t && std::all_of(t->items.begin(), t->items.end(), [](const Type& i) {
           return i && (i.is<graph::TensorType>() || i.is<graph::ShapeType>() || i.is<graph::PrimType>() ||
                        is_given_in_parts(i));
         });
}

class FlatInputs {
 public:
  explicit FlatInputs(const graph::Function& f) {
    if (const auto names = f.attrs.find("input_names")) named_ = names->as<Array<std::string>>();
    for (const VarRef& p : f.params) taken_.insert(p->name);
    const int64_t counted = f.attrs.get_or("num_inputs", Any(int64_t(-1))).as<int64_t>();
    for (size_t i = 0; i < f.params.size(); ++i) {
      const VarRef& p = f.params[i];
      const std::string name = named_ && i < named_->size() ? (*named_)[i] : p->name;
      if (is_given_in_parts(p->declared)) {
        values.push_back(parts(name, p->declared, p->origin));
        bindings.push_back(make<graph::VarBindingNode>(p, values[values.size() - 1]));
      } else {
        values.push_back(p);
        params.push_back(p);
        names_.push_back(name);
      }
      if (int64_t(i) + 1 == counted) num_inputs_ = int64_t(params.size());
    }
  }
  /// What the attributes of the function say of its parameters.
  AttrMap attrs_of(const graph::Function& f) const {
    AttrMap out = f.attrs;
    if (named_) out.set("input_names", Any(names_));
    if (num_inputs_ >= 0) out.set("num_inputs", Any(num_inputs_));
    return out;
  }

  Array<VarRef> params;
  Array<Expr> values;              ///< the old parameters
  Array<graph::Binding> bindings;  ///< of those that were tuples

 private:
  Expr parts(const std::string& name, const Type& type, const Origin& origin) {
    const auto* t = type.as<graph::TupleType>();
    if (!t) {
      std::string own = name;
      while (!taken_.insert(own).second) own += "_";
      params.push_back(with_origin(graph::var(own, type), origin));
      names_.push_back(own);
      return params.back();
    }
    Array<Expr> items;
    for (size_t i = 0; i < t->items.size(); ++i)
      items.push_back(parts(fmt::format("{}_{}", name, i), t->items[i], origin));
    return with_type(make<graph::Tuple>(items), type);
  }

  std::optional<Array<std::string>> named_;
  std::set<std::string> taken_;
  Array<std::string> names_;
  int64_t num_inputs_ = -1;
};

/// The entry over the parts of its tuples: `p: R.Tuple(A, B)` becomes `p_0: A, p_1: B` and `p = (p_0, p_1)`.
IRModule with_flat_inputs(IRModule module) {
  const std::string name = entry_name(module);
  auto f = name.empty() ? Ref<graph::Function>() : module.find(name).cast<graph::Function>();
  if (!f || !f->body || std::none_of(f->params.begin(), f->params.end(), [](const VarRef& p) {
        return is_given_in_parts(p->declared);
      }))
    return module;
  bool called = false;
  for (const auto& [other, object] : module.functions())
    post_order(object, [&](const ObjectRef& n) {
      if (const auto* g = n.as<graph::GlobalVar>()) called = called || g->name == name;
    });
  FlatInputs flat(*f);
  Expr body = f->body;
  if (called) {  // it stays, under another name
    const std::string inner = module.fresh_name(name + "_of_tuples");
    module.set(inner, f);
    const auto functions = module.functions();
    for (const auto& [other, object] : functions) {
      if (other == name || !object.is<graph::Function>()) continue;
      const ObjectRef renamed = rewrite_any(object, [&](const ObjectRef& n) -> ObjectRef {
        const auto* g = n.as<graph::GlobalVar>();
        return g && g->name == name ? ObjectRef(graph::global(inner)) : ObjectRef();
      });
      if (!renamed.same_as(object)) module.set(other, renamed);
    }
    const VarRef result = graph::var("result", f->ret_type);
    const Expr call = with_origin(graph::call(graph::global(inner), flat.values), f->origin);
    flat.bindings = {graph::Binding(make<graph::VarBindingNode>(result, call))};
    body = make<graph::SeqExpr>(Array<graph::BindingBlock>(), Expr(result));
  }
  Array<graph::BindingBlock> blocks{make<graph::BindingBlockNode>(flat.bindings)};
  for (const graph::BindingBlock& b : body.as<graph::SeqExpr>()->blocks) blocks.push_back(b);
  const Expr whole = with_type(make<graph::SeqExpr>(blocks, body.as<graph::SeqExpr>()->body), body->type);
  const auto out = with_origin(
      make<graph::Function>(flat.params, whole, f->ret_type, flat.attrs_of(*f), f->type_params), f->origin);
  module.set(name, out);
  return module;
}

}  // namespace

std::string entry_name(const IRModule& module) {
  if (module.find("main").is<graph::Function>()) return "main";
  std::string only;
  for (const auto& [name, f] : module.functions())
    if (f.is<graph::Function>()) {
      if (!only.empty()) return "";
      only = name;
    }
  return only;
}

IRModule with_entry(IRModule module) {
  std::vector<std::string> programs;
  for (const auto& [name, f] : module.functions()) {
    if (f.is<graph::Function>()) return with_flat_inputs(std::move(module));
    if (f.is<tir::PrimFuncNode>()) programs.push_back(name);
  }
  if (programs.empty())
    fail("T0928", "the module has no function to run", {}, "give it a graph function `main`",
         ErrorKind::model);
  std::string name = programs[0];
  tir::PrimFunc f = module.find("main").cast<tir::PrimFuncNode>();
  if (f)
    name = "main";
  else if (programs.size() > 1)
    refuse(fmt::format("which of the tensor programs `{}` runs is not clear", fmt::join(programs, "`, `")),
           {}, "name one of them main, or give the module a graph function that calls them");
  f = module.find(name).cast<tir::PrimFuncNode>();
  if (f->attrs.contains(kKernelAttr))
    refuse(fmt::format("the program `{}` is lowered for kernels: its tensors are no longer known", name), f,
           "run the program as it was before make_packed_api");
  if (!f->attrs.contains("num_outputs")) {
    const int64_t count = results_of(name, f);
    f.edit()->attrs.set("num_outputs", Any(count));
  }
  if (name == "main") {
    module.erase(name);
    name = module.fresh_name("main_program");
    f.edit()->attrs.set("global_symbol", Any(name));
  }
  module.set(name, f);
  PassContext context;
  return run_pass("infer_types", te::runnable(std::move(module), name), context);
}

}  // namespace tenon
