// SPDX-License-Identifier: Apache-2.0
// Session: the checks around a run, and the rule that no result shares storage with anything a later call
// may change.
#include <algorithm>
#include <unordered_set>

#include "runtime/machine.h"
#include "runtime/recorded_run.h"

namespace tenon {
namespace {

/// One run: marks the session as taken, and clears it whatever happens.
struct Run {
  explicit Run(Machine& m) : machine(m) {
    if (m.running.exchange(true, std::memory_order_acquire))
      throw Error(ErrorKind::usage, "T0513", "a session runs one call at a time", {},
                  "make one session for each thread; they share the artifact");
  }
  ~Run() {
    machine.reset();
    machine.flat.clear();
    machine.running.store(false, std::memory_order_release);
  }
  Machine& machine;
};

bool overlap(const NDArray& a, const NDArray& b) {
  const char *x = a.as_ptr<char>(), *y = b.as_ptr<char>();
  return x < y + b.byte_size() && y < x + a.byte_size();
}

[[gnu::cold]] std::string input_name(const ValueInfo& info, size_t i) {
  return joined(
      {"input ", std::to_string(i), info.name.empty() ? "" : " `", info.name, info.name.empty() ? "" : "`"});
}

[[noreturn, gnu::cold]] void input_error(const char* code, const ValueInfo& info, size_t i,
                                         const std::string& what, std::string hint = {}) {
  throw Error(ErrorKind::usage, code, joined({input_name(info, i), " ", what}), {}, std::move(hint));
}

/// Nothing that check_memory refuses, and found without the tensor's name, which costs more than the check.
bool in_order(const NDArray& a) {
  return a.get() && a.get()->device.kind == 1 && a.data() && reinterpret_cast<uintptr_t>(a.data()) % 8 == 0;
}

[[gnu::cold]] void check_memory(const NDArray& a, const std::string& name) {
  if (!a.get())
    throw Error(ErrorKind::usage, "T0506", joined({name, " is not set"}), {}, "give every input a tensor");
  if (a.get()->device.kind != 1)
    throw Error(ErrorKind::usage, "T0506", joined({name, " is not in CPU memory"}), {},
                "copy it to the CPU first");
  if (!a.data() && a.size() != 0)
    throw Error(ErrorKind::usage, "T0506", joined({name, " has no data: its pointer is null"}));
  const size_t align = size_t(std::clamp(a.dtype().bytes(), 1, 8));
  if (reinterpret_cast<uintptr_t>(a.data()) % align != 0)
    throw Error(ErrorKind::usage, "T0506",
                joined({name, " is not aligned to its elements of ", std::to_string(align), " bytes"}), {},
                "copy it to aligned memory");
}

}  // namespace

void Machine::check_inputs(std::span<const NDArray> inputs) {
  const VMFunction& f = artifact.main();
  if (int64_t(inputs.size()) != f.num_params) {
    std::string names;
    for (const ValueInfo& p : f.params) names = joined({names, names.empty() ? "" : ", ", p.name});
    throw Error(ErrorKind::usage, "T0502",
                joined({"the model takes ", std::to_string(f.num_params), " inputs, ",
                        std::to_string(inputs.size()), " were given"}),
                {}, joined({names.empty() ? "" : "the inputs are: ", names}));
  }
  static const ValueInfo unnamed;
  std::fill(symbol_values.begin(), symbol_values.end(), -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NDArray& a = inputs[i];
    const ValueInfo& info = i < f.params.size() ? f.params[i] : unnamed;
    if (!in_order(a)) check_memory(a, input_name(info, i));
    if (i >= f.params.size()) continue;
    if (!info.dtype.is_void() && a.dtype() != info.dtype)
      input_error("T0504", info, i,
                  joined({"wants type ", to_string(info.dtype), ", ", to_string(a.dtype()), " was given"}));
    if (!info.known_rank) continue;
    const std::vector<int64_t>& shape = a.shape();
    bool ok = shape.size() == info.shape.size();
    for (size_t d = 0; ok && d < shape.size(); ++d) {
      if (shape[d] < 0)
        input_error("T0505", info, i, joined({"has a negative dimension: ", shape_text(shape)}));
      const int32_t symbol = program->symbol_of[i][d];
      if (symbol < 0) {
        ok = info.shape[d].value < 0 || info.shape[d].value == shape[d];
        continue;
      }
      int64_t& value = symbol_values[size_t(symbol)];
      if (value < 0) value = shape[d];
      if (value != shape[d])
        input_error("T0505", info, i,
                    joined({"has shape ", shape_text(shape), ": dimension `", info.shape[d].symbol, "` is ",
                            std::to_string(shape[d]), " here and ", std::to_string(value), " before"}),
                    "one name stands for one size in all inputs");
      if (const int64_t most = program->symbol_bounds[size_t(symbol)]; most >= 0 && value > most)
        input_error(
            "T0505", info, i,
            joined({"has shape ", shape_text(shape), ": dimension `", info.shape[d].symbol, "` is ",
                    std::to_string(value), ", the model was compiled for at most ", std::to_string(most)}),
            "use smaller inputs, or compile with a larger bound");
    }
    if (!ok)
      input_error("T0505", info, i,
                  joined({"wants shape ", shape_text(info.shape), ", ", shape_text(shape), " was given"}));
  }
}

NDArray Machine::own_tensor(Any value) {
  const auto* first = static_cast<const NDArrayObj*>(value.object());
  // Ours alone from the handle down to storage that was allocated for it: nobody else can see it.
  bool unique = false;
  for (const NDArrayObj* o = first; o->ref_count.load(std::memory_order_acquire) == 1;) {
    const Any& owner = o->owner;
    if (owner.is_object() && is_type_index<NDArrayObj>(owner.tag())) {
      o = static_cast<const NDArrayObj*>(owner.object());
      continue;
    }
    unique = bool(o->release);
    break;
  }
  NDArray a = value.as<NDArray>();
  if (unique) return a;
  NDArray fresh = pool.mut()->tensor(a.shape(), a.dtype());
  if (const size_t bytes = a.byte_size()) std::memcpy(fresh.data(), a.data(), bytes);
  return fresh;
}

Any Machine::own(Any value, const Frame* only, int nesting) {
  if (nesting > 100)
    throw Error(ErrorKind::limit, "T0508", "a result is a tuple nested deeper than 100 levels");
  if (!value.is_object()) return value;
  if (is_type_index<NDArrayObj>(value.tag())) {
    if (only && !in_arena(*only, static_cast<const NDArrayObj*>(value.object())->data)) return value;
    return Any(own_tensor(std::move(value)));
  }
  if (auto tuple = value.try_as<Ref<ArrayObj>>()) {
    value = Any();
    ArrayObj* items = tuple->edit();
    for (Any& item : items->items) item = own(std::move(item), only, nesting + 1);
    return Any(*tuple);
  }
  return value;
}

namespace {
/// The values that a container holds; null for anything else.
std::vector<Any>* items_of(const Object* o) {
  auto* object = const_cast<Object*>(o);
  if (is_type_index<ArrayObj>(o->type_index)) return &static_cast<ArrayObj*>(object)->items;
  if (is_type_index<DataObj>(o->type_index)) return &static_cast<DataObj*>(object)->items;
  if (is_type_index<ClosureObj>(o->type_index)) return &static_cast<ClosureObj*>(object)->captured;
  return nullptr;
}
}  // namespace

[[gnu::cold]] void Machine::own_inside(const Any& value, std::span<const Any> arguments) {
  auto is_plain = [](const Any& v) {
    return !v.is_object() || is_type_index<NDArrayObj>(v.tag()) || is_type_index<ArrayObj>(v.tag());
  };
  if (is_plain(value) && !is_type_index<ArrayObj>(value.is_object() ? value.tag() : 0)) return;
  // What the caller passed in stays the caller's.
  std::unordered_set<const Object*> seen;
  std::vector<const Object*> stack;
  auto push = [&](const Any& v) {
    if (v.is_object() && v.object() && !is_type_index<NDArrayObj>(v.tag()) && seen.insert(v.object()).second)
      stack.push_back(v.object());
  };
  for (const bool given : {true, false}) {
    if (given)
      for (const Any& a : arguments) push(a);
    else
      push(value);
    while (!stack.empty()) {
      const Object* o = stack.back();
      stack.pop_back();
      std::vector<Any>* items = items_of(o);
      std::span<Any> all;
      if (items)
        all = *items;
      else if (is_type_index<RefCellObj>(o->type_index))
        all = std::span(&static_cast<RefCellObj*>(const_cast<Object*>(o))->value, 1);
      for (Any& v : all) {
        if (!given && v.is_object() && is_type_index<NDArrayObj>(v.tag()))
          v = Any(own_tensor(std::move(v)));
        else
          push(v);
      }
    }
  }
}

void Machine::flatten(Any result, int nesting) {
  if (nesting > 100)
    throw Error(ErrorKind::limit, "T0508", "the result is a tuple nested deeper than 100 levels");
  auto tuple = result.is_object() ? result.try_as<Ref<ArrayObj>>() : std::nullopt;
  if (!tuple) return flat.push_back(std::move(result));
  result = Any();
  const bool unique = tuple->use_count() == 1;
  for (Any& item : tuple->mut()->items) flatten(unique ? std::move(item) : item, nesting + 1);
}

NDArray Machine::output_tensor(const Step& s, std::span<const int64_t> shape, DataType dtype) {
  const size_t k = size_t(s.output);
  if (s.output >= 0 && k < given.size() && usable[k] && !handed[k] && given[k].dtype() == dtype &&
      std::ranges::equal(given[k].shape(), shape)) {
    handed[k] = 1;
    return given[k];
  }
  return pool.mut()->tensor(shape, dtype);
}

void Machine::run_main(std::span<const NDArray> inputs, std::span<NDArray> outputs) {
  check_inputs(inputs);
  ensure_arena();
  given = outputs;
  handed.assign(outputs.size(), 0);
  usable.assign(outputs.size(), 0);
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].get()) continue;
    if (!in_order(outputs[k]))
      check_memory(outputs[k], joined({"the buffer for output ", std::to_string(k)}));
    bool free = true;
    for (const NDArray& in : inputs) free = free && !overlap(in, outputs[k]);
    for (size_t other = 0; other < k; ++other)
      free = free && !(outputs[other].get() && overlap(outputs[other], outputs[k]));
    usable[k] = free;
  }
  flat.clear();
  if (recorder && !profile && !instrument && recorder->run(*this, inputs)) return;
  enter(program->main, {}, -1);
  for (size_t i = 0; i < inputs.size(); ++i) frame().registers[i] = Any(inputs[i]);
  flatten(execute());
}

