// SPDX-License-Identifier: Apache-2.0
// Passes: free functions IRModule → IRModule, one per file, and the one runner that wraps them all.
#pragma once
#include <set>

#include "ir/module.h"

namespace tenon {

struct PassContext;

/// One pass. `name` is the file, function, CLI name, golden folder and heading in the docs.
struct Pass {
  std::string_view name;
  IRModule (*run)(IRModule, PassContext&);
  int level = 0;             ///< runs when PassContext::opt_level is at least this, or when required by name
  std::string_view summary;  ///< one line for `tenon opt --list`
};

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

struct PassContext {
  int opt_level = 2;
  std::set<std::string, std::less<>> required, disabled;
  AttrMap config;     ///< typed by the pass that documents the key
  ObjectRef target;   ///< Target (target/target.h)
  Evaluate evaluate;  ///< null: no folding by evaluation
  std::vector<PassInstrument*> instruments;
  bool verify = false;  ///< verify the module after each pass (always in debug and tests)
  std::set<std::string, std::less<>> print_after;  ///< pass names; "all"
  std::function<void(const std::string& pass, const std::string& text)> print_sink;
  std::string dump_dir;  ///< every stage as NN_pass.tir, with one constants sidecar
  std::vector<PassTiming> timings;
  std::function<bool()> cancelled;  ///< polled between passes; Error "T1003"
};

/// A value of the pass configuration, or `otherwise` when it is not there or of another kind.
template <class T>
T config_or(const PassContext& context, const std::string& key, T otherwise) {
  auto v = context.config.find(key);
  return v ? v->template try_as<T>().value_or(std::move(otherwise)) : otherwise;
}

/// Runs passes in order: level, enable and disable by name, veto, timing, verification (an InternalError
/// names the pass that broke the module), dump. Deterministic.
IRModule run_passes(IRModule module, std::span<const Pass> passes, PassContext& context);
/// Lists of passes announce themselves so that `tenon opt` finds every one by name.
void announce_passes(std::span<const Pass> passes);
const Pass* find_pass(std::string_view name);
std::vector<const Pass*> all_passes();  ///< sorted by name

}  // namespace tenon
