// SPDX-License-Identifier: Apache-2.0
// Primitives that leave a word for later stages: annotate and unannotate, on loops and blocks.
#include <fmt/format.h>

#include "schedule/state.h"

namespace tenon::sched {

using namespace tir;

namespace {
void put(State& s, int32_t id, AttrMap map) {
  const Stmt node = s.entry(id).node;
  if (node.is<For>()) {
    Ref<For> copy = node.cast<For>();
    copy.edit()->annotations = map;
    s.replace(id, copy);
    return;
  }
  Ref<BlockRealize> r = node.cast<BlockRealize>();
  Ref<Block> b = r->block;
  b.edit()->annotations = map;
  r.edit()->block = b;
  s.replace(id, r);
}
AttrMap annotations_of(const State& s, int32_t id) {
  const Entry& e = s.entry(id);
  return e.is_block ? e.node.as<BlockRealize>()->block->annotations : e.node.as<For>()->annotations;
}
}  // namespace

void annotate(State& s, int32_t id, const std::string& key, const Any& value) {
  AttrMap map = annotations_of(s, id);
  if (key.empty()) s.refuse("T0780", id, "an annotation needs a name");
  if (value.is_object() && !value.try_as<std::string>() && !value.try_as<PrimExpr>() &&
      !value.try_as<Array<Any>>())
    s.refuse("T0780", id,
             fmt::format("'{}' is given a {}, which a trace cannot record", key, value.kind_name()),
             "use numbers, texts, expressions or lists of them");
  map.set(key, value);
  put(s, id, map);
}

void unannotate(State& s, int32_t id, const std::string& key) {
  AttrMap map = annotations_of(s, id);
  if (!map.contains(key)) s.refuse("T0781", id, fmt::format("it has no annotation '{}'", key));
  map.erase(key);
  put(s, id, map);
}

}  // namespace tenon::sched
