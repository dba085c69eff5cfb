// SPDX-License-Identifier: Apache-2.0
#include "ir/llvm_intrinsic.h"

namespace tenon::tir {

namespace {
/// Those that define the same result, NaN and ties included.
struct Same {
  std::string_view llvm, ours;
  size_t arguments;
};
constexpr Same kSame[] = {
    {"fma", "tir.fma", 3},     {"sqrt", "tir.sqrt", 1},         {"fabs", "tir.abs", 1},
    {"floor", "tir.floor", 1}, {"ceil", "tir.ceil", 1},         {"trunc", "tir.trunc", 1},
    {"rint", "tir.round", 1},  {"nearbyint", "tir.round", 1},   {"roundeven", "tir.round", 1},
    {"exp", "tir.exp", 1},     {"exp2", "tir.exp2", 1},         {"exp10", "tir.exp10", 1},
    {"log", "tir.log", 1},     {"log2", "tir.log2", 1},         {"log10", "tir.log10", 1},
    {"sin", "tir.sin", 1},     {"cos", "tir.cos", 1},           {"tan", "tir.tan", 1},
    {"pow", "tir.pow", 2},     {"copysign", "tir.copysign", 2}, {"ctpop", "tir.popcount", 1},
};
}  // namespace

Array<PrimExpr> llvm_arguments(const Array<PrimExpr>& args) {
  const size_t first =
      args.size() > 1 && args[1].is<IntImm>() && args[1].dtype() == DataType::uint(32) ? 2 : 1;
  return {args.begin() + std::ptrdiff_t(std::min(first, args.size())), args.end()};
}

PrimExpr same_as_llvm(DataType type, const Array<PrimExpr>& args) {
  const auto* text = args.empty() ? nullptr : args[0].as<StringImm>();
  if (!text || !text->value.starts_with("llvm.")) return {};
  std::string_view name = std::string_view(text->value).substr(5);
  name = name.substr(0, name.find('.'));
  const Array<PrimExpr> given = llvm_arguments(args);
  for (const Same& s : kSame)
    if (s.llvm == name && s.arguments == given.size()) {
      for (const PrimExpr& a : given)
        if (a.dtype() != type) return {};
      return call(type, std::string(s.ours), given);
    }
  return {};
}

}  // namespace tenon::tir
