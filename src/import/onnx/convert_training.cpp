// SPDX-License-Identifier: Apache-2.0
// Converters: steps of training (ai.onnx.preview.training).
#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

Expr times(N& n, const Expr& e, double v) {
  return n.op("multiply", {e, n.scalar(v, graph::as_tensor(e)->dtype)});
}
/// Inputs of an optimiser: rate, number of updates, then variables, gradients and states of each.
struct Updates {
  Expr rate, count;
  size_t variables;
};
Updates updates(N& n, size_t per) {
  if (n.inputs() < 2 + per || (n.inputs() - 2) % per != 0)
    n.malformed(fmt::format("{} has {} inputs", n.op_type(), n.inputs()));
  return {n.in(0), n.in(1), (n.inputs() - 2) / per};
}
/// The gradient (1) or a state (2, 3) of a variable, which has its shape.
Expr of_variable(N& n, const Updates& u, size_t variable, size_t which) {
  return n.checked(n.in(2 + which * u.variables + variable), n.known_shape(2 + variable));
}
Values adagrad(N& n) {
  const Updates u = updates(n, 3);
  const DataType t = n.dtype(0);
  const double decay = n.attr_float("decay_factor", 0), norm = n.attr_float("norm_coefficient", 0),
               epsilon = n.attr_float("epsilon", 0);
  const Expr steps = n.cast(u.count, t);
  const Expr rate = n.op("divide", {u.rate, n.op("add", {n.scalar(1, t), times(n, steps, decay)})});
  Values out(2 * u.variables);
  for (size_t i = 0; i < u.variables; ++i) {
    const Expr x = n.in(2 + i), h = of_variable(n, u, i, 2), given = of_variable(n, u, i, 1);
    const Expr g = n.op("add", {times(n, x, norm), given});
    const Expr sum = n.op("add", {h, n.op("square", {g})});
    const Expr root = n.op("add", {n.op("sqrt", {sum}), n.scalar(epsilon, t)});
    out[i] = n.op("subtract", {x, n.op("divide", {n.op("multiply", {rate, g}), root})});
    out[u.variables + i] = sum;
  }
  return out;
}
Values adam(N& n) {
  const Updates u = updates(n, 4);
  const DataType t = n.dtype(0);
  const double alpha = n.attr_float("alpha", 0.9), beta = n.attr_float("beta", 0.999),
               norm = n.attr_float("norm_coefficient", 0), after = n.attr_float("norm_coefficient_post", 0),
               epsilon = n.attr_float("epsilon", 0);
  const Expr steps = n.cast(u.count, t), one = n.scalar(1, t);
  auto rest = [&](double base) { return n.op("subtract", {one, n.op("power", {n.scalar(base, t), steps})}); };
  const Expr started = n.op("greater", {steps, n.scalar(0, t)});
  const Expr bent = n.op("divide", {n.op("multiply", {u.rate, n.op("sqrt", {rest(beta)})}), rest(alpha)});
  const Expr rate = n.op("where", {started, bent, u.rate});
  Values out(3 * u.variables);
  for (size_t i = 0; i < u.variables; ++i) {
    const Expr x = n.in(2 + i), v = of_variable(n, u, i, 2), h = of_variable(n, u, i, 3);
    const Expr g = n.op("add", {times(n, x, norm), of_variable(n, u, i, 1)});
    const Expr first = n.op("add", {times(n, v, alpha), times(n, g, 1 - alpha)});
    const Expr second = n.op("add", {times(n, h, beta), times(n, n.op("square", {g}), 1 - beta)});
    const Expr root = n.op("add", {n.op("sqrt", {second}), n.scalar(epsilon, t)});
    const Expr fresh = n.op("subtract", {x, n.op("divide", {n.op("multiply", {rate, first}), root})});
    out[i] = times(n, fresh, 1 - after);
    out[u.variables + i] = first, out[2 * u.variables + i] = second;
  }
  return out;
}
Values momentum(N& n) {
  const Updates u = updates(n, 3);
  const DataType t = n.dtype(0);
  const double alpha = n.attr_float("alpha", 0), beta = n.attr_float("beta", 1),
               norm = n.attr_float("norm_coefficient", 0);
  const bool nesterov = n.attr_string("mode", "standard") == "nesterov";
  // The first step takes the whole gradient.
  const Expr share = n.op(
      "where", {n.op("greater", {n.cast(u.count, t), n.scalar(0, t)}), n.scalar(beta, t), n.scalar(1, t)});
  Values out(2 * u.variables);
  for (size_t i = 0; i < u.variables; ++i) {
    const Expr x = n.in(2 + i), v = of_variable(n, u, i, 2);
    const Expr g = n.op("add", {times(n, x, norm), of_variable(n, u, i, 1)});
    const Expr fresh = n.op("add", {times(n, v, alpha), n.op("multiply", {share, g})});
    const Expr step = nesterov ? n.op("add", {g, times(n, fresh, alpha)}) : fresh;
    out[i] = n.op("subtract", {x, n.op("multiply", {u.rate, step})});
    out[u.variables + i] = fresh;
  }
  return out;
}
const R t1("ai.onnx.preview.training::Adagrad", {1}, adagrad),
    t2("ai.onnx.preview.training::Adam", {1}, adam), t3("ai.onnx.preview.training::Momentum", {1}, momentum);

}  // namespace
}  // namespace tenon::onnx
