// SPDX-License-Identifier: Apache-2.0
// What a value of the model is beyond a tensor of numbers. The program sees strings as tensors of int64
// (their numbers in the run's table of strings), narrow types that nothing computes with as tensors of their
// codes, sequences, optionals and maps as objects.
#pragma once
#include <memory>

#include "import/onnx/tensor.h"
#include "ir/graph.h"

namespace tenon::onnx {

constexpr int kString = 8;  ///< of the format's element types

struct Form;
using FormRef = std::shared_ptr<const Form>;  ///< null: a tensor of numbers

struct Form {
  enum Kind { numbers, strings, codes, sequence, optional, map };
  Kind kind = numbers;
  DataType element;  ///< of numbers; of codes what they stand for
  /// Of tensors: the type in the program, with sizes that hold wherever the value is seen. Null: no tensor
  /// has been seen yet (an empty sequence's).
  graph::Type type;
  FormRef item;  ///< of sequences and optionals; of maps the values
  FormRef key;   ///< of maps: integers or strings

  bool is_tensor() const { return kind <= codes; }
};

FormRef tensor_form(const graph::Type& type);
/// The form of a tensor whose elements are strings or codes; null for numbers.
FormRef element_form(int onnx_type);
/// The data type in which the program holds elements of that type: int64 for strings. Void: none.
DataType held_type(int onnx_type);
DataType held_type(const FormRef& tensor);
/// The same form for a tensor of another type.
FormRef with_type(const FormRef& form, const graph::Type& type);
FormRef container_form(Form::Kind kind, FormRef item);
FormRef map_form(FormRef key, FormRef item);
/// Of a declaration; sizes that are names are unknown. Null where a part of it is not supported.
FormRef declared_form(const proto::TypeProto& type);
/// What both are; null when they do not agree. An optional of something and the thing itself are an optional.
FormRef join(const FormRef& a, const FormRef& b);
bool same(const FormRef& a, const FormRef& b);
/// "sequence(tensor(float32))".
std::string to_string(const FormRef& form);

/// How an operator that only moves elements, whatever they are, treats those that are no numbers.
struct Moves {
  std::vector<int> data;  ///< its inputs of elements; empty: all
  bool carries = true;    ///< its outputs hold them; else they are numbers
};
/// Null for any other operator.
const Moves* moves_of(const std::string& op_type);

}  // namespace tenon::onnx