void Machine::store_outputs(std::span<NDArray> outputs) {
  const std::vector<ValueInfo>& infos = artifact.main().results;
  if (flat.size() != outputs.size())
    throw Error(ErrorKind::usage, "T0502",
                joined({"the model has ", std::to_string(flat.size()), " outputs, ",
                        std::to_string(outputs.size()), " buffers were given"}));
  for (size_t k = 0; k < outputs.size(); ++k) {
    Any& value = flat[k];
    if (auto shape = value.try_as<Shape>(); shape && *shape) {
      const int64_t n = int64_t((*shape)->dims.size());
      NDArray a = pool.mut()->tensor({&n, 1}, i64);
      std::copy((*shape)->dims.begin(), (*shape)->dims.end(), a.as_ptr<int64_t>());
      value = Any(std::move(a));
    } else if (value.tag() == kInt || value.tag() == kBool || value.tag() == kFloat) {
      NDArray a = pool.mut()->tensor({}, value.tag() == kInt ? i64 : value.tag() == kBool ? boolean : f64);
      if (value.tag() == kFloat)
        a.set_element(0, value.as<double>());
      else
        a.set_element_int(0, value.as<int64_t>());
      value = Any(std::move(a));
    }
    auto label = [&] {
      const std::string_view name = k < infos.size() ? std::string_view(infos[k].name) : "",
                             quote = name.empty() ? "" : "`";
      return joined({"output ", std::to_string(k), name.empty() ? "" : " ", quote, name, quote});
    };
    if (!value.is_object() || !is_type_index<NDArrayObj>(value.tag()))
      throw Error(ErrorKind::model, "T0518", joined({label(), " is not a tensor but ", value.kind_name()}));
    NDArray& out = outputs[k];
    if (!out.get()) {
      out = own_tensor(std::move(value));
      continue;
    }
    const auto* result = static_cast<const NDArrayObj*>(value.object());
    if (result == out.get()) continue;
    if (result->dtype != out.dtype() || result->shape != out.shape())
      throw Error(
          ErrorKind::usage, "T0505",
          joined({label(), " is ", to_string(result->dtype), " ", shape_text(result->shape),
                  ", the buffer given for it is ", to_string(out.dtype()), " ", shape_text(out.shape())}));
    if (const size_t bytes = out.byte_size()) std::memmove(out.data(), result->data, bytes);
  }
}

