// SPDX-License-Identifier: Apache-2.0
// Operators whose attributes name layouts by letters ("NHWC", "HWIO", "NCHW4c"). An operator is written for
// the plain ones; in all others it is the operator between transformations of its operands and its result,
// which gives the type, the definition and the call that plain_layouts puts in its place. A definition that
// reads other layouts where they are says so (own, direct).
#pragma once
#include "op/layout.h"
#include "op/layout_rule.h"

namespace tenon::op {

/// Layouts of one call.
struct LayoutNames {
  std::string data, kernel, out;  ///< kernel: empty without a weight
  bool operator==(const LayoutNames&) const = default;
};

struct LetterRule {
  std::function<LayoutNames(const Call&)> given;                   ///< as the attributes say
  std::function<LayoutNames(const Call&)> plain;                   ///< those that the operator is written for
  std::function<ObjectRef(const Call&, const LayoutNames&)> with;  ///< the call's attributes, named anew
  std::vector<size_t> data{0};                                     ///< operands in the layout of the data
  size_t kernel = 1;                                               ///< the operand that is the weight
  /// The operator's own fields take the call as it is. Null: only plain layouts.
  std::function<bool(const Call&)> own = {};
  /// The definition on tensors in these layouts, in one step. Null, or nothing: by transformations.
  std::function<std::optional<std::vector<te::Tensor>>(const Call&, const std::vector<te::Tensor>&,
                                                       const LayoutNames&)>
      direct = {};
};

/// Attributes with text fields for layouts. `kernel` and `out` may be null: there is no weight, and the
/// result is in the layout of the data.
template <class A>
LetterRule letters_of(std::string A::* data, std::string A::* kernel, std::string A::* out,
                      std::function<LayoutNames(const Call&)> plain) {
  LetterRule rule;
  rule.given = [=](const Call& call) {
    const A& a = attrs_of<A>(call);
    return LayoutNames{a.*data, kernel ? a.*kernel : "", out ? a.*out : ""};
  };
  rule.with = [=](const Call& call, const LayoutNames& names) {
    return make_attrs<A>([&](A& a) {
      a = attrs_of<A>(call);
      a.*data = names.data;
      if (kernel) a.*kernel = names.kernel;
      if (out) a.*out = names.out;
    });
  };
  rule.plain = std::move(plain);
  return rule;
}
/// The plain layout of images, of as many spatial axes as the call's letters or data have; without a weight.
LayoutNames plain_image(const std::string& given, const Call& call);
template <class A>
LetterRule image_letters(std::string A::* data, std::string A::* out = nullptr) {
  return letters_of<A>(data, nullptr, out,
                       [=](const Call& call) { return plain_image(attrs_of<A>(call).*data, call); });
}

/// The call's layouts, none of them empty where its operator has one; nullopt: its attributes name none.
std::optional<LayoutNames> layout_names(const Call& call);
/// All layouts of the call are those that its operator is written for.
bool in_plain_layouts(const Call& call);
/// The call by the same operator in other layouts, between transformations; null: a mistake was noted.
Expr in_layouts(InferContext& ctx, const Array<Expr>& args, const LayoutNames& to);
/// The call in plain layouts; null where it is, or where its operator's own definition reads blocks.
Expr in_plain_layouts(InferContext& ctx);
/// A call that brings x from one layout to another.
Expr transformed(InferContext& ctx, const Expr& x, const std::string& from, const std::string& to);

}  // namespace tenon::op
