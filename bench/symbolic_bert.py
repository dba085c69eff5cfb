#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frees batch and sequence of the BERT-base that bench/export.py wrote for 1×128.

    bench/symbolic_bert.py bert_base.onnx bert_symbolic.onnx

Constants that hold the sizes (shapes of Reshape, positions, indices of the mask) are computed from the shape of
input_ids instead, as an export with free dimensions does; the weights stay the same, so that both models compute the
same at 1×128. This needs the package onnx only."""
import sys

import numpy
import onnx
from onnx import helper, numpy_helper

BATCH, SEQUENCE = 1, 128


def main():
    source, target = sys.argv[1:]
    model = onnx.load(source)
    graph = model.graph
    constants = {t.name: t for t in graph.initializer}
    nodes = []

    def constant(name, value):
        graph.initializer.append(numpy_helper.from_array(numpy.asarray(value, dtype=numpy.int64), name))
        return name

    def add(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name="free_" + output, **attributes))
        return output

    zero, one, minus = constant("free_0", 0), constant("free_1", 1), constant("free_-1", [-1])
    add("Shape", ["input_ids"], "free_shape")
    sizes = {}
    for axis, name in ((0, "batch"), (1, "sequence")):
        sizes[name] = add("Slice", ["free_shape", constant(f"free_from_{name}", [axis]),
                                    constant(f"free_to_{name}", [axis + 1])], f"free_{name}")

    def shape_of(name, parts):
        """A shape whose parts are numbers and names of sizes."""
        inputs = [sizes[p] if p in sizes else constant(f"{name}_{i}", [p]) for i, p in enumerate(parts)]
        return add("Concat", inputs, name, axis=0)

    def counted(name, size, shape, target_shape):
        scalar = add("Squeeze", [sizes[size]], f"{name}_size")
        numbers = add("Range", [zero, scalar, one], f"{name}_range")
        shaped = add("Reshape", [numbers, constant(f"{name}_shape", shape)], f"{name}_shaped")
        return add("Expand", [shaped, target_shape], name)

    replaced = {}
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[1] in constants:
            old = numpy_helper.to_array(constants[node.input[1]]).tolist()
            if old == [BATCH, SEQUENCE, -1, 64]:
                new = ["batch", "sequence", -1, 64]
            elif old == [-1, SEQUENCE, 64]:
                new = [-1, "sequence", 64]
            elif old == [BATCH, 12, 64, SEQUENCE]:
                new = ["batch", 12, 64, "sequence"]
            elif old == [BATCH, SEQUENCE, -1]:
                new = ["batch", "sequence", -1]
            else:
                sys.exit(f"symbolic_bert: no rule for the shape {old} of {node.name}")
            if node.input[1] not in replaced:
                replaced[node.input[1]] = shape_of("free_" + node.input[1], new)
            node.input[1] = replaced[node.input[1]]
        elif node.op_type == "GatherElements":  # token types of the positions that there are
            rows = shape_of("free_rows", ["batch", constants[node.input[0]].dims[1]])
            node.input[0] = add("Expand", [node.input[0], rows], "free_types")
            node.input[1] = counted("free_positions", "sequence", [1, -1], shape_of("free_tokens", ["batch", "sequence"]))
        elif node.op_type == "Gather" and node.input[1] == "slice_1":
            table = numpy_helper.from_array(numpy.arange(512, dtype=numpy.int64)[None], "free_position_ids")
            graph.initializer.append(table)
            node.input[1] = add("Slice", ["free_position_ids", "free_from_batch", sizes["sequence"], "free_to_batch"],
                                "free_position_slice")
        elif node.op_type == "GatherND":  # mask[b, 0, 0, s] by pairs of indices
            pair = shape_of("free_pair", ["batch", 1, 1, "sequence", 1])
            first = counted("free_b", "batch", [-1, 1, 1, 1, 1], pair)
            second = counted("free_s", "sequence", [1, 1, 1, -1, 1], pair)
            node.input[1] = add("Concat", [first, second], "free_pairs", axis=-1)
        elif node.op_type == "And":
            graph.initializer.append(numpy_helper.from_array(numpy.array(True), "free_true"))
            seen = shape_of("free_seen_shape", ["batch", 1, "sequence", 1])
            node.input[0] = add("Expand", ["free_true", seen], "free_seen")
        nodes.append(node)
    used = {name for node in nodes for name in node.input}
    del graph.node[:]
    graph.node.extend(nodes)
    kept = [t for t in graph.initializer if t.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del graph.value_info[:]
    for value in [*graph.input, *graph.output]:
        dims = value.type.tensor_type.shape.dim
        dims[0].dim_param = "batch"
        if value.name != "pooler_output":
            dims[1].dim_param = "sequence"
    onnx.checker.check_model(model)
    onnx.save(model, target)


if __name__ == "__main__":
    main()
