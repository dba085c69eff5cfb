// SPDX-License-Identifier: Apache-2.0
// libtenon_sequence: lists that grow while a loop runs. Compiled programs and the interpreter call the same
// functions by name.
#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/libraries/register.h"
#include "runtime/ndarray.h"

namespace tenon {
namespace {

/// A list of tensors as a value. Lists that grow from one another share their beginning, so that appending to
/// the newest of them costs one entry.
struct SequenceObj : Object {
  static constexpr std::string_view type_key = "Sequence";
  std::shared_ptr<std::vector<NDArray>> items;
  size_t size = 0;
};
using Sequence = Ref<SequenceObj>;

const SequenceObj& sequence_arg(const Any& v) {
  auto s = v.try_as<Sequence>();
  if (!s || !*s) throw Error(ErrorKind::model, "T0501", "a list is needed, not " + v.kind_name());
  return **s;
}

Any sequence_value(std::shared_ptr<std::vector<NDArray>> items, size_t size) {
  auto s = make<SequenceObj>();
  s.mut()->items = std::move(items);
  s.mut()->size = size;
  return Any(s);
}

Any empty(Arguments) { return sequence_value(std::make_shared<std::vector<NDArray>>(), 0); }

/// (list, tensor) → list. The tensor is copied: its memory may be the loop's.
Any append(Arguments a) {
  const SequenceObj& s = sequence_arg(a[0]);
  auto items = s.items;
  if (items->size() != s.size)
    items = std::make_shared<std::vector<NDArray>>(items->begin(), items->begin() + std::ptrdiff_t(s.size));
  items->push_back(a[1].as<NDArray>().copy());
  return sequence_value(std::move(items), s.size + 1);
}

/// (list, like, d0, d1, …) → the tensors behind one another on a new first axis. Without any, the data type
/// is that of `like` and the shape (0, d0, d1, …).
Any stack(Arguments a) {
  const SequenceObj& s = sequence_arg(a[0]);
  std::vector<int64_t> shape{int64_t(s.size)};
  if (s.size == 0) {
    for (size_t i = 2; i < a.size(); ++i) shape.push_back(std::max<int64_t>(0, a[i].as<int64_t>()));
    return Any(NDArray::empty(shape, a[1].as<NDArray>().dtype()));
  }
  const NDArray& first = (*s.items)[0];
  shape.insert(shape.end(), first.shape().begin(), first.shape().end());
  NDArray out = NDArray::empty(shape, first.dtype());
  auto* to = static_cast<char*>(out.data());
  for (size_t i = 0; i < s.size; ++i) {
    const NDArray& x = (*s.items)[i];
    if (x.shape() != first.shape() || x.dtype() != first.dtype())
      throw Error(ErrorKind::model, "T0501", "the iterations of a loop make outputs of different shapes");
    const size_t bytes = size_t(x.byte_size());
    std::memcpy(to, x.data(), bytes);
    to += bytes;
  }
  return Any(out);
}

/// The tensors of a list, for other languages.
Any items(Arguments a) {
  const SequenceObj& s = sequence_arg(a[0]);
  return Any(Array<NDArray>(s.items->begin(), s.items->begin() + std::ptrdiff_t(s.size)));
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.sequence.empty", empty);
  register_unless_taken("tenon.sequence.append", append);
  register_unless_taken("tenon.sequence.stack", stack);
  register_unless_taken("tenon.sequence.items", items);
  return true;
}();

}  // namespace
}  // namespace tenon
