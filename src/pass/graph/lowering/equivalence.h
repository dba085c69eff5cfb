// SPDX-License-Identifier: Apache-2.0
// Whether two tensor programs compute the same: proved where that can be, else tried.
#pragma once
#include <optional>

#include "ir/pass.h"
#include "ir/tir.h"
#include "schedule/schedule.h"

namespace tenon::tir {

struct Equivalence {
  enum class By : uint8_t {
    structure,  ///< equal once both are simplified
    schedule,   ///< the trace that the edited program carries makes it of the other one: each step is legal
    values,     ///< each element is computed from the same, but for the order of sums
    trials      ///< the same results on random and corner inputs, which is no proof
  };
  std::optional<By> by;              ///< none: they differ
  int trials = 0;                    ///< inputs that both ran on
  std::vector<ParamLayout> layouts;  ///< by its schedule: the parameters that its caller lays out
  std::string difference;            ///< the first input on which they differ, and where
};
/// "by its schedule", "on 7 random and corner inputs".
std::string to_string(const Equivalence& e);

/// `program` as the graph was lowered to it, `edited` of the same signature, or, by its schedule, with other
/// layouts of parameters that its attribute "layout_free_buffers" lists. `evaluate` runs both; results of
/// floating type may differ as those of sums in another order do.
Equivalence equivalence_of(const PrimFunc& program, const PrimFunc& edited, const tenon::Evaluate& evaluate);

/// The parameters of a program as text: "(x: T.Buffer((4,), "float32"), n: T.int64), 1 result".
std::string signature_of(const PrimFunc& f);
/// Parameters of the same kinds, types and shapes, and as many results.
bool same_signature(const PrimFunc& a, const PrimFunc& b);

}  // namespace tenon::tir
