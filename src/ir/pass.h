// SPDX-License-Identifier: Apache-2.0
// Passes: functions IRModule → IRModule, each registered in its file, and the one runner that wraps them all.
#pragma once
#include <set>
#include <source_location>

#include "ir/module.h"
#include "ir/pass_option.h"

namespace tenon {

struct PassContext;

/// What a pass changes of the values that the functions compute.
enum class Changes : uint8_t {
  nothing,    ///< every value is what it was, bit by bit
  sum_order,  ///< terms are added in another order
  rounding    ///< some operation is another one: values are rounded elsewhere
};
std::string_view to_string(Changes changes);

constexpr int kOnRequest = 4;  ///< a level above every -O: the pass runs when it is required by name

/// One pass, as its file registers it. `name` is the file, the command's word, the golden test and the
/// heading in the docs.
struct Pass {
  std::string name;
  std::function<IRModule(IRModule, PassContext&)> run;
  int level = kOnRequest;  ///< runs when PassContext::opt_level is at least this, or when required by name
  std::string summary;     ///< one line of help
  std::vector<std::string> needs = {};  ///< passes before it in a list that run whenever it does
  Changes changes = Changes::nothing;
  double rounds = 0;  ///< the largest relative error that it gives each floating value by narrower types
  std::vector<PassOption> options = {};
  std::string file = {};  ///< where it is registered, from src on
  int line = 0;
};

/// Enters a pass into the table, for the file that holds it:
///   const Pass& fuse_ops_pass = register_pass({.name = "fuse_ops", .run = fuse_ops, .level = 1, …});
/// CHECK when the name is taken, or an option is not called "NAME.KEY".
const Pass& register_pass(Pass pass, std::source_location where = std::source_location::current());
const Pass* find_pass(std::string_view name);  ///< null when there is none
/// What T0919 says where there is none: the nearest name.
Diagnostic no_such_pass(std::string_view name);
/// DiagnosticError T0919 when there is none.
const Pass& get_pass(std::string_view name);
std::vector<const Pass*> all_passes();  ///< sorted by name

/// Sees every pass; `should_run` may veto.
struct PassInstrument {
  virtual ~PassInstrument() = default;
  virtual bool should_run(const Pass&, const IRModule&) { return true; }
  virtual void before(const Pass&, const IRModule&) {}
  virtual void after(const Pass&, const IRModule&) {}
};

struct PassTiming {
  std::string name;
  double ms = 0;
  bool changed = false;
};

/// Evaluates a call of a function of the module on constants; arrives here so that passes need no
/// interpreter.
using Evaluate = std::function<std::vector<NDArray>(const IRModule&, const std::string& function,
                                                    const std::vector<NDArray>& args)>;

/// Compiles modules for the context's target and runs their `main` here, in turns; arrives here so that
/// passes need no code generator. Seconds of the fastest run of each, or none and the reason.
struct Measured {
  std::vector<double> seconds;
  std::string why_not;
};
using Measure = std::function<Measured(const std::vector<IRModule>&)>;

struct PassContext {
  int opt_level = 2;
  std::set<std::string, std::less<>> required, disabled;
  PassOptions options;
  ObjectRef target;   ///< Target (target/target.h)
  Evaluate evaluate;  ///< null: no folding by evaluation
  Measure measure;    ///< null: no choice by measuring
  std::vector<PassInstrument*> instruments;
  /// What passes found, for those who ask: the pass's name, and text or an object; null: nobody asks.
  std::function<void(std::string_view pass, const Any& report)> report;
  bool verify = false;  ///< verify the module after each pass (always in debug and tests)
  std::set<std::string, std::less<>> print_after;  ///< pass names; "all"
  std::function<void(const std::string& pass, const std::string& text)> print_sink;
  std::string dump_dir;  ///< every stage as NN_pass.tir, with one constants sidecar
  std::vector<PassTiming> timings;
  std::function<bool()> cancelled;  ///< polled between passes; Error "T1003"
};

/// The passes of a list that run: the enabled ones, and those before them that they need. T1004 for one that
/// is needed and disabled.
std::vector<const Pass*> running_passes(std::span<const Pass> passes, const PassContext& context,
                                        DiagnosticList& problems);
/// Runs passes in order: level, enable and disable by name, what they need of the list, veto, timing,
/// verification (our bug, which names the pass that broke the module), dump. Error T1004 when a pass needs
/// one that is disabled. Deterministic.
IRModule run_passes(IRModule module, std::span<const Pass> passes, PassContext& context);
/// The one pass alone, without what it needs.
IRModule run_pass(std::string_view name, IRModule module, PassContext& context);

}  // namespace tenon
