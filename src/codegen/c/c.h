// SPDX-License-Identifier: Apache-2.0
// The code generator for the target c, function by function. The pipeline reaches it through
// `code_generator(target)`.
#pragma once
#include "codegen/codegen.h"

namespace tenon::codegen {

/// How the text is written.
struct COptions {
  int64_t alignment = 64;        ///< of constants, static memory and arrays on the stack, in bytes
  bool asserts = true;           ///< kernels check what the program asserts and what indices may be
  bool entry = true;             ///< the model behind the kernels
  std::string prefix = "tenon";  ///< of `PREFIX_run` and of macros; kernels have it from the pipeline
};
std::vector<TextOption> c_text_options();
COptions c_options(const TextOptions& given);

/// Self-contained C11 of every kernel.
std::string c_source(const IRModule& lowered, const COptions& options = {});
/// The same as machine code, by the C compiler of this machine (cc, or $TENON_CC); T0819 without one.
ObjectCode c_object(const IRModule& lowered, const Target& target);

}  // namespace tenon::codegen
