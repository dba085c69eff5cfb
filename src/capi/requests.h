// SPDX-License-Identifier: Apache-2.0
// What the packed functions "compiler.NAME" take, as their callers in C++ fill it. Each travels as a map of
// named values (base/named_values.h), so other languages give the same names.
#pragma once
#include "base/function.h"
#include "pipeline/options.h"
#include "runtime/ndarray.h"

namespace tenon {

/// "compiler.load" → module.
struct LoadRequest : Object {
  std::string model, bytes, folder;
  Map<std::string, int64_t> dims;
  Map<std::string, NDArray> bind;
  Array<std::string> overridden;

  static void fields(auto& f) {
    f.add("model", &LoadRequest::model, "a model file; with bytes: a name for messages")
        .add("bytes", &LoadRequest::bytes, "what a model file holds")
        .add("folder", &LoadRequest::folder, "with bytes: where external data stands; empty: it is refused")
        .add("dims", &LoadRequest::dims, "values of symbolic dimensions, by name")
        .add("bind", &LoadRequest::bind, "tensors for inputs, by name: they become constants")
        .add("overridden", &LoadRequest::overridden,
             "initialisers that the model also names as inputs: they become inputs");
  }
};

/// "compiler.compile" → compile_ms, passes (JSON), bytes, overrides (how each edited kernel was found to
/// compute the same, by name) and, for emit "jit", artifact and cached or compiled (capi/compiled.h); without
/// an output, text.
struct CompileRequest : CompileSettings {
  std::string model, emit = "artifact", output, stage, function, system, cache;
  ObjectRef module;
  Array<std::string> emit_options;
  bool verify = false, debug_info = false;
  Array<Any> verify_inputs;
  Function progress, cancelled, print, note;

  static void fields(auto& f) {
    using R = CompileRequest;
    CompileSettings::fields(f);
    f.add("model", &R::model, "a model file; \"-\": standard input")
        .add("module", &R::module, "an IRModule in place of a file; it has no cache")
        .add("emit", &R::emit, "a kind of compiler.emit_kinds, or jit: into this process")
        .add("output", &R::output, "a file; empty: into the reply")
        .add("stage", &R::stage, "the module behind this pass, as tir, dot, svg or png")
        .add("function", &R::function, "with stage: only this function")
        .add("system", &R::system, "a name to register the model under (obj and c)")
        .add("debug_info", &R::debug_info,
             "of a file with machine code: its instructions have the lines of OUTPUT.kernels.tir, written "
             "beside it")
        .add("emit_options", &R::emit_options, "\"NAME=VALUE\" of the kind that is emitted")
        .add("cache", &R::cache, "a folder of compiled models, or \"default\"; empty: none")
        .add("verify", &R::verify, "run the model around every pass")
        .add("verify_inputs", &R::verify_inputs, "what it is run on; empty: drawn values")
        .add("progress", &R::progress, "called with step, done and total")
        .add("cancelled", &R::cancelled, "asked again and again: true ends the compilation (T1003)")
        .add("print", &R::print, "called with pass and text, for print_after")
        .add("note", &R::note, "called with remarks");
  }
};

/// "compiler.extract" → program, unscheduled (script text), trace (JSON), inputs and outputs (tensors),
/// from_run: whether the inputs are those of the kernel's first call in a run of the model on `inputs`.
struct ExtractRequest : CompileSettings {
  std::string model, kernel, output;
  Array<NDArray> inputs;

  static void fields(auto& f) {
    using R = ExtractRequest;
    CompileSettings::fields(f);
    f.add("model", &R::model, "a model file; \"-\": standard input")
        .add("kernel", &R::kernel, "a name as `tenon bench --kernels` shows it")
        .add("output", &R::output,
             "a folder for NAME.tir, unscheduled/NAME.tir and NAME.trace.json; empty: none")
        .add("inputs", &R::inputs, "of the model: a tensor for each input that is not bound");
  }
};

/// "compiler.inspect" → json: kind, inputs (of ONNX models with read_as: "value" for axes, shapes, pads …,
/// else "data"), outputs, operators, parameters, flop, …; with strategies: the implementation of every call
/// (tools/strategy_report.h); with proofs: what is proved of every kernel (tools/proofs.h).
struct InspectRequest : ModelSettings {
  std::string model, bytes;
  bool strategies = false, proofs = false;

  static void fields(auto& f) {
    ModelSettings::fields(f);
    f.add("model", &InspectRequest::model, "a model file; with bytes: a name for messages")
        .add("bytes", &InspectRequest::bytes, "what a model file holds")
        .add("strategies", &InspectRequest::strategies,
             "the implementation of every call, and why not another")
        .add("proofs", &InspectRequest::proofs,
             "what is proved of every kernel, and what is checked instead");
  }
};

/// "compiler.lint" → json: problems[{kind: "error", "slow" or "numeric", rule (of an error: its code),
/// message, place, hint}]: what keeps the model from compiling, or what tools/lint.h remarks.
struct LintRequest : Object {
  std::string model, bytes;
  ObjectRef module;
  Map<std::string, int64_t> dims;

  static void fields(auto& f) {
    f.add("model", &LintRequest::model, "a model file; with bytes: a name for messages")
        .add("bytes", &LintRequest::bytes, "what a model file holds")
        .add("module", &LintRequest::module, "an IRModule in place of a file")
        .add("dims", &LintRequest::dims, "values of symbolic dimensions, by name");
  }
};

/// "compiler.memory" → json: the memory plan beside its lower bound.
struct MemoryRequest : PassSettings {
  std::string model;
  Map<std::string, int64_t> dim_bounds;

