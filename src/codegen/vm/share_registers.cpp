// SPDX-License-Identifier: Apache-2.0
// Values that are never alive together share a register, so that a tensor from the pool goes back as soon as
// a later value takes its register, or is that value's storage where it is of the size. Outside of loops what
// other registers still hold of values that are over goes in front of an allocation of symbolic size.
#include <algorithm>
#include <optional>

#include "codegen/vm/vm_codegen_impl.h"
#include "runtime/memory_pool.h"

namespace tenon {
namespace {

/// What a value is to the one that takes its register.
struct Content {
  const Instruction* allocation = nullptr;  ///< alloc_tensor
  bool number = false;                      ///< no tensor: a number, a shape, or nothing any more
  bool symbolic = false;                    ///< a tensor of symbolic size
  /// Inside a loop only a value of the same content takes its register: a number, or a tensor of known size
  /// that is not worth taking from it.
  bool stays = false;
};

class Sharing {
 public:
  Sharing(Executable& exe, size_t first, int32_t fixed, int32_t registers)
      : exe_(exe), first_(int64_t(first)), fixed_(fixed), used_(fixed), lives_(size_t(registers)) {}

  int32_t run() {
    find_lives();
    std::vector<std::vector<int32_t>> ends(exe_.code.size() - size_t(first_));
    for (size_t r = size_t(fixed_); r < lives_.size(); ++r)
      if (lives_[r].end >= 0) ends[size_t(lives_[r].end - first_)].push_back(int32_t(r));
    for (int64_t i = first_; i < int64_t(exe_.code.size()); ++i) {
      const std::vector<int32_t>& over = ends[size_t(i - first_)];
      Instruction& n = exe_.code[size_t(i)];
      give_up(n, over);
      for (uint32_t k = n.first_arg; k < n.first_arg + n.num_args; ++k)
        if (exe_.args[k].kind() == ArgKind::Register)
          exe_.args[k] = Arg::of(ArgKind::Register, place(exe_.args[k].value(), i));
      if (n.dst >= 0) n.dst = place(n.dst, i);
      for (int32_t r : over) free_.push_back({lives_[size_t(r)].place, lives_[size_t(r)].content});
    }
    insert_drops();
    return used_;
  }

 private:
  struct Life {
    int64_t begin = -1, end = -1;
    int32_t place = -1;
    Content content;
  };
  struct Free {
    int32_t place;
    Content content;
  };

  /// Code runs forward but for the jumps back of loops: an interval in program order covers every path, once
  /// values that a loop reads from outside last to its end.
  void find_lives() {
    auto touch = [&](int64_t r, int64_t at) {
      Life& v = lives_[size_t(r)];
      if (v.begin < 0) v.begin = at;
      v.end = at;
    };
    for (int64_t i = first_; i < int64_t(exe_.code.size()); ++i) {
      const Instruction& n = exe_.code[size_t(i)];
      for (uint32_t k = n.first_arg; k < n.first_arg + n.num_args; ++k)
        if (exe_.args[k].kind() == ArgKind::Register) touch(exe_.args[k].value(), i);
      if (n.dst >= 0) touch(n.dst, i);
      if (n.op == Opcode::Goto && n.offset < 0) loops_.emplace_back(i + n.offset, i);
    }
    // Inner loops end first, so one walk reaches the outermost.
    for (auto& [begin, end] : loops_)
      for (Life& v : lives_)
        if (v.begin >= 0 && v.begin < begin && v.end >= begin) v.end = std::max(v.end, end);
  }

  std::optional<Builtin> called(const Instruction& n) const {
    if (n.op != Opcode::Call || exe_.callees[size_t(n.callee)].kind != CalleeKind::Builtin) return {};
    return builtin_of(exe_.callees[size_t(n.callee)].name);
  }

  /// A move from a register that is over with it: the tensor need not be shared.
  void give_up(Instruction& n, const std::vector<int32_t>& over) {
    if (called(n) != Builtin::move || n.num_args != 1 || n.dst < 0) return;
    const Arg from = exe_.args[n.first_arg];
    if (from.kind() != ArgKind::Register || from.value() == n.dst ||
        std::ranges::find(over, int32_t(from.value())) == over.end())
      return;
    n.first_arg = uint32_t(exe_.args.size());
    n.num_args = 2;
    exe_.args.push_back(from);
    exe_.args.push_back(Arg::of(ArgKind::Immediate, 1));
  }

