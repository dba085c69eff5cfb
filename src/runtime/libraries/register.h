// SPDX-License-Identifier: Apache-2.0
// How the libraries beside the runtime enter their functions while they are loaded.
#pragma once
#include "base/function.h"

namespace tenon {

/// A function that a program has registered under the name before stays: nothing may be thrown here.
inline void register_unless_taken(const char* name, std::function<Any(Arguments)> f, const char* doc = "") {
  if (!registry::find(name)) registry::add(name, Function(std::move(f)), false, doc);
}

}  // namespace tenon