  static void fields(auto& f) {
    PassSettings::fields(f);
    f.add("model", &MemoryRequest::model, "a model file")
        .add("dim_bounds", &MemoryRequest::dim_bounds, "the most of symbolic dimensions, by name");
  }
};

/// "compiler.interpret" → outputs.
struct InterpretRequest : Object {
  std::string model;
  Array<NDArray> inputs;
  Map<std::string, int64_t> dims;
  Map<std::string, NDArray> bind;
  bool float64 = false;

  static void fields(auto& f) {
    using R = InterpretRequest;
    f.add("model", &R::model, "a model file")
        .add("inputs", &R::inputs, "a tensor for each input that is not bound")
        .add("dims", &R::dims, "values of symbolic dimensions, by name")
        .add("bind", &R::bind, "tensors for inputs, by name: they become constants")
        .add("float64", &R::float64, "floating values are computed as double");
  }
};

/// "compiler.opt" → text, passes (with time: processor time of each, JSON); with explain kernels
/// and schedule (JSON: the rules that were tried on each program) and fusion (text).
struct OptRequest : ModelSettings {
  std::string model, schedule, function, emit = "tir", output;
  Array<std::string> passes, pass_options;
  bool verify = false, explain = false, measure = false, time = false;
  double seconds = 0.3;

  static void fields(auto& f) {
    using R = OptRequest;
    ModelSettings::fields(f);
    f.add("model", &R::model, "a module or model file")
        .add("passes", &R::passes, "names of passes, in order")
        .add("pass_options", &R::pass_options, "\"PASS.KEY=VALUE\", in order")
        .add("schedule", &R::schedule, "a file of recorded schedules to apply")
        .add("function", &R::function, "only this function")
        .add("emit", &R::emit, "tir, dot, svg or png")
        .add("output", &R::output, "a file; empty: into the reply alone")
        .add("verify", &R::verify, "run the module around every pass")
        .add("explain", &R::explain, "programs beside their assembly")
        .add("measure", &R::measure, "with explain: run them too")
        .add("seconds", &R::seconds, "for the runs of each program that is measured")
        .add("time", &R::time, "processor time of every pass");
  }
};

/// "compiler.reduce" → pass (empty: none is wrong), code, message, text.
struct ReduceRequest : PassSettings {
  std::string model, output;
  Array<std::string> passes;
  int64_t seed = 1;
  Function reduced;

  static void fields(auto& f) {
    using R = ReduceRequest;
    PassSettings::fields(f);
    f.add("model", &R::model, "a model file")
        .add("passes", &R::passes, "names of passes, in order; none: a whole compilation")
        .add("output", &R::output, "a file for the reduced module; empty: into the reply alone")
        .add("seed", &R::seed, "of the inputs that are drawn")
        .add("reduced", &R::reduced, "called with tries and values left");
  }
};

/// "compiler.quantize" → json: layers[{name, op, error, own_error}], samples, accuracy_before and
/// accuracy_after (null without labels), leave_in_float, bytes.
struct QuantizeRequest : Object {
  std::string model, output, method = "minmax";
  Array<std::string> names, excluded;
  Array<NDArray> samples, labels;
  double percentile = 99.99;
  bool symmetric = false, per_tensor = false, equalize = false;
  int64_t threads = 0;
  Function progress;

  static void fields(auto& f) {
    using R = QuantizeRequest;
    f.add("model", &R::model, "a float model, an ONNX file")
        .add("output", &R::output, "a file for the quantised model")
        .add("names", &R::names, "of inputs")
        .add("samples", &R::samples, "a tensor (samples, ...) for each name")
        .add("labels", &R::labels, "none, or one tensor of integers: the class of each sample")
        .add("method", &R::method, "minmax, percentile or entropy")
        .add("percentile", &R::percentile, "of the values that the range spans, with that method")
        .add("symmetric", &R::symmetric, "activations as int8 around 0")
        .add("per_tensor", &R::per_tensor, "one scale for a weight, not one for each channel")
        .add("equalize", &R::equalize, "balance channels of neighbouring convolutions first")
        .add("excluded", &R::excluded, "names of nodes that stay in float")
        .add("threads", &R::threads, "to run the samples with; 0: available cores")
        .add("progress", &R::progress, "called with step, done and total");
  }
};

/// "compiler.target" → json.
struct TargetRequest : Object {
  std::string target;
  static void fields(auto& f) { f.add("target", &TargetRequest::target, "as for compile; empty: the host"); }
};

/// "compiler.read_value" → value: a tensor, an Array for a sequence, none for an empty optional.
struct ReadValueRequest : Object {
  std::string path, type;
  static void fields(auto& f) {
    f.add("path", &ReadValueRequest::path, "a file of ONNX's test data")
        .add("type", &ReadValueRequest::type,
             "what it holds: \"sequence(…)\", \"optional(…)\"; \"\": a tensor");
  }
};

/// "compiler.evaluate" → value.
struct EvaluateRequest : Object {
  std::string model, type, expression;
  static void fields(auto& f) {
    f.add("model", &EvaluateRequest::model,
          "a program in script or Relay text, whose data types the expression uses")
        .add("type", &EvaluateRequest::type, "of the value, as the program prints it")
        .add("expression", &EvaluateRequest::expression,
             "script text: Cons(R.const([1.0], \"float32\"), Nil())");
  }
};

/// "compiler.passes", "compiler.operators", "compiler.definitions", "compiler.onnx_operators",
/// "compiler.emit_kinds" → json.
struct NoRequest : Object {
  static void fields(auto&) {}
};

}  // namespace tenon
