// SPDX-License-Identifier: Apache-2.0
#include "runtime/recorded_run.h"

#include <algorithm>
#include <cstdlib>

namespace tenon {
namespace {

/// What a recording costs (fresh pages for all intermediate tensors) is worth so many replays.
constexpr int64_t kWorthIt = 32;

/// So many steps are followed.
constexpr size_t kLongest = 100000;

/// Bytes that the first steps of a run may leave, which stay while the others take their own. Writing more
/// takes so long that what the steps themselves cost is lost in it.
constexpr size_t kMostLeft = size_t(4) << 20;

/// What a register holds, or a tensor of the arena.
enum class Held : uint8_t { Varying, Number, Shape, Unwritten, Arena, Fixed };

/// Follows `main` step by step: is what a step does the same for all inputs of equal shapes?
class Follower {
 public:
  Follower(const Executable& e, const VMFunction& f, std::vector<PathStep>& path)
      : e_(e), path_(path), registers_(size_t(f.num_registers)) {}

  bool step(const Step& s) {
    if (++steps_ > kLongest) return false;
    if (s.kind == Step::Goto) return true;
    if (s.kind == Step::If) return is_fixed(s.args[0]);
    path_.push_back({&s});
    return s.kind == Step::Kernel ? kernel(s) : s.kind == Step::Builtin && builtin(s);
  }

 private:
  struct Register {
    Held held = Held::Varying;
    size_t made = 0;  ///< the step of the path that filled it
  };
  struct Range {
    int64_t begin, end;
  };

  Range range_of(Arg a) const {
    const ArenaTensor& t = e_.arena_tensors[size_t(a.value())];
    return {t.offset, t.offset + int64_t(storage_bytes(element_count(t.shape), t.dtype))};
  }

  Held of(Arg a) const {
    if (a.kind() == ArgKind::Register) return registers_[size_t(a.value())].held;
    if (a.kind() == ArgKind::Constant) return Held::Fixed;
    if (a.kind() != ArgKind::Arena) return Held::Number;
    const Range r = range_of(a);
    auto covers = [&](const Range& f) { return f.begin <= r.begin && r.end <= f.end; };
    return std::ranges::any_of(fixed_, covers) ? Held::Fixed : Held::Arena;
  }
  bool is_fixed(Arg a) const { return of(a) == Held::Fixed || of(a) == Held::Number; }

  /// What the metadata "PREFIX.KERNEL" says; null without it.
  const char* said_of(const Step& s, std::string_view prefix) const {
    for (const auto& [key, value] : e_.metadata)
      if (key.starts_with(prefix) && key.c_str() + prefix.size() == std::string_view(s.callee->name))
        return value.c_str();
    return nullptr;
  }
  uint32_t num_outputs(const Step& s) const {
    const char* said = said_of(s, "outputs.");
    return said ? uint32_t(std::strtoul(said, nullptr, 10)) : 1;
  }

  /// The kernel writes tensors that nobody has written, or into the arena. What it writes is fixed where all
  /// that it reads is, and stays where the memory is its own.
  bool kernel(const Step& s) {
    const uint32_t inputs = s.num_buffers - std::min(s.num_buffers, num_outputs(s));
    // What it calls may have effects, or give something else each time.
    bool fixed = !said_of(s, "calls.") && !said_of(s, "externals."), own = true;
    for (uint32_t i = 0; i < s.num_args; ++i) {
      const Held held = of(s.args[i]);
      if (i < s.num_buffers ? held == Held::Number : held != Held::Number) return false;
      if (i < inputs) fixed = fixed && held == Held::Fixed;
      if (i < inputs || i >= s.num_buffers) continue;
      const bool arena = s.args[i].kind() == ArgKind::Arena || held == Held::Arena;
      if (!arena && held != Held::Unwritten) return false;
      own = own && !arena;
    }
    path_.back().fixed = fixed && own;
    for (uint32_t i = inputs; i < s.num_buffers; ++i) {
      const Arg a = s.args[i];
      if (a.kind() == ArgKind::Arena) {
        const Range r = range_of(a);
        std::erase_if(fixed_, [&](const Range& f) { return f.begin < r.end && r.begin < f.end; });
        if (fixed) fixed_.push_back(r);
      } else if (of(a) == Held::Arena) {
        fixed_.clear();
      } else {
        Register& output = registers_[size_t(a.value())];
        output.held = fixed ? Held::Fixed : Held::Varying;
        path_[output.made].fixed = fixed && own;
      }
    }
    return true;
  }

