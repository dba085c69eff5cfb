# SPDX-License-Identifier: Apache-2.0
"""Cuts a model that fails down to the few nodes that still fail in the same way."""
import copy

import judge
import numpy as np
import onnx
from draw import value_info
from judge import needed

STEPS = 80


def all_values(model, feed):
    """Every value that ONNX Runtime computes before it ends: name → array."""
    values = dict(feed)
    for node in model.graph.node:
        inputs = {i.name for i in model.graph.input}
        one = copy.deepcopy(model)
        outputs = [onnx.helper.make_empty_tensor_value_info(o) for o in node.output if o]
        try:
            one = needed(one, outputs)
            session = judge.session_of(one.SerializeToString())
            results = session.run(None, {i.name: feed[i.name] for i in one.graph.input if i.name in inputs})
            values.update({o.name: np.asarray(r) for o, r in zip(outputs, results)})
        except Exception:
            continue
    return values


def symbols_of(model):
    """Sizes of values, as ONNX infers them: name → numbers and names."""
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:
        return {}
    return {v.name: [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in v.type.tensor_type.shape.dim] for v in graph.value_info}


def smaller(model, values):
    """Models that are a step smaller, the largest steps first."""
    graph = model.graph
    for o in graph.output:
        if len(graph.output) > 1:
            yield needed(model, [o])
    outputs = {o.name for o in graph.output}
    symbols = symbols_of(model)
    for node in reversed(graph.node):
        for o in node.output:
            if o in values and o not in outputs and len(graph.output) == 1 and node.op_type not in ("If",):
                yield needed(model, [value_info(o, values[o].dtype, [None] * values[o].ndim)])
    for node in graph.node:
        for o in node.output:
            if o in values and o not in outputs:
                sizes = symbols.get(o, [])
                shape = values[o].shape
                for kind in ("input", "constant"):
                    made = copy.deepcopy(model)
                    for n in made.graph.node:
                        n.output[:] = [f"{p}_unused" if p == o else p for p in n.output]
                    if kind == "constant":
                        if values[o].size > 64:
                            continue
                        made.graph.initializer.append(onnx.numpy_helper.from_array(values[o], o))
                    else:
                        dims = [s if isinstance(s, (int, str)) else f"{o}_{k}" for k, s in enumerate(sizes)] if len(sizes) == len(shape) else [f"{o}_{k}" for k in range(len(shape))]
                        made.graph.input.append(value_info(o, values[o].dtype, dims))
                    yield needed(made, list(made.graph.output))
    for i in graph.input:
        if i.name in values and values[i.name].size <= 64:
            made = copy.deepcopy(model)
            kept = [copy.deepcopy(v) for v in made.graph.input if v.name != i.name]
            made.graph.ClearField("input")
            made.graph.input.extend(kept)
            made.graph.initializer.append(onnx.numpy_helper.from_array(values[i.name], i.name))
            yield made


def weight(model):
    """What becomes smaller: nodes first, then outputs, then inputs."""
    g = model.graph
    return len(g.node), len(g.output), len(g.input)


def shrunk(model, feed, fails):
    """The smallest model found, and its inputs; `fails(model, feed)` says whether it still fails in the same way."""
    values, steps, progress = all_values(model, feed), 0, True
    feed_of = lambda m: {i.name: values[i.name] for i in m.graph.input}  # noqa: E731
    while progress and steps < STEPS:
        progress = False
        for candidate in smaller(model, values):
            if weight(candidate) >= weight(model) or any(i.name not in values for i in candidate.graph.input):
                continue
            steps += 1
            if steps >= STEPS:
                break
            if fails(candidate, feed_of(candidate)):
                model, progress = candidate, True
                break
    return model, feed_of(model)
