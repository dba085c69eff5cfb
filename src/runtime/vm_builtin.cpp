// SPDX-License-Identifier: Apache-2.0
// The builtins of the VM; executable.h describes each. To add one: write it here, name it in the table below,
// describe it there.
#include <algorithm>
#include <limits>

#include "runtime/machine.h"

namespace tenon {
namespace {

void need(Machine& m, const Step& s, bool condition, const char* what) {
  if (!condition)
    m.fail_at(s, "T0511", joined({"malformed call of a builtin: ", what}),
              "this is a bug of the compiler that wrote the artifact");
}

/// Dimensions of a tensor or shape argument, borrowed where a register holds it, and otherwise kept in
/// `made`.
std::span<const int64_t> shape_ref(Machine& m, const Step& s, uint32_t i, NDArray& made) {
  if (i < s.num_args && s.args[i].kind() == ArgKind::Register)
    if (const Any& v = m.frame().registers[size_t(s.args[i].value())];
        v.is_object() && is_type_index<ShapeObj>(v.tag()))
      return static_cast<const ShapeObj*>(v.object())->dims;
  return m.tensor_ref(s, i, made).shape;
}

void set_shape(Machine& m, const Step& s, std::span<const int64_t> dims) {
  // In a loop the register holds the shape of the last turn, mostly.
  if (s.dst >= 0)
    if (const Any& v = m.frame().registers[size_t(s.dst)];
        v.is_object() && is_type_index<ShapeObj>(v.tag()) &&
        v.object()->ref_count.load(std::memory_order_acquire) == 1) {
      auto& held = static_cast<ShapeObj*>(const_cast<Object*>(v.object()))->dims;
      held.assign(dims.begin(), dims.end());
      return;
    }
  auto shape = make<ShapeObj>();
  shape.mut()->dims.assign(dims.begin(), dims.end());
  m.set_result(s, Any(std::move(shape)));
}

/// An element that is a whole number.
int64_t whole_number(const NDArrayObj& a, int64_t i) {
  if (a.dtype == i64) return static_cast<const int64_t*>(a.data)[i];
  if (a.dtype == boolean) return static_cast<const uint8_t*>(a.data)[i] != 0;
  return NDArray(Ref<NDArrayObj>(&a)).element_int(i);
}

void match_shape(Machine& m, const Step& s) {
  need(m, s, s.num_args >= 2, "match_shape needs a tensor and a rank");
  NDArray made;
  const std::span<const int64_t> dims = shape_ref(m, s, 0, made);
  const int64_t n = m.int_arg(s, 1);
  need(m, s, n >= 0 && int64_t(s.num_args) == 2 + 2 * n, "match_shape needs a pair for each dimension");
  bool ok = int64_t(dims.size()) == n;
  for (int64_t i = 0; ok && i < n; ++i) {
    const auto match = DimMatch(m.int_arg(s, uint32_t(2 + 2 * i)));
    const int64_t value = m.int_arg(s, uint32_t(3 + 2 * i));
    if (match == DimMatch::Number)
      ok = dims[i] == value;
    else if (match == DimMatch::Bind)
      m.heap_slot(s, value) = dims[i];
    else if (match == DimMatch::Slot)
      ok = dims[i] == m.heap_slot(s, value);
    else
      need(m, s, match == DimMatch::Any, "unknown code in match_shape");
  }
  if (ok) return;
  std::string wanted = "[";
  for (int64_t i = 0; i < n; ++i) {
    const auto match = DimMatch(m.int_arg(s, uint32_t(2 + 2 * i)));
    const int64_t value = m.int_arg(s, uint32_t(3 + 2 * i));
    wanted += i ? ", " : "";
    wanted += match == DimMatch::Number ? std::to_string(value)
              : match == DimMatch::Slot ? std::to_string(m.heap_slot(s, value))
                                        : std::string("any");
  }
  m.fail_at(s, "T0501", joined({"a tensor has shape ", shape_text(dims), " where ", wanted, "] is required"}),
            "check the shapes of the inputs");
}

void check_tensor(Machine& m, const Step& s) {
  need(m, s, s.num_args == 3, "check_tensor takes three arguments");
  NDArray a = m.tensor_arg(s, 0);
  const int64_t ndim = m.int_arg(s, 1), word = m.int_arg(s, 2);
  if (ndim >= 0 && a.ndim() != ndim)
    m.fail_at(s, "T0501",
              joined({"a tensor has shape ", shape_text(a.shape()), " where ", std::to_string(ndim),
                      " dimensions are required"}));
  if (word != 0 && a.dtype() != dtype_of_word(word))
    m.fail_at(s, "T0501",
              joined({"a tensor has type ", to_string(a.dtype()), " where ", to_string(dtype_of_word(word)),
                      " is required"}));
  m.set_result(s, Any(a));
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

void compute_shape(Machine& m, const Step& s) {
  need(m, s, s.num_args >= 3 && s.num_args % 2 == 1, "compute_shape takes a slot and pairs");
  m.dims.resize(s.num_args / 2);  // no program holds more values at once than it has words
  int64_t* const stack = m.dims.data();
  size_t height = 0;
  for (uint32_t i = 1; i < s.num_args; i += 2) {
    const auto word = ShapeWord(m.int_arg(s, i));
    const int64_t value = m.int_arg(s, i + 1);
    if (word == ShapeWord::Number || word == ShapeWord::Slot) {
      stack[height++] = word == ShapeWord::Slot ? m.heap_slot(s, value) : value;
      continue;
    }
    need(m, s, word == ShapeWord::Apply && height >= 2, "compute_shape has no operands");
    const int64_t b = stack[--height];
    int64_t& a = stack[height - 1];
    bool overflow = false;
    const ShapeOp op = ShapeOp(value);
    if (op == ShapeOp::FloorDiv || op == ShapeOp::FloorMod || op == ShapeOp::CeilDiv) {
      if (b == 0)
        m.fail_at(s, "T0512", "division by zero while computing a shape", "check the shapes of the inputs");
      if (b == -1 && a == std::numeric_limits<int64_t>::min()) overflow = true;
    }
    if (!overflow) switch (op) {
        case ShapeOp::Add:
          overflow = __builtin_add_overflow(a, b, &a);
          break;
        case ShapeOp::Sub:
          overflow = __builtin_sub_overflow(a, b, &a);
          break;
        case ShapeOp::Mul:
          overflow = __builtin_mul_overflow(a, b, &a);
          break;
        case ShapeOp::FloorDiv:
          a = floor_div(a, b);
          break;
        case ShapeOp::FloorMod:
          a -= floor_div(a, b) * b;
          break;
        case ShapeOp::CeilDiv:
          a = floor_div(a, b) + (a % b != 0);
          break;
        case ShapeOp::Min:
          a = std::min(a, b);
          break;
        case ShapeOp::Max:
          a = std::max(a, b);
          break;
        default:
          need(m, s, false, "unknown operation in compute_shape");
      }
    if (overflow) m.fail_at(s, "T0512", "a shape does not fit in 64 bits", "check the shapes of the inputs");
  }
  need(m, s, height == 1, "compute_shape leaves more than one value");
  m.heap_slot(s, m.int_arg(s, 0)) = stack[0];
}

void make_shape(Machine& m, const Step& s) {
  m.dims_arg(s, 0, m.dims);
  set_shape(m, s, m.dims);
}
void shape_of(Machine& m, const Step& s) { set_shape(m, s, m.tensor_arg(s, 0).shape()); }

void tensor_to_shape(Machine& m, const Step& s) {
  NDArray made;
  const NDArrayObj& a = m.tensor_ref(s, 0, made);
  if (a.shape.size() != 1 || !a.dtype.is_integer() || a.shape[0] > 64)
    m.fail_at(s, "T0501",
              joined({"a shape must be a list of integers, not a ", to_string(a.dtype), " tensor of shape ",
                      shape_text(a.shape)}));
  m.dims.resize(size_t(a.shape[0]));
  for (size_t i = 0; i < m.dims.size(); ++i) m.dims[i] = whole_number(a, int64_t(i));
  set_shape(m, s, m.dims);
}

void shape_to_tensor(Machine& m, const Step& s) {
  NDArray made;
  const std::span<const int64_t> dims = shape_ref(m, s, 0, made);
  const int64_t n = int64_t(dims.size());
  NDArray a = m.pool.mut()->tensor({&n, 1}, i64);
  std::copy(dims.begin(), dims.end(), a.as_ptr<int64_t>());
  m.set_result(s, Any(a));
}

void shape_dim(Machine& m, const Step& s) {
  need(m, s, s.num_args == 2, "shape_dim takes two arguments");
  NDArray made;
  const std::span<const int64_t> dims = shape_ref(m, s, 0, made);
  const int64_t i = m.int_arg(s, 1);
  if (i < 0 || i >= int64_t(dims.size()))
    m.fail_at(s, "T0501", joined({"shape ", shape_text(dims), " has no dimension ", std::to_string(i)}));
  m.set_result(s, Any(dims[size_t(i)]));
}

void alloc_tensor(Machine& m, const Step& s) {
  need(m, s, s.num_args >= 1, "alloc_tensor needs a data type");
  const DataType dtype = dtype_of_word(m.int_arg(s, 0));
  m.dims_arg(s, 1, m.dims);
  if (s.output >= 0 && m.depth == 0) return m.set_result(s, Any(m.output_tensor(s, m.dims, dtype)));
  // What the register holds is dead: mostly a tensor of an earlier step.
  if (s.dst >= 0 && m.pool.mut()->renew(m.frame().registers[size_t(s.dst)], m.dims, dtype)) return;
  m.set_result(s, Any(m.pool.mut()->tensor(m.dims, dtype)));
}

void arena_tensor(Machine& m, const Step& s) {
  need(m, s, s.num_args >= 2 && s.args[0].kind() == ArgKind::Arena, "arena_tensor needs a slot of the arena");
  const DataType dtype = dtype_of_word(m.int_arg(s, 1));
  m.dims_arg(s, 2, m.dims);
  const ArenaTensor& slot = m.artifact.executable().arena_tensors[size_t(s.args[0].value())];
  const size_t bytes = storage_bytes(element_count(m.dims), dtype),
               most = storage_bytes(element_count(slot.shape), slot.dtype);
  if (bytes > most)
    m.fail_at(s, "T0517",
              joined({"a tensor of shape ", shape_text(m.dims), " needs ", std::to_string(bytes),
                      " bytes where the plan has ", std::to_string(most)}),
              "a size is above the bound that the model was compiled with");
  Frame& f = m.frame();
  m.set_result(s, Any(NDArray::view(f.arena + slot.offset, m.dims, dtype,
                                    f.own_arena.get() ? Any(f.own_arena) : Any(m.arena))));
}

void copy_into(Machine& m, const Step& s) {
  need(m, s, s.num_args % 2 == 0, "copy_into takes pairs");
  uint32_t n = 0;
  for (uint32_t i = 0; i < s.num_args; i += 2) {
    const std::span<char> to = m.bytes_arg(s, i), from = m.bytes_arg(s, i + 1);
    need(m, s, to.size() == from.size(), "copy_into of different sizes");
    if (to.data() == from.data()) continue;
    m.buffers[2 * n] = to.data(), m.buffers[2 * n + 1] = from.data();
    m.scalars[n++] = int64_t(to.size());
  }
  // All at once: what is written first must not be what is read later.
  std::vector<Any> kept;
  for (uint32_t i = 1; i < n; ++i)
    for (uint32_t k = 0; k < i; ++k) {
      const char *from = static_cast<const char*>(m.buffers[2 * i + 1]),
                 *to = static_cast<const char*>(m.buffers[2 * k]);
      if (from >= to + m.scalars[k] || to >= from + m.scalars[i]) continue;
      const NDArray copy = m.pool.mut()->tensor({&m.scalars[i], 1}, u8);
      std::memcpy(copy.data(), from, size_t(m.scalars[i]));
      m.buffers[2 * i + 1] = copy.data();
      kept.push_back(Any(copy));
      break;
    }
  for (uint32_t i = 0; i < n; ++i) std::memmove(m.buffers[2 * i], m.buffers[2 * i + 1], size_t(m.scalars[i]));
}

void reshape(Machine& m, const Step& s) {
  NDArray a = m.tensor_arg(s, 0);
  std::vector<int64_t> dims;
  m.dims_arg(s, 1, dims);
  if (dims.size() == 1 && dims[0] == -1) dims[0] = a.size();  // one dimension of all
  m.set_result(s, Any(a.reshape(std::move(dims))));
}

void copy(Machine& m, const Step& s) {
  NDArray a = m.tensor_arg(s, 0), out = m.pool.mut()->tensor(a.shape(), a.dtype());
  std::memcpy(out.data(), a.data(), a.byte_size());
  m.set_result(s, Any(out));
}

void tuple(Machine& m, const Step& s) {
  auto items = make<ArrayObj>();
  items.mut()->items.reserve(s.num_args);
  for (uint32_t i = 0; i < s.num_args; ++i) items.mut()->items.push_back(m.any_arg(s, i));
  m.set_result(s, Any(items));
}

void tuple_get(Machine& m, const Step& s) {
  need(m, s, s.num_args == 2, "tuple_get takes two arguments");
  auto t = m.any_arg(s, 0).try_as<Ref<ArrayObj>>();
  const int64_t i = m.int_arg(s, 1);
  need(m, s, t && *t && i >= 0 && i < int64_t((*t)->items.size()), "tuple_get outside a tuple");
  m.set_result(s, (*t)->items[size_t(i)]);
}

void move(Machine& m, const Step& s) {
  if (s.num_args < 2 || s.args[0].kind() != ArgKind::Register || s.dst < 0)
    return m.set_result(s, m.any_arg(s, 0));
  Any &from = m.frame().registers[size_t(s.args[0].value())], &to = m.frame().registers[size_t(s.dst)];
  std::swap(from, to);
  if (!m.pool.mut()->is_spare(from)) from = Any();
}

void make_closure(Machine& m, const Step& s) {
  auto closure = make<ClosureObj>();
  const int64_t function = m.int_arg(s, 0);
  need(m, s, function >= 0 && function < int64_t(m.artifact.executable().functions.size()),
       "a closure of a function out of range");
  m.pool.mut()->charge(*closure.mut(), s.num_args - 1);
  closure.mut()->function = int32_t(function);
  closure.mut()->captured.reserve(s.num_args - 1);
  for (uint32_t i = 1; i < s.num_args; ++i) closure.mut()->captured.push_back(m.any_arg(s, i));
  m.set_result(s, Any(std::move(closure)));
}

void make_data(Machine& m, const Step& s) {
  auto data = make<DataObj>();
  m.pool.mut()->charge(*data.mut(), s.num_args - 1);
  data.mut()->tag = m.int_arg(s, 0);
  data.mut()->items.reserve(s.num_args - 1);
  for (uint32_t i = 1; i < s.num_args; ++i) data.mut()->items.push_back(m.any_arg(s, i));
  m.set_result(s, Any(std::move(data)));
}
/// Borrowed from the register that holds it; the value must be of the type.
template <class T>
const T* object_arg(Machine& m, const Step& s, uint32_t i, const char* what) {
  if (i < s.num_args && s.args[i].kind() == ArgKind::Register) {
    const Any& v = m.frame().registers[size_t(s.args[i].value())];
    if (v.is_object() && is_type_index<T>(v.tag())) return static_cast<const T*>(v.object());
  }
  m.wrong_argument(s, i, what, m.any_arg(s, i));
}
void data_is(Machine& m, const Step& s) {
  const auto* data = object_arg<DataObj>(m, s, 0, "a value of a data type");
  m.set_result(s, Any(int64_t(data->tag == m.int_arg(s, 1))));
}
void data_field(Machine& m, const Step& s) {
  const auto* data = object_arg<DataObj>(m, s, 0, "a value of a data type");
  const int64_t i = m.int_arg(s, 1);
  if (i < 0 || i >= int64_t(data->items.size()))
    m.fail_at(s, "T0511",
              joined({"a value of ", std::to_string(data->items.size()), " parts has no part ",
                      std::to_string(i)}));
  Any item = data->items[size_t(i)];  // the result may take the register of the data
  m.set_result(s, std::move(item));
}
void no_case(Machine& m, const Step& s) { m.fail_at(s, "T0519", "no case of a match takes the value"); }

void ref_create(Machine& m, const Step& s) {
  RefCell cell = m.cells.create(m.any_arg(s, 0));
  m.pool.mut()->charge(*cell.mut(), 1);
  m.set_result(s, Any(std::move(cell)));
}
void ref_read(Machine& m, const Step& s) {
  Any value = object_arg<RefCellObj>(m, s, 0, "a reference")->value;
  m.set_result(s, std::move(value));
}
void ref_write(Machine& m, const Step& s) {
  const auto* cell = object_arg<RefCellObj>(m, s, 0, "a reference");
  const_cast<RefCellObj*>(cell)->value = m.any_arg(s, 1);
  if (s.dst >= 0) m.set_result(s, Any(make<ArrayObj>()));
}

void scalar(Machine& m, const Step& s) {
  NDArray made;
  const NDArrayObj& a = m.tensor_ref(s, 0, made);
  if (element_count(a.shape) != 1)
    m.fail_at(s, "T0501", joined({"a tensor of shape ", shape_text(a.shape), " is used as one number"}));
  m.set_result(s,
               a.dtype.is_float() ? Any(NDArray(Ref<NDArrayObj>(&a)).element(0)) : Any(whole_number(a, 0)));
}

void to_tensor(Machine& m, const Step& s) {
  need(m, s, s.num_args == 2, "to_tensor takes two arguments");
  const Any v = m.any_arg(s, 0);
  NDArray a = m.pool.mut()->tensor({}, dtype_of_word(m.int_arg(s, 1)));
  if (auto i = v.try_as<int64_t>())
    a.set_element_int(0, *i);
  else if (auto d = v.try_as<double>())
    a.set_element(0, *d);
  else
    need(m, s, false, "to_tensor takes a number");
  m.set_result(s, Any(a));
}

void text(Machine& m, const Step& s) {
  const NDArray bytes = m.tensor_arg(s, 0);
  m.set_result(s, Any(std::string(bytes.as_ptr<char>(), size_t(bytes.byte_size()))));
}

void none(Machine& m, const Step& s) { m.set_result(s, Any()); }

using enum BuiltinInfo::Effect;
constexpr BuiltinInfo table[] = {{match_shape, OfShapes, 1},
                                 {check_tensor, Views, 1},
                                 {compute_shape, OfShapes, 0},
                                 {make_shape, MakesShape, 0},
                                 {shape_of, MakesShape},
                                 {tensor_to_shape, ReadsShape},
                                 {shape_to_tensor},
                                 {shape_dim},
                                 {alloc_tensor, Allocates, 1},
                                 {arena_tensor, Allocates, 2},
                                 {copy_into},
                                 {reshape, Views, 1},
                                 {copy},
                                 {tuple, OfShapes},
                                 {tuple_get},
                                 {scalar, ReadsNumber},
                                 {to_tensor},
                                 {text},
                                 {none, OfShapes},
                                 {move, Views},
                                 {make_closure},
                                 {make_data},
                                 {data_is},
                                 {data_field},
                                 {no_case},
                                 {ref_create},
                                 {ref_read},
                                 {ref_write}};
static_assert(std::size(table) == std::size(builtin_names));

}  // namespace

const BuiltinInfo* find_builtin(std::string_view name) {
  const std::optional<Builtin> found = builtin_of(name);
  return found ? &table[size_t(*found)] : nullptr;
}

bool is_allocation(const Step& step) { return step.builtin == alloc_tensor; }
bool is_tuple(const Step& step) { return step.builtin == tuple; }

}  // namespace tenon
