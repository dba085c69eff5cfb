// SPDX-License-Identifier: Apache-2.0
// The translation of rules to SMT-LIB, and the dialogue with z3.
#include "smt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <span>
#include <tuple>

#include "ir/intrinsic.h"
#include "rule_eval.h"

namespace tenon::rule_test {
namespace {

using namespace tir;

/// One rule at one width; width 0 are the unbounded integers.
class Translator {
 public:
  /// `given`: variables (and "lane") that stand for one value.
  Translator(const Rule& rule, int width, bool is_signed, std::map<std::string, int64_t> given = {})
      : rule_(rule), width_(width), signed_(is_signed), given_(std::move(given)) {}

  std::string text() {
    const bool index = rule_.domain == RuleDomain::index;
    // Conditions: numbers of an index never overflow; constants of wrapping types are compared as they are.
    Side condition = side(rule_.condition, !index && width_ > 0 ? width_ + 4 : width_);
    Side pattern = side(rule_.pattern, width_), replacement = side(rule_.replacement, width_);
    std::string out;
    for (auto& [name, sort] : declared_) out += fmt::format("(declare-const {} {})\n", name, sort);
    auto require = [&](const std::vector<std::string>& all) {
      for (const std::string& p : all) out += fmt::format("(assert {})\n", p);
    };
    require(lanes_);
    out += fmt::format("(assert {})\n", condition.term);
    require(condition.fits);
    require(condition.defined);
    if (index) require(pattern.fits);
    if (rule_.widens) require(replacement.fits);
    if (index) require(replacement.constants_fit);
    out += fmt::format("(assert (not (and (= {0} {1}) (=> {0} (= {2} {3})))))\n", all(pattern.defined),
                       all(replacement.defined), pattern.term, replacement.term);
    return out;
  }

 private:
  struct Side {
    std::string term;
    std::vector<std::string> fits, constants_fit, defined;
  };
  struct Value {
    std::string term;
    int width = 0;  ///< of a number
    bool closed = false;
    bool is_signed = true;
  };
  static std::string all(const std::vector<std::string>& v) {
    std::string out = "true";
    for (const std::string& s : v) out = fmt::format("(and {} {})", out, s);
    return out;
  }

  Side side(const PrimExpr& e, int width) {
    Side s;
    s.term = value(e, width, s).term;
    return s;
  }
  void declare(const std::string& name, int width) {
    declared_[name] = width ? fmt::format("(_ BitVec {})", width) : "Int";
  }
  std::string number(int64_t v, int width) const {
    if (!width) return v < 0 ? fmt::format("(- {})", -v) : fmt::format("{}", v);
    std::string bits;
    for (int i = width; i-- > 0;) bits += (i > 62 ? v < 0 : (v >> i & 1) != 0) ? '1' : '0';
    return "#b" + bits;
  }
  std::string extended(const std::string& term, int from, int to, bool is_signed) const {
    if (from == to) return term;
    return fmt::format("((_ {}_extend {}) {})", is_signed ? "sign" : "zero", to - from, term);
  }
  std::string lane() {
    if (auto it = given_.find("lane"); it != given_.end()) return number(it->second, width_);
    if (lanes_.empty()) {
      declare("lane", width_);
      declare("l", width_);
      const std::string le = width_ ? "bvsle" : "<=", lt = width_ ? "bvslt" : "<";
      lanes_ = {fmt::format("({} {} lane)", le, number(0, width_)), fmt::format("({} lane l)", lt),
                fmt::format("({} {} l)", le, number(2, width_)),
                fmt::format("({} l {})", le, number(64, width_))};
    }
    return "lane";
  }

