// SPDX-License-Identifier: Apache-2.0
// The indexed tree: construction, look-up, and `replace`, the one way it changes.
#include "schedule/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/jumps.h"
#include "ir/origin.h"

namespace tenon::sched {

using namespace tir;

std::vector<Stmt> direct_children(const Stmt& s) {
  std::vector<Stmt> out, stack{s};
  while (!stack.empty()) {
    Stmt t = stack.back();
    stack.pop_back();
    if (!t) continue;
    if (t.is<For>() || t.is<BlockRealize>()) {
      out.push_back(t);
    } else if (const auto* q = t.as<SeqStmt>()) {
      for (size_t i = q->seq.size(); i-- > 0;) stack.push_back(q->seq[i]);
    } else if (const auto* c = t.as<IfThenElse>()) {
      stack.push_back(c->else_case);
      stack.push_back(c->then_case);
    } else if (const auto* l = t.as<LetStmt>()) {
      stack.push_back(l->body);
    } else if (const auto* a = t.as<AttrStmt>()) {
      stack.push_back(a->body);
    } else if (const auto* m = t.as<Allocate>()) {
      stack.push_back(m->body);
    } else if (const auto* k = t.as<AllocateConst>()) {
      stack.push_back(k->body);
    } else if (const auto* d = t.as<DeclBuffer>()) {
      stack.push_back(d->body);
    } else if (const auto* r = t.as<BufferRealize>()) {
      stack.push_back(r->body);
    } else if (const auto* w = t.as<While>()) {
      stack.push_back(w->body);
    } else if (const auto* b = t.as<Block>()) {
      stack.push_back(b->body);
    }
  }
  return out;
}

Stmt nothing() { return make<Evaluate>(PrimExpr(0)); }
bool is_nothing(const Stmt& s) {
  if (!s) return true;
  const auto* e = s.as<Evaluate>();
  return e && e->value.is<IntImm>();
}

Stmt rewrite_stmts(const Stmt& s, FunctionRef<Stmt(const Stmt&)> f) {
  ObjectRef r = rewrite_any(
      s,
      [&](const ObjectRef& n) -> ObjectRef {
        return n.is<StmtNode>() ? ObjectRef(f(n.cast<StmtNode>())) : ObjectRef();
      },
      [](const ObjectRef& n) { return !n.is<StmtNode>(); });
  return r.cast<StmtNode>();
}

Stmt clean(const Stmt& s) {
  return rewrite_stmts(s, [](const Stmt& n) -> Stmt {
    if (const auto* q = n.as<SeqStmt>()) {
      Array<Stmt> kept;
      bool changed = false;
      for (const Stmt& t : q->seq) {
        if (is_nothing(t))
          changed = true;
        else {
          changed = changed || t.is<SeqStmt>();
          kept.push_back(t);
        }
      }
      if (!changed && kept.size() != 1) return {};
      return kept.empty() ? nothing() : seq(kept);
    }
    if (const auto* l = n.as<For>()) return is_nothing(l->body) ? nothing() : Stmt();
    if (const auto* c = n.as<IfThenElse>())
      return is_nothing(c->then_case) && is_nothing(c->else_case) ? nothing() : Stmt();
    if (const auto* l = n.as<LetStmt>()) return is_nothing(l->body) ? nothing() : Stmt();
    if (const auto* a = n.as<AttrStmt>()) return is_nothing(a->body) ? nothing() : Stmt();
    return {};
  });
}

Ref<For> with_body(const Ref<For>& loop, Stmt body) {
  Ref<For> copy = loop;
  copy.edit()->body = std::move(body);
  return copy;
}

// ---------------------------------------------------------------- construction
namespace {

/// Every loop variable, loop and block is met once, and block names are unique: then names and variables
/// identify blocks and loops through any rewrite.
bool is_tree(const Stmt& root) {
  std::unordered_set<const Object*> seen;
  std::vector<Stmt> stack{root};
  while (!stack.empty()) {
    Stmt s = stack.back();
    stack.pop_back();
    if (!seen.insert(s.get()).second) return false;
    if (const auto* l = s.as<For>()) {
      if (!seen.insert(l->loop_var.get()).second) return false;
      for (const Stmt& c : direct_children(l->body)) stack.push_back(c);
    } else if (const auto* r = s.as<BlockRealize>()) {
      if (!seen.insert(r->block.get()).second) return false;
      for (const Stmt& c : direct_children(r->block->body)) stack.push_back(c);
    }
  }
  return true;
}

/// A copy in which every loop and block is its own object. Keeps its own stack: children are copied first.
Stmt unshared(const Stmt& root) {
  struct Rebuild {
    Stmt run(const Stmt& s, int depth) {
      CHECK(depth < 1000, "statements nest too deeply");
      ObjectRef r = map_children(s, [&](const ObjectRef& c) -> ObjectRef {
        return c.is<StmtNode>() ? ObjectRef(run(c.cast<StmtNode>(), depth + 1)) : c;
      });
      Stmt copy = r.cast<StmtNode>();
      r = nullptr;
      if (const auto* l = copy.as<For>()) {
        VarRef v = var(l->loop_var->name, l->loop_var->dtype);
        Ref<For> n = copy.cast<For>();
        copy = nullptr;
        For* e = n.edit();
        e->body = substitute(e->body, {{e->loop_var.get(), v}});
        e->loop_var = v;
        return n;
      }
      if (copy.is<Block>() || copy.is<BlockRealize>()) {
        Stmt keep = copy;  // two holders, so that edit makes a copy even of an unshared node
        copy.edit();
        return copy;
      }
      return copy;
    }
  };
  return Rebuild().run(root, 0);
}

}  // namespace

State::State(PrimFunc f, uint64_t seed_) : function(std::move(f)), seed(seed_) {
  if (const Stmt jump = find_jump(function->body))
    throw ScheduleError(ErrorKind::model, "T0798", "the program jumps: it cannot be scheduled",
                        place(jump->origin), "run lower_jumps first");
  pre_order(function->body, [&](const ObjectRef& n) {  // what depends on what is read off buffers
    const auto* load = n.as<ProducerLoad>();
    const auto* st = n.as<ProducerStore>();
    if (load || st)
      throw ScheduleError(ErrorKind::model, "T0798",
                          fmt::format("tensor `{}` has no buffer: its program cannot be scheduled",
                                      (load ? load->producer : st->producer)->name));
    return true;
  });
  if (!function->body.is<BlockRealize>()) {
    auto root =
        make<Block>(Array<IterVar>(), Array<BufferRegion>(), Array<BufferRegion>(), std::string("root"),
                    function->body, Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
    function.edit()->body = make<BlockRealize>(Array<PrimExpr>(), true_(), root);
  }
  if (!is_tree(function->body)) function.edit()->body = unshared(function->body);
  // Block names become unique.
  std::unordered_set<std::string> used;
  bool duplicate = false;
  pre_order(function->body, [&](const ObjectRef& n) {
    if (const auto* b = n.as<Block>()) duplicate = !used.insert(b->name).second || duplicate;
    return n.is<StmtNode>();
  });
  if (duplicate) {
    std::unordered_set<std::string> taken;
    function.edit()->body = rewrite_stmts(function->body, [&](const Stmt& n) -> Stmt {
      const auto* b = n.as<Block>();
      if (!b || taken.insert(b->name).second) return {};
      std::string name;
      for (int i = 1; used.count(name = fmt::format("{}_{}", b->name, i)); ++i) {
      }
      used.insert(name);
      taken.insert(name);
      Ref<Block> copy = n.cast<Block>();
      copy.edit()->name = name;
      return copy;
    });
  }
  pre_order(function->body, [&](const ObjectRef& n) {
    if (const auto* r = n.as<BlockRealize>())
      if (!is_const_int(r->predicate, 1)) guarded.insert(r->block->name);
    return n.is<StmtNode>() || n.is<ArrayObj>();
  });
  reindex(function->body, -1, {}, {});
}

int32_t whole_nest(const State& s, int32_t block) {
  int32_t top = block;
  for (int32_t p = s.parent(top); p >= 0 && !s.is_block(p) && s.children(p).size() == 1; p = s.parent(p))
    top = p;
  return top;
}

// ---------------------------------------------------------------- access
const Entry& State::entry(int32_t id) const {
  if (id < 0 || size_t(id) >= entries.size())
    throw ScheduleError(ErrorKind::model, "T0701", fmt::format("no loop or block has the handle {}", id), {},
                        "handles come from get_block, get_loops and the primitives of the same schedule");
  const Entry& e = entries[size_t(id)];
  if (!e.alive)
    throw ScheduleError(ErrorKind::model, "T0702",
                        fmt::format("{} no longer exists: {} removed it", describe(id),
                                    e.removed_by.empty() ? "a step" : e.removed_by),
                        sketch({}), "use the handles which that step returned, or ask get_loops again");
  return e;
}
Ref<For> State::loop(int32_t id) const {
  const Entry& e = entry(id);
  if (e.is_block) refuse("T0701", id, "a loop is needed here, this is a block");
  return e.node.cast<For>();
}
Ref<BlockRealize> State::realize(int32_t id) const {
  const Entry& e = entry(id);
  if (!e.is_block) refuse("T0701", id, "a block is needed here, this is a loop");
  return e.node.cast<BlockRealize>();
}
int32_t State::id_of(const ObjectRef& node) const {
  auto it = index.find(node.get());
  return it == index.end() ? -1 : it->second;
}
bool State::inside(int32_t id, int32_t ancestor) const {
  for (; id >= 0; id = parent(id))
    if (id == ancestor) return true;
  return false;
}
std::vector<int32_t> State::children(int32_t id) const {
  const Entry& e = entry(id);
  std::vector<int32_t> out;
  for (const Stmt& c :
       direct_children(e.is_block ? e.node.as<BlockRealize>()->block->body : e.node.as<For>()->body))
    out.push_back(id_of(c));
  return out;
}
std::vector<int32_t> State::blocks_below(int32_t id) const {
  std::vector<int32_t> out, stack = children(id);
  std::reverse(stack.begin(), stack.end());
  while (!stack.empty()) {
    int32_t c = stack.back();
    stack.pop_back();
    if (is_block(c)) {
      out.push_back(c);
      continue;
    }
    std::vector<int32_t> below = children(c);
    stack.insert(stack.end(), below.rbegin(), below.rend());
  }
  return out;
}
int32_t State::scope_of(int32_t id) const {
  entry(id);
  int32_t p = parent(id);
  while (p >= 0 && !is_block(p)) p = parent(p);
  if (p < 0)
    refuse("T0703", id, "the root block holds the whole program and cannot be scheduled itself",
           "name a block inside it");
  return p;
}
std::vector<int32_t> State::loops_of(int32_t block) const {
  entry(block);
  std::vector<int32_t> out;
  for (int32_t p = parent(block); p >= 0 && !is_block(p); p = parent(p)) out.push_back(p);
  std::reverse(out.begin(), out.end());
  return out;
}
std::vector<int32_t> State::loops_between(int32_t block, int32_t above) const {
  std::vector<int32_t> out;
  for (int32_t p = parent(block); p >= 0 && p != above && !is_block(p); p = parent(p)) out.push_back(p);
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<int32_t> State::leaf_blocks() const {
  std::vector<int32_t> out, stack{id_of(function->body)};
  while (!stack.empty()) {
    const int32_t id = stack.back();
    stack.pop_back();
    const std::vector<int32_t> below = children(id);
    if (is_block(id) && below.empty() && parent(id) >= 0) out.push_back(id);
    stack.insert(stack.end(), below.rbegin(), below.rend());
  }
  return out;
}

// ---------------------------------------------------------------- handles
void State::require(const Handle& h) const {
  switch (h.kind) {
    case HandleKind::block:
      realize(h.id);
      return;
    case HandleKind::loop:
      loop(h.id);
      return;
    case HandleKind::number:
    case HandleKind::location:
      if (h.kind == HandleKind::number ? numbers.count(h.id) : locations.count(h.id)) return;
      throw ScheduleError(
          ErrorKind::model, "T0701",
          fmt::format("no {} has the handle {}", h.kind == HandleKind::number ? "number" : "location", h.id),
          {}, "samplers of the same schedule make numbers and locations");
  }
}
Handle State::name_number(int64_t value) {
  numbers[sampled] = value;
  return {HandleKind::number, sampled++};
}
Handle State::name_location(const Location& location) {
  locations[sampled] = location;
  return {HandleKind::location, sampled++};
}

// ---------------------------------------------------------------- facts
bool Leaf::reads(const Buffer& b) const {
  for (const BufferRegion& r : realize->block->reads)
    if (r->buffer.same_as(b)) return true;
  return false;
}
bool Leaf::writes(const Buffer& b) const {
  for (const BufferRegion& r : realize->block->writes)
    if (r->buffer.same_as(b)) return true;
  return false;
}
int Scope::find(int32_t block) const {
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].id == block) return int(i);
  return -1;
}
std::vector<int> Scope::writers(const Buffer& b) const {
  std::vector<int> out;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].writes(b)) out.push_back(int(i));
  return out;
}
std::vector<int> Scope::readers(const Buffer& b) const {
  std::vector<int> out;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].reads(b)) out.push_back(int(i));
  return out;
}
std::shared_ptr<const Scope> State::scope(int32_t scope_block) {
  ObjectRef key = realize(scope_block);
  if (auto it = facts->scopes.find(key.get()); it != facts->scopes.end()) return it->second.second;
  auto made = std::make_shared<Scope>();
  made->id = scope_block;
  for (int32_t b : blocks_below(scope_block)) made->leaves.push_back({b, realize(b), loops_of(b)});
  facts->scopes[key.get()] = {key, made};
  return made;
}

