// SPDX-License-Identifier: Apache-2.0
// Calls of what is not in the text: C functions by their symbol, packed functions of the process.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/c/c_emitter.h"
#include "ir/packed_call.h"

namespace tenon::codegen {

using namespace tir;

static std::string c_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '?';
    out += plain ? std::string(1, c) : fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  }
  return out + "\"";
}

/// What is not in sight here is called by its symbol, whatever a header says of the name.
std::string CEmitter::call_extern(const tir::Call& n) {
  const std::string& symbol = n.args[0].as<tir::StringImm>()->value;
  std::vector<std::string> args, types;
  for (size_t k = 1; k < n.args.size(); ++k) {
    args.push_back(bare(expr(n.args[k])));
    types.push_back(n.args[k].dtype().is_handle() ? "void*" : value_type(n.args[k].dtype()));
  }
  if (!externals_.count(symbol)) return fmt::format("{}({})", symbol, fmt::join(args, ", "));
  const std::string result = n.dtype.is_void() ? "void" : n.dtype.is_handle() ? "void*" : value_type(n.dtype);
  return fmt::format("(({} (*)({}))tenon_external_{})({})", result,
                     types.empty() ? "void" : fmt::format("{}", fmt::join(types, ", ")), symbol,
                     fmt::join(args, ", "));
}

std::string CEmitter::call_packed(const tir::Call& n) {
  const PackedCallForm form = packed_call_form(n);
  std::vector<std::string> words;
  for (const PrimExpr& e : form.values) {
    if (const auto* text = e.as<StringImm>())
      words.push_back(fmt::format("(int64_t)(intptr_t){}", c_string(text->value)));
    else if (e.dtype().is_handle())
      words.push_back(fmt::format("(int64_t)(intptr_t){}", expr(e)));
    else if (e.dtype().is_float())
      words.push_back(fmt::format("{}({})", helpers_.reinterpret("double", "int64_t"), bare(expr(e))));
    else
      words.push_back(bare(expr(e)));
  }
  if (words.empty()) words.push_back("0");
  const std::string values = fresh("call_values"), code = fresh("code");
  line(fmt::format("int64_t {}[] = {{{}}};", values, fmt::join(words, ", ")));
  line(fmt::format("const int32_t {} = context->call(context, {}, {});", code, c_string(form.text), values));
  open(fmt::format("if ({} != 0)", code));
  return_code(code);
  close();
  if (n.dtype.is_void()) return "0";
  const std::string bits = values + "[0]";
  if (n.dtype.is_float())
    return cast(fmt::format("{}({})", helpers_.reinterpret("int64_t", "double"), bits), f64, n.dtype);
  return cast(bits, i64, n.dtype);
}

}  // namespace tenon::codegen
