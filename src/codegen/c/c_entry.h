// SPDX-License-Identifier: Apache-2.0
// Ahead-of-time C: a function that runs the whole model over memory that is planned and static, for devices
// without a heap.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/c/c.h"

namespace tenon::codegen {

/// C text to stand behind the kernels (c_source): constants, static memory, the functions of the model,
/// `PREFIX_run`, and a `main` under TENON_MAIN. T0924 says why when C cannot express the model: sizes that
/// only a run tells, recursion, values of data types, calls of packed functions. With a name in `system`,
/// also what registers the model with the runtime under it, which runs what C cannot (a comment says so);
/// T0924 when its constants are too large for text.
std::string c_entry(const Executable& executable, const IRModule& lowered, const std::string& system,
                    const TextOptions& options);
/// The header of `PREFIX_run`; "" when there is none.
std::string c_header(const Executable& executable, const std::string& system, const TextOptions& options);

// ---- c_program.cpp: bytecode as C functions. Registers become places in static memory where all ways to an
// instruction agree on them, and variables elsewhere; jumps become goto, calls of functions calls.

/// Why a model has no C entry.
struct NoEntry {
  std::string why;
};

/// Where a tensor is. `variable`: in the C variable of the register that holds it.
struct CPlace {
  enum Kind : uint8_t { variable, input, constant, arena, buffer } kind = variable;
  int64_t index = 0;
  bool operator==(const CPlace&) const = default;
};

/// What is known of a value of the VM at a place of the program.
struct CValue {
  enum Kind : uint8_t { none, tensor, number, list } kind = none;
  // tensor
  DataType dtype;
  int64_t bytes = 0;
  std::optional<std::vector<int64_t>> dims;
  CPlace place;
  std::set<int> buffers;  ///< of the static buffers, those that it may be in
  // number
  bool is_float = false;
  std::optional<int64_t> known;
  std::vector<CValue> items;  ///< of a list: a tuple, or the sizes of a shape
  bool operator==(const CValue&) const = default;
};

/// Static memory for tensors that one instruction makes: several copies where earlier ones are still read.
struct CBuffer {
  int64_t bytes = 0, copies = 1;
};

/// What the functions of a model share.
struct CProgram {
  const Executable& executable;
  std::string prefix;     ///< of every kernel's symbol
  int64_t alignment;      ///< of static memory
  std::string functions;  ///< text of those that `main` calls
  std::vector<CBuffer> buffers;
  std::set<std::string> kernels;             ///< symbols that are called
  std::map<std::string, std::string> named;  ///< functions printed so far: their key → the name in the text
  std::map<std::string, CValue> results;     ///< what functions return, by the same keys
  std::vector<int32_t> active;               ///< those that are being followed, the outermost first
};

/// The statements of `main`, over `inputs` and `outputs`, and the bytes of each. NoEntry when C cannot
/// express it.
struct CMain {
  std::string body;
  std::vector<int64_t> input_bytes, output_bytes;
};
CMain c_main(CProgram& program);

/// The identifiers in a text.
std::set<std::string> identifiers(const std::string& text);

}  // namespace tenon::codegen