  bool builtin(const Step& s) {
    const BuiltinInfo& info = *find_builtin(s.callee->name);
    for (uint32_t i = uint32_t(info.dims); info.dims >= 0 && i < s.num_args; ++i)
      if (of(s.args[i]) != Held::Number && of(s.args[i]) != Held::Shape) return false;
    Held result = Held::Varying;
    const Held first = s.num_args ? of(s.args[0]) : Held::Varying;
    switch (info.effect) {
      case BuiltinInfo::OfElements:
        return false;
      case BuiltinInfo::OfShapes:
        break;
      case BuiltinInfo::MakesShape:
        result = Held::Shape;
        break;
      case BuiltinInfo::Allocates:
        result = is_allocation(s) ? Held::Unwritten : Held::Arena;
        break;
      case BuiltinInfo::Views:
        result = s.args[0].kind() == ArgKind::Arena ? Held::Arena : first;
        if (result == Held::Unwritten) return false;
        break;
      case BuiltinInfo::ReadsShape:
      case BuiltinInfo::ReadsNumber:
        result = info.effect == BuiltinInfo::ReadsShape ? Held::Shape : Held::Number;
        if (first != Held::Fixed) return false;
        break;
    }
    if (s.dst >= 0) registers_[size_t(s.dst)] = {result, path_.size() - 1};
    return true;
  }

