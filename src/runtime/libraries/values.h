// SPDX-License-Identifier: Apache-2.0
// Values of models that are no tensors of numbers, as the functions of these libraries see them: a sequence
// is an Array, an empty optional is none, one with content is the content, a tensor of strings is a
// StringTensor, a map is a Map of integers or texts.
#pragma once
#include <string>
#include <string_view>

#include "base/container.h"
#include "base/function.h"
#include "runtime/ndarray.h"
#include "runtime/string_tensor.h"

namespace tenon {

/// The arguments of a function: the first is the place of its node, as bytes.
class Operands {
 public:
  explicit Operands(Arguments a) : a_(a) {}
  size_t size() const { return a_.size() - 1; }
  const Any& operator[](size_t i) const {
    if (i + 1 >= a_.size()) fail("an argument is missing");
    return a_[i + 1];
  }
  /// T0521 at the node.
  [[noreturn]] void fail(const std::string& message, std::string hint = {}) const {
    const auto text = a_.size() ? a_[0].try_as<NDArray>() : std::nullopt;
    throw Error(ErrorKind::model, "T0521", message,
                text && *text ? std::string(text->as_ptr<char>(), size_t(text->byte_size())) : std::string(),
                std::move(hint));
  }
  NDArray tensor(size_t i) const {
    auto t = (*this)[i].try_as<NDArray>();
    if (!t || !t->get()) fail("a tensor is needed, not " + kind((*this)[i]));
    return *std::move(t);
  }
  /// A number, or a tensor of one integer.
  int64_t integer(size_t i) const {
    if (auto n = (*this)[i].try_as<int64_t>()) return *n;
    const NDArray t = tensor(i);
    if (t.size() != 1 || t.dtype().is_float()) fail("one integer is needed");
    return t.element_int(0);
  }
  /// A list of texts in bytes: "3:abc0:" is "abc" and "".
  std::vector<std::string_view> texts(size_t i) const {
    const NDArray held = tensor(i);
    std::string_view all(held.as_ptr<char>(), size_t(held.byte_size()));
    std::vector<std::string_view> out;
    while (!all.empty()) {
      size_t n = 0, at = 0;
      for (; at < all.size() && all[at] >= '0' && all[at] <= '9'; ++at) n = n * 10 + size_t(all[at] - '0');
      if (at == 0 || at >= all.size() || all[at] != ':' || all.size() - at - 1 < n)
        fail("a list of strings is damaged");
      out.push_back(all.substr(at + 1, n));
      all.remove_prefix(at + 1 + n);
    }
    return out;
  }
  const std::vector<Any>& sequence(size_t i) const {
    static const std::vector<Any> none;
    const auto s = (*this)[i].try_as<Ref<ArrayObj>>();
    if (!s || !*s) fail("a sequence is needed, not " + kind((*this)[i]));
    return (*s)->items;
  }
  static std::string kind(const Any& v) { return v.is_none() ? "an empty optional" : v.kind_name(); }

 private:
  Arguments a_;
};

inline Any sequence_of(std::vector<Any> items) {
  auto a = make<ArrayObj>();
  a.mut()->items = std::move(items);
  return Any(std::move(a));
}

}  // namespace tenon
