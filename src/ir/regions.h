// SPDX-License-Identifier: Apache-2.0
// The dataflow regions of a body, kept by what builds another body in its order.
#pragma once
#include "ir/bodies.h"

namespace tenon::graph {

/// Where the regions of a body stand in the bindings that stand for its own. A region goes when it is left
/// with a call that has effects.
class Regions {
 public:
  explicit Regions(const Expr& body);
  /// `now` bindings stand for the first `old` of the body; told in the order of `old`.
  void reached(size_t old, size_t now);
  /// The blocks of a body of `bindings`, in which nothing was moved across a border. A region's outputs are
  /// the variables that are used behind it.
  Array<BindingBlock> blocks(const Array<Binding>& bindings, const Expr& result) const;

 private:
  struct Block {
    size_t old_end, end = 0;
    bool dataflow;
  };
  std::vector<Block> blocks_;  ///< none: nothing is marked
  size_t next_ = 0;            ///< the block whose end is not reached yet
};

/// A body that gives `result`, in which `now[i]` stands for binding i of `body`, or nothing where it is null.
Expr in_regions(const Expr& body, const std::vector<Binding>& now, const Expr& result);

}  // namespace tenon::graph