  Value add(const Value& a, const Value& b, Side& s, bool minus) {
    const int w = a.width;
    Value r{fmt::format("({} {} {})", w ? (minus ? "bvsub" : "bvadd") : (minus ? "-" : "+"), a.term, b.term),
            w, a.closed && b.closed};
    if (!w) return r;
    const std::string wide = fmt::format("({} {} {})", minus ? "bvsub" : "bvadd",
                                         extended(a.term, w, w + 1, true), extended(b.term, w, w + 1, true));
    fit(s, r, fmt::format("(= {} {})", wide, extended(r.term, w, w + 1, true)));
    return r;
  }
  Value multiply(const Value& a, const Value& b, Side& s) {
    const int w = a.width;
    Value r{fmt::format("({} {} {})", w ? "bvmul" : "*", a.term, b.term), w, a.closed && b.closed};
    if (w) {
      fit(s, r, fmt::format("(bvsmul_noovfl {} {})", a.term, b.term));
      fit(s, r, fmt::format("(bvsmul_noudfl {} {})", a.term, b.term));
    }
    return r;
  }
  void fit(Side& s, const Value& r, const std::string& premise) {
    s.fits.push_back(premise);
    if (r.closed) s.constants_fit.push_back(premise);
  }
  Value divide(const Value& a, const Value& b, Side& s, bool quotient, bool floor) {
    const int w = a.width;
    s.defined.push_back(fmt::format("(not (= {} {}))", b.term, number(0, w)));
    Value r{"", w, a.closed && b.closed};
    if (!w) {
      // div and mod of SMT-LIB round down for positive divisors.
      const std::string up = fmt::format("(> {} 0)", b.term);
      const std::string q = fmt::format("(ite {0} (div {1} {2}) (div (- {1}) (- {2})))", up, a.term, b.term);
      const std::string m =
          fmt::format("(ite {0} (mod {1} {2}) (- (mod (- {1}) (- {2}))))", up, a.term, b.term);
      if (floor) {
        r.term = quotient ? q : m;
      } else {  // to zero: negate what is negative
        const std::string t = fmt::format(
            "(ite (>= {0} 0) (ite (> {1} 0) (div {0} {1}) (- (div {0} (- {1})))) "
            "(ite (> {1} 0) (- (div (- {0}) {1})) (div (- {0}) (- {1}))))",
            a.term, b.term);
        r.term = quotient ? t : fmt::format("(- {} (* {} {}))", a.term, t, b.term);
      }
      return r;
    }
    if (!signed_) {
      r.term = fmt::format("({} {} {})", quotient ? "bvudiv" : "bvurem", a.term, b.term);
      return r;
    }
    const std::string least = number(int64_t(uint64_t(1) << (w - 1)), w);
    if (quotient)
      fit(s, r, fmt::format("(not (and (= {} {}) (= {} {})))", a.term, least, b.term, number(-1, w)));
    if (!floor)
      r.term = fmt::format("({} {} {})", quotient ? "bvsdiv" : "bvsrem", a.term, b.term);
    else if (!quotient)
      r.term = fmt::format("(bvsmod {} {})", a.term, b.term);
    else
      r.term = fmt::format(
          "(ite (and (not (= (bvsrem {0} {1}) {2})) (not (= (bvslt {0} {2}) (bvslt {1} {2})))) (bvsub "
          "(bvsdiv {0} "
          "{1}) {3}) (bvsdiv {0} {1}))",
          a.term, b.term, number(0, w), number(1, w));
    return r;
  }
  Value compare(const char* op, const Value& a, const Value& b) const {
    static const std::map<std::string, std::string> s{
        {"<", "bvslt"}, {"<=", "bvsle"}, {">", "bvsgt"}, {">=", "bvsge"}},
        u{{"<", "bvult"}, {"<=", "bvule"}, {">", "bvugt"}, {">=", "bvuge"}};
    const bool widened = a.width > width_;  // conditions of unsigned numbers are extended with zeros
    return {fmt::format("({} {} {})",
                        !a.width             ? op
                        : signed_ || widened ? s.at(op)
                                             : u.at(op),
                        a.term, b.term)};
  }

