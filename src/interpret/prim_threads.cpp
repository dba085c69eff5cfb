// SPDX-License-Identifier: Apache-2.0
// Meaning of what only the threads of a GPU have: their loops, memory that a block shares, barriers, values
// that they exchange, atomic operations, copies that run beside the program, matrix fragments.
#include "interpret/prim_impl.h"

namespace tenon::prim_interpreter {
namespace {

std::string word(const PrimExpr& e) {
  const auto* s = e.as<tir::StringImm>();
  if (!s) error("T0350", "a word is expected here");
  return s->value;
}

/// What belongs to one thread; the interpreter holds that of the thread that runs.
struct Thread {
  std::unordered_map<const Var*, Lanes> vars;
  std::unordered_map<const Var*, Storage> memory;
};

}  // namespace

Lanes Interpreter::combined(const std::string& op, const Lanes& a, const Lanes& b,
                            const Arithmetic& arithmetic) {
  const DataType t = a.type;
  auto node = [&](uint32_t index) { return arithmetic.binary(index, a, b, t); };
  if (op == "add") return node(PrimExprNodes::index_of<Add>());
  if (op == "mul") return node(PrimExprNodes::index_of<Mul>());
  if (op == "min") return node(PrimExprNodes::index_of<Min>());
  if (op == "max") return node(PrimExprNodes::index_of<Max>());
  Lanes r = a;
  if (op == "and" || op == "bitwise_and")
    r[0].i &= b[0].i;
  else if (op == "or" || op == "bitwise_or")
    r[0].i |= b[0].i;
  else if (op == "xor")
    r[0].i ^= b[0].i;
  else if (op == "exchange")
    r = b;
  else
    error("T0350", fmt::format("there is no operation '{}' over threads", op));
  return r;
}

int64_t Interpreter::element_of(const Storage& s, int64_t k) {
  const int64_t at = s.offset + k;
  if (at < 0 || at >= s.array.size())
    error("T0355", fmt::format("element {} is outside the {} elements behind a pointer", at, s.array.size()));
  return at;
}

Lanes Interpreter::atomic(const tir::Call& n) {
  const Storage s = pointer(n.args[0]);
  const DataType t = n.args[1].dtype();
  const int64_t at = element_of(s, 0);
  const Lanes value = eval(n.args[1]);
  const Lanes last = n.args.size() > 2 ? eval(n.args[2]) : Lanes();
  const Lanes old = read(s.array, at, t);
  if (n.op == "tir.atomic_compare_exchange") {
    const bool same = t.is_float() ? old[0].d == value[0].d : old[0].i == value[0].i;
    if (same) write(s.array, at, last[0], t);
  } else {
    write(s.array, at, combined(n.op.substr(11), old, value, arithmetic_)[0], t);
  }
  return old;
}

void Interpreter::copy_elements(const Storage& to, const Storage& from, int64_t count) {
  for (int64_t k = 0; k < count; ++k)
    write(to.array, element_of(to, k), read(from.array, element_of(from, k), from.array.dtype())[0],
          to.array.dtype());
}

Lanes Interpreter::async(const tir::Call& n) {
  if (n.op == "tir.async_copy") {
    begun_.push_back({pointer(n.args[0]), pointer(n.args[1]), integer(n.args[2])});
  } else if (n.op == "tir.async_commit") {
    groups_.push_back(std::move(begun_));
    begun_.clear();
  } else {
    // Copies happen as late as they may.
    const size_t left = size_t(std::max<int64_t>(0, integer(n.args[0])));
    while (groups_.size() > left) {
      for (const AsyncCopy& c : groups_.front()) copy_elements(c.to, c.from, c.count);
      groups_.erase(groups_.begin());
    }
  }
  return Lanes(n.dtype);
}

/// Every thread of a warp does the same on a copy of its own.
Lanes Interpreter::fragment(const tir::Call& n) {
  auto move = [&](const Storage& frag, int64_t rows, int64_t columns, const Storage& memory, int64_t stride,
                  bool by_column, bool store) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t a = element_of(frag, i * columns + j),
                      b = element_of(memory, by_column ? j * stride + i : i * stride + j);
        if (store)
          write(memory.array, b, read(frag.array, a, frag.array.dtype())[0], memory.array.dtype());
        else
          write(frag.array, a, read(memory.array, b, memory.array.dtype())[0], frag.array.dtype());
      }
  };
  if (n.op == "tir.mma_fill") {
    const Storage f = pointer(n.args[0]);
    const int64_t count = integer(n.args[1]);
    const Lanes v = eval(n.args[2]);
    for (int64_t k = 0; k < count; ++k) write(f.array, element_of(f, k), v[0], f.array.dtype());
  } else if (n.op == "tir.mma_load") {
    move(pointer(n.args[0]), integer(n.args[1]), integer(n.args[2]), pointer(n.args[3]), integer(n.args[4]),
         word(n.args[5]) == "col", false);
  } else if (n.op == "tir.mma_store") {
    move(pointer(n.args[3]), integer(n.args[4]), integer(n.args[5]), pointer(n.args[0]), integer(n.args[1]),
         word(n.args[2]) == "col", true);
  } else {
    const Storage d = pointer(n.args[0]), a = pointer(n.args[1]), b = pointer(n.args[2]),
                  c = pointer(n.args[3]);
    const int64_t rows = integer(n.args[4]), columns = integer(n.args[5]), depth = integer(n.args[6]);
    const DataType t = d.array.dtype();
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        Lanes total = read(c.array, element_of(c, i * columns + j), t);
        for (int64_t k = 0; k < depth; ++k) {
          const Lanes x = arithmetic_.cast(read(a.array, element_of(a, i * depth + k), a.array.dtype()), t),
                      y = arithmetic_.cast(read(b.array, element_of(b, k * columns + j), b.array.dtype()), t);
          total = combined("add", total, combined("mul", x, y, arithmetic_), arithmetic_);
        }
        write(d.array, element_of(d, i * columns + j), total[0], t);
      }
  }
  return Lanes(n.dtype);
}

