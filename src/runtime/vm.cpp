// SPDX-License-Identifier: Apache-2.0
// The register machine: running the steps of a program (decode.cpp).
#include "runtime/vm.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "runtime/library.h"
#include "runtime/machine.h"
#include "runtime/recorded_run.h"

namespace tenon {
namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string shape_text(std::span<const DimInfo> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + (shape[i].symbol.empty()
                                   ? shape[i].value < 0 ? "any" : std::to_string(shape[i].value)
                                   : shape[i].symbol);
  return text + "]";
}

[[gnu::cold]] Machine::Machine(Artifact a, const SessionOptions& options)
    : artifact(std::move(a)),
      program(artifact->program.get()),
      context(options.pool ? *options.pool : ThreadPool::process(), options.threads),
      pool(make<MemoryPoolObj>()),
      max_depth(std::max(1, options.max_depth)),
      max_tail_calls(std::max<int64_t>(1, options.max_tail_calls)) {
  pool.mut()->set_limit(options.memory_limit);
  const Executable& e = artifact.executable();
  arena_bytes = e.arena_bytes;
  active.assign(e.functions.size(), 0);
  buffers.resize(program->max_args + 1);
  scalars.resize(program->max_args + 1);
  arena_views.resize(e.arena_tensors.size());
  symbol_values.resize(program->symbols.size());
  if (program->packed_call) {
    kernel_calls.functions = &program->kernel_calls;
    context.set_calls(program->packed_call, &kernel_calls);
  }
  // What a recording holds between runs would count against no limit.
  if (options.memory_limit == 0) recorder = std::make_unique<RunRecorder>();
}
Machine::~Machine() = default;

[[noreturn]] void Machine::fail_at(const Step& step, const char* code, std::string message,
                                   std::string hint) {
  std::string where = depth >= 0 ? joined({"function `", frame().function->name, "`"}) : std::string();
  if (step.callee) where = joined({where, ", call of `", step.callee->name, "`"});
  throw Error(ErrorKind::model, code, std::move(message), std::move(where), std::move(hint));
}

void Machine::wrong_argument(const Step& step, uint32_t i, const char* wanted, const Any& given) {
  fail_at(step, "T0511",
          joined({"argument ", std::to_string(i), " must be ", wanted, ", not ", given.kind_name()}));
}

void Machine::make_arena() {
  pool.mut()->reserve(arena_bytes);
  try {
    constexpr int64_t huge = int64_t(2) << 20;
    if (arena_bytes >= 4 * huge) {
      const size_t size = size_t((arena_bytes + huge - 1) / huge * huge);
      void* memory = std::aligned_alloc(size_t(huge), size);
      if (!memory)
        throw Error(ErrorKind::limit, "T0401",
                    joined({"no memory for the arena of ", std::to_string(arena_bytes), " bytes"}));
      madvise(memory, size, MADV_HUGEPAGE);  // an advice: works without
      arena = NDArray::view(memory, {arena_bytes}, u8);
      arena.mut()->release = [memory] { std::free(memory); };
    } else {
      arena = NDArray::empty({arena_bytes}, u8);
    }
    arena.mut()->owner = Any(pool);  // what is copied from there finds the account
  } catch (...) {
    pool.mut()->reserve(-arena_bytes);
    throw;
  }
}

std::span<char> Machine::bytes_arg(const Step& step, uint32_t i) {
  if (i < step.num_args && step.args[i].kind() == ArgKind::Arena) {
    const ArenaTensor& t = artifact.executable().arena_tensors[size_t(step.args[i].value())];
    return {frame().arena + t.offset, storage_bytes(element_count(t.shape), t.dtype)};
  }
  NDArray made;
  const NDArrayObj& a = tensor_ref(step, i, made);
  return {static_cast<char*>(a.data), storage_bytes(element_count(a.shape), a.dtype)};
}

NDArray Machine::arena_view(int64_t index) {
  const ArenaTensor& t = artifact.executable().arena_tensors[size_t(index)];
  Frame& f = frame();
  if (f.own_arena.get()) return NDArray::view(f.arena + t.offset, t.shape, t.dtype, Any(f.own_arena));
  NDArray& view = arena_views[size_t(index)];
  if (!view.get()) view = NDArray::view(f.arena + t.offset, t.shape, t.dtype, Any(arena));
  return view;
}

int64_t Machine::int_of_any(const Step& step, uint32_t i) {
  const Any v = any_arg(step, i);
  if (auto n = v.try_as<int64_t>()) return *n;
  if (auto t = v.try_as<NDArray>(); t && t->get() && t->size() == 1 && !t->dtype().is_float())
    return t->element_int(0);
  wrong_argument(step, i, "an integer", v);
}

Any Machine::any_arg(const Step& step, uint32_t i) {
  if (i >= step.num_args) fail_at(step, "T0511", "an argument is missing");
  const Arg a = step.args[i];
  switch (a.kind()) {
    case ArgKind::Register:
      return frame().registers[size_t(a.value())];
    case ArgKind::Constant:
      return Any(artifact.executable().constants[size_t(a.value())]);
    case ArgKind::Immediate:
      return Any(a.value());
    case ArgKind::Arena:
      return Any(arena_view(a.value()));
    case ArgKind::Heap:
      return Any(frame().heap[size_t(a.value())]);
  }
  return {};
}

NDArray Machine::tensor_arg(const Step& step, uint32_t i) {
  const Any v = any_arg(step, i);
  auto t = v.try_as<NDArray>();
  if (!t || !t->get()) wrong_argument(step, i, "a tensor", v);
  return *std::move(t);
}

const NDArrayObj& Machine::tensor_ref(const Step& step, uint32_t i, NDArray& made) {
  if (i < step.num_args && step.args[i].kind() == ArgKind::Register)
    if (const Any& v = frame().registers[size_t(step.args[i].value())];
        v.is_object() && is_type_index<NDArrayObj>(v.tag()))
      return *static_cast<const NDArrayObj*>(v.object());
  const bool arena = i < step.num_args && step.args[i].kind() == ArgKind::Arena;
  made = arena ? arena_view(step.args[i].value()) : tensor_arg(step, i);
  return *made.get();
}

void Machine::dims_arg(const Step& step, uint32_t first, std::vector<int64_t>& out) {
  if (step.num_args == first + 1 && step.args[first].kind() == ArgKind::Register)
    if (auto shape = frame().registers[size_t(step.args[first].value())].try_as<Shape>(); shape && *shape) {
      out = (*shape)->dims;
      return;
    }
  out.resize(step.num_args - std::min(first, step.num_args));
  const std::vector<int64_t>& heap = frame().heap;
  for (size_t i = 0; i < out.size(); ++i) {
    const Arg a = step.args[first + i];
    out[i] = a.kind() == ArgKind::Immediate ? a.value()
             : a.kind() == ArgKind::Heap    ? heap[size_t(a.value())]
                                            : int_of_any(step, first + uint32_t(i));
  }
}

namespace {
[[noreturn, gnu::cold]] void too_deep(const VMFunction& f, const char* what, int64_t limit,
                                      const char* hint) {
  throw Error(ErrorKind::limit, "T0508", joined({"more than ", std::to_string(limit), " ", what}),
              joined({"function `", f.name, "`"}), joined({"the model recurses without end", hint}));
}
}  // namespace

void Machine::enter(int32_t function, Arguments arguments, int32_t return_to) {
  const VMFunction& f = artifact.executable().functions[size_t(function)];
  if (depth + 1 >= max_depth) too_deep(f, "nested calls", max_depth, ", or the limit is too low");
  if (size_t(depth + 1) == frames.size()) frames.push_back(std::make_unique<Frame>());
  Frame& frame = *frames[size_t(depth + 1)];
  frame.return_to = return_to;
  frame.tail_calls = 0;
  start(frame, function, arguments);
  ++depth;
}

void Machine::start(Frame& frame, int32_t function, Arguments arguments) {
  const VMFunction& f = artifact.executable().functions[size_t(function)];
  frame.registers.resize(size_t(f.num_registers));
  for (size_t i = 0; i < arguments.size(); ++i) frame.registers[i] = arguments[i];
  frame.heap.assign(size_t(f.heap_size), 0);
  frame.function = &f;
  frame.arena = nullptr;
  if (arena_bytes && program->uses_arena[size_t(function)]) {
    if (active[size_t(function)] > 0) {
      frame.own_arena = pool.mut()->tensor({&arena_bytes, 1}, u8);
      frame.arena = frame.own_arena.as_ptr<char>();
    } else {
      frame.arena = arena.as_ptr<char>();
    }
  }
  frame.pc = program->steps.data() + f.first_instruction;
  ++active[size_t(function)];
}

int32_t Machine::gather_call(const Step& step) {
  call_args.clear();
  int32_t function = step.function;
  uint32_t first = 0;
  if (function < 0) {
    const Any value = any_arg(step, 0);
    const auto closure = value.try_as<Closure>();
    if (!closure || !*closure) fail_at(step, "T0511", joined({"a ", value.kind_name(), " is called"}));
    function = (*closure)->function;
    call_args = (*closure)->captured;
    first = 1;
  }
  for (uint32_t i = first; i < step.num_args; ++i) call_args.push_back(any_arg(step, i));
  const VMFunction& f = artifact.executable().functions[size_t(function)];
  if (int64_t(call_args.size()) != f.num_params)
    fail_at(step, "T0502",
            joined({"function `", f.name, "` takes ", std::to_string(f.num_params), " arguments, ",
                    std::to_string(call_args.size()), " were given"}));
  return function;
}

/// Takes the returned value out of the running frame and clears that frame.
Any Machine::leave_frame(Any value) {
  Frame& f = frame();
  // The next run of `main` takes small tensors from the registers, without asking the pool.
  for (Any& r : f.registers)
    if (depth > 0 || !pool.mut()->is_spare(r)) r = Any();
  --active[size_t(f.function - artifact.executable().functions.data())];
  --depth;
  if (depth >= 0 && f.arena) {
    // The callee's arena tensors are overwritten by the next call of it.
    value = own(std::move(value), &f);
  }
  f.own_arena = NDArray();
  return value;
}

void Machine::kernel_failed(const Step& step, int32_t code) {
  if (code == -2 || context.cancelled()) {
    context.clear_cancel();
    throw Error(ErrorKind::interrupted, "T0510", "the call was cancelled");
  }
  const std::string where = joined({"kernel `", step.callee->name, "`"});
  if (code == -1)
    throw Error(ErrorKind::limit, "T0401", "no memory for the scratch space of a kernel", where,
                "use smaller inputs or fewer threads");
  if (code == kCallFailed && kernel_calls.failure) {
    kernel_calls.failure->location = where;
    find_function(kKernelRaise)(Any(static_cast<void*>(&kernel_calls)));
  }
  std::string message = joined({"assertion ", std::to_string(code), " of the kernel failed"});
  if (const std::string* all = artifact.metadata(joined({"asserts.", step.callee->name}))) {
    std::string_view rest = *all;
    for (int32_t k = 1; k < code && !rest.empty(); ++k) {
      const size_t end = rest.find('\n');
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    }
    if (code >= 1 && !rest.empty()) message = joined({message, ": ", rest.substr(0, rest.find('\n'))});
  }
  throw Error(ErrorKind::model, "T0509", message, where, "check the values and shapes of the inputs");
}

void Machine::call_kernel(const Step& step) {
  static const uint32_t ndarray_index = type_info<NDArrayObj>()->index;
  Frame& f = frame();
  for (uint32_t i = 0; i < step.num_buffers; ++i) {
    const Arg a = step.args[i];
    const int64_t v = a.value();
    switch (a.kind()) {
      case ArgKind::Register: {
        const Any& r = f.registers[size_t(v)];
        if (r.tag() != ndarray_index) wrong_argument(step, i, "a tensor", r);
        buffers[i] = static_cast<const NDArrayObj*>(r.object())->data;
        break;
      }
      case ArgKind::Constant:
        buffers[i] = program->constant_data[size_t(v)];
        break;
      case ArgKind::Arena:
        buffers[i] = f.arena + artifact.executable().arena_tensors[size_t(v)].offset;
        break;
      default:
        buffers[i] = &f.heap[size_t(v)];
        break;
    }
  }
  for (uint32_t i = step.num_buffers; i < step.num_args; ++i) {
    const Arg a = step.args[i];
    int64_t& out = scalars[i - step.num_buffers];
    if (a.kind() == ArgKind::Immediate) {
      out = a.value();
    } else if (a.kind() == ArgKind::Heap) {
      out = f.heap[size_t(a.value())];
    } else {
      Any r = f.registers[size_t(a.value())];
      if (auto t = r.try_as<NDArray>(); t && t->get() && t->size() == 1)
        r = t->dtype().is_float() ? Any(t->element(0)) : Any(t->element_int(0));
      if (r.tag() == kFloat) {
        const double d = r.as<double>();
        std::memcpy(&out, &d, sizeof d);
      } else if (auto n = r.try_as<int64_t>()) {
        out = *n;
      } else {
        wrong_argument(step, i, "a number", r);
      }
    }
  }
  run_kernel(step, step.kernel, buffers.data(), scalars.data());
}

void Machine::call_packed(const Step& step) {
  std::vector<Any> args(step.num_args);
  for (uint32_t i = 0; i < step.num_args; ++i) args[i] = any_arg(step, i);
  set_result(step, step.packed->call(args));
}

bool Machine::condition(const Step& step) {
  const Any v = any_arg(step, 0);
  if (auto n = v.try_as<int64_t>()) return *n != 0;
  if (auto t = v.try_as<NDArray>(); t && t->get() && t->size() == 1) return t->element(0) != 0;
  fail_at(step, "T0511", joined({"a condition must be one number, not ", v.kind_name()}));
}

void Machine::call_watched(const Step& step) {
  const Frame& f = frame();
  std::vector<Any> args;
  for (uint32_t i = 0; instrument && i < step.num_args; ++i) args.push_back(any_arg(step, i));
  const bool left_out = instrument && instrument(step.callee->name, true, Any(), args);
  const double start = now_ms();
  if (!left_out) call(step);
  if (profile)
    profile({f.function->name, step.callee->name,
             (&step - program->steps.data()) - int64_t(f.function->first_instruction), now_ms() - start,
             start});
  if (instrument && !left_out)
    instrument(step.callee->name, false, step.dst >= 0 ? f.registers[size_t(step.dst)] : Any(), args);
}

/// Runs until the frame at the bottom returns.
Any Machine::execute() {
  const int bottom = depth;
  for (;;) {
    Frame& f = frame();
    const Step& step = *f.pc;
    switch (step.kind) {
      case Step::Kernel:
      case Step::Builtin:
      case Step::Packed: {
        if (profile || instrument) [[unlikely]]
          call_watched(step);
        else
          call(step);
        ++f.pc;
        break;
      }
      case Step::Call: {
        if (context.cancelled()) kernel_failed(step, -2);
        const int32_t function = gather_call(step);
        ++f.pc;
        enter(function, call_args, step.dst);
        call_args.clear();
        break;
      }
      case Step::TailCall: {
        if (context.cancelled()) kernel_failed(step, -2);
        const int32_t function = gather_call(step);
        if (++f.tail_calls > max_tail_calls)
          too_deep(*f.function, "calls in a row that never return", max_tail_calls, "");
        --active[size_t(f.function - artifact.executable().functions.data())];
        for (Any& r : f.registers) r = Any();
        start(f, function, call_args);
        call_args.clear();
        break;
      }
      case Step::Ret: {
        const int32_t to = f.return_to;
        const bool last = depth == bottom;
        Any value = std::move(f.registers[size_t(step.dst)]);
        value = leave_frame(std::move(value));
        if (last) return value;
        if (to >= 0) frame().registers[size_t(to)] = std::move(value);
        break;
      }
      case Step::Goto:
        if (step.offset <= 0 && context.cancelled()) kernel_failed(step, -2);
        f.pc += step.offset;
        break;
      case Step::If:
        f.pc += condition(step) ? 1 : step.offset;
        break;
    }
  }
}

void Machine::reset() noexcept {
  for (; depth >= 0; --depth) {
    Frame& f = frame();
    for (Any& r : f.registers) r = Any();
    f.own_arena = NDArray();
  }
  std::fill(active.begin(), active.end(), 0);
  call_args.clear();
  cells.clear();
  context.workspace().rollback({});
  given = {};
}

}  // namespace tenon