// ---------------------------------------------------------------- change
void State::forget(int32_t id) {
  Entry& e = entries[size_t(id)];
  index.erase(e.node.get());
  if (e.is_block) {
    auto it = names.find(e.label);
    if (it != names.end() && it->second == id) names.erase(it);
  }
  facts->scopes.erase(e.node.get());
  facts->bindings.erase(e.node.get());
}

void State::reindex(const Stmt& root, int32_t parent_id,
                    const std::unordered_map<const Object*, int32_t>& loops,
                    const std::map<std::string, int32_t>& blocks) {
  std::vector<std::pair<Stmt, int32_t>> stack{{root, parent_id}};
  while (!stack.empty()) {
    auto [s, p] = stack.back();
    stack.pop_back();
    std::vector<Stmt> below;
    int32_t id = -1;
    if (const auto* l = s.as<For>()) {
      auto it = loops.find(l->loop_var.get());
      if (it != loops.end()) id = it->second;
      below = direct_children(l->body);
    } else if (const auto* r = s.as<BlockRealize>()) {
      auto it = blocks.find(r->block->name);
      if (it != blocks.end()) id = it->second;
      below = direct_children(r->block->body);
    } else {
      below = direct_children(s);
      for (size_t i = below.size(); i-- > 0;) stack.emplace_back(below[i], p);
      continue;
    }
    if (id < 0) {
      id = int32_t(entries.size());
      entries.emplace_back();
    }
    Entry& e = entries[size_t(id)];
    e.node = s;
    e.parent = p;
    e.alive = true;
    e.is_block = s.is<BlockRealize>();
    e.label = e.is_block ? s.as<BlockRealize>()->block->name : s.as<For>()->loop_var->name;
    CHECK(index.emplace(s.get(), id).second, "one node stands at two places of a scheduled program");
    if (e.is_block) CHECK(names.emplace(e.label, id).second, "two blocks are named " + e.label);
    for (size_t i = below.size(); i-- > 0;) stack.emplace_back(below[i], id);
  }
}

