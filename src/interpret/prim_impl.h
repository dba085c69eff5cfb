// SPDX-License-Identifier: Apache-2.0
// The interpreter of tensor programs: one class, defined by subject in prim_*.cpp. Loops run in order; a
// value is a list of lanes.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>
#include <unordered_set>

#include "interpret/evaluate.h"
#include "interpret/interpret.h"
#include "interpret/team.h"
#include "ir/imported_code.h"
#include "ir/intrinsic_table.h"
#include "ir/jumps.h"
#include "ir/scalable.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "runtime/dlpack.h"

namespace tenon::prim_interpreter {

using namespace tir;
using interpret_detail::Arithmetic;
using interpret_detail::Lane;
using interpret_detail::Lanes;

[[noreturn]] inline void error(std::string code, std::string message) {
  throw Error(ErrorKind::model, std::move(code), std::move(message));
}

/// a * b + c, for indices: what does not fit into 64 bits lies outside of every buffer.
inline int64_t multiply_add(int64_t a, int64_t b, int64_t c, const std::string& name) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r) || __builtin_add_overflow(r, c, &r))
    error("T0355", fmt::format("an index of buffer {} does not fit into 64 bits", name));
  return r;
}

/// Memory behind a data variable. `offset` (elements) serves pointers into the middle of an array.
struct Storage {
  NDArray array;
  int64_t offset = 0;
  std::vector<int64_t> mins;
  std::vector<int64_t> strides;  ///< of a matched region; empty: the buffer's own
};

/// Where a thread stands in its block; -1: not (yet) along this axis.
struct ThreadPosition {
  int64_t index[3] = {-1, -1, -1}, extent[3] = {1, 1, 1};
};
/// A copy that is under way.
struct AsyncCopy {
  Storage to, from;
  int64_t count = 0;
};

class Interpreter {
 public:
  Interpreter(const IRModule& module, const InterpretOptions& options, int depth)
      : module_(module), options_(options), arithmetic_{options.float64}, depth_(depth) {
    if (depth > options.max_depth)
      error("T0352", fmt::format("calls nest deeper than {}", options.max_depth));
  }

  Lanes value(const PrimExpr& e, const interpret_detail::Symbols& symbols) {
    for (auto& [v, n] : symbols) vars_[v] = Lanes(v->dtype, n);
    return eval(e);
  }

  /// Arguments by parameter: storages for buffers and handles, lanes for scalars.
  void run(const PrimFunc& f, const std::vector<Storage>& storages, const std::vector<Lanes>& scalars);

 private:
  /// Where the innermost statement that did not end was written.
  std::string place() const {
    const std::string text = at_ && at_->origin ? at_->origin->span.to_string() : std::string();
    return !text.empty() || !block_ ? text : fmt::format("block {}", block_->name);
  }

  int64_t integer(const PrimExpr& e) { return eval(e)[0].i; }
  /// Iterators wrap as other integers do.
  static int64_t later(int64_t first, int64_t i) { return int64_t(uint64_t(first) + uint64_t(i)); }
  std::vector<int64_t> integers(const Array<PrimExpr>& list) {
    std::vector<int64_t> out;
    for (const PrimExpr& e : list) out.push_back(integer(e));
    return out;
  }

  // prim_expressions.cpp
  Lanes eval(const PrimExpr& e);
  Lanes reduce(const Reduce& n);
  Lanes call(const tir::Call& n);
  // prim.cpp
  Storage pointer(const PrimExpr& e);
  Storage access_pointer(const tir::Call& n);
  void call_prim_func(const tir::Call& n);
  // foreign_calls.cpp
  Lanes call_packed(const tir::Call& n);
  Lanes call_extern(const tir::Call& n);

  // prim_threads.cpp
  Lanes atomic(const tir::Call& n);
  Lanes async(const tir::Call& n);
  Lanes fragment(const tir::Call& n);
  Lanes collective(const tir::Call& n);
  void threads(const For& n);
  bool waits(const For& n);
  Storage allocate_buffer(const Buffer& b);
  static Lanes combined(const std::string& op, const Lanes& a, const Lanes& b, const Arithmetic& arithmetic);
  static int64_t element_of(const Storage& s, int64_t k);
  void copy_elements(const Storage& to, const Storage& from, int64_t count);
  int64_t thread_number() const;

