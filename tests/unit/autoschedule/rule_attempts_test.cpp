// SPDX-License-Identifier: Apache-2.0
// What the default schedule says of itself: the rules it tried, in order, and why they gave up; tiles that
// are given in place of the model's.
#include <fstream>
#include <sstream>

#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "base/diagnostic.h"
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

std::vector<RuleAttempt> attempts_of(const Program& p, const Target& t = target_of({512, 32, 4})) {
  std::vector<RuleAttempt> out;
  default_schedule(p.function, t, &out);
  return out;
}

/// "rule: outcome" of the rules that were tried on a block, without their steps.
std::vector<std::string> rules_of(const std::vector<RuleAttempt>& attempts, const std::string& block) {
  std::vector<std::string> out;
  for (const RuleAttempt& a : attempts)
    if (a.block == block && a.step.empty()) out.push_back(a.rule + ": " + std::string(name_of(a.outcome)));
  return out;
}

using Texts = std::vector<std::string>;

TEST(RuleAttempts, NameEachRuleInOrderAndWhyItGaveUp) {
  EXPECT_EQ(rules_of(attempts_of(matmul(64, 64, 16, false)), "C"),
            (Texts{"fold_in_order: no_columns", "by_columns: no_columns", "dot_instruction: no_product",
                   "inner_product: strided_sum", "register_tile: applied"}));
  EXPECT_EQ(rules_of(attempts_of(row_sum(100, 500)), "O"),
            (Texts{"fold_in_order: no_columns", "by_columns: no_columns", "dot_instruction: no_reuse",
                   "inner_product: no_reuse", "register_tile: no_reuse", "row_by_row: applied"}));
  EXPECT_EQ(rules_of(attempts_of(transpose(35, 50)), "O"),
            (Texts{"fold_in_order: no_columns", "by_columns: no_columns", "dot_instruction: no_reduction",
                   "inner_product: no_reduction", "register_tile: no_reduction", "row_by_row: no_reduction",
                   "elementwise: applied"}));
}

TEST(RuleAttempts, KeepWhatAPrimitiveRefused) {
  const std::vector<RuleAttempt> attempts = attempts_of(argmax(4, 10));
  const auto refused = std::find_if(attempts.begin(), attempts.end(),
                                    [](const RuleAttempt& a) { return a.outcome == RuleOutcome::refused; });
  ASSERT_NE(refused, attempts.end());
  EXPECT_TRUE(refused->code.starts_with("T07")) << refused->code;
  EXPECT_FALSE(refused->message.empty());
}

TEST(RuleAttempts, TileCarriesWhatTheModelExpects) {
  for (const RuleAttempt& a : attempts_of(matmul(64, 64, 16, false)))
    if (a.outcome == RuleOutcome::applied && !a.tile.empty()) {
      EXPECT_GT(a.cycles, 64 * 64 * 16 / 16 / 2) << "two ports of 16 lanes";
      return;
    }
  FAIL() << "no tile was recorded";
}

TEST(RuleTable, NamesAreInTheReadme) {
  std::ifstream in(TENON_SOURCE_DIR "/src/autoschedule/README.md");
  std::ostringstream text;
  text << in.rdbuf();
  for (const RuleInfo& rule : schedule_rules()) {
    EXPECT_NE(text.str().find("| `" + std::string(rule.name) + "` |"), std::string::npos) << rule.name;
    EXPECT_FALSE(rule.doc.empty());
  }
}

/// The program with the annotation "tile" on the block of that name.
Program with_tile(Program p, const std::string& block, const Any& tile) {
  p.function.edit()->body = rewrite(p.function->body, [&](const tir::Block& b) -> tir::Stmt {
    if (b.name != block) return {};
    Ref<tir::Block> out(&b);
    out.edit()->annotations.set("tile", tile);
    return out;
  });
  return p;
}
Any lanes(int64_t vectors, int64_t lanes) { return Any(Array<int64_t>{vectors, lanes}); }