void State::replace(int32_t id, const Stmt& with, const std::map<std::string, std::string>& renamed) {
  // Everything below may be re-pointed.
  std::vector<int32_t> old, stack{id};
  while (!stack.empty()) {
    int32_t c = stack.back();
    stack.pop_back();
    old.push_back(c);
    for (int32_t b : children(c)) stack.push_back(b);
  }
  std::unordered_map<const Object*, int32_t> loops;
  std::map<std::string, int32_t> blocks;
  for (int32_t c : old) {
    const Entry& e = entries[size_t(c)];
    if (e.is_block) {
      auto it = renamed.find(e.label);
      blocks[it == renamed.end() ? e.label : it->second] = c;
    } else {
      loops[e.node.as<For>()->loop_var.get()] = c;
    }
  }
  const Stmt before = entries[size_t(id)].node;
  const int32_t above = parent(id);
  for (int32_t c : old) {
    forget(c);
    entries[size_t(c)].alive = false;
    entries[size_t(c)].removed_by = step;
  }
  // The path to the root is copied; its entries follow.
  Stmt child = before, next = with;
  for (int32_t p = above; p >= 0; p = parent(p)) {
    const Stmt node = entries[size_t(p)].node;
    auto swap = [&](const Stmt& body) {
      const Object* from = child.get();
      return rewrite_any(
                 body,
                 [&](const ObjectRef& n) -> ObjectRef {
                   return n.get() == from ? ObjectRef(next) : ObjectRef();
                 },
                 [&](const ObjectRef& n) {
                   return !n.is<StmtNode>() || (n.get() != from && (n.is<For>() || n.is<BlockRealize>()));
                 })
          .cast<StmtNode>();
    };
    Stmt made;
    if (const auto* l = node.as<For>()) {
      made = with_body(node.cast<For>(), swap(l->body));
    } else {
      Ref<BlockRealize> r = node.cast<BlockRealize>();
      Ref<Block> b = r->block;
      b.edit()->body = swap(b->body);
      r.edit()->block = b;
      made = r;
    }
    forget(p);
    entries[size_t(p)].node = made;
    index[made.get()] = p;
    if (entries[size_t(p)].is_block) names[entries[size_t(p)].label] = p;
    child = node;
    next = made;
  }
  function.edit()->body = next;
  reindex(with, above, loops, blocks);
}

