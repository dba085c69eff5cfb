// SPDX-License-Identifier: Apache-2.0
// Passes and schedule primitives by their identities, one at a time (scripts/mutate): a pass hands back its
// module, a primitive changes nothing and answers with the handles that it was given.
#include "identity.h"

#include "ir/pass.h"
#include "schedule/primitive.h"

namespace tenon {

using mutate::chosen;
using mutate::next;

// ---------------------------------------------------------------- passes
namespace {
/// In the table, before anybody reads it: this library is loaded behind the compiler's.
[[maybe_unused]] const bool replaced = [] {
  for (const Pass* p : all_passes())
    if (chosen("pass:" + p->name))
      const_cast<Pass*>(p)->run = [](IRModule module, PassContext&) { return module; };
  return true;
}();
}  // namespace

// ---------------------------------------------------------------- primitives
namespace {
std::vector<Handle> own_apply(Schedule& s, std::string_view name, std::vector<Any> args) {
  return next(&s, &Schedule::apply, *find_primitive(name), std::move(args));
}
/// Handles such as the primitive makes, of what it was given; nothing is changed.
std::vector<Handle> given(Schedule& s, const Primitive& p, const std::vector<Any>& args) {
  if (!p.result || p.kind == StepKind::query) return {};
  if (*p.result == HandleKind::location) {  // where the block is
    return own_apply(s, p.name, {args[0], Any(-1)});
  }
  // As many as a list among the arguments is long, or a count says.
  size_t count = p.result_list ? 2 : 1;
  for (size_t i = 0; i < args.size() && p.result_list; ++i) {
    const Parameter& x = p.parameters[i];
    if (x.list && !is_handle(x.type) && !args[i].is_none()) count = args[i].as<Array<Any>>().size();
    if (x.name == "n") count = args[i].as<size_t>();
  }
  std::vector<Handle> out;
  if (*p.result == HandleKind::number) {
    while (out.size() < count)
      out.push_back(
          own_apply(s, "sample_categorical", {Any(Array<Any>{Any(1)}), Any(Array<Any>{Any(1.0)})})[0]);
    return out;
  }
  for (const Handle& h : handles_of(args))
    if (h.kind == *p.result) out.assign(count, h);
  const std::vector<Handle> all = handles_of(args);
  if (out.empty() && !all.empty()) {
    const bool block = all[0].kind == HandleKind::block;
    const std::vector<Handle> near = own_apply(s, block ? "get_loops" : "get_child_blocks", {to_any(all[0])});
    out.assign(count, block ? near.back() : near.front());
  }
  return out;
}
}  // namespace

std::vector<Handle> Schedule::apply(const Primitive& primitive, std::vector<Any> args) {
  if (chosen("primitive:" + std::string(primitive.name))) return given(*this, primitive, args);
  return next(this, &Schedule::apply, primitive, std::move(args));
}

}  // namespace tenon