std::string axis(const Program& p, const std::string& block, size_t i) {
  Schedule s(p.function);
  return s.get(s.get_block(block))->iter_vars[i]->var->name;
}

TEST(GivenTile, IsTheTileThatIsMade) {
  const Program plain = matmul(33, 50, 19);
  const std::string m = axis(plain, "C", 0), n = axis(plain, "C", 1);
  const std::vector<NDArray> expected = run(plain.function);
  for (const AttrMap& tile : {AttrMap{{n, lanes(1, 8)}, {m, Any(int64_t(5))}}, AttrMap{{n, lanes(3, 4)}},
                              AttrMap{{n, lanes(2, 16)}, {m, Any(int64_t(2))}}}) {
    const Program p = with_tile(plain, "C", Any(tile));
    std::vector<RuleAttempt> attempts;
    const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32, 4}), &attempts);
    EXPECT_TRUE(same(expected, run(f))) << steps_of(f);
    bool made = false;
    for (const RuleAttempt& a : attempts)
      made = made || (a.outcome == RuleOutcome::applied &&
                      structural_equal(Any(a.tile).as<ObjectRef>(), Any(tile).as<ObjectRef>()));
    EXPECT_TRUE(made) << steps_of(f);
  }
}

TEST(GivenTile, NeighboursBecomeOneAxis) {
  const Program plain = conv(4, 7, 7, 9, 1, 1, 0);
  const std::string h = axis(plain, "conv", 2), w = axis(plain, "conv", 3), c = axis(plain, "conv", 1);
  const Program p = with_tile(plain, "conv", Any(AttrMap{{h + "*" + w, lanes(1, 16)}, {c, Any(int64_t(4))}}));
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32, 4}));
  EXPECT_TRUE(same(run(plain.function), run(f)));
  EXPECT_NE(steps_of(f).find("fuse_iterators"), std::string::npos) << steps_of(f);
}

TEST(GivenTile, StepsOfAWindowAreStraightCodeWhereTheirRowsStayInRegisters) {
  const Program plain = conv(4, 9, 9, 9, 2, 1, 0);
  const std::string h = axis(plain, "conv", 2), w = axis(plain, "conv", 3);
  for (const auto& [rows, straight] : {std::pair(4, 2), {8, 1}}) {  // axes of the window
    const Program p = with_tile(plain, "conv", Any(AttrMap{{w, lanes(1, 8)}, {h, Any(int64_t(rows))}}));
    const tir::PrimFunc f = default_schedule(p.function, target_of({256, 16, 4}));
    int unrolled = 0;
    post_order(f, [&](const ObjectRef& n) {
      if (const auto* l = n.as<tir::For>(); l && l->kind == tir::ForKind::unrolled)
        unrolled += tir::as_int(l->extent) == 2;
    });
    EXPECT_EQ(unrolled, straight) << "8 sums and 8 rows of the image are more than 16 registers\n"
                                  << print(f);
    EXPECT_TRUE(same(run(plain.function), run(f)));
  }
}

TEST(GivenTile, ThatDoesNotFitIsRefused) {
  const Program plain = matmul(33, 50, 19);
  const std::string m = axis(plain, "C", 0), n = axis(plain, "C", 1), k = axis(plain, "C", 2);
  const Any two = Any(int64_t(2));
  for (const Any& tile :
       {Any(two), Any(AttrMap{{n, two}}), Any(AttrMap{{n, lanes(1, 0)}}), Any(AttrMap{{k, lanes(1, 16)}}),
        Any(AttrMap{{"absent", lanes(1, 16)}}), Any(AttrMap{{n, lanes(1, 16)}, {m, lanes(1, 16)}}),
        Any(AttrMap{{m + "*" + k, two}, {n, lanes(1, 16)}})}) {
    try {
      default_schedule(with_tile(plain, "C", tile).function, target_of({512, 32, 4}));
      ADD_FAILURE() << "accepted";
    } catch (const DiagnosticError& e) {
      EXPECT_EQ(e.code, "T0746") << e.what();
    }
  }
}

}  // namespace
}  // namespace tenon::testing