  // prim_memory.cpp
  /// Binds the symbols of a shape to the sizes of an argument; what is bound must agree.
  /// Symbolic sizes that have no value yet are those of the array.
  void bind_sizes(const Buffer& b, const Storage& s);
  void check_shape(const Buffer& b, const Storage& s);
  void bind_or_check(const PrimExpr& e, int64_t value, const std::string& name);
  /// The matched buffer is the same memory seen from the region's corner with the source's strides.
  void match_buffer(const MatchBufferRegion& m);
  Storage& memory_of(const Buffer& b);
  /// Memory of bytes, or of another type, seen with the buffer's type.
  Storage& view(const Storage& s, const Buffer& b);
  static int64_t flat(const std::vector<int64_t>& shape, const std::vector<int64_t>& at,
                      const std::string& name);
  /// Where an element lies, from the values of its indices in one lane.
  int64_t offset(const Buffer& b, const std::vector<int64_t>& at, const Storage& s);
  /// Values of the indices of lane `lane`, from the corner of what was realized.
  void position(const std::vector<Lanes>& indices, size_t lane, const Storage& s, std::vector<int64_t>& at,
                const Buffer& b);
  /// Floats seen as their bits, or the other way: the element as it lies in memory, under the other type.
  bool is_view(const NDArray& array, DataType type) const {
    return !options_.float64 && array.dtype().bits == type.bits &&
           array.dtype().is_float() != type.is_float();
  }
  Lanes read(const NDArray& array, int64_t index, DataType type);
  Lanes load(const BufferLoad& n);
  void write(const NDArray& array, int64_t index, const Lane& v, DataType type);
  DataType stored(DataType t) const { return options_.float64 && t.is_float() ? f64 : t.element(); }
  Storage allocate(const Array<PrimExpr>& shape, DataType dtype);

  /// A tensor without a buffer: storage, and which of its elements hold a value.
  struct Produced {
    NDArray array;
    std::vector<bool> stored;
  };
  Produced& produced(const DataProducer& p);

  // prim_statements.cpp
  void count_step() {
    if (++steps_ > options_.max_steps) error("T0351", fmt::format("more than {} steps", options_.max_steps));
  }

  void exec(const Stmt& s);
  void realize(const BlockRealize& n);
  void block(const Block& n, bool first);
  /// Behind an iteration: does the loop have a next one?
  bool goes_on() {
    if (jump_ == Jump::next_iteration) jump_ = Jump::none;
    return jump_ == Jump::none;
  }
  /// Behind a loop: what led out of it has arrived.
  void left_loop() {
    if (jump_ != Jump::end_of_program) jump_ = Jump::none;
  }

  // prim_empty_reductions.cpp
  bool starts_reduction(const For& n);
  bool uses_idle(const PrimExpr& e) const;
  void start_reductions(const Stmt& s);
  void start_reduction(const BlockRealize& n);

  const IRModule& module_;
  const InterpretOptions& options_;
  Arithmetic arithmetic_;
  int depth_;
  bool imports_ = false;  ///< the program brings C functions of its own
  int64_t steps_ = 0;
  Jump jump_ = Jump::none;        ///< under way
  const StmtNode* at_ = nullptr;  ///< the innermost statement that knows where it was written
  const Block* block_ = nullptr;  ///< the innermost block
  std::unordered_map<const For*, bool> starts_, waits_;
  interpret_detail::Team team_;
  ThreadPosition position_;  ///< of the thread that runs
  bool block_of_threads_ = false;
  std::map<std::pair<const Var*, int64_t>, Storage> shared_;      ///< with the number of the warp
  std::map<int64_t, std::pair<ThreadPosition, Lanes>> exchange_;  ///< what each thread brings, by its number
  std::map<std::pair<void*, DataType>, Storage> views_;           ///< they keep their memory
  std::vector<AsyncCopy> begun_;
  std::vector<std::vector<AsyncCopy>> groups_;
  std::unordered_set<const Object*> idle_;  ///< variables of loops without an iteration, in start_reductions
  std::unordered_map<const Var*, Lanes> vars_;
  std::unordered_map<const Var*, Storage> memory_;
  std::unordered_map<const DataProducerNode*, Produced> producers_;
};

}  // namespace tenon::prim_interpreter
