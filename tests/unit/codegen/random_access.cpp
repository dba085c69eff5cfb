// SPDX-License-Identifier: Apache-2.0
#include "random_access.h"

#include <fmt/format.h>

#include <random>
#include <vector>

namespace tenon::test {
namespace {

struct Writer {
  std::mt19937_64 random;
  RandomAccessProgram p;
  /// A buffer of the program's own.
  struct Local {
    std::string name;
    int64_t size;
  };
  /// What a jump may leave from here.
  struct Leave {
    bool loop = false;    ///< the innermost loop is one that ends in order
    bool program = true;  ///< nothing around runs side by side
  };
  std::vector<std::string> vars;  ///< integers in scope
  std::vector<Local> locals;      ///< in scope
  Leave leave;
  std::string text;
  int names = 0, blocks = 0, vectors = 0;
  bool data = false;  ///< may indices come from data

  int64_t pick(int64_t lo, int64_t hi) { return lo + int64_t(random() % uint64_t(hi - lo + 1)); }
  bool one_in(int64_t n) { return pick(1, n) == 1; }
  std::string fresh(const char* stem) { return fmt::format("{}{}", stem, names++); }
  void line(int depth, const std::string& s) { text += std::string(size_t(depth) * 4, ' ') + s + "\n"; }

  std::string columns() const { return p.symbolic ? "n" : std::to_string(p.columns); }
  std::string results() const { return p.symbolic_results ? "m" : std::to_string(p.results); }
  std::string size_symbol() { return p.symbolic_results && (!p.symbolic || one_in(2)) ? "m" : "n"; }
  bool any_symbol() const { return p.symbolic || p.symbolic_results; }

