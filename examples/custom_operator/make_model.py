#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model.onnx, whose one node is no standard operator: y = SquareDifference(a, b). Needs the package onnx."""
import pathlib

import onnx
from onnx import TensorProto, helper

a, b, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "aby")
node = helper.make_node("SquareDifference", ["a", "b"], ["y"], domain="example", alpha=0.5)
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("example", 1)]
onnx.save(helper.make_model(helper.make_graph([node], "g", [a, b], [y]), opset_imports=opsets, ir_version=10),
          pathlib.Path(__file__).resolve().parent / "model.onnx")
