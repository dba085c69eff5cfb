// SPDX-License-Identifier: Apache-2.0
// libtenon_sequence: lists that grow while a loop runs, and the operators of sequences, optionals and maps.
// Compiled programs and the interpreter call the same functions by name.
#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/libraries/register.h"
#include "runtime/libraries/values.h"
#include "runtime/memory_pool.h"

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

/// A fresh tensor in the memory of the run that made `from`, where that is known: it counts against the run's
/// limit, however many a loop makes.
NDArray beside(const NDArray& from, const std::vector<int64_t>& shape, DataType dtype) {
  Any owner = from->owner;
  while (const auto whole = owner.try_as<NDArray>()) {
    if (!whole->get()) break;
    owner = (*whole)->owner;
  }
  const auto pool = owner.try_as<MemoryPool>();
  return pool && *pool ? pool->mut()->tensor(shape, dtype) : NDArray::empty(shape, dtype);
}
NDArray copy_of(const NDArray& t) {
  NDArray out = beside(t, t.shape(), t.dtype());
  if (const size_t bytes = t.byte_size()) std::memcpy(out.data(), t.data(), bytes);
  return out;
}

Any empty(Arguments) { return sequence_value(std::make_shared<std::vector<NDArray>>(), 0); }

/// (list, tensor) → list. The tensor is copied: its memory may be the loop's.
Any append(Arguments a) {
  const SequenceObj& s = sequence_arg(a[0]);
  auto items = s.items;
  if (items->size() != s.size)
    items = std::make_shared<std::vector<NDArray>>(items->begin(), items->begin() + std::ptrdiff_t(s.size));
  items->push_back(copy_of(a[1].as<NDArray>()));
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
  NDArray out = beside(first, shape, first.dtype());
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

// ---------------------------------------------------------------- sequences as values of a model
// Each function's first argument is the place of its node (values.h).

/// Tensors are copied when they enter a sequence: their memory may be used again by the next operator.
Any kept(const Any& v) {
  const auto t = v.try_as<NDArray>();
  return t && t->get() ? Any(copy_of(*t)) : v;
}
/// A position in a sequence, counted from its end where it is negative.
size_t position(const Operands& o, size_t i, size_t size, bool behind_last) {
  const int64_t at = o.integer(i), n = int64_t(size);
  if (at < -n || at >= n + int64_t(behind_last))
    o.fail("the position " + std::to_string(at) + " is outside of a sequence of " + std::to_string(n));
  return size_t(at < 0 ? at + n : at);
}

/// (value) → a value of its own memory
Any keep(Arguments a) { return kept(Operands(a)[0]); }
/// (item…) → sequence
Any construct(Arguments a) {
  const Operands o(a);
  std::vector<Any> items;
  for (size_t i = 0; i < o.size(); ++i) items.push_back(kept(o[i]));
  return sequence_of(std::move(items));
}
/// (sequence, item[, position]) → sequence
Any insert(Arguments a) {
  const Operands o(a);
  std::vector<Any> items = o.sequence(0);
  const size_t at = o.size() > 2 ? position(o, 2, items.size(), true) : items.size();
  items.insert(items.begin() + std::ptrdiff_t(at), kept(o[1]));
  return sequence_of(std::move(items));
}
/// (sequence[, position]) → sequence without that item, or the last one
Any erase(Arguments a) {
  const Operands o(a);
  std::vector<Any> items = o.sequence(0);
  if (items.empty()) o.fail("nothing can be erased from an empty sequence");
  const size_t at = o.size() > 1 ? position(o, 1, items.size(), false) : items.size() - 1;
  items.erase(items.begin() + std::ptrdiff_t(at));
  return sequence_of(std::move(items));
}
/// What is taken out of a container: a tensor where operand i says so.
Any taken(const Operands& o, const Any& item, size_t i) {
  if (o.integer(i) != 0)
    if (const auto t = item.try_as<NDArray>(); !t || !t->get())
      o.fail("the item is no tensor but " + Operands::kind(item));
  return item;
}
/// (sequence, position, whether it holds tensors) → item
Any at(Arguments a) {
  const Operands o(a);
  const std::vector<Any>& items = o.sequence(0);
  return taken(o, items[position(o, 1, items.size(), false)], 2);
}
Any length(Arguments a) { return Any(NDArray::scalar(double(Operands(a).sequence(0).size()), i64)); }

/// Rows of elements that are moved as one piece. Elements narrower than a byte are moved one by one.
void copy_elements(const NDArray& from, int64_t first, const NDArray& to, int64_t at, int64_t count) {
  const DataType t = from.dtype();
  if (t.bits < 8) {
    for (int64_t i = 0; i < count; ++i) to.set_element_int(at + i, from.element_int(first + i));
    return;
  }
  const int64_t bytes = t.bytes();
  if (count)
    std::memcpy(to.as_ptr<char>() + at * bytes, from.as_ptr<char>() + first * bytes, size_t(count * bytes));
}
int64_t product(std::vector<int64_t>::const_iterator from, std::vector<int64_t>::const_iterator to) {
  return element_count(std::span(from, to));
}
size_t axis_of(const Operands& o, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    o.fail("axis " + std::to_string(axis) + " is outside of rank " + std::to_string(rank));
  return size_t(axis < 0 ? axis + rank : axis);
}

/// (sequence, axis, new_axis) → its tensors behind one another on an axis, or stacked on a new one
Any concat(Arguments a) {
  const Operands o(a);
  std::vector<NDArray> parts;
  for (const Any& item : o.sequence(0)) {
    const auto t = item.try_as<NDArray>();
    if (!t || !t->get()) o.fail("a sequence of tensors is needed");
    parts.push_back(*t);
  }
  if (parts.empty()) o.fail("an empty sequence cannot be concatenated");
  const bool stack = o.integer(2) != 0;
  const int64_t rank = parts[0].ndim();
  const size_t axis = axis_of(o, o.integer(1), rank + int64_t(stack));
  if (stack)
    for (NDArray& p : parts) {
      if (p.ndim() != rank) o.fail("the tensors of the sequence have different ranks");
      std::vector<int64_t> shape = p.shape();
      shape.insert(shape.begin() + std::ptrdiff_t(axis), 1);
      p = p.reshape(shape);
    }
  std::vector<int64_t> shape = parts[0].shape();
  shape[axis] = 0;
  for (const NDArray& p : parts) {
    std::vector<int64_t> other = p.shape();
    const int64_t extent = other.size() == shape.size() ? other[axis] : 0;
    if (other.size() == shape.size()) other[axis] = shape[axis];
    if (other != shape || p.dtype() != parts[0].dtype())
      o.fail("the tensors of the sequence differ in type, or in a size that is not that of axis " +
             std::to_string(axis));
    shape[axis] += extent;
  }
  const NDArray out = beside(parts[0], shape, parts[0].dtype());
  const int64_t rows = product(shape.begin(), shape.begin() + std::ptrdiff_t(axis)),
                width = product(shape.begin() + std::ptrdiff_t(axis), shape.end());
  int64_t begin = 0;
  for (const NDArray& p : parts) {
    const int64_t w = product(p.shape().begin() + std::ptrdiff_t(axis), p.shape().end());
    for (int64_t r = 0; r < rows; ++r) copy_elements(p, r * w, out, r * width + begin, w);
    begin += w;
  }
  return Any(out);
}

/// (tensor, axis, keepdims[, sizes or size]) → the pieces along an axis: of one element without sizes
Any split(Arguments a) {
  const Operands o(a);
  const NDArray x = o.tensor(0);
  const size_t axis = axis_of(o, o.integer(1), x.ndim());
  const int64_t extent = x.shape()[axis];
  const bool drop = o.size() == 3 && o.integer(2) == 0;
  std::vector<int64_t> sizes;
  if (o.size() > 3 && o.tensor(3).ndim() == 1) {
    const NDArray given = o.tensor(3);
    for (int64_t i = 0; i < given.size(); ++i) sizes.push_back(given.element_int(i));
  } else {
    const int64_t each = o.size() > 3 ? o.integer(3) : 1;
    if (each < 1) o.fail("pieces of " + std::to_string(each) + " elements are asked for");
    for (int64_t left = extent; left > 0; left -= each) sizes.push_back(std::min(each, left));
  }
  int64_t left = extent;
  for (int64_t s : sizes) left = left < 0 || s < 0 || s > left ? -1 : left - s;
  if (left != 0) o.fail("the sizes of the pieces do not add up to " + std::to_string(extent));
  const int64_t rows = product(x.shape().begin(), x.shape().begin() + std::ptrdiff_t(axis)),
                inner = product(x.shape().begin() + std::ptrdiff_t(axis) + 1, x.shape().end());
  std::vector<Any> items;
  int64_t begin = 0;
  for (int64_t s : sizes) {
    std::vector<int64_t> shape = x.shape();
    shape[axis] = s;
    const NDArray piece = NDArray::empty(shape, x.dtype());
    for (int64_t r = 0; r < rows; ++r)
      copy_elements(x, (r * extent + begin) * inner, piece, r * s * inner, s * inner);
    begin += s;
    if (drop) shape.erase(shape.begin() + std::ptrdiff_t(axis));
    items.push_back(Any(drop ? piece.reshape(shape) : piece));
  }
  return sequence_of(std::move(items));
}

// ---------------------------------------------------------------- optionals
Any no_content(Arguments) { return {}; }
Any has_content(Arguments a) { return Any(NDArray::scalar(Operands(a)[0].is_none() ? 0.0 : 1.0, boolean)); }
/// (optional, whether it is one of a tensor) → its content
Any content(Arguments a) {
  const Operands o(a);
  if (o[0].is_none()) o.fail("an optional without content is read", "test it with OptionalHasElement first");
  return taken(o, o[0], 1);
}
/// (tensor, dtype) → the same bytes as elements of another type of that width
Any bits_as(Arguments a) {
  const Operands o(a);
  const NDArray x = o.tensor(0);
  DataType t;
  const int64_t word = o.integer(1);
  t.code = TypeCode(word & 0xff), t.bits = uint8_t(word >> 8);
  if (t.bits != x.dtype().bits) o.fail("a tensor of " + to_string(x.dtype()) + " cannot be read so");
  return Any(NDArray::from_bytes(x.shape(), t, x.data(), x.byte_size()));
}

// ---------------------------------------------------------------- what a model is given
/// Whether a value is of a type such as "optional(sequence(tensor(float32)))". Strings are their numbers
/// here.
bool is_of(const Any& v, std::string_view type) {
  const size_t open = std::min(type.find('('), type.size() - 1);
  const std::string_view kind = type.substr(0, open), inner = type.substr(open + 1, type.size() - open - 2);
  if (kind == "optional") return v.is_none() || is_of(v, inner);
  if (kind == "map") {
    const auto map = v.try_as<Ref<MapObj>>();
    return map && *map;
  }
  if (kind == "sequence") {
    const auto list = v.try_as<Ref<ArrayObj>>();
    return list && *list && std::all_of((*list)->items.begin(), (*list)->items.end(), [&](const Any& item) {
             return is_of(item, inner);
           });
  }
  const auto t = v.try_as<NDArray>();
  return t && t->get() && (inner == "string" ? t->dtype() == i64 : to_string(t->dtype()) == inner);
}
/// What a value is, as types are written; of a sequence, each type that its items have,
/// to so many levels.
std::string type_of(const Any& v, int levels = 8) {
  if (const auto t = v.try_as<NDArray>(); t && t->get()) return "tensor(" + to_string(t->dtype()) + ")";
  const auto list = v.try_as<Ref<ArrayObj>>();
  if (!list || !*list) return Operands::kind(v);
  std::string types = levels == 0 ? "…" : "";
  for (const Any& item : levels == 0 ? std::vector<Any>() : (*list)->items)
    if (const std::string type = type_of(item, levels - 1); types.find(type) == types.npos)
      types += (types.empty() ? "" : ", ") + type;
  return "sequence(" + types + ")";
}
/// (value, type in bytes) → the value, an input of a model
Any given(Arguments a) {
  const Operands o(a);
  const NDArray text = o.tensor(1);
  const std::string type(text.as_ptr<char>(), size_t(text.byte_size()));
  if (!is_of(o[0], type)) o.fail("a " + type + " is needed, not " + type_of(o[0]));
  return o[0];
}

// ---------------------------------------------------------------- maps
/// Operand i as keys: integers, or texts in bytes.
std::vector<Any> keys_of(const Operands& o, size_t i) {
  std::vector<Any> keys;
  if (const NDArray given = o.tensor(i); given.dtype() == u8)
    for (const std::string_view text : o.texts(i)) keys.push_back(Any(std::string(text)));
  else
    for (int64_t k = 0; k < given.size(); ++k) keys.push_back(Any(given.element_int(k)));
  return keys;
}
/// (matrix or vector, keys) → a sequence of one map for each row: key → element of that column
Any zip(Arguments a) {
  const Operands o(a);
  const NDArray x = o.tensor(0);
  const std::vector<Any> keys = keys_of(o, 1);
  const auto columns = int64_t(keys.size());
  if (x.ndim() < 1 || x.ndim() > 2 || x.shape().back() != columns)
    o.fail("a map needs a value for each of its " + std::to_string(columns) + " keys");
  std::vector<Any> rows;
  for (int64_t r = 0; r < (x.ndim() == 2 ? x.shape()[0] : 1); ++r) {
    auto row = make<MapObj>();
    for (int64_t c = 0; c < columns; ++c)
      map_detail::set(row.mut(), keys[size_t(c)], Any(x.element(r * columns + c)));
    rows.push_back(Any(std::move(row)));
  }
  return sequence_of(std::move(rows));
}
/// Writes a number, or a tensor of one, that an element of `out` can hold.
void put_number(const Operands& o, const NDArray& out, int64_t at, const Any& value) {
  const auto tensor = value.try_as<NDArray>();
  const bool one = tensor && tensor->get() && tensor->size() == 1, floats = out.dtype().is_float();
  if (const auto whole = value.try_as<int64_t>())
    floats ? out.set_element(at, double(*whole)) : out.set_element_int(at, *whole);
  else if (const auto real = value.try_as<double>(); real && floats)
    out.set_element(at, *real);
  else if (one && floats)
    out.set_element(at, tensor->element(0));
  else if (one && !tensor->dtype().is_float())
    out.set_element_int(at, tensor->element_int(0));
  else
    o.fail("the values of the map must be numbers of " + to_string(out.dtype()) + ", not " +
           Operands::kind(value));
}
/// (map, keys, like) → a matrix of one row, of the type of `like`: the value of each key; where it has none,
/// the element of `like`, or 0
Any row_of(Arguments a) {
  const Operands o(a);
  const auto map = o[0].try_as<Ref<MapObj>>();
  if (!map || !*map) o.fail("a map is needed, not " + Operands::kind(o[0]));
  const std::vector<Any> keys = keys_of(o, 1);
  const bool texts = o.tensor(1).dtype() == u8;
  for (const auto& [key, value] : (*map)->items)
    if (key.try_as<std::string>().has_value() != texts)
      o.fail(std::string("the keys of the map must be ") + (texts ? "texts" : "integers"));
  const NDArray out = NDArray::zeros({1, int64_t(keys.size())}, o.tensor(2).dtype());
  const NDArray like = o.tensor(2);
  for (size_t i = 0; i < keys.size(); ++i) {
    const ptrdiff_t at = map_detail::find(map->get(), keys[i]);
    if (at >= 0)
      put_number(o, out, int64_t(i), (*map)->items[size_t(at)].second);
    else if (like.size() == 1)
      put_number(o, out, int64_t(i), Any(like));
  }
  return Any(out);
}

/// (map of integers, like) → a matrix of one row, of the type of `like`: the values in the order of their
/// keys
Any values_of(Arguments a) {
  const Operands o(a);
  const auto map = o[0].try_as<Ref<MapObj>>();
  if (!map || !*map) o.fail("a map is needed, not " + Operands::kind(o[0]));
  std::vector<std::pair<int64_t, const Any*>> values;
  for (const auto& [key, value] : (*map)->items) {
    const auto number = key.try_as<int64_t>();
    if (!number) o.fail("the keys of the map must be integers");
    values.emplace_back(*number, &value);
  }
  std::sort(values.begin(), values.end());
  const NDArray out = NDArray::zeros({1, int64_t(values.size())}, o.tensor(1).dtype());
  for (size_t i = 0; i < values.size(); ++i) put_number(o, out, int64_t(i), *values[i].second);
  return Any(out);
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.sequence.given", given);
  register_unless_taken("tenon.sequence.kept", keep);
  register_unless_taken("tenon.sequence.construct", construct);
  register_unless_taken("tenon.sequence.insert", insert);
  register_unless_taken("tenon.sequence.erase", erase);
  register_unless_taken("tenon.sequence.at", at);
  register_unless_taken("tenon.sequence.length", length);
  register_unless_taken("tenon.sequence.concat", concat);
  register_unless_taken("tenon.sequence.split", split);
  register_unless_taken("tenon.optional.none", no_content);
  register_unless_taken("tenon.optional.has", has_content);
  register_unless_taken("tenon.optional.get", content);
  register_unless_taken("tenon.map.zip", zip);
  register_unless_taken("tenon.map.row", row_of);
  register_unless_taken("tenon.map.values", values_of);
  register_unless_taken("tenon.sequence.bits_as", bits_as);
  register_unless_taken("tenon.sequence.empty", empty);
  register_unless_taken("tenon.sequence.append", append);
  register_unless_taken("tenon.sequence.stack", stack);
  register_unless_taken("tenon.sequence.items", items);
  return true;
}();

}  // namespace
}  // namespace tenon
