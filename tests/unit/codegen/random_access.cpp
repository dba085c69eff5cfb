// SPDX-License-Identifier: Apache-2.0
#include "random_access.h"

#include <fmt/format.h>

#include <vector>

namespace tenon::test {
namespace {

struct Writer {
  std::mt19937_64 random;
  RandomAccessProgram p;
  std::vector<std::string> vars;  ///< integers in scope
  std::string text;
  int names = 0, blocks = 0, vectors = 0;
  bool data = false;  ///< may indices come from data

  int64_t pick(int64_t lo, int64_t hi) { return lo + int64_t(random() % uint64_t(hi - lo + 1)); }
  bool one_in(int64_t n) { return pick(1, n) == 1; }
  std::string fresh(const char* stem) { return fmt::format("{}{}", stem, names++); }
  void line(int depth, const std::string& s) { text += std::string(size_t(depth) * 4, ' ') + s + "\n"; }

  std::string columns() const { return p.symbolic ? "n" : std::to_string(p.columns); }
  std::string atom() {
    if (vars.empty() || one_in(6)) return p.symbolic && one_in(3) ? "n" : std::to_string(pick(-1, 4));
    return vars[size_t(pick(0, int64_t(vars.size()) - 1))];
  }
  /// An integer; mostly one that stays small.
  std::string index(int depth, const std::string& size) {
    if (depth == 0) return atom();
    const std::string x = index(depth - 1, size);
    switch (pick(0, data ? 9 : 7)) {
      case 0:
        return fmt::format("({} + {})", x, atom());
      case 1:
        return fmt::format("({} - {})", x, atom());
      case 2:
        return fmt::format("({} * {})", x, pick(1, 3));
      case 3:
        return fmt::format("({} // {})", x, pick(2, 4));
      case 4:
        return fmt::format("({} % {})", x, pick(2, 5));
      case 5:
        return fmt::format("T.min({}, {} - 1)", x, size);
      case 6:
        return fmt::format("T.max(T.min({}, {} - 1), 0)", x, size);
      case 7:
        return fmt::format("T.if_then_else({}, {}, {})", condition(0), x, atom());
      default:
        return fmt::format("I[{}]", index(depth - 1, std::to_string(p.indices)));
    }
  }
  /// An index that is outside in few programs only: most others would end at their first statement.
  std::string inside(const std::string& size) {
    const std::string x = index(int(pick(0, 2)), size);
    if (one_in(9)) return x;
    if (one_in(3)) return fmt::format("({} % {})", x, size);
    return fmt::format("T.max(T.min({}, {} - 1), 0)", x, size);
  }
  std::string condition(int depth) {
    const std::string x = index(depth, "3"), y = atom();
    const char* const op[] = {"<", "<=", ">", ">=", "==", "!="};
    const std::string c = fmt::format("{} {} {}", x, op[pick(0, 5)], y);
    if (depth == 0 || one_in(2)) return c;
    return fmt::format("T.And({}, {} < {})", c, atom(), atom());
  }
  std::string load() {
    if (one_in(4)) return fmt::format("B[{}]", inside(std::to_string(p.results)));
    const std::string row = inside(std::to_string(p.rows));
    return fmt::format("A[{}, {}]", row, inside(columns()));
  }
  std::string value(int depth) {
    if (depth == 0) return one_in(5) ? fmt::format("T.Cast(\"float32\", {})", atom()) : load();
    switch (pick(0, 4)) {
      case 0:
        return fmt::format("({} + {})", value(depth - 1), value(depth - 1));
      case 1:
        return fmt::format("T.max({}, {})", value(depth - 1), value(0));
      case 2:
        return fmt::format("T.Select({}, {}, {})", condition(0), value(depth - 1), value(0));
      case 3: {
        const std::string x = index(1, columns());
        return fmt::format("T.if_then_else(T.And(0 <= {0}, {0} < {1}), A[0, {0}], {2})", x, columns(),
                           value(depth - 1));
      }
      default:
        return value(depth - 1);
    }
  }

  void statement(int depth, int levels) {
    const int64_t kind = levels == 0 ? 9 : pick(0, 9);
    const size_t known = vars.size();
    if (kind <= 4) {
      loop(depth, levels);
    } else if (kind == 5) {
      line(depth, fmt::format("if {}:", condition(1)));
      statement(depth + 1, levels - 1);
    } else if (kind == 6) {
      const std::string x = fresh("x");
      line(depth, fmt::format("{}: T.int64 = {}", x, index(2, columns())));
      vars.push_back(x);
      statement(depth, levels - 1);
    } else if (kind == 7) {
      block(depth);
    } else {
      if (levels > 0 && one_in(2)) statement(depth, levels - 1);
      line(depth, fmt::format("B[{}] = {}", inside(std::to_string(p.results)), value(int(pick(0, 2)))));
    }
    vars.resize(known);
  }
  void loop(int depth, int levels) {
    const std::string i = fresh("i");
    const int64_t n = one_in(12) ? 0 : pick(1, 6);
    std::string kind = "range", extent = p.symbolic && one_in(3) ? "n" : std::to_string(n);
    if (vectors == 0 && one_in(3)) kind = "T.parallel";
    const bool lanes = vectors == 0 && one_in(4);
    if (lanes) kind = "T.vectorized", extent = std::to_string(pick(2, 6));
    line(depth, fmt::format("for {} in {}({}):", i, kind, extent));
    vars.push_back(i);
    vectors += lanes;
    statement(depth + 1, levels - 1);
    vectors -= lanes;
  }
  void block(int depth) {
    const std::string v = fresh("v");
    line(depth, fmt::format("with T.block(\"b{}\"):", blocks++));
    const std::string extent = std::to_string(pick(1, 8));
    line(depth + 1, fmt::format("{} = T.axis.spatial({}, {})", v, extent, inside(extent)));
    if (one_in(2)) line(depth + 1, fmt::format("T.where({})", condition(1)));
    vars.push_back(v);
    line(depth + 1, fmt::format("B[{}] = {}", inside(std::to_string(p.results)), value(1)));
  }
};

}  // namespace

RandomAccessProgram random_access_program(uint64_t seed, const std::string& name) {
  Writer w;
  w.random.seed(seed);
  w.p.symbolic = w.one_in(3);
  w.data = w.one_in(2);
  w.p.rows = w.pick(1, 5);
  w.p.columns = w.p.symbolic ? w.pick(0, 9) : w.pick(1, 9);
  w.p.indices = w.pick(1, 8);
  w.p.results = w.pick(1, 12);
  w.line(0, "@T.prim_func");
  w.line(0, fmt::format(
                "def {}(a: T.handle, I: T.Buffer(({},), \"int64\"), B: T.Buffer(({},), \"float32\")):", name,
                w.p.indices, w.p.results));
  if (w.p.symbolic) w.line(1, "n = T.int64()");
  w.line(1, fmt::format("A = T.match_buffer(a, ({}, {}), \"float32\")", w.p.rows, w.columns()));
  const int64_t statements = w.pick(1, 2);
  for (int64_t k = 0; k < statements; ++k) w.statement(1, int(w.pick(1, 4)));
  w.p.text = w.text;
  return w.p;
}

}  // namespace tenon::test