  Value value(const PrimExpr& e, int width, Side& s) {
    auto two = [&](const auto& n) { return std::pair{value(n.a, width, s), value(n.b, width, s)}; };
    auto cmp = [&](const char* op, const auto& n) {
      auto [a, b] = two(n);
      return compare(op, a, b);
    };
    auto logic = [&](const char* op, const auto& n) {
      auto [a, b] = two(n);
      return Value{fmt::format("({} {} {})", op, a.term, b.term)};
    };
    auto extreme = [&](const char* op, const auto& n) {
      auto [a, b] = two(n);
      return Value{fmt::format("(ite {} {} {})", compare(op, a, b).term, a.term, b.term), a.width,
                   a.closed && b.closed};
    };
    return match<Value>(
        e,
        [&](const Var& n) -> Value {
          if (n.dtype.is_bool()) {
            declared_[n.name] = "Bool";
            return {n.name};
          }
          if (auto it = given_.find(n.name); it != given_.end())
            return {number(it->second, width), width, is_rule_constant(n)};
          if (n.name == "l") lane();
          declare(n.name, width_);
          if (!width) return {n.name, 0, is_rule_constant(n)};
          return {extended(n.name, width_, width, signed_), width, is_rule_constant(n)};
        },
        [&](const IntImm& n) -> Value {
          if (n.dtype.is_bool()) return {n.value ? "true" : "false"};
          return {number(n.value, width), width, true};
        },
        [&](const Add& n) {
          auto [a, b] = two(n);
          return add(a, b, s, false);
        },
        [&](const Sub& n) {
          auto [a, b] = two(n);
          return add(a, b, s, true);
        },
        [&](const Mul& n) {
          auto [a, b] = two(n);
          return multiply(a, b, s);
        },
        [&](const Div& n) {
          auto [a, b] = two(n);
          return divide(a, b, s, true, false);
        },
        [&](const Mod& n) {
          auto [a, b] = two(n);
          return divide(a, b, s, false, false);
        },
        [&](const FloorDiv& n) {
          auto [a, b] = two(n);
          return divide(a, b, s, true, true);
        },
        [&](const FloorMod& n) {
          auto [a, b] = two(n);
          return divide(a, b, s, false, true);
        },
        [&](const Min& n) { return extreme("<", n); }, [&](const Max& n) { return extreme(">", n); },
        [&](const EQ& n) { return logic("=", n); },
        [&](const NE& n) { return Value{fmt::format("(not {})", logic("=", n).term)}; },
        [&](const LT& n) { return cmp("<", n); }, [&](const LE& n) { return cmp("<=", n); },
        [&](const GT& n) { return cmp(">", n); }, [&](const GE& n) { return cmp(">=", n); },
        [&](const And& n) { return logic("and", n); }, [&](const Or& n) { return logic("or", n); },
        [&](const Not& n) { return Value{fmt::format("(not {})", value(n.a, width, s).term)}; },
        [&](const Select& n) {
          const Value c = value(n.condition, width, s), a = value(n.true_value, width, s),
                      b = value(n.false_value, width, s);
          return Value{fmt::format("(ite {} {} {})", c.term, a.term, b.term), a.width};
        },
        [&](const Cast& n) -> Value {
          const DataType from = n.value.dtype(), to = n.dtype;
          const Value v = value(n.value, width, s);
          if (from.is_bool())
            return {fmt::format("(ite {} {} {})", v.term, number(1, width), number(0, width)), width};
          if (to.is_bool()) return {fmt::format("(not (= {} {}))", v.term, number(0, v.width))};
          if (to == i64) return {width ? extended(v.term, width, 2 * width, signed_) : v.term, 2 * width};
          return {width ? fmt::format("((_ extract {} 0) {})", width - 1, v.term) : v.term, width};
        },
        [&](const Broadcast& n) { return value(n.value, width, s); },
        [&](const Ramp& n) {
          const Value base = value(n.base, width, s), step = value(n.stride, width, s);
          return add(base, multiply(step, Value{lane(), width}, s), s, false);
        },
        [&](const PrimExprNode& n) -> Value {
          CHECK(false, std::string(type_of(&n)->key));
          return {};
        });
  }

