// SPDX-License-Identifier: Apache-2.0
// libtenon_kernel_call: what a kernel gives a packed function, as values of the runtime, and back.
#include "runtime/kernel_calls.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "runtime/dlpack.h"
#include "runtime/libraries/register.h"
#include "runtime/library.h"
#include "runtime/ndarray.h"
#include "runtime/vm.h"

namespace tenon {
namespace {

constexpr int kReads = 1, kWrites = 2;

/// The words of one line after another.
class Words {
 public:
  explicit Words(const char* text) : rest_(text) {}
  bool next_line(std::string_view& line) {
    if (rest_.empty()) return false;
    const size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == rest_.npos ? rest_.size() : end + 1);
    return true;
  }
  static std::string_view word(std::string_view& line) {
    const size_t end = line.find(' ');
    const std::string_view out = line.substr(0, end);
    line.remove_prefix(end == line.npos ? line.size() : end + 1);
    return out;
  }
  static int number(std::string_view& line) {
    const std::string_view w = word(line);
    int out = 0;
    std::from_chars(w.data(), w.data() + w.size(), out);
    return out;
  }

 private:
  std::string_view rest_;
};

/// A tensor in the kernel's memory, and what the function is given of it: that memory where its elements lie
/// side by side, else a copy.
struct Part {
  NDArray given;
  char* memory = nullptr;
  std::vector<int64_t> shape, strides;
  int access = kReads | kWrites;
  bool copied = false;

