// SPDX-License-Identifier: Apache-2.0
// Functions that compiled programs call by name: lists that grow while a loop runs, and the end of a path
// that the sizes at hand do not allow. The interpreter calls the same ones.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/function.h"
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

/// (text as bytes): what this path of the model would compute cannot be, for these sizes.
Any refuse(Arguments a) {
  const NDArray text = a[0].as<NDArray>();
  throw Error(ErrorKind::model, "T0520",
              std::string(static_cast<const char*>(text.data()), size_t(text.byte_size())));
}

const bool registered = [] {
  registry::add("tenon.sequence.empty", Function(empty));
  registry::add("tenon.sequence.append", Function(append));
  registry::add("tenon.sequence.stack", Function(stack));
  registry::add("tenon.refuse", Function(refuse));
  return true;
}();

}  // namespace
}  // namespace tenon
