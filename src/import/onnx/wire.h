// SPDX-License-Identifier: Apache-2.0
// First look at a model's bytes: walks the protobuf wire format of an ONNX model without building anything,
// so that truncation, corruption, deep nesting and blow-up are found before memory is spent.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::onnx {

enum class WireRoot { model, tensor, sequence, optional };
/// Nesting of messages that is accepted; an If inside an If takes three levels.
inline constexpr int kMaxWireDepth = 600;

/// The field of a tensor that names its payload in a text made by `without_payloads`.
inline constexpr uint32_t kPayloadField = 0x1fffffff;

/// The long raw payloads of a model's tensors, and what changes when they are left out.
struct WirePayloads {
  struct Payload {
    size_t field = 0, begin = 0, end = 0;  ///< its field's first byte; its own bytes
  };
  struct Length {
    size_t at = 0, bytes = 0;  ///< of the number that says how long a message is
    uint64_t value = 0;        ///< without payloads
  };
  std::vector<Payload> payloads;  ///< in order
  std::vector<Length> lengths;    ///< of the messages around them
};

/// DiagnosticError T2001 (not ONNX), T2002 (truncated or corrupted), T2004 (would take too much memory),
/// T2005 (nested too deeply). `name` is for messages.
void check_wire(std::string_view bytes, WireRoot root, const std::string& name,
                WirePayloads* payloads = nullptr);
/// The bytes without those payloads; each tensor says in kPayloadField which one is its own.
std::string without_payloads(std::string_view bytes, WirePayloads payloads);

}  // namespace tenon::onnx
