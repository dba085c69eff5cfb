// SPDX-License-Identifier: Apache-2.0
// First look at a model's bytes: walks the protobuf wire format of an ONNX model without building anything,
// so that truncation, corruption, deep nesting and blow-up are found before memory is spent.
#pragma once
#include <string_view>

namespace tenon::onnx {

enum class WireRoot { model, tensor };
/// Nesting of messages that is accepted; an If inside an If takes three levels.
inline constexpr int kMaxWireDepth = 600;

/// DiagnosticError T2001 (not ONNX), T2002 (truncated or corrupted), T2004 (would take too much memory),
/// T2005 (nested too deeply). `name` is for messages.
void check_wire(std::string_view bytes, WireRoot root, const std::string& name);

}  // namespace tenon::onnx
