// SPDX-License-Identifier: Apache-2.0
#include "op/bijective_layout.h"

#include <fmt/format.h>

#include <cctype>

#include "base/define_type.h"
#include "base/diagnostic.h"

namespace tenon::op {
namespace {

Layout parsed(const std::string& text) {
  const auto layout = Layout::parse(text);
  if (!layout)
    fail("T1107", fmt::format("`{}` is no layout", text), {}, "name each axis once, blocks as in NCHW4c",
         ErrorKind::usage);
  return *layout;
}
Array<PrimExpr> between(const std::string& from, const std::string& to, const Array<PrimExpr>& given,
                        bool sizes) {
  const Layout a = parsed(from), b = parsed(to);
  if (given.size() != a.axes.size())
    fail("T1107",
         fmt::format("layout `{}` names {} axes, and {} are given", from, a.axes.size(), given.size()), {},
         {}, ErrorKind::usage);
  const Array<PrimExpr> out = sizes ? b.shape(a, given) : b.index(a, given);
  return out.map([](const PrimExpr& e) { return simplify(e); });
}

}  // namespace

BijectiveLayout bijective_layout(const std::string& src, const std::string& dst) {
  if (parsed(src).letters() != parsed(dst).letters())
    fail("T1107", fmt::format("layouts `{}` and `{}` have different axes", src, dst), {},
         "each letter of one is one of the other", ErrorKind::usage);
  return make<BijectiveLayoutNode>(src, dst);
}

Array<PrimExpr> forward_index(const BijectiveLayout& layout, const Array<PrimExpr>& index) {
  return between(layout->src, layout->dst, index, false);
}
Array<PrimExpr> backward_index(const BijectiveLayout& layout, const Array<PrimExpr>& index) {
  return between(layout->dst, layout->src, index, false);
}
Array<PrimExpr> forward_shape(const BijectiveLayout& layout, const Array<PrimExpr>& shape) {
  return between(layout->src, layout->dst, shape, true);
}
Array<PrimExpr> backward_shape(const BijectiveLayout& layout, const Array<PrimExpr>& shape) {
  return between(layout->dst, layout->src, shape, true);
}

IndexMap forward_map(const BijectiveLayout& layout) {
  Array<tir::VarRef> inputs;
  Array<PrimExpr> index;
  for (const Layout::Axis& a : parsed(layout->src).axes) {
    std::string name(1, char(std::tolower(static_cast<unsigned char>(a.letter))));
    if (a.block) name += std::to_string(a.block);
    inputs.push_back(tir::var(name, i64));
    index.push_back(inputs.back());
  }
  return make<IndexMapNode>(inputs, forward_index(layout, index));
}

}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::BijectiveLayoutNode>;
