# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models for the tests of sessions and compilations. Without NumPy or onnx the tests that import this are skipped."""
import unittest

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    raise unittest.SkipTest("NumPy and onnx are not here") from None


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, constants=(), **keywords):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **keywords)


def relu(shape=("n", 4)):
    return model_of([helper.make_node("Relu", ["x"], ["y"])], [info("x", shape)], [info("y", shape)])


def two_layers():
    rng = np.random.default_rng(1)
    constants = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype("f"), n)
                 for n, s in (("w", (4, 8)), ("b", (8,)), ("v", (8, 3)))]
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "v"], ["y"]), helper.make_node("Softmax", ["y"], ["p"])]
    return model_of(nodes, [info("x", ("n", 4))], [info("p", ("n", 3)), info("y", ("n", 3))], constants)


def sum_and_product():
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Mul", ["a", "b"], ["p"])]
    return model_of(nodes, [info("a", (2, 3)), info("b", (2, 3))], [info("s", (2, 3)), info("p", (2, 3))])


def of_any_kind(nodes, inputs, outputs, opset=20):
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


X = np.arange(8, dtype="f").reshape(2, 4) - 3.5
A, B = (np.full((2, 3), v, "f") for v in (2, 5))


def session(ort, model, **keywords):
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"], **keywords)
