// SPDX-License-Identifier: Apache-2.0
// compile(): from a module to an executable and its code. module_at_stage() runs the first part of the same
// lists.
#pragma once
#include <map>

#include "codegen/codegen.h"
#include "ir/text.h"
#include "pipeline/options.h"
#include "pipeline/pass_lists.h"
#include "runtime/executable.h"

namespace tenon {

/// What is made of the lowered programs.
enum class CodeForm : uint8_t {
  none,     ///< nothing: they are checked, text can be made of them
  objects,  ///< object code, which this process can load
  shared,   ///< linked as well, as an artifact holds it
};

/// What a user says, and what only a caller in C++ can.
struct CompileOptions : CompileSettings {
  bool specialize_missing_dims = false;  ///< symbolic dimensions without a value become 1
  bool schedule = true;                  ///< false: naive loops, as the evaluator uses
  std::string symbol_prefix;             ///< of kernels: models that are linked into one program differ in it
  CodeForm code = CodeForm::shared;
  /// Where the caller puts `codegen::debug_source(lowered)`: instructions get the lines of that file. Empty:
  /// no debug information.
  std::string debug_file;
  /// Called at the begin of each step: its name, and how many of `total` are done.
  std::function<void(std::string_view step, int done, int total)> progress;
  PassContext context;  ///< instruments, settings of passes, where text goes …
};
Target target_of(const ModelSettings& settings);  ///< of one processor: T0901
/// Why contractions stay in float32 although another precision is asked for; empty: they do not. Of a target
/// without instructions for which 16 bits pay, conversions would come on top of the same multiplications.
std::string precision_fallback(const CompileSettings& settings, const Target& target);
/// The options' context with what the settings say of passes, the target and an evaluator; for a compilation,
/// or where only the passes `named` run. What cannot be, all of it, is thrown or joins `problems`: T0904
/// (level, limit, precision), T0943 and T0944 (options of passes), what check_pass_requests finds.
PassContext context_of(const CompileOptions& options);
PassContext context_of(const CompileOptions& options, DiagnosticList& problems,
                       std::optional<std::span<const Pass>> named = {});

struct Compiled {
  Target target;
  int opt_level = 2;
  Executable executable;      ///< bytecode, constants, metadata
  ObjectCode object;          ///< from CodeForm::objects on
  std::string shared_object;  ///< CodeForm::shared
  IRModule planned;           ///< graph functions behind the last graph pass, programs scheduled
  IRModule lowered;           ///< programs behind the last tensor pass
  /// Passes, then "vm", "codegen", the library that the code generator uses ("llvm"), "link".
  std::vector<PassTiming> timings;
  double compile_ms = 0;
  std::vector<Compiled> variants;  ///< for the further processors of the target
};
/// Runs the graph passes, the schedule passes and the tensor passes on `module`, generates bytecode for its
/// graph functions and code for its programs, and links it when `options.code` says so. Symbolic dimensions
/// stay symbolic unless `options.dims` gives their values. DiagnosticError for what is wrong with the module
/// or the options, all of it at once; Error T1003 when `options.context.cancelled` says so; Error T3003 for a
/// dump that cannot be written. A target of several processors gives code for each, or for the best that this
/// machine has (CodeForm::objects).
Compiled compile(IRModule module, CompileOptions options);

/// The module behind the pass `stage` (its last run in a compilation), or "import": as it came. Error "T0931"
/// for a pass that no compilation runs.
IRModule module_at_stage(IRModule module, CompileOptions options, const std::string& stage);

/// The module in front of the pass `stage` (its first run) of a compilation. InternalError when there is
/// none.
IRModule module_in_front_of(IRModule module, CompileOptions options, const std::string& stage);

/// What a file holds, told from its first bytes.
enum class ModelKind { onnx, script, artifact };
ModelKind model_kind(std::string_view bytes);
/// What "-" stands for, read once.
const std::string& standard_input();
/// What a caller says of a model that is loaded.
struct LoadModelOptions {
  Map<std::string, int64_t> dims;  ///< values of symbolic dimensions by the file's names: T0903
  Map<std::string, NDArray> bind;  ///< tensors for inputs, which become constants: T0912, T0953
  std::vector<std::string>
      overridden;  ///< initialisers of an ONNX model that it also names as inputs: they become inputs (T0503)
  /// Receives the names of other files that were read, below the model's folder.
  std::vector<std::string>* external_files = nullptr;
};
/// A model file of any kind, told from its content: ONNX bytes, script text or Relay text ("-": standard
/// input). DiagnosticError "T2001" for a file that is neither a model nor a module.
IRModule load_model(const std::string& path, const LoadModelOptions& options = {});
/// The same from memory: `name` is for messages, external data of ONNX is looked for below `folder` (empty:
/// refused), large constants of script text in `constants`.
IRModule load_model_bytes(std::string_view bytes, const std::string& name, const std::string& folder = {},
                          const LoadModelOptions& options = {}, const ConstantTable* constants = nullptr);

}  // namespace tenon