  const Rule& rule_;
  int width_;
  bool signed_;
  std::map<std::string, int64_t> given_;
  std::map<std::string, std::string> declared_;
  std::vector<std::string> lanes_;
};

}  // namespace

bool z3_program() {
  static const bool found = std::system("z3 --version > /dev/null 2>&1") == 0;
  return found;
}

namespace {

/// A rule of indices over all integers, with numbers in place of what would make it nonlinear.
SmtQuery linear_query(const Rule& rule, int tuples) {
  SmtQuery q{&rule, "integers, some constants", {}, 0, ""};
  std::vector<PrimExpr> conjuncts{rule.condition};
  for (size_t i = 0; i < conjuncts.size(); ++i)
    while (const auto* n = conjuncts[i].as<And>()) {
      conjuncts.push_back(n->b);
      conjuncts[i] = PrimExpr(n->a);
    }
  std::set<std::string> names;
  for (const PrimExpr& e : {rule.pattern, rule.replacement, rule.condition})
    for (const VarRef& v : free_vars(e))
      if (is_rule_constant(*v) || v->name == "p" || v->name == "n" ||
          (rule.name == "ramp.mul" && v->name == "z"))
        names.insert(v->name);
  const bool vector = rule.pattern.dtype().is_vector();
  std::mt19937_64 random(11);
  auto pick = [&](int64_t a, int64_t b) { return std::uniform_int_distribution<int64_t>(a, b)(random); };
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 64, 100, 1000, 12345, 1 << 20};
  for (int tries = 0; tries < 4000 && int(q.text.size()) < tuples; ++tries) {
    std::map<std::string, int64_t> given;
    Values values;
    for (const std::string& name : names) {
      int64_t v = sizes[size_t(pick(0, 13))];
      if (name == "m" && given.count("c")) v *= given["c"];
      if (name == "f" || name == "k" || name == "p" || name == "z") v = pick(-20, 20);
      if (name == "c" && pick(0, 3) == 0) v = -v;
      if (name == "l") v = int64_t(1) << pick(1, 4);
      given[name] = v;
      values.of[size_t(name[0] - 'a')] = v;
    }
    if (vector) given["lane"] = pick(0, given.count("l") ? given["l"] - 1 : 15);
    bool holds = true;
    for (const PrimExpr& c : conjuncts) {
      bool closed = true;
      for (const VarRef& v : free_vars(c)) closed = closed && given.count(v->name);
      const Result r = closed ? Program(c).run(values, {}) : Result{1};
      holds = holds && !r.undefined && r.value;
    }
    if (holds) q.text.push_back(Translator(rule, 0, true, given).text());
  }
  return q;
}

/// A fact about integers that z3 proves when asked, but does not think of.
struct Lemma {
  std::vector<std::string> variables;
  std::string fact;
  /// The question whose answer is "unsat".
  std::string question() const {
    std::string out;
    for (const std::string& v : variables) out += fmt::format("(declare-const {} Int)\n", v);
    return out + fmt::format("(assert (not {}))\n", fact);
  }
  std::string of(const std::vector<std::string>& terms) const {
    CHECK(terms.size() == variables.size(), "a lemma of other variables");
    std::string bound;
    for (size_t i = 0; i < terms.size(); ++i) bound += fmt::format("({} {})", variables[i], terms[i]);
    return fmt::format("(assert (let ({}) {}))\n", bound, fact);
  }
};

/// A rule over all integers in steps: lemmas, each proved by itself, then the rule where instances of them
/// are given. No text: there is no such proof of the rule.
SmtQuery lemma_query(const Rule& rule) {
  SmtQuery q{&rule, "integers, by lemmas", {}, 0, ""};
  if (rule.name != "div.of_mod") return q;
  const Lemma positive{{"a", "b"}, "(=> (and (> a 0) (> b 0)) (> (* a b) 0))"};
  const Lemma euclid{
      {"a", "n"}, "(=> (> n 0) (and (= a (+ (* n (div a n)) (mod a n))) (<= 0 (mod a n)) (< (mod a n) n)))"};
  const Lemma only_zero{{"n", "k", "u"}, "(=> (and (> n 0) (= (* n k) u) (< (- n) u) (< u n)) (= k 0))"};
  const Lemma digit{
      {"n", "k", "u", "b"},
      "(=> (and (> n 0) (> b 0) (<= 0 u) (< u n) (<= 0 (+ (* n k) u)) (< (+ (* n k) u) (* n b))) "
      "(and (<= 0 k) (< k b)))"};
  for (const Lemma& l : {positive, euclid, only_zero, digit}) q.text.push_back(l.question());
  // y = a·(d·m) + r, r = b·d + s, y = e·d + t, e = g·m + h: then e = m·a + b, 0 ≤ b < m, and b = h.
  q.text.push_back(Translator(rule, 0, true).text() +
                   "(define-fun dm () Int (* d m))\n"
                   "(define-fun a () Int (div y dm))\n(define-fun r () Int (mod y dm))\n"
                   "(define-fun b () Int (div r d))\n(define-fun s () Int (mod r d))\n"
                   "(define-fun e () Int (div y d))\n(define-fun t () Int (mod y d))\n"
                   "(define-fun g () Int (div e m))\n(define-fun h () Int (mod e m))\n" +
                   positive.of({"d", "m"}) + euclid.of({"y", "dm"}) + euclid.of({"r", "d"}) +
                   euclid.of({"y", "d"}) + euclid.of({"e", "m"}) +
                   only_zero.of({"d", "(- e (* m a) b)", "(- s t)"}) + digit.of({"d", "b", "s", "m"}) +
                   only_zero.of({"m", "(- g a)", "(- b h)"}));
  return q;
}

}  // namespace