int64_t Interpreter::thread_number() const {
  int64_t n = 0, step = 1;
  for (size_t d = 0; d < 3; ++d) {
    n += std::max<int64_t>(0, position_.index[d]) * step;
    step *= position_.extent[d];
  }
  return n;
}

/// All threads bring a value, wait, and look at the others'.
Lanes Interpreter::collective(const tir::Call& n) {
  const bool reduces = n.op == "tir.thread_allreduce";
  const Lanes mine = eval(n.args[reduces ? 1 : 0]);
  const int64_t delta = reduces ? 0 : integer(n.args[1]);
  exchange_[thread_number()] = {position_, mine};
  team_.barrier(&n);
  Lanes result = mine;
  if (reduces) {
    bool over[3] = {false, false, false}, first = true;
    for (size_t i = 2; i < n.args.size(); ++i) {
      const std::string tag = word(n.args[i]);
      if (!tag.starts_with("threadIdx.")) error("T0350", fmt::format("'{}' is no axis of threads", tag));
      over[tag.back() - 'x'] = true;
    }
    for (const auto& [number, other] : exchange_) {
      bool peer = true;
      for (size_t d = 0; d < 3; ++d) peer = peer && (over[d] || other.first.index[d] == position_.index[d]);
      if (!peer) continue;
      result = first ? other.second : combined(word(n.args[0]), result, other.second, arithmetic_);
      first = false;
    }
  } else {
    constexpr int64_t warp = 32;
    const int64_t me = thread_number(), lane = me % warp;
    const int64_t from = n.op == "tir.warp_shuffle"        ? delta % warp
                         : n.op == "tir.warp_shuffle_up"   ? lane - delta
                         : n.op == "tir.warp_shuffle_down" ? lane + delta
                                                           : lane ^ delta;
    auto it = exchange_.find(me - lane + from);
    if (from >= 0 && from < warp && it != exchange_.end()) result = it->second.second;
  }
  team_.barrier(&n.args);
  return result;
}

bool Interpreter::waits(const For& n) {
  auto [it, fresh] = waits_.emplace(&n, false);
  bool& found = it->second;
  if (!fresh) return found;
  pre_order(n.body, [&](const ObjectRef& x) {
    const auto* c = x.as<tir::Call>();
    if (const Intrinsic* i = c ? find_intrinsic(c->op) : nullptr)
      found = found || group_of(*i) == IntrinsicGroup::sync;
    return !found && !x.is<BufferNode>();
  });
  return found;
}

void Interpreter::threads(const For& n) {
  const size_t d = size_t(n.thread_tag.back() - 'x');
  if (d > 2) error("T0350", fmt::format("there is no thread axis '{}'", n.thread_tag));
  const int64_t first = integer(n.min), extent = integer(n.extent);
  auto body = [&](int64_t k) {
    vars_[n.loop_var.get()] = Lanes(n.loop_var->dtype, first + k);
    exec(n.body);
    count_step();
  };
  if (position_.index[d] >= 0) {  // a thread along this axis already: its own iteration
    if (position_.index[d] < extent) body(position_.index[d]);
    return;
  }
  const ThreadPosition outer = position_;
  const bool outermost = !block_of_threads_;
  if (outermost) {
    block_of_threads_ = true;
    shared_.clear();
    exchange_.clear();
  }
  position_.extent[d] = extent;
  if (!waits(n)) {
    for (int64_t i = 0; i < extent && jump_ == Jump::none; ++i) {
      position_.index[d] = options_.reverse_threads ? extent - 1 - i : i;
      body(position_.index[d]);
    }
  } else if (extent > 4096) {
    error("T0362", fmt::format("{} threads are more than a block has", extent));
  } else {
    struct State {
      Thread own;
      ThreadPosition position;
      const StmtNode* at;
      const Block* block;
      Jump jump = Jump::none;
      std::vector<AsyncCopy> begun;
      std::vector<std::vector<AsyncCopy>> groups;
    };
    std::vector<State> states(static_cast<size_t>(std::max<int64_t>(0, extent)),
                              State{{vars_, memory_}, position_, at_, block_, Jump::none, {}, {}});
    auto exchange = [&](int64_t k) {
      State& s = states[size_t(k)];
      std::swap(s.own.vars, vars_);
      std::swap(s.own.memory, memory_);
      std::swap(s.position, position_);
      std::swap(s.at, at_);
      std::swap(s.block, block_);
      std::swap(s.jump, jump_);
      std::swap(s.begun, begun_);
      std::swap(s.groups, groups_);
    };
    auto one = [&](int64_t k) {
      position_.index[d] = k;
      body(k);
    };
    team_.run(extent, options_.reverse_threads, {exchange, exchange, one});
  }
  position_ = outer;
  if (outermost) block_of_threads_ = false;
}

/// Memory of a block of threads is one, wherever its allocation stands.
Storage Interpreter::allocate_buffer(const Buffer& b) {
  const bool warp = b->scope == "warp";
  if (!block_of_threads_ || !(warp || b->scope.starts_with("shared"))) return allocate(b->shape, b->dtype);
  const std::pair<const Var*, int64_t> key{b->data.get(), warp ? thread_number() / 32 : 0};
  auto it = shared_.find(key);
  if (it == shared_.end()) it = shared_.emplace(key, allocate(b->shape, b->dtype)).first;
  return it->second;
}

}  // namespace tenon::prim_interpreter
