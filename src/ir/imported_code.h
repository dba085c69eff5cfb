// SPDX-License-Identifier: Apache-2.0
// Text of another language whose functions a program calls with `tir.call_extern`: function attributes
// "import_c" (C11) and "import_llvm" (LLVM IR), which hold the text.
//
//   T.func_attr({"import_c": "int twice(const float* a, float* b, int64_t n) { … }"})
//   T.evaluate(T.call_extern("int32", "twice", T.address_of(A[0]), T.address_of(B[0]), T.int64(8)))
#pragma once
#include <string>
#include <vector>

#include "base/object.h"
#include "ir/module.h"
#include "ir/tir.h"

namespace tenon::tir {

struct ImportedCode {
  enum class Language : uint8_t { c, llvm } language;
  std::string text;
  bool operator==(const ImportedCode&) const = default;
};

inline constexpr ImportedCode::Language kImportLanguages[] = {ImportedCode::Language::c,
                                                              ImportedCode::Language::llvm};
/// "c", "llvm".
std::string_view to_string(ImportedCode::Language language);
/// The attribute that holds text of the language: "import_c", "import_llvm".
std::string import_attribute(ImportedCode::Language language);

/// What a program imports. Error "T0822" for an attribute that is no text.
std::vector<ImportedCode> imported_code(const PrimFuncNode& f);
/// What the programs of a module import, each text once, in order.
std::vector<ImportedCode> imported_code(const IRModule& module);

/// C functions of mathematics: they have no effect, and code for every target finds them.
bool is_mathematics(std::string_view symbol);

/// A function of such a text, as an external code generator gives it for a region of a graph function. It
/// takes pointers to the elements of the region's tensors, then of its results, all in row-major order, then
/// the values of the region's symbolic sizes, int64 each, in order of appearance. It gives an int32: 0, or
/// the run ends (T0509).
struct ImportedFunction : Object {
  std::string language;  ///< "c" or "llvm"
  std::string symbol, text;
  static constexpr std::string_view type_key = "tir.ImportedFunction";
  ImportedFunction() = default;
  ImportedFunction(std::string language, std::string symbol, std::string text)
      : language(std::move(language)), symbol(std::move(symbol)), text(std::move(text)) {}
  static void fields(auto& f) {
    f.add("language", &ImportedFunction::language)
        .add("symbol", &ImportedFunction::symbol)
        .add("text", &ImportedFunction::text);
  }
};

}  // namespace tenon::tir