  Content content_of(const Instruction& n) const {
    const std::optional<Builtin> builtin = called(n);
    if (builtin == Builtin::scalar || builtin == Builtin::make_shape || builtin == Builtin::shape_of ||
        builtin == Builtin::tensor_to_shape || builtin == Builtin::shape_dim)
      return {.number = true, .stays = true};
    if (builtin != Builtin::alloc_tensor || n.num_args == 0) return {};
    const std::span<const Arg> args(exe_.args.data() + n.first_arg, n.num_args);
    std::vector<int64_t> sizes;
    for (const Arg& a : args.subspan(1))
      if (a.kind() == ArgKind::Immediate) sizes.push_back(a.value());
    const bool known = sizes.size() + 1 == args.size() && args[0].kind() == ArgKind::Immediate;
    const bool small = known && storage_bytes(element_count(sizes), dtype_of_word(args[0].value())) <=
                                    MemoryPoolObj::kSmallBytes;
    return {.allocation = &n, .symbolic = !known, .stays = small};
  }

  bool same(const Content& a, const Content& b) const {
    if (a.number || b.number) return a.number && b.number;
    if (!a.allocation || !b.allocation) return false;
    auto args = [&](const Instruction& n) {
      return std::span<const Arg>(exe_.args.data() + n.first_arg, n.num_args);
    };
    return std::ranges::equal(args(*a.allocation), args(*b.allocation), {}, &Arg::word, &Arg::word);
  }

  /// In a loop a register whose tensor serves the next turn, too: one of the same content, and none whose
  /// content stays.
  std::optional<size_t> choose(const Content& content, bool in_loop) const {
    if (!in_loop) return free_.empty() ? std::nullopt : std::optional(free_.size() - 1);
    for (size_t k = free_.size(); k-- > 0;)
      if (same(free_[k].content, content)) return k;
    for (size_t k = free_.size(); k-- > 0 && !content.stays;)
      if (!free_[k].content.stays) return k;
    return std::nullopt;
  }

  int32_t place(int64_t r, int64_t at) {
    if (r < fixed_) return int32_t(r);
    Life& v = lives_[size_t(r)];
    if (v.place >= 0) return v.place;
    const bool in_loop =
        std::ranges::any_of(loops_, [&](const auto& l) { return l.first <= at && at <= l.second; });
    v.content = content_of(exe_.code[size_t(at)]);
    if (const auto k = choose(v.content, in_loop)) {
      v.place = free_[*k].place;
      free_.erase(free_.begin() + int64_t(*k));
    } else {
      v.place = used_++;
    }
    if (v.content.symbolic && !in_loop) drop_held(at);
    return v.place;
  }

  /// What free registers hold goes before the instruction.
  void drop_held(int64_t at) {
    for (Free& f : free_)
      if (!f.content.number) {
        drops_.emplace_back(at, f.place);
        f.content = {.number = true};
      }
  }

  void insert_drops() {
    if (drops_.empty()) return;
    auto nothing = std::ranges::find_if(exe_.callees, [](const Callee& c) {
      return c.kind == CalleeKind::Builtin && c.name == name_of(Builtin::none);
    });
    Instruction drop;
    drop.op = Opcode::Call;
    drop.callee = int32_t(nothing - exe_.callees.begin());
    if (nothing == exe_.callees.end())
      exe_.callees.push_back({CalleeKind::Builtin, std::string(name_of(Builtin::none))});
    const std::vector<Instruction> old(exe_.code.begin() + first_, exe_.code.end());
    exe_.code.resize(size_t(first_));
    std::vector<int64_t> begins, places;  // of each: a jump to it goes to what is dropped before it
    for (size_t i = 0, k = 0; i < old.size(); ++i) {
      begins.push_back(int64_t(exe_.code.size()));
      for (; k < drops_.size() && drops_[k].first == first_ + int64_t(i); ++k) {
        drop.dst = drops_[k].second;
        exe_.code.push_back(drop);
      }
      places.push_back(int64_t(exe_.code.size()));
      exe_.code.push_back(old[i]);
    }
    for (size_t i = 0; i < old.size(); ++i)
      if (old[i].op == Opcode::Goto || old[i].op == Opcode::If)
        exe_.code[size_t(places[i])].offset = int32_t(begins[size_t(int64_t(i) + old[i].offset)] - places[i]);
  }

  Executable& exe_;
  int64_t first_;
  int32_t fixed_, used_;
  std::vector<Life> lives_;
  std::vector<std::pair<int64_t, int64_t>> loops_;  ///< first and last instruction
  std::vector<Free> free_;
  std::vector<std::pair<int64_t, int32_t>> drops_;  ///< in front of which instruction, and which register
};

}  // namespace

int32_t share_registers(Executable& exe, size_t first, int32_t fixed, int32_t registers) {
  return Sharing(exe, first, fixed, registers).run();
}

}  // namespace tenon