[[gnu::cold]] Session::Session(Artifact artifact, SessionOptions options) {
  CHECK(artifact.get() != nullptr, "a session without an artifact");
  machine_ = std::make_unique<Machine>(std::move(artifact), options);
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::vector<NDArray> Session::invoke(std::span<const NDArray> inputs) {
  Run run(*machine_);
  machine_->run_main(inputs, {});
  std::vector<NDArray> outputs(machine_->flat.size());
  machine_->store_outputs(outputs);
  return outputs;
}

void Session::invoke_into(std::span<const NDArray> inputs, std::span<NDArray> outputs) {
  Run run(*machine_);
  machine_->run_main(inputs, outputs);
  machine_->store_outputs(outputs);
}

[[gnu::cold]] std::vector<NDArray> Session::invoke_named(
    std::span<const std::pair<std::string, NDArray>> inputs) {
  const auto params = machine_->artifact.inputs();
  std::vector<NDArray> ordered(params.size());
  for (const auto& [name, value] : inputs) {
    auto it = std::ranges::find(params, name, &ValueInfo::name);
    std::string names;
    for (const ValueInfo& p : params) names = joined({names, names.empty() ? "" : ", ", p.name});
    if (const std::string* bound = machine_->artifact.metadata(joined({"bound_input.", name})))
      throw Error(ErrorKind::usage, "T0522",
                  joined({"the input `", name, "` is given, and was bound to ", *bound,
                          " when the model was compiled"}),
                  {}, "leave it out, or compile the model without binding it");
    if (it == params.end())
      throw Error(ErrorKind::usage, "T0503", joined({"the model has no input `", name, "`"}), {},
                  joined({"the inputs are: ", names}));
    NDArray& slot = ordered[size_t(it - params.begin())];
    if (slot.get()) throw Error(ErrorKind::usage, "T0503", joined({"the input `", name, "` is given twice"}));
    slot = value;
  }
  return invoke(ordered);
}

[[gnu::cold]] Any Session::call(std::string_view function, Arguments arguments) {
  const Executable& e = machine_->artifact.executable();
  auto it = std::ranges::find(e.functions, function, &VMFunction::name);
  if (it == e.functions.end())
    throw Error(ErrorKind::usage, "T0503", joined({"the model has no function `", function, "`"}));
  return call(int32_t(it - e.functions.begin()), arguments);
}

[[gnu::cold]] Any Session::call(int32_t function, Arguments arguments) {
  const Executable& e = machine_->artifact.executable();
  CHECK(function >= 0 && size_t(function) < e.functions.size(), "a call of a function out of range");
  const VMFunction& f = e.functions[size_t(function)];
  if (int64_t(arguments.size()) != f.num_params)
    throw Error(ErrorKind::usage, "T0502",
                joined({"function `", f.name, "` takes ", std::to_string(f.num_params), " arguments, ",
                        std::to_string(arguments.size()), " were given"}));
  // What the types of the parameters say is checked here; what they do not say, by the function itself.
  for (size_t i = 0; i < f.params.size(); ++i) {
    const ValueInfo& info = f.params[i];
    if (info.dtype.is_void() && !info.known_rank) continue;
    const auto a = arguments[i].try_as<NDArray>();
    const std::string name = joined({"argument ", std::to_string(i), " of `", f.name, "`"});
    if (!a || !a->get())
      throw Error(ErrorKind::usage, "T0506",
                  joined({name, " must be a tensor, not ", arguments[i].kind_name()}));
    check_memory(*a, name);
    bool fits = info.dtype.is_void() || a->dtype() == info.dtype;
    fits = fits && (!info.known_rank || a->shape().size() == info.shape.size());
    for (size_t d = 0; fits && info.known_rank && d < info.shape.size(); ++d)
      fits = info.shape[d].value < 0 ? a->shape()[d] >= 0 : info.shape[d].value == a->shape()[d];
    if (!fits)
      throw Error(ErrorKind::usage, a->dtype() == info.dtype ? "T0505" : "T0504",
                  joined({name, " must be ", to_string(info.dtype), " ", shape_text(info.shape), ", not ",
                          to_string(a->dtype()), " ", shape_text(a->shape())}));
  }
  Run run(*machine_);
  machine_->ensure_arena();
  machine_->enter(function, arguments, -1);
  Any result = machine_->own(machine_->execute());
  machine_->own_inside(result, std::span<const Any>(arguments.begin(), arguments.size()));
  machine_->cells.clear(std::span<const Any>(&result, 1));
  return result;
}

void Session::set_threads(int threads) { machine_->context.set_threads(threads); }
int Session::threads() const { return machine_->context.threads(); }
void Session::set_memory_limit(int64_t bytes) { machine_->pool.mut()->set_limit(bytes); }
int64_t Session::memory_used() const { return machine_->pool->used(); }
void Session::set_profile(ProfileHook hook) {
  machine_->profile = nullptr;
  if (hook) machine_->profile = [hook](const ProfileEvent& e) { hook(e.callee, e.ms); };
}
void Session::set_instruction_profile(std::function<void(const ProfileEvent&)> hook) {
  machine_->profile = std::move(hook);
}
void Session::set_task_profile(TaskHook hook) { machine_->context.set_task_hook(std::move(hook)); }
void Session::set_instrument(InstrumentHook hook) { machine_->instrument = std::move(hook); }
void Session::cancel() { machine_->context.cancel(); }
const Artifact& Session::artifact() const { return machine_->artifact; }

}  // namespace tenon
