// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in recurrent.cpp, and the program that runs their steps.
#pragma once
#include "op/attrs.h"
#include "op/op_def.h"

namespace tenon::op {

struct RecurrentAttrs : Attrs<RecurrentAttrs> {
  bool reverse = false, linear_before_reset = false, input_forget = false;
  double clip = 0;
  int64_t group = 1;
  std::string gate = "sigmoid", input = "tanh", output = "tanh";
  Array<double> alphas{0, 0, 0}, betas{0, 0, 0};
  static constexpr std::string_view type_key = "attrs.Recurrent";
  static void fields(auto& f) {
    f.add("reverse", &RecurrentAttrs::reverse, "from the last step of each sequence to the first")
        .add("linear_before_reset", &RecurrentAttrs::linear_before_reset,
             "gru: the reset gate works on the product of the state, not on the state")
        .add("input_forget", &RecurrentAttrs::input_forget, "lstm: the forget gate is 1 less the input gate")
        .add("clip", &RecurrentAttrs::clip, "above 0: what goes into an activation is kept in ±clip")
        .add("group", &RecurrentAttrs::group,
             "of steps: neighbouring units that lie together in the state's weights, behind the lanes")
        .add("gate", &RecurrentAttrs::gate, "activation of the gates; rnn has none")
        .add("input", &RecurrentAttrs::input, "activation of what enters the state, or of lstm the cell")
        .add("output", &RecurrentAttrs::output, "lstm: activation of the cell")
        .add("alphas", &RecurrentAttrs::alphas, "first number of these three activations")
        .add("betas", &RecurrentAttrs::betas, "second number of these three activations");
  }
};

enum class Recurrence { rnn, gru, lstm };
int64_t gates_of(Recurrence kind);

/// Does the reset gate of a gru work on the state itself? Its third gate's sums come behind the other gates.
bool in_two_passes(Recurrence kind, const RecurrentAttrs& attrs);

/// Units of a block of weights. `units` of the layer and sequences of the `batch` are 0 when not known.
int64_t unit_block(Recurrence kind, const RecurrentAttrs& attrs, int64_t units, int64_t batch);
/// Whether the names of activations in the attributes are known; "" when they are.
std::string unknown_activation(const RecurrentAttrs& attrs);

/// Sequences by which a block of weights is read once, when no target is known.
constexpr int64_t kSequences = 4;
/// How a target runs steps.
struct StepForm {
  int64_t sequences = kSequences;  ///< of the batch, by which a block of weights is read once
  int64_t lanes = 16;              ///< of float32 in a vector, which grouped weights are multiplied by
  bool matrix_registers = false;   ///< grouped weights are multiplied in these
};
/// The definition of nn.packed_rnn, nn.packed_gru and nn.packed_lstm: all steps.
std::vector<te::Tensor> define_steps(const graph::Call& call, const std::vector<te::Tensor>& in,
                                     Recurrence kind, const StepForm& form);

}  // namespace tenon::op
