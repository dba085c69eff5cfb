// SPDX-License-Identifier: Apache-2.0
// Strategies: which implementations an operator has on a target, and which of them a call gets. Lowering asks
// for the tensor definition, use_libraries for what a library computes, `tenon inspect --strategies` for the
// reasons.
#pragma once
#include "op/op_def.h"
#include "target/target_kind.h"

namespace tenon::op {

/// One way to compute an operator.
struct OpImpl {
  std::string name;          ///< "dense.panels"
  int priority = 10;         ///< of those that apply, the highest wins; of equals, the first
  std::string library = {};  ///< only where the target names it ("-libs=…")
  /// Why it cannot take this call; "" when it can. Null: it takes every call.
  std::function<std::string(const Call& call, const Target& target)> refuse = {};
  TensorDef define = {};             ///< null when `external` computes it
  std::string schedule = "default";  ///< the rule that places its loops; "none": they stay as they are
  /// A packed function of the registry: tensors of the arguments, then the results, which it writes.
  std::string external = {};
};

/// A function with one body for all targets and others for some: looked up by the target's kind ("cuda"),
/// then by the kind of its device ("cpu", "gpu"), then the default.
template <class Signature>
class GenericFunction;
template <class R, class... Args>
class GenericFunction<R(Args...)> {
 public:
  using Body = std::function<R(Args...)>;
  explicit GenericFunction(Body body) { bodies_.emplace_back("default", std::move(body)); }
  /// The body for targets of this kind ("cuda") or device ("cpu", "gpu"); the latest one counts.
  GenericFunction& override_for(std::string key, Body body) {
    bodies_.emplace_back(std::move(key), std::move(body));
    return *this;
  }
  /// Which body a target gets: "cuda", "gpu", …, "default".
  std::string_view key(const Target& target) const { return entry(target).first; }
  R operator()(const Target& target, Args... args) const {
    return entry(target).second(std::forward<Args>(args)...);
  }

 private:
  const std::pair<std::string, Body>& entry(const Target& target) const {
    if (!target) return bodies_[0];
    const std::string device = device_of(target) == DeviceKind::cpu ? "cpu" : "gpu";
    for (const std::string& wanted : {target->kind, device})
      for (size_t i = bodies_.size(); i-- > 1;)
        if (bodies_[i].first == wanted) return bodies_[i];
    return bodies_[0];
  }
  std::vector<std::pair<std::string, Body>> bodies_;
};

/// The implementations of a call's operator; it may offer others for some shapes (specialised).
using Strategy = GenericFunction<std::vector<OpImpl>(const Call& call, const Target& target)>;

/// Gives an operator a strategy; the one it had is replaced. Strategies are made before the first selection.
void register_strategy(const std::string& op, Strategy strategy);
/// Null when the operator has none: its own tensor definition is its only implementation.
const Strategy* find_strategy(const std::string& op);

/// Why implementations that read plain channels do not take a call in blocks.
inline constexpr char kOtherLayouts[] = "its layouts are not the plain ones";

/// `impl` for calls of which `holds` is true; `what` says in words what that is ("one row").
OpImpl specialized(OpImpl impl, std::function<bool(const Call&)> holds, std::string what);

/// What a call gets, and why not the others.
struct Selection {
  OpImpl chosen;
  std::string why;
  struct Rejected {
    std::string name;
    int priority = 0;
    std::string reason;
  };
  std::vector<Rejected> rejected;  ///< by falling priority
  std::string key;                 ///< the target's key in the strategy
};
/// All implementations of the call's operator on the target; `call.type` and the arguments' types are known.
std::vector<OpImpl> implementations(const Call& call, const Target& target);
/// The one that is chosen by priority; nullopt when none applies. Without `externals` only tensor definitions
/// count.
std::optional<Selection> select(const Call& call, const Target& target, bool externals = true);
/// Those of libraries that the target names and that take the call, by falling priority.
std::vector<OpImpl> library_implementations(const Call& call, const Target& target);
/// The tensor definition that lowering uses: `select` without externals; the operator's own when none
/// applies. `wanted`: the implementation of that name, whatever its priority; DiagnosticError T1108 when it
/// does not take the call, or there is none.
OpImpl lowering_of(const Call& call, const Target& target, const std::string& wanted = {});

}  // namespace tenon::op
