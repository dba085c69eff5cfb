// SPDX-License-Identifier: Apache-2.0
// Which parts of which buffers statements touch.
#pragma once
#include "analysis/analyzer.h"
#include "ir/tir.h"

namespace tenon {

struct AccessRegions {
  Array<tir::BufferRegion> reads, writes;
  bool opaque = false;
};
/// Regions that `block`'s body and init touch, over all values of the loops inside it, in terms of its
/// iterators; buffers allocated inside are left out. `opaque`: an access could not be analysed.
AccessRegions detect_access_regions(const Ref<tir::Block>& block);
/// The same where more is known of the variables around the block; those inside are bound in `analyzer`.
AccessRegions detect_access_regions(const Ref<tir::Block>& block, Analyzer& analyzer);
/// Smallest box of regions (same buffer) when `domain` variables move over their ranges.
tir::BufferRegion union_regions(const std::vector<tir::BufferRegion>& regions,
                                const std::unordered_map<const tir::Var*, tir::Range>& domain,
                                Analyzer& analyzer);
/// b covers a, provably.
bool region_covers(const tir::BufferRegion& outer, const tir::BufferRegion& inner, Analyzer& analyzer);

/// e = Σ coeff_i · var_i + base over `vars` when it is affine in them with constant coefficients.
struct AffineForm {
  std::vector<std::pair<tir::VarRef, int64_t>> terms;
  PrimExpr base;
};
std::optional<AffineForm> affine_form(const PrimExpr& e, const std::vector<tir::VarRef>& vars,
                                      Analyzer& analyzer);

/// Floating operations and bytes of a tensor program's body; symbolic sizes count as 1 when unknown.
struct WorkEstimate {
  double flop = 0, bytes = 0;
};
WorkEstimate estimate_work(const tir::Stmt& s);

}  // namespace tenon
