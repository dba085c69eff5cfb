// SPDX-License-Identifier: Apache-2.0
// The graph executor: a face of a straight-line artifact, with named inputs that stay set, and a debug run
// that times each operator. Its files are graphs (graph/graph.h), which every loader of artifacts takes, too.
#pragma once
#include "runtime/vm.h"

namespace tenon {

class GraphExecutor {
 public:
  /// Error "T0515" when `main` has branches, loops or calls of other functions: run such a model by a
  /// Session.
  explicit GraphExecutor(Artifact artifact, SessionOptions options = {});

  int num_inputs() const { return int(inputs_.size()); }
  int num_outputs() const;
  int input_index(std::string_view name) const;  ///< -1: there is no such input
  /// The tensor is used as it is, not copied. Errors T0503 (no such input), and those of Session at `run`.
  void set_input(int index, NDArray value);
  void set_input(std::string_view name, NDArray value);
  NDArray input(int index) const { return inputs_.at(size_t(index)); }
  void run();
  /// Of the last run; each run makes new ones. Error "T0516" before the first.
  NDArray output(int index) const;
  /// Runs like `run` and reports what each operator took, in milliseconds and in order.
  struct Timing {
    std::string name;
    double ms = 0;
  };
  std::vector<Timing> debug_run();

 private:
  void check() const;
  Session session_;
  std::vector<NDArray> inputs_, outputs_;
};

}  // namespace tenon
