// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as script text. What is refused is refused with codes and places; what parses
// and verifies is printed, and parsed again it is the equal module.
#include <cstdio>
#include <cstdlib>

#include "ir/structural.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace {

[[noreturn]] void finding(const std::string& what, const std::string& text) {
  std::fprintf(stderr, "FINDING: %s\n%s\n", what.c_str(), text.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon;
  const std::string text(reinterpret_cast<const char*>(data), size);
  IRModule m;
  try {
    m = parse_module(text);
  } catch (const DiagnosticError& e) {
    if (e.diagnostics.empty()) finding("refused without a mistake", text);
    for (const Diagnostic& d : e.diagnostics) {
      if (!d.code.starts_with("T02") && !d.code.starts_with("T03") && !d.code.starts_with("T11"))
        finding("a mistake of code " + d.code + ": " + d.message, text);
      if (d.message.empty()) finding("a mistake without a sentence", text);
    }
    return 0;
  }
  DiagnosticList problems;
  verify(m, problems);
  ConstantTable constants;
  PrintOptions how;
  how.constants = &constants;
  const std::string printed = print(m, how);  // what does not verify is shown to people, too
  if (!problems.empty()) return 0;
  try {
    ParseOptions options;
    options.constants = &constants;
    options.name = "printed";
    const IRModule again = parse_module(printed, options);
    if (const std::string d = first_difference(m, again); !d.empty())
      finding("the printed text is another module: " + d, printed);
    if (structural_hash(m) != structural_hash(again)) finding("equal modules of unequal hashes", printed);
    if (const std::string second = print(again, how); second != printed)
      finding("printed again, it is another text:\n" + second, printed);
  } catch (const Error& e) {
    finding(std::string("the printed text is refused: ") + e.what(), printed);
  }
  return 0;
}
