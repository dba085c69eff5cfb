// SPDX-License-Identifier: Apache-2.0
// Results that the interpreter keeps: modules that are mostly equal, before and after a pass, are interpreted
// one after the other, and nothing is computed twice from the same values.
#pragma once
#include "interpret/interpret.h"

namespace tenon {

/// Exact: operators, attributes, programs and values are compared, their hashes only find them. Not for
/// several threads at once.
class InterpretMemo {
 public:
  /// What was computed, and from what.
  struct Key {
    ObjectRef what;             ///< an operator or a tensor program
    ObjectRef attrs;            ///< of an operator
    std::vector<Value> values;  ///< tensors, tuples, shapes, numbers
    std::string forms;          ///< what the values are known as: constants, other values
    uint64_t hash = 0;
  };
  explicit InterpretMemo(size_t max_bytes) : max_bytes_(max_bytes) {}

  /// No key when a value is of another kind, or when the program calls others.
  std::optional<Key> key(ObjectRef what, ObjectRef attrs, std::vector<Value> values, std::string forms = {});
  struct Entry {
    Key key;
    std::vector<NDArray> outputs;
    bool tuple = false;  ///< of outputs, or the only output
  };
  const Entry* find(const Key& key) const;
  void store(Entry entry);

 private:
  struct Program {
    tir::PrimFunc keep;  ///< so that no other has its address
    uint64_t hash = 0;
    bool alone = true;
  };
  size_t max_bytes_, bytes_ = 0;
  std::unordered_map<uint64_t, std::vector<Entry>> entries_;
  std::unordered_map<const Object*, Program> programs_;
};

}  // namespace tenon
