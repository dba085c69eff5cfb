// SPDX-License-Identifier: Apache-2.0
#include "ir/imported_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/define_type.h"

namespace tenon::tir {
std::string_view to_string(ImportedCode::Language language) {
  return language == ImportedCode::Language::c ? "c" : "llvm";
}

std::string import_attribute(ImportedCode::Language language) {
  return fmt::format("import_{}", to_string(language));
}

std::vector<ImportedCode> imported_code(const PrimFuncNode& f) {
  std::vector<ImportedCode> out;
  for (const ImportedCode::Language language : kImportLanguages)
    if (const auto value = f.attrs.find(import_attribute(language))) {
      const auto text = value->try_as<std::string>();
      if (!text)
        fail("T0822", fmt::format("the attribute `{}` is no text", import_attribute(language)), {}, {},
             ErrorKind::usage);
      out.push_back({language, *text});
    }
  return out;
}

std::vector<ImportedCode> imported_code(const IRModule& module) {
  std::vector<ImportedCode> out;
  for (const auto& [name, object] : module.functions())
    if (const auto* f = object.as<PrimFuncNode>())
      for (ImportedCode& code : imported_code(*f))
        if (std::find(out.begin(), out.end(), code) == out.end()) out.push_back(std::move(code));
  return out;
}

bool is_mathematics(std::string_view symbol) {
  static const std::set<std::string_view> base = {
      "exp",   "exp2",  "expm1",     "log",  "log2",   "log10",  "log1p", "sqrt",      "cbrt",
      "sin",   "cos",   "tan",       "asin", "acos",   "atan",   "sinh",  "cosh",      "tanh",
      "asinh", "acosh", "atanh",     "erf",  "erfc",   "floor",  "ceil",  "trunc",     "nearbyint",
      "rint",  "round", "roundeven", "pow",  "atan2",  "fmod",   "hypot", "copysign",  "nextafter",
      "fabs",  "fmin",  "fmax",      "fma",  "tgamma", "lgamma", "exp10", "remainder", "ldexp"};
  if (base.count(symbol)) return true;
  return symbol.size() > 1 && symbol.back() == 'f' && base.count(symbol.substr(0, symbol.size() - 1));
}

}  // namespace tenon::tir

template struct tenon::DefineTypes<tenon::tir::ImportedFunction>;
