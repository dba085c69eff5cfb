// SPDX-License-Identifier: Apache-2.0
// The end of a path that the sizes at hand do not allow: what a model calls there by name.
#include "base/function.h"
#include "runtime/ndarray.h"

namespace tenon {
namespace {

/// (text, or its bytes): what this path of the model would compute cannot be, for these sizes.
Any refuse(Arguments a) {
  if (const auto words = a[0].try_as<std::string>()) throw Error(ErrorKind::model, "T0520", *words);
  const NDArray text = a[0].as<NDArray>();
  throw Error(ErrorKind::model, "T0520",
              std::string(static_cast<const char*>(text.data()), size_t(text.byte_size())));
}

[[maybe_unused]] const bool registered = [] {
  registry::add("tenon.refuse", Function(refuse), false,
                "fails with the given words: what a model says cannot run here");
  return true;
}();

}  // namespace
}  // namespace tenon
