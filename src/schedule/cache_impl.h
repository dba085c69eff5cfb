// SPDX-License-Identifier: Apache-2.0
// What the primitives that copy buffers share. Used by cache*.cpp and reindex.cpp only.
#pragma once
#include <algorithm>

#include "ir/memory_scope.h"
#include "schedule/state.h"
#include "target/matrix_registers.h"

namespace tenon::sched {

inline constexpr std::string_view kMemoryScopes[] = {"global", "local", "shared", "warp", kMatrixScope};
static_assert(std::ranges::all_of(kMemoryScopes, tir::known_memory_scope));
/// What records of primitives say of a parameter that is one.
inline constexpr std::string_view kCopyMemory = "memory of the copy: global, local, shared, warp, matrix";
/// T0770 unless it is one of them.
void require_memory(const State& s, int32_t id, const std::string& scope);
/// The nest around a block that stands directly in its scope's body.
int32_t outermost(const State& s, int32_t id);
/// Uses of `from` inside `block` become uses of `to` (regions too).
Ref<tir::Block> redirect(const Ref<tir::Block>& block, const tir::Buffer& from, const tir::Buffer& to);
/// `body` with `realize` replaced by `next`, and statements put before and after the top-level part around
/// it.
tir::Stmt place(const tir::Stmt& body, const Object* realize, const Ref<tir::BlockRealize>& next,
                const tir::Stmt& before, const tir::Stmt& after);
/// Loops over `iters` (each from 0) around a block with that one store.
tir::Stmt nest_of(const Array<tir::IterVar>& iters, const tir::Stmt& store, const std::string& name);

}  // namespace tenon::sched
