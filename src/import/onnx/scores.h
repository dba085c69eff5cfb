// SPDX-License-Identifier: Apache-2.0
// What the classifiers of ai.onnx.ml share: the labels of their classes, and what becomes of scores.
#pragma once
#include "import/onnx/text.h"

namespace tenon::onnx {

/// The labels of the classes, strings or int64.
struct Classes {
  Value labels;
  int64_t count = 0;
};
/// Of the attributes `integers` or "classlabels_strings"; T2020 without either.
Classes classes_of(NodeContext& n, const std::string& integers);
/// The label of the largest score of each row, the first of equal ones.
Value label_of_best(NodeContext& n, const Classes& classes, const Expr& scores);
/// Of a column of scores: the second label where they are above the limit, else the first.
Value label_of_sign(NodeContext& n, const Classes& classes, const Expr& scores, double limit);
/// A column of scores s as the columns 1 - s and s.
Expr with_rest(NodeContext& n, const Expr& scores);
/// NONE, SOFTMAX, LOGISTIC, PROBIT or SOFTMAX_ZERO of rows of scores.
Expr post_transformed(NodeContext& n, const Expr& scores, const std::string& transform);

}  // namespace tenon::onnx