void State::replace_body(int32_t scope_block, const Stmt& body,
                         const std::map<std::string, std::string>& renamed) {
  replace_body(scope_block, body, block(scope_block)->alloc_buffers, renamed);
}
void State::replace_body(int32_t scope_block, const Stmt& body, const Array<Buffer>& allocs,
                         const std::map<std::string, std::string>& renamed) {
  Ref<BlockRealize> r = realize(scope_block);
  Ref<Block> b = r->block;
  Block* e = b.edit();
  e->body = clean(body);
  e->alloc_buffers = allocs;
  r.edit()->block = open.count(b->name) ? with_regions(b) : b;
  replace(scope_block, r, renamed);
}

std::string State::fresh_block_name(const std::string& hint) const {
  std::string name = hint;
  for (int i = 1; names.count(name); ++i) name = fmt::format("{}_{}", hint, i);
  return name;
}

// ---------------------------------------------------------------- words
std::string State::describe(int32_t id) const {
  const Entry& e = entries[size_t(id)];
  return fmt::format("{} '{}'", e.is_block ? "block" : "loop", e.label);
}

static std::string short_text(const PrimExpr& e) {
  if (auto v = as_int(e)) return fmt::format("{}", *v);
  if (const auto* v = e.as<Var>()) return v->name;
  return "…";
}

