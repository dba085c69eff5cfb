// SPDX-License-Identifier: Apache-2.0
// inject_software_pipeline
//   before: for k in T.serial(n, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order":
//   [0, 1]}):
//             S = allocate(8); S[…] = A[k, …]; B[k] = f(S)
//   after:  S = allocate(16); S[…] = A[0, …]
//           for t in [1, n): S[half t % 2] = A[t, …]; B[t - 1] = f(S[half (t - 1) % 2])
//           B[n - 1] = f(S[…])
// Statement i of the body runs `stage[i]` iterations late, so that work of different iterations overlaps.
// Memory allocated in the body gets as many versions as iterations may hold it. Values that pass through
// other memory must stay inside one stage, in order; otherwise the program is refused (T0816). Needs: flat
// buffers. Keeps: every value.
#include <map>
#include <unordered_set>

#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

constexpr const char* stage_key = "software_pipeline_stage";
constexpr const char* order_key = "software_pipeline_order";

struct Touches {
  std::map<std::string, const Var*> names;  // by name, so that messages do not depend on addresses
  std::unordered_set<const Var*> reads, writes;
  bool effects = false;
};
Touches uses_of(const Stmt& s) {
  Touches u;
  pre_order(s, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>())
      u.reads.insert(l->buffer->data.get()), u.names[l->buffer->name] = l->buffer->data.get();
    if (const auto* l = n.as<BufferStore>())
      u.writes.insert(l->buffer->data.get()), u.names[l->buffer->name] = l->buffer->data.get();
    if (const auto* c = n.as<Call>(); c && (c->op == "tir.address_of" || c->op.starts_with("tir.call_")))
      u.effects = true;
    return !n.is<BufferNode>();
  });
  return u;
}

std::optional<std::vector<int64_t>> list(const AttrMap& attrs, const char* key) {
  auto v = attrs.find(key);
  if (!v) return std::nullopt;
  std::vector<int64_t> out;
  if (auto items = v->try_as<Array<Any>>()) {
    for (const Any& a : *items) {
      auto i = a.try_as<int64_t>();
      auto e = i ? std::optional<PrimExpr>() : a.try_as<PrimExpr>();
      if (!i && e && *e) i = as_int(*e);
      if (!i) return std::nullopt;
      out.push_back(*i);
    }
    return out;
  }
  return std::nullopt;
}

