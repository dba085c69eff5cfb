// SPDX-License-Identifier: Apache-2.0
// Layouts by letters for other languages.
#include "capi/methods.h"
#include "op/bijective_layout.h"

namespace tenon {
namespace {

using op::BijectiveLayout;

const bool layouts_registered = [] {
  Methods<op::BijectiveLayoutNode>()
      .make(
          {"src", "dst"},
          [](const std::string& src, const std::string& dst) { return op::bijective_layout(src, dst); },
          "two layouts of the same letters, such as \"NCHW\" and \"NCHW4c\"")
      .add("forward_index", {"index"}, op::forward_index, "where the element at an index of src lies in dst")
      .add("backward_index", {"index"}, op::backward_index,
           "where the element at an index of dst lies in src")
      .add("forward_shape", {"shape"}, op::forward_shape, "the sizes in dst; blocks are filled up")
      .add("backward_shape", {"shape"}, op::backward_shape, "the sizes in src")
      .property("index_map", op::forward_map, "the map of indices that transform_layout takes");
  return true;
}();

}  // namespace
}  // namespace tenon