std::string State::sketch(const std::vector<int32_t>& marked) const {
  std::string out;
  std::vector<std::pair<int32_t, int>> stack{{id_of(function->body), 0}};
  if (stack[0].first < 0) return out;
  while (!stack.empty()) {
    auto [id, depth] = stack.back();
    stack.pop_back();
    const Entry& e = entries[size_t(id)];
    std::string line(size_t(depth) * 2, ' ');
    if (const auto* l = e.node.as<For>()) {
      static constexpr std::string_view kinds[] = {"for", "parallel", "vectorized", "unrolled", "thread"};
      line += fmt::format("{} {} in {}..{}", kinds[size_t(l->kind)], l->loop_var->name, short_text(l->min),
                          is_zero(l->min) ? short_text(l->extent) : short_text(l->min + l->extent));
    } else {
      const Block& b = *e.node.as<BlockRealize>()->block;
      line += "block " + b.name;
      if (!b.iter_vars.empty()) {
        line += "(";
        for (size_t i = 0; i < b.iter_vars.size(); ++i)
          line += fmt::format("{}{}{}", i ? ", " : "", b.iter_vars[i]->var->name,
                              b.iter_vars[i]->kind == IterKind::reduce ? ": reduce" : "");
        line += ")";
      }
      if (b.init) line += " with init";
    }
    if (std::find(marked.begin(), marked.end(), id) != marked.end()) line += "   <-- here";
    out += "\n    " + line;
    std::vector<int32_t> below = children(id);
    for (size_t i = below.size(); i-- > 0;) stack.emplace_back(below[i], depth + 1);
  }
  return out;
}

void State::refuse(std::string_view code, int32_t at, const std::string& why, const std::string& help) const {
  std::string name = "a tensor program";
  if (auto symbol = function->attrs.find("global_symbol"))
    if (auto text = symbol->try_as<std::string>()) name = *text;
  throw ScheduleError(
      ErrorKind::model, std::string(code),
      fmt::format("{} on {} is refused: {}", step.empty() ? "this step" : step, describe(at), why),
      fmt::format("in {}:{}", name, sketch({at})), help);
}

}  // namespace tenon::sched
