// SPDX-License-Identifier: Apache-2.0
// Attributes of tensor programs by which one stage tells a later one something. A key that a single file
// knows stays there; those of the language ("global_symbol", "num_outputs", "tir.noalias") are in ir/tir.h.
#pragma once

namespace tenon {

inline constexpr const char kTraceAttr[] = "tenon.trace";  ///< JSON of the schedule that made its loops
/// Text: the rule that makes its loops.
inline constexpr const char kScheduleRuleAttr[] = "tenon.schedule_rule";
inline constexpr const char kKernelAttr[] = "tenon.kernel";      ///< lowered: it has the kernel's interface
inline constexpr const char kInternalAttr[] = "tenon.internal";  ///< called by a kernel, none itself
inline constexpr const char kDeviceAttr[] = "tenon.device";      ///< a nest of GPU threads
inline constexpr const char kAssertsAttr[] = "tenon.asserts";    ///< messages of its assertions, in order
/// The model's nodes that it computes, a list of texts.
inline constexpr const char kSourceAttr[] = "tenon.source";
inline constexpr const char kPatternAttr[] = "op_pattern";  ///< FusionKind as an int
/// No call of it is left: its parts are written where they are joined.
inline constexpr const char kMemoryOnlyAttr[] = "tenon.memory_only";
/// A result never takes the memory of a parameter.
inline constexpr const char kNotInPlaceAttr[] = "tenon.not_in_place";
inline constexpr const char kConcatAxisAttr[] = "tenon.concat_axis";  ///< int: it joins its parameters there
inline constexpr const char kOverrideAttr[] = "tenon.override";  ///< text: the file that replaced it, and how
inline constexpr const char kWorkAttr[] = "tenon.work";          ///< text: of the kernel that it replaced
/// Text: the program that it is a version of, for one row (`join_versions`).
inline constexpr const char kOneRowOfAttr[] = "tenon.one_row_of";
/// Ints: the scalars of that kernel which are 1 here.
inline constexpr const char kRowSizesAttr[] = "tenon.row_sizes";
/// Of a block: a schedule was told that regions which it touches are not to be seen.
inline constexpr const char kHidesAccessAttr[] = "unsafe_hides_access";
/// Of a parallel loop: nanoseconds of an iteration.
inline constexpr const char kCostAttr[] = "cost_ns";

}  // namespace tenon
