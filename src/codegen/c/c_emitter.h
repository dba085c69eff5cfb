// SPDX-License-Identifier: Apache-2.0
// The visitor from lowered tensor programs to C11 text. Vectors become loops over lanes: while a lane
// variable is set, a vector expression prints its value in that lane.
#pragma once
#include <map>
#include <set>
#include <unordered_set>

#include "codegen/c/c.h"
#include "codegen/lowered.h"

namespace tenon::codegen {

/// Small functions that the text calls; printed once each, only when used, in order of first use.
class CHelpers {
 public:
  /// All return the name of the helper to call.
  std::string integer(
      std::string_view op,
      DataType t);  ///< div mod floordiv floormod min max shift_left shift_right popcount clz abs pow
  std::string floating(std::string_view op,
                       DataType t);   ///< min max floordiv floormod sigmoid over float or double
  std::string saturate(DataType to);  ///< double → integer
  std::string reinterpret(const std::string& from, const std::string& to);
  /// `op` of an element in memory: its new value is `next`, an expression over the old one (a), the operand
  /// (v) and, for compare_exchange, the third argument (w).
  std::string atomic(const std::string& op, DataType t, const std::string& type, const std::string& stored,
                     const std::string& next);
  const std::string& text() const { return text_; }
  bool atomics() const { return atomics_; }

 private:
  bool add(const std::string& name) { return names_.insert(name).second; }
  std::set<std::string> names_;
  std::string text_;
  bool atomics_ = false;
};

class CEmitter {
 public:
  /// `externals`: C functions that are called by their symbol.
  CEmitter(CHelpers& helpers, std::set<std::string> reserved, const COptions& options,
           std::set<std::string> externals = {})
      : helpers_(helpers),
        reserved_(std::move(reserved)),
        externals_(std::move(externals)),
        options_(options) {}
  /// Text of the kernel with its parallel bodies before it.
  std::string emit(const Kernel& kernel);

 private:
  using Vars = std::unordered_map<const tir::Var*, std::string>;
  // Names and types.
  std::string fresh(const std::string& hint);
  static std::string value_type(DataType t);  ///< of one lane
  static std::string memory_type(DataType t);
  std::string pointer_type(const tir::Var* data) const;
  void scan(const tir::Stmt& body);

  // Output.
  void line(const std::string& text) { out_ += std::string(size_t(indent_) * 2, ' ') + text + "\n"; }
  void open(const std::string& text) {
    line(text + " {");
    ++indent_;
  }
  void close(const std::string& tail = "") {
    --indent_;
    line("}" + tail);
  }

  // c_stmt.cpp
  void stmt(tir::Stmt s);
  void loop(const tir::For& n);
  void parallel_loop(const tir::For& n);
  void store(const tir::BufferStore& n);
  void let(const tir::VarRef& v, const PrimExpr& value);
  bool allocate(const tir::Buffer& b);  ///< true: a workspace, to be released
  void constant(const tir::AllocateConst& n);
  void return_code(const std::string& code);
  void begin_root() {
    memo_.clear();
    counts_.clear();
  }
  std::string root(const PrimExpr& e);

  // c_expr.cpp
  std::string expr(const PrimExpr& e);
  std::string compute(const PrimExpr& e);
  void count(const PrimExpr& e);
  std::string index(const PrimExpr& e);
  bool cannot_wrap(const PrimExpr& e) const;
  std::string binary(uint32_t node, const PrimExpr& a, const PrimExpr& b);
  std::string combine(uint32_t node, DataType t, const std::string& a, const std::string& b);
  std::string cast(const std::string& v, DataType from, DataType to);
  std::string literal(double v, DataType t) const;
  std::string literal(int64_t v, DataType t) const;
  std::string element(const tir::Buffer& b, const std::string& index) const;
  std::string load(const tir::BufferLoad& n);
  std::string call(const tir::Call& n);
  std::string call_extern(const tir::Call& n);
  std::string call_packed(const tir::Call& n);
  std::string math(const std::string& name, const tir::Call& n);
  std::string if_then_else(const tir::Call& n);
  std::string reduce(const tir::Call& n);
  std::string dot(const tir::Call& n);
  std::string atomic(const tir::Call& n);
  /// All lanes of a vector in a new array; its name.
  std::string materialise(const PrimExpr& vector);
  /// A loop over lanes around what f prints.
  void lanes(int64_t n, FunctionRef<void()> f);

  CHelpers& helpers_;
  std::set<std::string> reserved_, used_, externals_;
  COptions options_;
  std::unordered_map<std::string, int> numbers_;  ///< the last number given to each name
  std::string symbol_, functions_, out_;
  int indent_ = 0;
  std::string lane_;
  bool noalias_ = false, parallel_ = false;
  int bodies_ = 0;
  int64_t stack_bytes_ = 0;
  BoundsOf bounds_;
  Vars names_;
  std::unordered_set<const tir::Var*> lane_vars_;  ///< vectors of which one lane is named
  std::vector<std::string> workspaces_;
  std::unordered_map<const Object*, int32_t> asserts_;
  std::unordered_map<const tir::Var*, std::set<DataType>>
      element_types_;                                    ///< of each memory, over all its views
  std::unordered_map<const tir::Var*, DataType> typed_;  ///< memories whose C pointer has an element type
  std::unordered_set<const tir::Var*> stored_, referenced_;
  std::map<std::pair<const tir::PrimExprNode*, std::string>, std::string> memo_;
  std::unordered_map<const tir::PrimExprNode*, int> counts_;
};

/// The outer parentheses of a whole condition removed.
std::string bare(const std::string& text);

}  // namespace tenon::codegen