  const Executable& e_;
  size_t steps_ = 0;
  std::vector<PathStep>& path_;
  std::vector<Register> registers_;
  std::vector<Range> fixed_;  ///< of the arena: bytes that are now the same for all inputs of equal shapes
};

/// Where the tensor of an allocation reaches the result, which the last step returns.
void mark_fresh(std::vector<PathStep>& path, int32_t num_registers) {
  std::vector<uint8_t> reaches(size_t(num_registers), 0);
  reaches[size_t(path.back().step->dst)] = 1;
  for (size_t k = path.size() - 1; k-- > 0;) {
    const Step& s = *path[k].step;
    if (s.kind != Step::Builtin || s.dst < 0 || !std::exchange(reaches[size_t(s.dst)], 0)) continue;
    path[k].fresh = is_allocation(s);
    for (uint32_t i = 0; i < s.num_args && !path[k].fresh; ++i)
      if (s.args[i].kind() == ArgKind::Register) reaches[size_t(s.args[i].value())] = 1;
  }
}

/// For each register of `main`: does a step read it from `next` on, or from where one of these jumps back to?
[[gnu::cold]] std::vector<uint8_t> read_behind(const Machine& m, const Step* next) {
  const VMFunction& f = m.artifact.main();
  const Step* end = m.program->steps.data() + f.first_instruction + f.num_instructions;
  for (bool back = true; std::exchange(back, false);)
    for (const Step* s = next; s < end; ++s)
      if ((s->kind == Step::Goto || s->kind == Step::If) && s + s->offset < next)
        next = s + s->offset, back = true;
  std::vector<uint8_t> out(size_t(f.num_registers), 0);
  for (const Step* s = next; s < end; ++s) {
    if (s->kind == Step::Ret) out[size_t(s->dst)] = 1;
    for (uint32_t i = 0; i < s->num_args; ++i)
      if (s->args[i].kind() == ArgKind::Register) out[size_t(s->args[i].value())] = 1;
  }
  return out;
}

/// Leaves the steps that a recording of a part of `main` can have: what a result may lie in is allocated by
/// the rest, and what the rest overwrites is computed anew. Are they more than what it is handed over?
[[gnu::cold]] bool cut_beginning(const Machine& m, std::vector<PathStep>& path) {
  for (size_t k = 0; k < path.size(); ++k) {
    const Step& s = *path[k].step;
    path[k].fixed = false;
    if (is_tuple(s) || (is_allocation(s) && s.output >= 0)) path.resize(k + 1);
  }
  size_t handed = 0;
  for (const uint8_t read : read_behind(m, path.back().step)) handed += read;
  return path.size() - 1 > handed;
}

void enter_main(Machine& m, std::span<const NDArray> inputs) {
  m.enter(m.program->main, {}, -1);
  for (size_t i = 0; i < inputs.size(); ++i) m.frame().registers[i] = Any(inputs[i]);
}

/// Rank and dimensions of each, one after the other.
template <class Visit>
void each_size(std::span<const NDArray> inputs, Visit visit) {
  for (const NDArray& a : inputs) {
    visit(a.ndim());
    for (const int64_t d : a.shape()) visit(d);
  }
}

}  // namespace

[[gnu::cold]] bool follow_main(Machine& m, std::span<const NDArray> inputs, std::vector<PathStep>& path) {
  enter_main(m, inputs);
  Frame& f = m.frame();
  Follower follower(m.artifact.executable(), *f.function, path);
  while (f.pc->kind != Step::Ret && follower.step(*f.pc)) {
    const Step& s = *f.pc;
    const bool jumps = s.kind == Step::Goto || (s.kind == Step::If && !m.condition(s));
    if (s.kind == Step::Kernel || s.kind == Step::Builtin) m.call(s);
    f.pc += jumps ? s.offset : 1;
  }
  const bool followed = f.pc->kind == Step::Ret;
  if (!followed && !path.empty() && path.back().step == f.pc) path.pop_back();  // it is not done yet
  path.push_back({f.pc});
  if (followed) mark_fresh(path, f.function->num_registers);
  m.flatten(m.execute());
  return followed || cut_beginning(m, path);
}

// ---- RecordedRun

int64_t RecordedRun::source_of(const void* address) const {
  for (size_t k = 0; k < sources_.size(); ++k)
    if (sources_[k].data() == address && sources_[k].byte_size() != 0) return int64_t(k);
  return -1;
}

void RecordedRun::allocate(Machine& m, const PathStep& at) {
  const Step& s = *at.step;
  const DataType dtype = dtype_of_word(m.int_arg(s, 0));
  m.dims_arg(s, 1, m.dims);
  NDArray tensor;
  if (at.fresh) {
    tensor = m.output_tensor(s, m.dims, dtype);
    fresh_.push_back({&s, 0, 0, Any(NDArray::view(nullptr, m.dims, dtype))});
    sources_.push_back(tensor);
  } else {
    m.set_result(s, Any());  // its place can be taken
    const size_t bytes =
        std::max<size_t>(64, (storage_bytes(element_count(m.dims), dtype) + 63) & ~size_t(63));
    if (void* place = at.fixed ? nullptr : region_->allocate(bytes)) {
      tensor = NDArray::view(place, m.dims, dtype);
      tensor.mut()->release = [region = region_, place, bytes] { region->release(place, bytes); };
    } else {
      blocks_.push_back(tensor = NDArray::empty(m.dims, dtype));
    }
  }
  m.set_result(s, Any(std::move(tensor)));
}

void RecordedRun::write_down(Machine& m, const PathStep& at) {
  const Step& s = *at.step;
  bool stays = at.fixed;
  for (uint32_t i = 0; stays && i < s.num_buffers; ++i) stays = source_of(m.buffers[i]) < 0;
  if (stays) return;
  calls_.push_back({s.kernel, &s, buffers_.size(), scalars_.size()});
  for (uint32_t i = 0; i < s.num_buffers; ++i) {
    if (const int64_t source = source_of(m.buffers[i]); source >= 0) {
      patches_.push_back(int64_t(buffers_.size()));
      patches_.push_back(source);
    }
    buffers_.push_back(m.buffers[i]);
  }
  scalars_.insert(scalars_.end(), m.scalars.begin(), m.scalars.begin() + (s.num_args - s.num_buffers));
}

[[gnu::cold]] std::unique_ptr<RecordedRun> RecordedRun::record(Machine& m, std::span<const NDArray> inputs,
                                                               std::span<const PathStep> path) {
  auto run = std::make_unique<RecordedRun>();
  bool told_apart = true;
  for (const NDArray& a : inputs) {
    told_apart = told_apart && run->source_of(a.data()) < 0;
    run->sources_.push_back(a);
  }
  enter_main(m, inputs);
  for (const PathStep& at : path.first(path.size() - 1)) {
    if (is_allocation(*at.step)) {
      run->allocate(m, at);
    } else {
      m.call(*at.step);
      if (at.step->kind == Step::Kernel) run->write_down(m, at);
    }
  }
  const Step* last = path.back().step;
  Frame& f = m.frame();
  if (last->kind == Step::Ret) {
    Any value = std::move(f.registers[size_t(last->dst)]);
    m.flatten(m.leave_frame(std::move(value)));
    for (const Any& result : m.flat) told_apart = told_apart && run->leave(result, 0);
  } else {
    const std::vector<uint8_t> read = read_behind(m, last);
    for (size_t place = 0; place < read.size(); ++place)
      told_apart = told_apart && (!read[place] || run->leave(f.registers[place], place));
    told_apart = told_apart && run->blocks_.empty() && run->region_->usable() <= kMostLeft;
    run->heap_ = f.heap;
    run->next_ = last;
    run->go_on(m);
  }
  run->sources_.clear();
  return told_apart ? std::move(run) : nullptr;
}

/// What a result or a register is in later runs; false for a value that is not known.
[[gnu::cold]] bool RecordedRun::leave(const Any& value, size_t place) {
  left_.push_back({nullptr, place, -1, value});
  Left& left = left_.back();
  const auto tensor = value.try_as<NDArray>();
  if (!tensor || !tensor->get()) return !value.is_object() || is_type_index<ShapeObj>(value.tag());
  left.source = source_of(tensor->data());
  if (left.source >= 0 || tensor->byte_size() == 0)  // which may be the caller's, too
    left.value = Any(NDArray::view(nullptr, tensor->shape(), tensor->dtype()));
  return true;
}

Any RecordedRun::value_of(const Left& left) const {
  if (left.source < 0) return left.value;
  const NDArray& a = sources_[size_t(left.source)];
  const auto& shape = static_cast<const NDArrayObj*>(left.value.object())->shape;
  return Any(a.shape() == shape ? a : a.reshape(shape));
}

void RecordedRun::replay(Machine& m, std::span<const NDArray> inputs) {
  struct Clear {  // a kernel that fails leaves the caller's tensors alone, too
    ~Clear() { sources.clear(); }
    std::vector<NDArray>& sources;
  } clear{sources_};
  sources_.assign(inputs.begin(), inputs.end());
  for (const Left& fresh : fresh_) {
    const auto* sizes = static_cast<const NDArrayObj*>(fresh.value.object());
    sources_.push_back(m.output_tensor(*fresh.step, sizes->shape, sizes->dtype));
  }
  for (size_t k = 0; k < patches_.size(); k += 2)
    buffers_[size_t(patches_[k])] = sources_[size_t(patches_[k + 1])].data();
  for (const Call& c : calls_)
    m.run_kernel(*c.step, c.kernel, buffers_.data() + c.buffer, scalars_.data() + c.scalar);
  if (next_) m.enter(m.program->main, {}, -1);
  for (const Left& left : left_)
    if (next_)
      m.frame().registers[left.place] = value_of(left);
    else
      m.flat.push_back(value_of(left));
  if (next_) go_on(m);
}

void RecordedRun::go_on(Machine& m) {
  std::ranges::copy(heap_, m.frame().heap.begin());
  m.frame().pc = next_;
  m.flatten(m.execute());
}

// ---- RunRecorder

[[gnu::cold]] void RunRecorder::forget() {
  if (replays_ < kWorthIt && wanted_ < (int64_t(1) << 40)) wanted_ *= 2;
  recorded_.reset();
  replays_ = 0;
}

bool RunRecorder::run(Machine& m, std::span<const NDArray> inputs) {
  if (never_) return false;
  bool same = true;
  size_t k = 0;
  each_size(inputs, [&](int64_t d) { same = same && k < sizes_.size() && sizes_[k] == d, ++k; });
  if (!same || k != sizes_.size()) {
    if (recorded_) forget();
    equal_ = 0;
    path_.clear();
    sizes_.clear();
    each_size(inputs, [&](int64_t d) { sizes_.push_back(d); });
  }
  if (recorded_) {
    ++replays_;
    recorded_->replay(m, inputs);
    return true;
  }
  if (equal_++ < wanted_) return false;
  if (path_.empty()) {
    std::vector<PathStep> path;
    never_ = !follow_main(m, inputs, path);
    path_ = std::move(path);
  } else {
    m.pool.mut()->trim();
    recorded_ = RecordedRun::record(m, inputs, path_);
    never_ = !recorded_;
  }
  return true;
}

}  // namespace tenon
