// SPDX-License-Identifier: Apache-2.0
// Options of passes: declared once with type, default and help, read by type, given as values or as text.
#pragma once
#include "base/container.h"
#include "base/diagnostic.h"

namespace tenon {

/// Which values of its type an option takes.
struct OptionValues {
  int64_t least = INT64_MIN;        ///< of integers, those in lists and maps included
  std::vector<std::string> one_of;  ///< of texts; empty: any
};

/// An option as the table of passes, the command and other languages see it.
struct PassOption {
  std::string name;  ///< "PASS.KEY"
  std::string help;
  std::string type;  ///< of its values, in words: "integer", "texts", "integers by name", …
  Any otherwise;     ///< the default
  OptionValues values;
  bool (*of_type)(const Any& value) = nullptr;
  /// nullopt: no value of the type; problems say why where the type does not
  std::optional<Any> (*from_text)(std::string_view text, DiagnosticList& problems) = nullptr;
  std::string (*to_text)(const Any& value) = nullptr;  ///< what from_text makes the same value of
  bool takes(const Any& value) const;
  std::string type_in_words() const;  ///< "integer, at least 2"
};

/// The same with the type of its values, by which the pass reads it. T: bool, int64_t, std::string, NDArray
/// or graph::Type; Array<int64_t>, Array<std::string>; Map<std::string, …> of any but bool. As text, items of
/// lists and maps stand between commas: `2,4`, `n=2,m=3`; a tensor is `[[1, 2], [3, 4]]` of float32, or
/// with its element type in front, `int32[1, 2]`; a type is one of script text.
template <class T>
struct Option : PassOption {
  Option(std::string name, T otherwise, std::string help, OptionValues values = {});
};

/// The options that were given, by name.
class PassOptions {
 public:
  /// DiagnosticError T0919 for a pass that is not there, T0943 for an option that it does not have (both name
  /// the nearest one), T0944 for a value that it does not take.
  void set(std::string_view name, Any value);
  /// The same from "PASS.KEY=VALUE". What is wrong is thrown, or joins `problems`.
  void set_text(std::string_view assignment);
  void set_text(std::string_view assignment, DiagnosticList& problems);
  template <class T>
  T get(const Option<T>& option) const {
    const auto given = given_.find(option.name);
    return (given ? *given : option.otherwise).template as<T>();
  }
  const AttrMap& given() const { return given_; }

 private:
  AttrMap given_;
};

/// A value of the option as text, which set_text takes.
std::string option_text(std::string_view name, const Any& value);

}  // namespace tenon