  std::string atom() {
    if (vars.empty() || one_in(6))
      return any_symbol() && one_in(3) ? size_symbol() : std::to_string(pick(-1, 4));
    return vars[size_t(pick(0, int64_t(vars.size()) - 1))];
  }
  /// What memory says: narrow numbers wrap before they become an index.
  std::string from_data(int depth) {
    if (!locals.empty() && one_in(3)) {
      const Local& l = locals[size_t(pick(0, int64_t(locals.size()) - 1))];
      return fmt::format("{}[{}]", l.name, inside(std::to_string(l.size), depth));
    }
    const std::string x = fmt::format("I[{}]", index(depth, std::to_string(p.indices)));
    if (p.index == i64) return x;
    if (one_in(3)) return fmt::format("T.Cast(\"int64\", {} + I[0])", x);
    return fmt::format("T.Cast(\"int64\", {})", x);
  }
  /// An integer; mostly one that stays small.
  std::string index(int depth, const std::string& size) {
    if (depth == 0) return atom();
    const std::string x = index(depth - 1, size);
    switch (pick(0, data ? 10 : 8)) {
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
      case 8:
        return fmt::format("T.max({}, {})", x, atom());
      default:
        return from_data(depth - 1);
    }
  }
  /// An index that is outside in few programs only: most others would end at their first statement.
  std::string inside(const std::string& size, int64_t depth) {
    const std::string x = index(int(depth), size);
    if (one_in(9)) return x;
    if (one_in(3))
      return fmt::format("({} % {})", x, size == "n" || size == "m" ? "T.max(" + size + ", 1)" : size);
    return fmt::format("T.max(T.min({}, {} - 1), 0)", x, size);
  }
  std::string inside(const std::string& size) { return inside(size, pick(0, 2)); }
  std::string condition(int depth) {
    const std::string x = index(depth, "3"), y = atom();
    const char* const op[] = {"<", "<=", ">", ">=", "==", "!="};
    const std::string c = fmt::format("{} {} {}", x, op[pick(0, 5)], y);
    if (depth == 0 || one_in(2)) return c;
    return fmt::format("T.{}({}, {} < {})", one_in(3) ? "Or" : "And", c, atom(), atom());
  }
  std::string load() {
    if (one_in(4)) return fmt::format("B[{}]", inside(results()));
    const std::string row = inside(std::to_string(p.rows));
    return fmt::format("A[{}, {}]", row, inside(columns()));
  }
  std::string value(int depth) {
    if (depth == 0)
      return one_in(5) ? fmt::format("T.Cast(\"{}\", {})", to_string(p.element), atom()) : load();
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

  // ---- statements
  void statement(int depth, int levels) {
    const int64_t kind = levels == 0 ? 12 : pick(0, 13);
    const size_t known = vars.size(), own = locals.size();
    if (kind <= 4) {
      loop(depth, levels);
    } else if (kind == 5) {
      branch(depth, levels);
    } else if (kind == 6) {
      const std::string x = fresh("x");
      line(depth, fmt::format("{}: T.int64 = {}", x, index(2, columns())));
      vars.push_back(x);
      statement(depth, levels - 1);
    } else if (kind == 7) {
      block(depth);
    } else if (kind == 8) {
      jump(depth, levels);
    } else if (kind == 9) {
      local(depth, "allocate");
      statement(depth, levels - 1);
    } else if (kind == 10) {
      repeat(depth, levels);
    } else {
      if (levels > 0 && one_in(2)) statement(depth, levels - 1);
      store(depth);
    }
    vars.resize(known);
    locals.resize(own);
  }
  void store(int depth) {
    if (locals.empty() || !one_in(4))
      return line(depth, fmt::format("B[{}] = {}", inside(results()), value(int(pick(0, 2)))));
    const Local& l = locals[size_t(pick(0, int64_t(locals.size()) - 1))];
    line(depth, fmt::format("{}[{}] = {}", l.name, inside(std::to_string(l.size)),
                            index(1, std::to_string(l.size))));
  }
  void branch(int depth, int levels) {
    line(depth, fmt::format("if {}:", condition(1)));
    statement(depth + 1, levels - 1);
    if (!one_in(3)) return;
    line(depth, "else:");
    statement(depth + 1, levels - 1);
  }
  /// What stands behind it may run or not.
  void jump(int depth, int levels) {
    std::vector<std::string> possible;
    if (leave.loop) possible = {"break", "continue"};
    if (leave.program) possible.push_back("return");
    if (!possible.empty()) {
      line(depth, fmt::format("if {}:", condition(1)));
      line(depth + 1, possible[size_t(pick(0, int64_t(possible.size()) - 1))]);
    }
    statement(depth, levels - 1);
  }
  /// A buffer of integers, each set before anything reads it.
  void local(int depth, const char* how) {
    const Local l{fresh("L"), pick(1, 6)};
    line(depth, fmt::format("{} = T.{}(({},), \"int64\")", l.name, how, l.size));
    const std::string i = fresh("z");
    line(depth, fmt::format("for {} in range({}):", i, l.size));
    line(depth + 1, fmt::format("{}[{}] = {} * {}", l.name, i, i, pick(-1, 2)));
    locals.push_back(l);
  }
  std::string extent(bool& begins_anywhere) {
    if (one_in(12)) return "0";
    if (!any_symbol() || !one_in(3)) return std::to_string(pick(1, 6));
    begins_anywhere = one_in(3);
    const std::string s = size_symbol();
    return one_in(2)   ? s
           : one_in(2) ? fmt::format("({} + {}) // {}", s, pick(0, 3), pick(2, 4))
                       : fmt::format("T.min({}, {})", s, pick(1, 6));
  }
  void loop(int depth, int levels) {
    const std::string i = fresh("i");
    std::string kind = one_in(6) ? "T.unroll" : "range";
    bool begins_anywhere = one_in(8);
    std::string range = extent(begins_anywhere);
    if (vectors == 0 && one_in(3)) kind = "T.parallel";
    // Most bodies race among lanes, and what certainly does is refused.
    const bool lanes = vectors == 0 && one_in(16);
    if (lanes) kind = "T.vectorized", range = std::to_string(pick(2, 6)), begins_anywhere = false;
    if (kind == "T.unroll") range = std::to_string(pick(1, 4)), begins_anywhere = false;
    if (begins_anywhere) range = fmt::format("{0}, {0} + {1}", pick(-1, 3), range);
    line(depth, fmt::format("for {} in {}({}):", i, kind, range));
    vars.push_back(i);
    vectors += lanes;
    const bool ordered = kind == "range" || kind == "T.unroll";
    const Leave around = std::exchange(leave, Leave{ordered, ordered && leave.program});
    statement(depth + 1, levels - 1);
    leave = around;
    vectors -= lanes;
  }
  /// A loop that counts in memory: what it reaches is data.
  void repeat(int depth, int levels) {
    const std::string c = fresh("W");
    line(depth, fmt::format("{} = T.allocate((1,), \"int64\")", c));
    line(depth, fmt::format("{}[0] = 0", c));
    line(depth, fmt::format("while {}[0] < {}:", c, pick(0, 5)));
    line(depth + 1, fmt::format("{0}[0] = {0}[0] + 1", c));
    vars.push_back(c + "[0]");
    const Leave around = std::exchange(leave, Leave{true, leave.program});
    statement(depth + 1, levels - 1);
    leave = around;
  }
  void block(int depth) {
    const std::string v = fresh("v");
    line(depth, fmt::format("with T.block(\"b{}\"):", blocks++));
    const std::string extent = std::to_string(pick(1, 8));
    line(depth + 1, fmt::format("{} = T.axis.spatial({}, {})", v, extent, inside(extent)));
    if (one_in(2)) line(depth + 1, fmt::format("T.where({})", condition(1)));
    vars.push_back(v);
    line(depth + 1, fmt::format("B[{}] = {}", inside(results()), value(1)));
  }
};

}  // namespace

RandomAccessProgram random_access_program(uint64_t seed, const std::string& name) {
  const DataType elements[] = {f32, f32, f32, f64, i32, i64, DataType::int_(16), DataType::int_(8), u8};
  Writer w;
  w.random.seed(seed);
  w.p.symbolic = w.one_in(3);
  w.p.symbolic_results = w.one_in(4);
  w.data = w.one_in(2);
  w.p.element = elements[w.pick(0, 8)];
  w.p.index = w.one_in(3) ? i32 : i64;
  w.p.rows = w.pick(1, 5);
  w.p.columns = w.p.symbolic ? w.pick(0, 9) : w.pick(1, 9);
  w.p.indices = w.pick(1, 8);
  w.p.results = w.p.symbolic_results ? w.pick(0, 12) : w.pick(1, 12);
  const std::string element = to_string(w.p.element);
  w.line(0, "@T.prim_func");
  w.line(0, fmt::format("def {}(a: T.handle, I: T.Buffer(({},), \"{}\"), b: T.handle):", name, w.p.indices,
                        to_string(w.p.index)));
  if (w.p.symbolic) w.line(1, "n = T.int64()");
  if (w.p.symbolic_results) w.line(1, "m = T.int64()");
  w.line(1, fmt::format("A = T.match_buffer(a, ({}, {}), \"{}\")", w.p.rows, w.columns(), element));
  w.line(1, fmt::format("B = T.match_buffer(b, ({},), \"{}\")", w.results(), element));
  if (w.one_in(4)) w.local(1, "alloc_buffer");
  // A return may end the program before its last statement.
  const int64_t statements = w.pick(1, 2);
  for (int64_t k = 0; k < statements; ++k) w.statement(1, int(w.pick(1, 4)));
  w.p.text = w.text;
  return w.p;
}

}  // namespace tenon::test