  bool side_by_side() const {
    int64_t step = 1;
    for (size_t i = shape.size(); i-- > 0; step *= shape[i])
      if (shape[i] != 1 && strides[i] != step) return false;
    return true;
  }
  /// Element by element in row-major order: between the kernel's memory and the copy.
  void move(bool into_copy) const {
    const size_t bytes = size_t(given.dtype().bytes());
    char* at = static_cast<char*>(given.data());
    std::vector<int64_t> index(shape.size(), 0);
    for (int64_t k = given.size(); k > 0; --k, at += bytes) {
      int64_t offset = 0;
      for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
      char* const element = memory + offset * int64_t(bytes);
      std::memcpy(into_copy ? at : element, into_copy ? element : at, bytes);
      for (size_t i = index.size(); i-- > 0;) {
        if (++index[i] < shape[i]) break;
        index[i] = 0;
      }
    }
  }
};

Part part_of(std::string_view line, const int64_t*& values) {
  DataType type;
  parse_dtype(Words::word(line), &type);
  Part p;
  const size_t rank = size_t(Words::number(line));
  p.access = Words::number(line);
  p.memory = reinterpret_cast<char*>(*values++);
  p.shape.assign(values, values + rank);
  p.strides.assign(values + rank, values + 2 * rank);
  values += 2 * rank;
  for (const int64_t d : p.shape)
    if (d < 0) throw Error(ErrorKind::model, "T0525", "a tensor has a size below zero");
  p.copied = element_count(p.shape) != 0 && !p.side_by_side();
  p.given = p.copied ? NDArray::empty(p.shape, type) : NDArray::view(p.memory, p.shape, type);
  if (p.copied) p.move(true);
  if (!(p.access & kWrites)) make_read_only(p.given);
  return p;
}

/// The memory is the kernel's again: what the function kept becomes its own.
void take_back(Part& p) {
  if (p.copied || p.given.use_count() == 1) return;
  const NDArray own = p.given.copy();
  NDArrayObj* kept = p.given.mut();
  kept->data = own.data();
  kept->owner = Any(own);
}

double as_double(int64_t bits) {
  double out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

/// A number, or a tensor of one element.
int64_t result_bits(const Any& given, std::string_view wanted) {
  const bool is_float = wanted == "float";
  Any value = given;
  if (const auto t = given.try_as<NDArray>(); t && *t && t->size() == 1)
    value = t->dtype().is_float() ? Any(t->element(0)) : Any(t->element_int(0));
  if (is_float) {
    if (const auto d = value.try_as<double>()) {
      int64_t bits;
      std::memcpy(&bits, &*d, sizeof bits);
      return bits;
    }
  } else if (const auto i = value.try_as<int64_t>()) {
    return *i;
  }
  throw Error(
      ErrorKind::model, "T0525",
      "it gives " + given.kind_name() + " where the kernel uses a value of type " + std::string(wanted));
}

void call(const Function& function, Words& words, int64_t* values) {
  std::string_view result, line;
  words.next_line(result);
  std::vector<Any> args;
  std::vector<Part> parts;
  const int64_t* next = values;
  while (words.next_line(line)) {
    const std::string_view kind = Words::word(line);
    if (kind == "tensor") {
      parts.push_back(part_of(line, next));
      args.emplace_back(parts.back().given);
      continue;
    }
    const int64_t bits = *next++;
    if (kind == "bool") args.emplace_back(bits != 0);
    if (kind == "int") args.emplace_back(bits);
    if (kind == "float") args.emplace_back(as_double(bits));
    if (kind == "text") args.emplace_back(std::string(reinterpret_cast<const char*>(bits)));
    if (kind == "pointer") args.emplace_back(reinterpret_cast<void*>(bits));
  }
  auto finish = [&](bool done) {
    args.clear();
    for (Part& p : parts) {
      if (done && p.copied && (p.access & kWrites)) p.move(false);
      take_back(p);
    }
  };
  Any given;
  try {
    given = function.call_packed(args);
  } catch (...) {
    finish(false);
    throw;
  }
  finish(true);
  if (result != "none") values[0] = result_bits(given, result);
}

int32_t call_packed(const TenonKernelContext* context, const char* text, int64_t* values) {
  auto* calls = static_cast<KernelCalls*>(context->calls);
  if (!calls) return kCallFailed;
  Words words(text);
  std::string_view name;
  words.next_line(name);
  auto failed = [&](ErrorKind kind, const std::string& why) {
    calls->failure = std::make_unique<Error>(
        kind, "T0525",
        "the packed function `" + std::string(name) + "`, which the kernel calls, failed: " + why);
    return kCallFailed;
  };
  try {
    const auto it = std::ranges::find(*calls->functions, name, &KernelCalls::Named::name);
    if (it == calls->functions->end())
      return failed(ErrorKind::model, "it was not there when the model was loaded");
    call(it->function, words, values);
    return 0;
  } catch (const Error& e) {
    return failed(e.kind, e.message + (e.code.empty() || e.code == "T0525" ? "" : " [" + e.code + "]"));
  } catch (const std::exception& e) {
    return failed(ErrorKind::model, e.what());
  } catch (...) {
    return failed(ErrorKind::model, "it threw something that is no error");
  }
}

/// The lines of metadata that begins so, and the kernel that each is of.
template <class F>
void for_each_named(const Executable& e, std::string_view prefix, F f) {
  for (const auto& [key, value] : e.metadata) {
    if (!key.starts_with(prefix)) continue;
    Words lines(value.c_str());
    std::string_view name;
    while (lines.next_line(name)) f(std::string(name), "kernel `" + key.substr(prefix.size()) + "`");
  }
}

Any bind(Arguments a) {
  const auto& names = *static_cast<const KernelNames*>(a[0].as<void*>());
  for_each_named(*names.executable, kCallsKey, [&](const std::string& name, const std::string& where) {
    Function f = names.options->find_function ? names.options->find_function(name) : Function();
    if (!f) f = find_function(name);
    if (!f)
      throw Error(ErrorKind::model, "T0609", "the function `" + name + "` is not registered in this process",
                  where, "register it before the model is loaded");
    names.functions->push_back({name, std::move(f)});
  });
  return Any(reinterpret_cast<void*>(&call_packed));
}

Any externals(Arguments a) {
  for_each_named(*static_cast<const Executable*>(a[0].as<void*>()), kExternalsKey,
                 [](const std::string& name, const std::string& where) {
                   if (!dlsym(RTLD_DEFAULT, name.c_str()))
                     throw Error(ErrorKind::model, "T0625", "this process has no C function `" + name + "`",
                                 where, "load the library that has it first, with global symbols");
                 });
  return {};
}

Any raise(Arguments a) {
  throw Error(*std::exchange(static_cast<KernelCalls*>(a[0].as<void*>())->failure, nullptr));
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken(kKernelBind, bind, "finds the packed functions that kernels call");
  register_unless_taken(kKernelRaise, raise, "throws what a packed function failed with");
  register_unless_taken(kKernelExternals, externals, "looks for the C functions that kernels call");
  register_unless_taken(
      kKernelCall, [](Arguments) { return Any(reinterpret_cast<void*>(&call_packed)); },
      "how kernels call packed functions");
  return true;
}();

}  // namespace
}  // namespace tenon
