// SPDX-License-Identifier: Apache-2.0
#include "op/letters.h"

#include <fmt/format.h>

#include "op/compose.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

const LetterRule* rule_of(const Call& call) {
  const auto* op = call.op.as<graph::Op>();
  return op ? definition(*op).letters.get() : nullptr;
}
LayoutNames names_of(const LetterRule& rule, const Call& call) {
  LayoutNames names = rule.given(call);
  const LayoutNames plain = rule.plain(call);
  if (names.data.empty()) names.data = plain.data;
  if (names.kernel.empty()) names.kernel = plain.kernel;
  if (names.out.empty()) names.out = names.data;
  return names;
}
bool takes(const LetterRule& rule, const Call& call) {
  return names_of(rule, call) == rule.plain(call) || (rule.own && rule.own(call));
}

/// "N, C, H and W".
std::string in_words(const std::string& letters) {
  std::string out;
  for (size_t i = 0; i < letters.size(); ++i)
    out += (i == 0 ? "" : i + 1 == letters.size() ? " and " : ", ") + std::string(1, letters[i]);
  return out;
}

/// The layout has the letters of the plain one.
bool expect_letters(InferContext& ctx, const std::string& name, const std::string& plain) {
  if (name == plain) return true;
  const auto have = Layout::parse(name), want = Layout::parse(plain);
  if (want && have && have->letters() == want->letters()) return true;
  return ctx.error(fmt::format("layout '{}' does not name {} once each", name, in_words(plain)),
                   fmt::format("write the letters of '{}' in any order; blocks of an axis as in '{}4{}'",
                               plain, plain, char(std::tolower(static_cast<unsigned char>(plain[1])))));
}

/// The tensor has the axes of the layout.
bool expect_axes(InferContext& ctx, const Layout& layout, const graph::TensorType& t) {
  if (t.ndim < 0 || t.ndim == int64_t(layout.axes.size())) return true;
  return ctx.error(fmt::format("layout '{}' names {} axes, and the tensor has {}", layout.name(),
                               layout.axes.size(), t.ndim));
}

/// The formula in plain layouts as one definition.
Tensors define_plain(const Call& call, const Tensors& in) {
  const LetterRule& rule = *rule_of(call);
  if (rule.direct)
    if (auto value = rule.direct(call, in, names_of(rule, call))) return *value;
  return define_composed(call, in, [&rule](InferContext& ctx, const std::vector<Term>& terms) {
    Array<Expr> args;
    for (const Term& t : terms) args.push_back(t.expr());
    return Term(ctx, in_layouts(ctx, args, rule.plain(ctx.call)));
  });
}

}  // namespace

LayoutNames plain_image(const std::string& given, const Call& call) {
  const auto letters = Layout::parse(given);
  const auto* x = graph::as_tensor(call.args[0]);
  const size_t axes = letters ? letters->letters().size() : x && x->ndim > 0 ? size_t(x->ndim) : 0;
  const auto plain = program_layout(axes);
  // Of another rank no axis has a name, and none is asked for.
  const std::string name = plain ? plain->name() : given.empty() ? "" : data_layout(2).name();
  return {name, "", name};
}

std::optional<LayoutNames> layout_names(const Call& call) {
  const LetterRule* rule = rule_of(call);
  return rule ? std::optional(names_of(*rule, call)) : std::nullopt;
}

bool in_plain_layouts(const Call& call) {
  const LetterRule* rule = rule_of(call);
  return !rule || names_of(*rule, call) == rule->plain(call);
}

Expr transformed(InferContext& ctx, const Expr& x, const std::string& from, const std::string& to) {
  if (from == to || !x) return x;
  const auto a = Layout::parse(from), b = Layout::parse(to);
  CHECK(a && b, "a transformation between what are no layouts");
  if (const auto* t = graph::as_tensor(x); t && !expect_axes(ctx, *a, *t)) return {};
  return ctx.call_op("layout_transform", {x}, make_attrs<LayoutTransformAttrs>(from, to));
}

Expr in_layouts(InferContext& ctx, const Array<Expr>& given, const LayoutNames& to) {
  const LetterRule& rule = *rule_of(ctx.call);
  const LayoutNames names = names_of(rule, ctx.call), plain = rule.plain(ctx.call);
  for (const LayoutNames& n : {names, to})
    if (!expect_letters(ctx, n.data, plain.data) || !expect_letters(ctx, n.out, plain.out) ||
        (!plain.kernel.empty() && !expect_letters(ctx, n.kernel, plain.kernel)))
      return {};
  Array<Expr> args = given;
  for (const size_t i : rule.data) args.set(i, transformed(ctx, args[i], names.data, to.data));
  if (!plain.kernel.empty())
    args.set(rule.kernel, transformed(ctx, args[rule.kernel], names.kernel, to.kernel));
  for (const Expr& e : args)
    if (!e) return {};
  const Expr value = ctx.call_op(ctx.op().name, args, rule.with(ctx.call, to));
  return transformed(ctx, value, to.out, names.out);
}

Expr in_plain_layouts(InferContext& ctx) {
  const LetterRule* rule = rule_of(ctx.call);
  if (!rule || in_plain_layouts(ctx.call)) return {};
  // Blocks that a definition reads are a choice that was made; another order of the axes is none.
  const LayoutNames names = names_of(*rule, ctx.call);
  const auto data = Layout::parse(names.data), plain = Layout::parse(rule->plain(ctx.call).data);
  const bool ordered = data && plain && !data->has_blocks() && data->letters() == plain->letters();
  if (!ordered && takes(*rule, ctx.call)) return {};
  return in_layouts(ctx, ctx.call.args, rule->plain(ctx.call));
}

OpRegistration& OpRegistration::letters(LetterRule rule) {
  CHECK(def_->infer && def_->tensor_def, "an operator's letters come behind its other fields");
  const auto shared = std::make_shared<const LetterRule>(std::move(rule));
  def_->letters = shared;
  def_->infer = [plain = def_->infer](InferContext& ctx) -> Type {
    const LetterRule& r = *rule_of(ctx.call);
    const auto given = Layout::parse(r.given(ctx.call).data);
    if (given && !expect_axes(ctx, *given, ctx.tensor(r.data[0]))) return {};
    if (takes(r, ctx.call)) return plain(ctx);
    const Expr value = in_layouts(ctx, ctx.call.args, r.plain(ctx.call));
    return value ? value->type : Type();
  };
  def_->tensor_def = [plain = def_->tensor_def](const Call& call, const Tensors& in) {
    return takes(*rule_of(call), call) ? plain(call, in) : define_plain(call, in);
  };
  // What follows asks for axes by their numbers: it sees plain layouts only.
  if (def_->layout)
    def_->layout = [plain = def_->layout](LayoutContext& ctx) {
      return in_plain_layouts(ctx.call) ? plain(ctx) : std::nullopt;
    };
  if (def_->contraction)
    def_->contraction = [plain = def_->contraction](const Call& call) {
      return in_plain_layouts(call) ? plain(call) : std::nullopt;
    };
  if (def_->parameter)
    def_->parameter = [plain = def_->parameter](InferContext& ctx, size_t i) {
      return in_plain_layouts(ctx.call) ? plain(ctx, i) : Type();
    };
  return *this;
}

}  // namespace tenon::op
