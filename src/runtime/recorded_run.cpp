// SPDX-License-Identifier: Apache-2.0
#include "runtime/recorded_run.h"

#include <algorithm>
#include <cstdlib>

namespace tenon {
namespace {

/// What a recording costs (fresh pages for all intermediate tensors) is worth so many replays.
constexpr int64_t kWorthIt = 32;

/// What a register holds while `main` is read from its begin to its end.
enum class Held : uint8_t { Varying, Shape, Unwritten, Arena, Fixed };

/// Reads `main` as the VM runs it: what does each step depend on?
struct Line {
  Line(const Executable& executable, const VMFunction& f)
      : e(executable), held(size_t(f.num_registers), Held::Varying), allocation(held.size()) {}

  /// Held by an argument that is a tensor, or holds one.
  Held of(Arg a) const {
    return a.kind() == ArgKind::Register   ? held[size_t(a.value())]
           : a.kind() == ArgKind::Constant ? Held::Fixed
                                           : Held::Arena;
  }

  uint32_t num_outputs(const Step& s) const {
    for (const auto& [key, value] : e.metadata)
      if (key == "outputs." + s.callee->name) return uint32_t(std::strtoul(value.c_str(), nullptr, 10));
    return 1;
  }

  /// Each tensor is written once, by a kernel that is fixed where all that it reads is.
  bool kernel(Step& s) {
    const uint32_t inputs = s.num_buffers - std::min(s.num_buffers, num_outputs(s));
    s.fixed = true;
    for (uint32_t i = 0; i < s.num_args; ++i) {
      const ArgKind kind = s.args[i].kind();
      if (i < s.num_buffers ? kind == ArgKind::Heap : kind == ArgKind::Register) return false;
      if (i >= s.num_buffers) continue;
      const Held argument = of(s.args[i]);
      if (i >= inputs && argument != Held::Unwritten && argument != Held::Arena) return false;
      s.fixed = s.fixed && argument == (i < inputs ? Held::Fixed : Held::Unwritten);
    }
    for (uint32_t i = inputs; i < s.num_buffers; ++i) {
      if (of(s.args[i]) == Held::Arena) continue;
      const size_t output = size_t(s.args[i].value());
      held[output] = s.fixed ? Held::Fixed : Held::Varying;
      allocation[output]->fixed = s.fixed;
    }
    return true;
  }

  bool builtin(Step& s) {
    const BuiltinInfo& info = *find_builtin(s.callee->name);
    if (info.effect == BuiltinInfo::OfElements) return false;
    // Numbers come from the program and the shape heap, or are one Shape; never from a tensor's elements.
    for (uint32_t i = uint32_t(info.dims); info.dims >= 0 && i < s.num_args; ++i)
      if (s.args[i].kind() == ArgKind::Register && of(s.args[i]) != Held::Shape) return false;
    Held result = Held::Varying;
    if (info.effect == BuiltinInfo::MakesShape) result = Held::Shape;
    if (info.effect == BuiltinInfo::Allocates) result = is_allocation(s) ? Held::Unwritten : Held::Arena;
    if (info.effect == BuiltinInfo::Views || info.effect == BuiltinInfo::ReadsShape) {
      result = s.num_args > 0 ? of(s.args[0]) : Held::Varying;
      if (result == Held::Unwritten) return false;
      if (info.effect == BuiltinInfo::ReadsShape && std::exchange(result, Held::Shape) != Held::Fixed)
        return false;
    }
    if (s.dst >= 0) held[size_t(s.dst)] = result, allocation[size_t(s.dst)] = &s;
    return true;
  }

