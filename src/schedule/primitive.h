// SPDX-License-Identifier: Apache-2.0
// The record of a schedule primitive: everything that is known of it stands here once, in the file that
// implements it. Traces, replay, scripts, docs/schedule.md, golden files, random sequences and the mutation
// check follow the records.
#pragma once
#include <source_location>

#include "schedule/schedule.h"

namespace tenon {

enum class StepKind : uint8_t {
  query,   ///< finds blocks or loops, changes nothing
  sample,  ///< draws a decision, which the trace keeps
  change,  ///< transforms the program
  marker,  ///< a word in the trace
};

/// What a change does to calls of code that is not seen in the program (T.call_packed, T.call_extern).
enum class CallOrder : uint8_t {
  compared,  ///< refused when it changed their order, their arguments or the loops around them
  kept,      ///< it leaves their order alone, whatever it does to the loops around them
  moved,     ///< it changes where elements lie, of which they were given the strides: refused
};

bool is_handle(ParameterType type);  ///< of a block, loop or location

struct Parameter {
  std::string_view name, doc;
  std::optional<Any> fallback;  ///< stands where the argument is left out; without one it must be given
  // From the C++ signature:
  ParameterType type = ParameterType::any;
  bool list = false;
};

/// A program in script text and the steps that show the primitive on it.
struct Sample {
  std::string_view program, steps;
};

struct Primitive {
  std::string_view name;
  /// Its name among TVM's instructions where that is not ours in camel case; empty: it is ours alone.
  std::optional<std::string_view> reference;
  StepKind kind = StepKind::change;
  CallOrder calls = CallOrder::compared;  ///< of changes
  bool trusts_caller = false;             ///< no check promises that results stay the same
  std::string_view does;                  ///< what it does, in one clause
  std::string_view legal;                 ///< when it is accepted, in a sentence; empty: always
  std::vector<Parameter> parameters;
  Sample sample;
  // From the C++ signature and the implementation:
  std::optional<HandleKind> result;  ///< what it makes; none: nothing
  bool result_list = false;
  std::source_location where;
  /// Checks and acts. Decisions of samplers come back in `args`.
  std::vector<Handle> (*run)(sched::State&, std::vector<Any>& args) = nullptr;
};

/// All of them, by file and line.
const std::vector<const Primitive*>& primitives();
const Primitive* find_primitive(std::string_view name);  ///< null: there is none
std::string signature(const Primitive& primitive);       ///< "split(loop, factors)"

/// The handles among the arguments of a step, in order, lists unpacked.
std::vector<Handle> handles_of(const std::vector<Any>& args);
/// Fills in what is left out. T0790 where an argument is missing or of another type; `where` names the step.
void complete_arguments(const Primitive& primitive, std::vector<Any>& args, std::string_view where);

}  // namespace tenon