class Pipeline : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (s.is<SeqStmt>()) {
      const Stmt r = below(s);  // a statement may have become several
      return r.same_as(s) ? s : seq(r.as<SeqStmt>()->seq);
    }
    const Stmt r = below(s);
    const auto* n = r.as<For>();
    return n && n->annotations.contains(stage_key) ? pipelined(*n, s) : r;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  [[noreturn]] static void no(const For& n, const Stmt& at, const std::string& why) {
    tensor_detail::refuse("T0816", fmt::format("loop '{}' cannot be pipelined: {}", n.loop_var->name, why),
                          at, "change the stages, or the order");
  }

  Stmt pipelined(const For& n, const Stmt& at) const {
    const auto stages = list(n.annotations, stage_key);
    auto order = list(n.annotations, order_key);
    std::vector<Buffer> own;
    std::vector<AttrMap> annotations;
    Stmt body = n.body;
    while (const auto* a = body.as<Allocate>()) {
      own.push_back(a->buffer);
      annotations.push_back(a->annotations);
      body = a->body;
    }
    std::vector<Stmt> steps = body.is<SeqStmt>() ? body.as<SeqStmt>()->seq.vec() : std::vector<Stmt>{body};
    if (!stages || stages->size() != steps.size())
      no(n, at,
         fmt::format("its body has {} statements, and the stages are not as many numbers", steps.size()));
    if (!order) {
      order.emplace();
      for (size_t i = 0; i < steps.size(); ++i) order->push_back(int64_t(i));
    }
    std::vector<size_t> by_order(steps.size(), SIZE_MAX);
    for (size_t i = 0; i < order->size() && order->size() == steps.size(); ++i)
      if ((*order)[i] >= 0 && size_t((*order)[i]) < steps.size()) by_order[size_t((*order)[i])] = i;
    int64_t last = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (by_order[i] == SIZE_MAX) no(n, at, "the order is no permutation of its statements");
      if ((*stages)[i] < 0 || (*stages)[i] > 16) no(n, at, "a stage is outside 0 … 16");
      last = std::max(last, (*stages)[i]);
    }
    if (n.kind != ForKind::serial) no(n, at, "it is not serial");

    // Who needs whom, and for how long values are held.
    std::vector<Touches> uses;
    for (const Stmt& s : steps) uses.push_back(uses_of(s));
    std::map<const Var*, int64_t> versions;
    std::unordered_set<const Var*> private_;
    for (const Buffer& b : own) private_.insert(b->data.get());
    for (size_t i = 0; i < steps.size(); ++i)
      for (size_t j = i + 1; j < steps.size(); ++j)
        for (const auto& [name, v] : uses[i].names) {
          const bool share =
              (uses[i].writes.count(v) && (uses[j].reads.count(v) || uses[j].writes.count(v))) ||
              (uses[i].reads.count(v) && uses[j].writes.count(v));
          if (!share) continue;
          const int64_t late = (*stages)[j] - (*stages)[i];
          if (late < 0 || (late == 0 && (*order)[i] > (*order)[j]))
            no(n, at,
               fmt::format("statement {} needs buffer '{}' of statement {} before it is done", j, name, i));
          if (private_.count(v))
            versions[v] = std::max(versions[v], late + 1);
          else if (late > 0)
            no(n, at,
               fmt::format(
                   "buffer '{}' is shared by statements of different stages and lives outside the loop",
                   name));
        }
    for (size_t i = 0; i < steps.size(); ++i)
      if (uses[i].effects && last > 0) no(n, at, "a statement calls a function or takes an address");

    std::vector<Buffer> kept;
    for (const Buffer& b : own) {
      const int64_t count = std::max<int64_t>(1, versions[b->data.get()]);
      Buffer w = b;
      if (count > 1) {
        const PrimExpr size = b->shape[0], k = PrimExpr(n.loop_var) - n.min;
        BufferNode* e = w.edit();
        e->shape = {simplify(size * PrimExpr::int_imm(count, size.dtype()))};
        e->data = var(b->data->name, b->data->dtype);
        const PrimExpr place = cast(size.dtype(), floormod(k, PrimExpr::int_imm(count, k.dtype()))) * size;
        for (Stmt& s : steps) s = tensor_detail::moved(s, b, w, place);
      }
      kept.push_back(w);
    }

    const DataType t = n.loop_var->dtype;
    auto number = [&](int64_t v) { return PrimExpr::int_imm(v, t); };
    const auto extent = as_int(n.extent);
    /// Statement i of iteration `k` (from 0), where `inside` holds.
    auto step = [&](size_t i, const PrimExpr& k, const PrimExpr& inside) -> Stmt {
      const Stmt s = rename_definitions(substitute(steps[i], {{n.loop_var.get(), simplify(n.min + k)}}));
      const PrimExpr c = simplify(inside);
      if (auto v = as_int(c)) return *v ? s : Stmt();
      return make<IfThenElse>(c, s, Stmt());
    };
    Array<Stmt> out;
    auto add = [&](Array<Stmt>& to, const Stmt& s) {
      if (s) to.push_back(s);
    };
    for (int64_t u = 0; u < last; ++u)
      for (size_t i : by_order)
        if ((*stages)[i] <= u)
          add(out, step(i, number(u - (*stages)[i]), lt(number(u - (*stages)[i]), n.extent)));
    const PrimExpr turns = extent ? number(std::max<int64_t>(0, *extent - last))
                                  : simplify(max(n.extent - number(last), number(0)));
    const VarRef v = var(n.loop_var->name, t);
    Array<Stmt> middle;
    for (size_t i : by_order) add(middle, step(i, PrimExpr(v) + number(last - (*stages)[i]), true_()));
    if (!is_zero(turns)) out.push_back(for_(v, number(0), turns, seq(middle)));
    for (int64_t u = 0; u < last; ++u)
      for (size_t i : by_order)
        if ((*stages)[i] > u) {
          // Behind the first part even when there are fewer iterations than stages.
          const PrimExpr k = simplify(max(n.extent, number(last)) + number(u - (*stages)[i]));
          add(out, step(i, k, lt(k, n.extent)));
        }
    if (out.empty()) return tensor_detail::no_op();
    Stmt r = seq(out);
    for (size_t i = kept.size(); i-- > 0;) r = make<Allocate>(kept[i], r, annotations[i]);
    return r;
  }
};

}  // namespace

static IRModule inject_software_pipeline(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    const Stmt r = Pipeline().stmt(f->body);
    return r.same_as(f->body) ? r : simplify(r, false, tensor_detail::sizes_of(f));
  });
}

const Pass& inject_software_pipeline_pass = register_pass({
    .name = "inject_software_pipeline",
    .run = inject_software_pipeline,
    .level = 0,
    .summary = "statements of a loop overlap between iterations",
    .needs = {"flatten_buffer"},
});

}  // namespace tenon
