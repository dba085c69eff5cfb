// SPDX-License-Identifier: Apache-2.0
// Loops over rows of what lies in columns (codegen/transposed_loop.h): vectors along the columns, turned by
// interleaving their halves, so that no lane is loaded by itself. What is only copied is stored from there;
// anything else reads the turned tile from memory of the kernel's own. Where a tile hangs over an edge, lanes
// and rows outside are not read. Lanes that one instruction gathers stay as they are where the processor
// gathers fast.
#include <llvm/Analysis/VectorUtils.h>

#include "codegen/llvm/emitter.h"
#include "codegen/transposed_loop.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

namespace {

/// Turned in registers of so many bits: instructions that interleave work on those alone.
constexpr int64_t kTurnedBits = 128;
/// Vectors that hold that much of each turned row; wider ones would need more registers than there are.
constexpr int64_t kMostBits = 512;

/// Lanes of a's and b's lower or upper halves by turns, in each group of `group` lanes.
V interleave(llvm::IRBuilder<>& b, V x, V y, int64_t lanes, int64_t group, bool upper) {
  llvm::SmallVector<int> order;
  for (int64_t l = 0; l < lanes; ++l) {
    const int64_t in = l % group, from = l - in + (upper ? group / 2 : 0) + in / 2;
    order.push_back(int(in % 2 ? lanes + from : from));
  }
  return b.CreateShuffleVector(x, y, order);
}

/// Lane k of group g of vector j becomes lane j of group g of vector k.
void turn(llvm::IRBuilder<>& b, std::vector<V>& v, int64_t lanes) {
  const size_t n = v.size();
  for (size_t done = 1; done < n; done *= 2) {
    std::vector<V> next;
    for (size_t k = 0; k < n / 2; ++k)
      for (const bool upper : {false, true})
        next.push_back(interleave(b, v[k], v[k + n / 2], lanes, int64_t(n), upper));
    v = next;
  }
}

}  // namespace

struct Emitter::Turned {
  const TransposedLoop& loop;
  int64_t lanes;                        ///< of a row
  V rows = nullptr, columns = nullptr;  ///< of a tile at an edge
};

/// Vectors along the columns from `row` on, of the lanes from `lane` on.
std::vector<V> Emitter::read_columns(const TransposedLoad& l, const Turned& tile, V first, int64_t row,
                                     int64_t lane, int64_t count, int64_t along) {
  auto* vector = llvm::FixedVectorType::get(memory_type(l.load->dtype), unsigned(along));
  V stride = index(l.stride), mask = nullptr;
  if (tile.rows) {
    V here = step(llvm::FixedVectorType::get(b_.getInt64Ty(), unsigned(along)));
    mask = b_.CreateICmpSLT(here, splat(b_.CreateNSWSub(tile.rows, i64(row)), along));
  }
  std::vector<V> out;
  for (int64_t k = lane; k < lane + count; ++k) {
    V column = i64(k);
    if (tile.columns)
      column = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, column, b_.CreateNSWSub(tile.columns, i64(1)));
    V at = b_.CreateNSWAdd(b_.CreateNSWAdd(first, i64(row)), b_.CreateNSWMul(stride, column));
    out.push_back(read(l.load->buffer, vector, pointer(l.load->buffer, at), mask));
  }
  return out;
}

/// Calls `use` with every row.
void Emitter::turn_tile(const TransposedLoad& l, const Turned& tile,
                        FunctionRef<void(int64_t row, llvm::Value*)> use) {
  const int64_t group = kTurnedBits / (l.load->dtype.element().bytes() * 8),
                along = turned_along(l, tile.loop);
  frame_->memo.clear(), frame_->memo_order.clear();
  V first = index(l.first);
  for (int64_t row = 0; row < tile.loop.rows; row += along) {
    std::vector<std::vector<V>> turned;
    for (int64_t lane = 0; lane < tile.lanes; lane += group) {
      turned.push_back(read_columns(l, tile, first, row, lane, group, along));
      turn(b_, turned.back(), along);
    }
    for (int64_t from = 0; from < along; from += group)
      for (int64_t k = 0; k < group; ++k) {
        std::vector<V> parts;
        for (const std::vector<V>& v : turned) {
          llvm::SmallVector<int> order;
          for (int64_t i = 0; i < group; ++i) order.push_back(int(from + i));
          parts.push_back(b_.CreateShuffleVector(v[size_t(k)], order));
        }
        use(row + from + k, llvm::concatenateVectors(b_, parts));
      }
  }
}

/// The rows of a tile that is whole, straight from registers.
void Emitter::store_turned(const For& n, const Turned& tile) {
  const BufferStore& to = *tile.loop.store;
  const llvm::Align align(uint64_t(to.value.dtype().element().bytes()));
  const PrimExpr base = as_affine(flat_index(to.buffer, to.indices))->base;
  frame_->values[n.loop_var.get()] = i64(0);
  turn_tile(tile.loop.loads[0], tile, [&](int64_t row, V v) {
    frame_->memo.clear(), frame_->memo_order.clear();
    frame_->values[n.loop_var.get()] = i64(row);
    V at = pointer(to.buffer, index(base));
    decorate(b_.CreateAlignedStore(v, at, align), to.buffer->data.get());
    frame_->values[n.loop_var.get()] = i64(0);
  });
}