void add_queries(const Rule& rule, bool all, std::vector<SmtQuery>& out) {
  auto add = [&](int width, bool is_signed, int stage) {
    const std::string what =
        width ? fmt::format("{} bits{}", width, is_signed ? "" : ", unsigned") : std::string("integers");
    out.push_back({&rule,
                   what,
                   {Translator(rule, width, is_signed).text()},
                   stage,
                   !width      ? ""
                   : is_signed ? "signed"
                               : "unsigned"});
  };
  // Products and quotients of unknowns take long as bits: those of indices are proved over all integers
  // instead.
  std::vector<int> widths;
  if (rule.domain != RuleDomain::index) widths = {8};
  if (all) widths = {8, 16, 32, 64};
  int stage = 0;
  for (int w : widths) {
    add(w, true, stage);
    if (rule.domain == RuleDomain::integer) add(w, false, stage);
    ++stage;
  }
  if (rule.domain != RuleDomain::index) return;
  out.push_back(linear_query(rule, all ? 60 : 3));
  if (SmtQuery steps = lemma_query(rule); !steps.text.empty()) out.push_back(std::move(steps));
  if (all) add(0, true, 0);
}

namespace {
struct Ask {
  size_t query = 0;
  int64_t steps = 0;
};
/// Answers to the first queries, as far as one process gets: it may run out of memory.
std::vector<Proof> ask_z3(const std::vector<SmtQuery>& queries, std::span<const Ask> asked, bool report) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tenon_rules_{}.smt2", ::getpid())).string();
  {
    std::ofstream file(path);
    for (const Ask& a : asked) {
      for (const std::string& text : queries[a.query].text)
        // The time is only for what counts no steps.
        file << "(reset)\n(set-option :rlimit " << a.steps << ")\n(set-option :timeout "
             << 20000 + a.steps / 100 << ")\n"
             << text << "(check-sat)\n";
      file << "(echo \"next\")\n";
    }
  }
  std::vector<Proof> out;
  bool refuted = false, unknown = false, failed = false;
  size_t proved = 0;
  if (FILE* pipe = ::popen(("z3 -memory:2000 " + path).c_str(), "r")) {
    char line[4096];
    while (out.size() < asked.size() && std::fgets(line, sizeof line, pipe)) {
      const std::string s(line);
      if (s == "sat\n") refuted = true;
      if (s == "unknown\n" || s == "timeout\n") unknown = true;
      if (s == "unsat\n") ++proved;
      if (s.find("(error") != std::string::npos) {
        if (s.find("memory") != std::string::npos)
          unknown = true;
        else
          failed = true, std::fprintf(stderr, "z3: %s", line);
      }
      if (s == "next\n" || s == "\"next\"\n") {
        const size_t texts = queries[asked[out.size()].query].text.size();
        out.push_back(failed                                ? Proof::failed
                      : refuted                             ? Proof::refuted
                      : unknown || !texts || proved < texts ? Proof::unknown
                                                            : Proof::proved);
        refuted = unknown = failed = false;
        proved = 0;
        if (report && out.size() % 50 == 0) {
          std::printf("z3: %zu of %zu\n", out.size(), asked.size());
          std::fflush(stdout);
        }
      }
    }
    ::pclose(pipe);
  }
  std::filesystem::remove(path);
  // A refutation may have come before the process ended.
  if (refuted && out.size() < asked.size()) out.push_back(Proof::refuted);
  return out;
}
}  // namespace

std::vector<Proof> prove(const std::vector<SmtQuery>& queries, int64_t steps) {
  std::vector<Proof> out(queries.size(), Proof::skipped);
  std::set<std::tuple<const Rule*, std::string>> given_up;
  int last = 0;
  for (const SmtQuery& q : queries) last = std::max(last, q.stage);
  for (int stage = 0; stage <= last; ++stage) {
    std::vector<Ask> asked;
    for (size_t i = 0; i < queries.size(); ++i) {
      const SmtQuery& q = queries[i];
      if (q.stage == stage && (q.family.empty() || !given_up.count({q.rule, q.family})))
        asked.push_back({i, stage              ? steps / 4
                            : q.family.empty() ? std::min<int64_t>(steps, 1'000'000)
                                               : steps});
    }
    std::vector<Proof> answers;
    while (answers.size() < asked.size()) {
      for (Proof p : ask_z3(queries, std::span(asked).subspan(answers.size()), last > 0))
        answers.push_back(p);
      if (answers.size() < asked.size()) answers.push_back(Proof::unknown);  // where the process ended
    }
    for (size_t i = 0; i < asked.size(); ++i) {
      const SmtQuery& q = queries[asked[i].query];
      out[asked[i].query] = answers[i];
      if (answers[i] != Proof::proved) given_up.insert({q.rule, q.family});
    }
    if (last > 0) {
      std::printf("z3: %zu questions of stage %d of %d asked\n", asked.size(), stage, last);
      std::fflush(stdout);
    }
  }
  return out;
}

}  // namespace tenon::rule_test