  const Executable& e;
  std::vector<Held> held;
  std::vector<Step*> allocation;  ///< of an unwritten tensor
};

bool same_shapes(std::span<const NDArray> inputs, const std::vector<std::vector<int64_t>>& shapes) {
  return std::ranges::equal(inputs, shapes, {}, [](const NDArray& a) -> const auto& { return a.shape(); });
}

}  // namespace

[[gnu::cold]] bool find_straight_line(const Executable& e, Program& program) {
  const VMFunction& f = e.functions[size_t(program.main)];
  const std::span<Step> steps(program.steps.data() + f.first_instruction, f.num_instructions);
  std::vector<uint8_t> reaches(size_t(f.num_registers), 0);
  if (steps.empty() || steps.back().kind != Step::Ret) return false;
  Line line(e, f);
  for (Step& s : steps.first(steps.size() - 1))
    if (s.kind == Step::Kernel ? !line.kernel(s) : s.kind != Step::Builtin || !line.builtin(s)) return false;
  reaches[size_t(steps.back().dst)] = 1;
  for (size_t k = steps.size() - 1; k-- > 0;) {
    Step& s = steps[k];
    if (s.kind != Step::Builtin || s.dst < 0 || !std::exchange(reaches[size_t(s.dst)], 0)) continue;
    s.fresh = is_allocation(s);
    for (uint32_t i = 0; i < s.num_args && !s.fresh; ++i)
      if (s.args[i].kind() == ArgKind::Register) reaches[size_t(s.args[i].value())] = 1;
  }
  return true;
}

// ---- RecordedRun

int64_t RecordedRun::source_of(const void* address) const {
  for (size_t k = 0; k < sources_.size(); ++k)
    if (sources_[k].data() == address && sources_[k].byte_size() != 0) return int64_t(k);
  return -1;
}

void RecordedRun::allocate(Machine& m, const Step& s) {
  const DataType dtype = dtype_of_word(m.int_arg(s, 0));
  m.dims_arg(s, 1, m.dims);
  NDArray tensor;
  if (s.fresh) {
    tensor = m.output_tensor(s, m.dims, dtype);
    fresh_.push_back({&s, m.dims, dtype});
    sources_.push_back(tensor);
  } else {
    m.set_result(s, Any());  // its place can be taken
    const size_t bytes =
        std::max<size_t>(64, (storage_bytes(element_count(m.dims), dtype) + 63) & ~size_t(63));
    if (void* place = s.fixed ? nullptr : region_->allocate(bytes)) {
      tensor = NDArray::view(place, m.dims, dtype);
      tensor.mut()->release = [region = region_, place, bytes] { region->release(place, bytes); };
    } else {
      blocks_.push_back(tensor = NDArray::empty(m.dims, dtype));
    }
  }
  m.set_result(s, Any(std::move(tensor)));
}

bool RecordedRun::stays(const Machine& m, const Step& s) const {
  bool stays = s.fixed;
  for (uint32_t i = 0; stays && i < s.num_buffers; ++i) stays = source_of(m.buffers[i]) < 0;
  return stays;
}

void RecordedRun::write_down(Machine& m, const Step& s) {
  if (stays(m, s)) return;
  calls_.push_back({s.kernel, &s, buffers_.size(), scalars_.size()});
  for (uint32_t i = 0; i < s.num_buffers; ++i) {
    if (const int64_t source = source_of(m.buffers[i]); source >= 0)
      patches_.push_back({buffers_.size(), size_t(source)});
    buffers_.push_back(m.buffers[i]);
  }
  scalars_.insert(scalars_.end(), m.scalars.begin(), m.scalars.begin() + (s.num_args - s.num_buffers));
}

[[gnu::cold]] std::unique_ptr<RecordedRun> RecordedRun::record(Machine& m, std::span<const NDArray> inputs) {
  auto run = std::make_unique<RecordedRun>();
  bool told_apart = true;
  for (const NDArray& a : inputs) {
    told_apart = told_apart && run->source_of(a.data()) < 0;
    run->sources_.push_back(a);
  }
  m.enter(m.program->main, {}, -1);
  for (size_t i = 0; i < inputs.size(); ++i) m.frame().registers[i] = Any(inputs[i]);
  const Step* s = m.frame().pc;
  for (; s->kind != Step::Ret; ++s) {
    if (is_allocation(*s)) {
      run->allocate(m, *s);
    } else {
      m.call(*s);
      if (s->kind == Step::Kernel) run->write_down(m, *s);
    }
  }
  Any value = std::move(m.frame().registers[size_t(s->dst)]);
  m.flatten(m.leave_frame(std::move(value)));
  for (const Any& result : m.flat) {
    const auto tensor = result.try_as<NDArray>();
    if (!told_apart || !tensor || !tensor->get()) return nullptr;
    const int64_t source = run->source_of(tensor->data());
    run->results_.push_back({source, source < 0 ? *tensor : NDArray(), tensor->shape()});
  }
  run->sources_.clear();
  return run;
}

void RecordedRun::replay(Machine& m, std::span<const NDArray> inputs) {
  struct Clear {  // a kernel that fails leaves the caller's tensors alone, too
    ~Clear() { sources.clear(); }
    std::vector<NDArray>& sources;
  } clear{sources_};
  sources_.assign(inputs.begin(), inputs.end());
  for (const Fresh& f : fresh_) sources_.push_back(m.output_tensor(*f.step, f.shape, f.dtype));
  for (const Patch& p : patches_) buffers_[p.buffer] = sources_[p.source].data();
  for (const Call& c : calls_) m.run_kernel(*c.step, buffers_.data() + c.buffer, scalars_.data() + c.scalar);
  for (const Result& r : results_) {
    if (r.source < 0)
      m.flat.push_back(Any(r.value));
    else if (const NDArray& a = sources_[size_t(r.source)]; a.shape() == r.shape)
      m.flat.push_back(Any(a));
    else
      m.flat.push_back(Any(a.reshape(r.shape)));
  }
}

// ---- RunRecorder

[[gnu::cold]] void RunRecorder::forget() {
  if (replays_ < kWorthIt && wanted_ < (int64_t(1) << 40)) wanted_ *= 2;
  recorded_.reset();
  equal_ = replays_ = 0;
}

bool RunRecorder::run(Machine& m, std::span<const NDArray> inputs) {
  if (never_) return false;
  if (!same_shapes(inputs, shapes_)) {
    if (recorded_) forget();
    equal_ = 0;
    shapes_.clear();
    for (const NDArray& a : inputs) shapes_.push_back(a.shape());
  }
  if (recorded_) {
    ++replays_;
    recorded_->replay(m, inputs);
    return true;
  }
  if (equal_++ < wanted_) return false;
  m.pool.mut()->trim();
  recorded_ = RecordedRun::record(m, inputs);
  never_ = !recorded_;
  return true;
}

}  // namespace tenon