/// The loop as it is, but for its loads, which read turned tiles.
void Emitter::loop_over_turned(const For& n, const Turned& tile) {
  frame_->values[n.loop_var.get()] = i64(0);
  for (const TransposedLoad& l : tile.loop.loads) {
    llvm::Type* element = memory_type(l.load->dtype);
    V memory = turned_[l.load].first;
    if (!memory) {
      memory = stack(llvm::ArrayType::get(element, uint64_t(tile.loop.rows * tile.lanes)), kMostBits / 8);
      turned_[l.load] = {memory, n.loop_var.get()};
    }
    turn_tile(l, tile, [&](int64_t row, V v) {
      V at = b_.CreateConstInBoundsGEP1_64(element, memory, uint64_t(row * tile.lanes));
      b_.CreateAlignedStore(v, at, llvm::Align(kTurnedBits / 8));
    });
  }
  turned_now_ = true;
  V end = tile.rows ? tile.rows : i64(tile.loop.rows);
  serial_loop(n, n.body, i64(0), end, true);
  turned_now_ = false;
}

/// Null: the load reads memory as it says.
V Emitter::load_turned(const BufferLoad& n) {
  if (!turned_now_) return nullptr;
  const auto it = turned_.find(&n);
  if (it == turned_.end()) return nullptr;
  auto* vector = llvm::FixedVectorType::get(memory_type(n.dtype), unsigned(n.dtype.lanes));
  V row = b_.CreateNSWMul(frame_->values.at(it->second.second), i64(n.dtype.lanes));
  V at = b_.CreateInBoundsGEP(memory_type(n.dtype), it->second.first, row);
  return b_.CreateAlignedLoad(vector, at, llvm::Align(kTurnedBits / 8));
}

/// Elements of a vector along the columns; 0: the load is not for turning.
int64_t Emitter::turned_along(const TransposedLoad& l, const TransposedLoop& loop) const {
  const int64_t bits = l.load->dtype.element().bytes() * 8, group = kTurnedBits / bits,
                along = std::min(loop.rows, std::min<int64_t>(target_->vector_bits, kMostBits) / bits);
  const bool fits = group > 1 && along >= group && along % group == 0 && loop.rows % along == 0 &&
                    l.load->dtype.lanes % group == 0;
  const bool apart = root_of(l.load->buffer->data.get()) != root_of(loop.store->buffer->data.get());
  return fits && apart && !(gathers(l.load->dtype) && gathers_fast(target_)) ? along : 0;
}

/// False: it stays a loop whose lanes are loaded one by one.
bool Emitter::transposed(const For& n) {
  const auto loop = noalias_ ? transposed_loop(n) : std::nullopt;
  if (!loop || target_->vector_bits < kTurnedBits) return false;
  const Turned tile{*loop, loop->store->value.dtype().lanes};
  int64_t bytes = 0;
  for (const TransposedLoad& l : loop->loads) {
    if (!turned_along(l, *loop)) return false;
    bytes += loop->rows * l.load->dtype.bytes();
  }
  const bool cut = loop->rows_here || loop->column;
  if (!loop->copies() || cut) {
    if (frame_->stack_bytes + bytes > kStackTotal) return false;
    frame_->stack_bytes += bytes;
  }
  turned_.clear();
  bounds_.set_loop(n);
  if (cut)
    cut_tile(n, tile);
  else
    whole_tile(n, tile);
  return true;
}

void Emitter::whole_tile(const For& n, const Turned& tile) {
  if (tile.loop.copies())
    store_turned(n, tile);
  else
    loop_over_turned(n, tile);
}

/// A tile that may hang over an edge.
void Emitter::cut_tile(const For& n, const Turned& tile) {
  const TransposedLoop& l = tile.loop;
  frame_->values[n.loop_var.get()] = i64(0);
  V rows = l.rows_here ? root(l.rows_here) : i64(l.rows), columns = i64(tile.lanes);
  if (l.column) columns = b_.CreateNSWSub(index(l.end), index(l.column));
  auto *whole = block("whole_tile"), *edge = block("edge"), *next = block("tile_end");
  V all = b_.CreateAnd(b_.CreateICmpSGE(rows, i64(l.rows)), b_.CreateICmpSGE(columns, i64(tile.lanes)));
  b_.CreateCondBr(all, whole, edge);
  b_.SetInsertPoint(whole);
  whole_tile(n, tile);
  b_.CreateBr(next);
  b_.SetInsertPoint(edge);
  edge_tile(n, tile, rows, columns, next);
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
}

/// Rows and lanes outside are not read; without masks for elements so small, lanes are loaded one by one.
void Emitter::edge_tile(const For& n, Turned tile, V rows, V columns, llvm::BasicBlock* next) {
  const bool masks = std::ranges::all_of(tile.loop.loads, [&](const TransposedLoad& l) {
    return target_->has(l.load->dtype.bits < 32 ? "avx512bw" : "avx512f");
  });
  auto* some = block("edge_tile");
  V any = b_.CreateICmpSGT(rows, i64(0));
  if (masks) any = b_.CreateAnd(any, b_.CreateICmpSGT(columns, i64(0)));
  b_.CreateCondBr(any, some, next);
  b_.SetInsertPoint(some);
  if (!masks) return serial_loop(n, n.body, i64(0), rows, true);
  tile.rows = rows;
  tile.columns = columns;
  loop_over_turned(n, tile);
}

}  // namespace tenon::codegen
