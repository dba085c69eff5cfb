// SPDX-License-Identifier: Apache-2.0
// From the words of a command line to a model that is ready to run, with its inputs.
#pragma once
#include <CLI/CLI.hpp>

#include "cli/compiler.h"
#include "runtime/vm.h"

namespace tenon::cli {

struct ModelOptions : CompileSettings {
  std::string model;
  std::vector<std::string> inputs, bound;  ///< NAME=VALUE of -i and of --bind
  std::string data, cache;
  uint64_t seed = 0;
  bool verify = false, time_passes = false, no_cache = false;
  std::vector<const CLI::Option*> of_compiling;  ///< options that only a compilation reads
};
void add_compile_options(CLI::App& app, ModelOptions& options);
/// --bind NAME=VALUE of any verb that reads models.
void add_bind_option(CLI::App& app, std::vector<std::string>& bound, const std::string& doc);
/// -i, --data and --seed; all of both.
void add_input_options(CLI::App& app, ModelOptions& options);
void add_run_options(CLI::App& app, ModelOptions& options);
void add_precision_option(CLI::App& app, CompileSettings& settings);
/// --target and -O, and an option of sizes by name, of any verb.
void add_target_options(CLI::App& app, ModelSettings& settings);
/// --custom LIB.so of any verb that reads models: loads the library. Error "T0615".
CLI::Option* add_custom_option(CLI::App& app);
/// A repeatable option; --require-pass, --disable-pass and --pass-option of any verb, or the last alone.
void add_list_option(CLI::App& app, const std::string& name, Array<std::string>& list, const std::string& doc,
                     const std::string& type);
void add_pass_options(CLI::App& app, PassSettings& settings);
void add_pass_option(CLI::App& app, Array<std::string>& options);
void add_sizes_option(CLI::App& app, const std::string& name, Map<std::string, int64_t>& sizes,
                      const std::string& doc);

/// A check of an option: a finite number that is not below 0.
CLI::Validator is_a_number();
/// "4096", "64M", "2G"; 0 for an empty text. Error "T0911".
int64_t parse_bytes(const std::string& text);

/// Inputs and outputs as the model declares them.
struct Signature {
  std::vector<ValueInfo> inputs, outputs;
  std::vector<ValueInfo> overridable;        ///< initialisers that the model also names as inputs
  std::map<std::string, std::string> bound;  ///< inputs that are fixed when compiling, and to what
  /// Of those that are no tensors: "sequence(tensor(float))"; "" for a tensor.
  std::vector<std::string> input_containers, output_containers;
  /// Symbols may be expressions of other symbols (`n * m`); an ONNX file's are names, whatever they look
  /// like.
  bool expressions = false;
  /// Of inputs that are values of a program's data types, as it prints them; "" for others.
  std::vector<std::string> input_types = {};
  /// The symbol is one that a size can be given for.
  bool names(const std::string& symbol) const;
  /// The declared name, or output_i where none is declared.
  std::string output_name(size_t i) const;
};

/// An ELF file or JSON: an artifact, a graph over one, or something the artifact loader refuses by name.
bool is_compiled(const std::string& path);
Signature signature_of(const ModelOptions& options);
/// The values of --bind; `signature.bound` names them. Error "T0912" for unknown names, "T0953" for what
/// cannot be bound.
Map<std::string, NDArray> bound_values(const ModelOptions& options, Signature& signature);
/// Values in declared order: given ones, those of --data, seeded ones; none for bound ones. Error "T0912" for
/// unknown names, "T0522" for what is bound and given again.
std::vector<Any> make_inputs(const ModelOptions& options, const Signature& signature);
/// The expected outputs of --data, in declared order: as many as the model gave, Error "T0922" otherwise.
std::vector<NDArray> expected_outputs(const std::string& data, size_t count);
/// Values of symbolic dimensions: --dim, then what the inputs show.
Map<std::string, int64_t> dims_of(const ModelOptions& options, const Signature& signature,
                                  const std::vector<Any>& inputs);

/// A request for compiler.compile with the options that all verbs share.
CompileRequest compile_request(const ModelOptions& options, Console& console);

/// What the compiler has to say of the settings: a precision that the target makes no use of.
void tell_note(const AttrMap& reply, Console& console);

/// Says which kernels are overridden, and how each was found to compute the same; the same by name.
json tell_overrides(const AttrMap& reply, Console& console);

struct Prepared {
  Signature signature;      ///< without inputs that are bound
  std::vector<Any> inputs;  ///< of the signature
  Map<std::string, NDArray> bind;
  Artifact artifact;
  double compile_ms = 0, load_ms = 0;
  bool cached = false;  ///< the compile cache had it: nothing was compiled
  json passes = json::array();
  /// The inputs, which must all be tensors: Error "T0929" otherwise.
  std::vector<NDArray> tensors() const;
  bool is_all_tensors() const;  ///< of the inputs
  /// Takes inputs that are bound out of signature and inputs.
  void leave_out_bound();
  /// Whether all inputs and outputs are tensors of numbers.
  bool is_plain() const;
  /// "compiled in 1.2 s", "loaded in 3 ms", "taken from the compile cache in 20 ms".
  std::string origin_text() const;
};
/// Threads and memory limit of the session that runs it.
SessionOptions session_options(const ModelOptions& options);
/// Loads an artifact, or compiles for the shapes of the inputs.
Prepared prepare(const ModelOptions& options, Console& console);

}  // namespace tenon::cli
