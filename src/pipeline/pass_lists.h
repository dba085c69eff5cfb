// SPDX-License-Identifier: Apache-2.0
// Which passes a compilation runs, in order: the compiler's table of contents (pass_lists.cpp).
#pragma once
#include "ir/pass.h"

namespace tenon {

std::span<const Pass> graph_passes();     ///< typed module → call_tir over PrimFuncs, memory planned
std::span<const Pass> schedule_passes();  ///< default schedule of each PrimFunc
std::span<const Pass> tensor_passes();    ///< blocks → flat loops, the kernel's calling convention
/// What a program whose loops are bound to GPU threads goes through instead, up to kernels apart from their
/// host. Each keeps the meaning that the interpreter's simulated threads give it, but that between
/// lift_thread_binding and thread_sync the barriers are missing.
std::span<const Pass> device_passes();

/// Puts a pass that is not registered (one of another language) in front of another one of the first three
/// lists, for every compilation of this process from then on. T0919: there is no pass `before`; T0947: it
/// stands in none of the lists; T0948: the name is taken.
void insert_pass(const Pass& pass, const std::string& before);
void remove_pass(const std::string& name);  ///< what insert_pass put there; nothing when there is none
/// Whether any are there: what is compiled then is not what the cache of compilations knows.
bool has_inserted_passes();

/// A heading of those lists: its default passes, and the passes on request that run in front of them.
struct Chapter {
  std::string_view title;
  std::vector<std::string_view> passes, on_request;
};
/// "graph", "schedule", "tensor" and "device", each in order.
std::vector<std::pair<std::string_view, std::span<const Chapter>>> all_pass_lists();

/// Passes by their names, in that order. T0919 for those that there are not, with the nearest.
std::vector<Pass> passes_named(const Array<std::string>& names, DiagnosticList& problems);

/// What was asked for by name can be done: passes that are required or disabled, and those whose options are
/// set, in a compilation at the context's level, or where only the passes `named` run. T0919 for names of no
/// pass, T0945 for options of passes that do not run, T0946 for passes that every compilation needs, T0947
/// for passes that stand in none of the lists, T1004 for passes that another needs and that are disabled.
void check_pass_requests(const PassContext& context, DiagnosticList& problems,
                         std::optional<std::span<const Pass>> named = {});

}  // namespace tenon
