// SPDX-License-Identifier: Apache-2.0
// lower_match_buffer
//   before: A_sub = T.match_buffer(A[i * 16:i * 16 + 16, 0:16], (16, 16)); A_sub[x, y]
//   after:  A[i * 16 + x, y]
// Needs: opaque blocks. Keeps: everything else. Shape, stride and offset variables of a match take their
// values from the source.
#include "ir/packed_call.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class Matcher : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<Block>(); n && !n->match_buffers.empty()) {
      Stmt body = s;
      VarMap values;
      for (const MatchBufferRegion& m : n->match_buffers) {
        const BufferRegion source = resolved(m->source);
        const size_t dropped = source->region.size() - m->buffer->shape.size();
        if (source->region.size() < m->buffer->shape.size())
          tensor_detail::refuse("T0806",
                                fmt::format("match_buffer '{}' has more dimensions than its source '{}'",
                                            m->buffer->name, source->buffer->name),
                                s);
        for (size_t i = 0; i < dropped; ++i)
          if (!analyzer_.can_prove_equal(source->region[i]->extent, tensor_detail::imm(1)))
            tensor_detail::refuse("T0806",
                                  fmt::format("match_buffer '{}' drops dimension {} of '{}', which is not 1",
                                              m->buffer->name, i, source->buffer->name),
                                  s);
        for (size_t i = 0; i < m->buffer->shape.size(); ++i)
          bind(values, m->buffer->shape[i], source->region[i + dropped]->extent, m, s);
        const Array<PrimExpr> strides = strides_of(source->buffer);
        for (size_t i = 0; i < m->buffer->strides.size(); ++i)
          bind(values, m->buffer->strides[i], strides[i + dropped], m, s);
        if (m->buffer->elem_offset && m->buffer->elem_offset.is<Var>()) {
          PrimExpr offset = source->buffer->elem_offset ? source->buffer->elem_offset : tensor_detail::imm(0);
          for (size_t i = 0; i < strides.size(); ++i) offset = offset + source->region[i]->min * strides[i];
          bind(values, m->buffer->elem_offset, offset, m, s);
        }
        views_.emplace(m->buffer.get(), View{source, dropped});
        // With an element offset of its own, the pointer is that of the whole source.
        BufferRegion origin = source;
        if (m->buffer->elem_offset && m->buffer->elem_offset.is<Var>())
          origin = make<BufferRegionNode>(source->buffer, source->region.map([](const Range&) {
            return range(tensor_detail::imm(0), tensor_detail::imm(1));
          }));
        pointers_.emplace(m->buffer->data.get(), origin);
      }
      forget();
      Stmt out =
          tensor_detail::edited<Block>(s, [](Block* b) { b->match_buffers = Array<MatchBufferRegion>(); });
      out = below(out);
      return values.empty() ? out : substitute(out, values);
    }
    if (const auto* n = s.as<BufferStore>()) {
      auto it = views_.find(n->buffer.get());
      if (it == views_.end()) return below(s);
      return store(it->second.source->buffer, expr(n->value), indices(it->second, n->indices),
                   expr(n->predicate));
    }
    if (const auto* n = s.as<DeclBuffer>(); n && pointers_.count(n->buffer->data.get()))
      tensor_detail::refuse("T0806",
                            fmt::format("'{}' is a second view of a matched buffer", n->buffer->name), s,
                            "access the matched buffer itself");
    return below(s);
  }
  PrimExpr expr(const PrimExpr& e) override {
    if (!e) return e;
    if (const auto* n = e.as<BufferLoad>()) {
      auto it = views_.find(n->buffer.get());
      if (it != views_.end())
        return load(it->second.source->buffer, indices(it->second, n->indices), expr(n->predicate));
    }
    if (const auto view = tensor_view(e)) check_view(*view);
    if (const auto* v = e.as<Var>()) {
      auto it = pointers_.find(v);
      if (it == pointers_.end()) return e;
      Array<PrimExpr> corner = it->second->region.map([](const Range& r) { return r->min; });
      return call(DataType::handle(), "tir.address_of", {load(it->second->buffer, corner)});
    }
    return below(e);
  }

 private:
  struct View {
    BufferRegion source;
    size_t dropped;
  };

  /// The steps of a view are those of the match: of rows that lie side by side, where it has no strides.
  void check_view(const TensorView& view) {
    const auto* pointer = view.pointer.as<Call>();
    const auto* first = pointer && !pointer->args.empty() ? pointer->args[0].as<BufferLoad>() : nullptr;
    const auto it = first ? views_.find(first->buffer.get()) : views_.end();
    if (it == views_.end() || !first->buffer->strides.empty()) return;
    const BufferRegion& source = it->second.source;
    bool side_by_side = source->buffer->strides.empty();
    for (size_t i = 1; i < source->region.size(); ++i)
      side_by_side =
          side_by_side && analyzer_.can_prove_equal(source->region[i]->extent, source->buffer->shape[i]);
    if (!side_by_side)
      fail(
          "T0806",
          fmt::format("a function is given `{}`, a match of a part of `{}` whose elements do not lie side by "
                      "side",
                      first->buffer->name, source->buffer->name),
          {}, "give it the region of the buffer itself, or name the strides of the match");
  }

  /// The source in terms of a real buffer, when it is itself a match.
  BufferRegion resolved(const BufferRegion& r) {
    auto it = views_.find(r->buffer.get());
    if (it == views_.end()) return r;
    const View& v = it->second;
    Array<Range> region;
    for (size_t i = 0; i < v.source->region.size(); ++i) {
      if (i < v.dropped)
        region.push_back(v.source->region[i]);
      else
        region.push_back(range(v.source->region[i]->min + r->region[i - v.dropped]->min,
                               r->region[i - v.dropped]->extent));
    }
    return make<BufferRegionNode>(v.source->buffer, region);
  }
  Array<PrimExpr> indices(const View& v, const Array<PrimExpr>& at) {
    Array<PrimExpr> out;
    for (size_t i = 0; i < v.source->region.size(); ++i) {
      const PrimExpr& min = v.source->region[i]->min;
      out.push_back(i < v.dropped ? min : min + expr(at[i - v.dropped]));
    }
    return out;
  }
  static Array<PrimExpr> strides_of(const Buffer& b) {
    if (!b->strides.empty()) return b->strides;
    std::vector<PrimExpr> s(b->shape.size(), tensor_detail::imm(1));
    for (size_t i = s.size(); i-- > 1;) s[i - 1] = simplify(s[i] * b->shape[i]);
    return Array<PrimExpr>(s);
  }
  void bind(VarMap& values, const PrimExpr& e, const PrimExpr& value, const MatchBufferRegion& m,
            const Stmt& s) {
    if (const auto* v = e.as<Var>()) {
      values.emplace(v, value);
      return;
    }
    if (!analyzer_.can_prove_equal(e, value) && as_int(e) && as_int(analyzer_.simplify(value)))
      tensor_detail::refuse("T0806",
                            fmt::format("match_buffer '{}' does not fit the region of '{}'", m->buffer->name,
                                        m->source->buffer->name),
                            s);
  }

  Analyzer analyzer_;
  std::unordered_map<const BufferNode*, View> views_;
  std::unordered_map<const Var*, BufferRegion> pointers_;
};

}  // namespace

const Pass& lower_match_buffer_pass = register_pass({
    .name = "lower_match_buffer",
    .run = tensor_detail::each_body<Matcher>,
    .level = 0,
    .summary = "matched regions become accesses of the source",
    .needs = {"convert_blocks_to_opaque"},
});

}  // namespace tenon
