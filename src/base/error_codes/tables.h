// SPDX-License-Identifier: Apache-2.0
// The tables of codes, one per file of this folder.
#pragma once
#include "base/error_codes/error_codes.h"

namespace tenon::error_codes {

std::span<const ErrorCode> general_codes();
std::span<const ErrorCode> script_codes();
std::span<const ErrorCode> program_codes();
std::span<const ErrorCode> runtime_codes();
std::span<const ErrorCode> schedule_codes();
std::span<const ErrorCode> lowering_codes();
std::span<const ErrorCode> command_codes();
std::span<const ErrorCode> onnx_codes();

}  // namespace tenon::error_codes
