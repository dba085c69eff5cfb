// SPDX-License-Identifier: Apache-2.0
// Operators of Relay as calls of ours: one table of names, attributes and defaults (operators.cpp), and
// converters for what is more than other names. Private to the folder.
#pragma once
#include "import/relay/converter.h"
#include "op/attrs.h"
#include "op/attrs_qnn.h"

namespace tenon::relay {

/// The value of a call of the operator, T0222 when there is none here.
Expr convert_operator(Converter& c, const std::string& name, Array<Expr> args,
                      const std::vector<NamedAttr>& attrs, const Placed& at);
/// T0222 when there is none of that name.
void check_operator(Converter& c, const std::string& name, const Placed& at);
/// How many values an operator takes that is used as a function; T0222, T0223 when it cannot be.
size_t operator_arity(Converter& c, const std::string& name, const Placed& at);

/// An attribute as a value; nothing where an expression stands.
Any value_of(const AttrAst& a);

/// One call while it is converted. Attributes that nothing asked for are mistakes.
class OpCall {
 public:
  OpCall(Converter& c, const std::string& name, Array<Expr> args, const std::vector<NamedAttr>& attrs,
         const Placed& at)
      : name(name), args(std::move(args)), attrs_(attrs), at_(at), c_(c), read_(attrs.size()) {}
  const std::string& name;
  Array<Expr> args;

  // ---- attributes
  const NamedAttr* given(std::string_view attribute);  ///< null: it is left out, or None
  bool flag(std::string_view attribute, bool otherwise);
  int64_t integer(std::string_view attribute, int64_t otherwise);
  double number(std::string_view attribute, double otherwise);
  std::string text(std::string_view attribute, std::string otherwise);
  DataType dtype(std::string_view attribute, DataType otherwise = DataType::void_());
  Array<int64_t> integers(std::string_view attribute);  ///< of nested lists all numbers; empty: left out
  void ignore(std::initializer_list<std::string_view> attributes);
  /// Only this value is read.
  void only(std::string_view attribute, const std::string& value);
  /// Sets a field of our attributes.
  void set(const FieldInfo& field, Object* node, const NamedAttr& a);
  void check_all_read();

  // ---- operands
  void expect_args(size_t least, size_t most);
  const graph::TensorType* tensor(size_t i) const;  ///< null: not known
  int64_t rank(size_t i);                           ///< T0245 when it is not known
  DataType element(size_t i);                       ///< T0245 when it is not known
  const op::Shape& shape(size_t i);                 ///< T0245 when it is not known
  /// The elements of a constant operand: T0245 for another.
  NDArray constant(size_t i, std::string_view what);

  /// Operand i is a parameter whose type the text leaves open.
  bool is_open(size_t i) const;
  /// Its type, as the call says it.
  void learn(size_t i, const Type& type);

  // ---- values
  /// The call of our operator; parameters of open type get what it says of them.
  Expr value(std::string_view op, Array<Expr> operands, ObjectRef attributes = {});
  /// The same, bound to a name.
  Expr emit(std::string_view op, Array<Expr> operands, ObjectRef attributes = {});
  Expr get(const Expr& tuple, int64_t i);
  Expr cast(const Expr& x, DataType t);
  Expr axes(std::string_view op, const Expr& x, Array<int64_t> axes);  ///< expand_dims, squeeze, permute_dims
  Expr reduced(std::string_view op, const Expr& x, Array<int64_t> axes, bool keepdims);
  Expr relayout(const Expr& x, const std::string& from, const std::string& to);
  /// A constant of x's element type.
  Expr like(size_t i, double value);
  [[noreturn]] void fail(std::string code, std::string message, std::string hint = {});

 private:
  const std::vector<NamedAttr>& attrs_;
  const Placed& at_;
  Converter& c_;
  std::vector<bool> read_;
};

using Convert = Expr (*)(OpCall& call);
/// Converters by family; each is a list of names and functions.
struct Converted {
  std::string_view names;
  Convert convert;
  int args;  ///< how many values it takes, for an operator that is used as a function; 0: it is none
};
std::span<const Converted> shape_converters();
std::span<const Converted> network_converters();
std::span<const Converted> quantised_converters();

}  // namespace tenon::relay
