#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the benchmark's models: real architectures with seeded random weights.

    bench/models.py OUT [--light FOLDER] [--real FOLDER] [NAME…]

ResNet-50, SqueezeNet and the other light networks come from ONNX's backend test data (`--light`, the folder with
light_*.onnx; by default the one in the PyPI package onnx). Their weights are constant there, so they are replaced by
random ones. MobileNetV2 is built here from its paper (Sandler et al. 2018, table 2). The PP-OCR models and
basic_pitch are real ones, with their own weights; their free dimensions are fixed here (`--real`, the folder that
holds them). gemm_MxKxN are one MatMul with a constant right side.

Weights are calibrated layer by layer, so that values stay tame: each convolution's output gets a standard
deviation of one, each batch normalisation the mean and variance of what reaches it. The input of a final softmax
becomes a second output "logits", because a softmax hides errors."""
import argparse
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

LIGHT = ["resnet50", "squeezenet", "vgg19", "inception_v1", "inception_v2", "densenet121", "shufflenet", "bvlc_alexnet", "zfnet512"]
REAL = {"ppocr_v4_det": [1, 3, 640, 640], "ppocr_v4_rec": [1, 3, 48, 320], "ppocr_v2_cls": [1, 3, 48, 192], "basic_pitch": [1, 43844, 1]}
GEMMS = ["gemm_512x512x512", "gemm_1024x1024x1024", "gemm_2048x2048x2048", "gemm_128x3072x768"]
DEFAULT = [*LIGHT, "mobilenet_v2", *GEMMS]


def mobilenet_v2():
    """The architecture with placeholder weights of the right shapes."""
    nodes, initializers, count = [], [], 0

    def weight(name, shape):
        initializers.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    def conv_bn(x, inputs, outputs, kernel, stride, groups=1, clip=True):
        nonlocal count
        count += 1
        name = f"conv{count}"
        pad = kernel // 2
        nodes.append(helper.make_node("Conv", [x, weight(name + ".weight", (outputs, inputs // groups, kernel, kernel))], [name], name,
                                      kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=groups))
        nodes.append(helper.make_node("BatchNormalization", [name] + [weight(f"{name}.bn.{p}", (outputs,)) for p in ("scale", "bias", "mean", "var")],
                                      [name + ".bn"], name + ".bn", epsilon=1e-5))
        if not clip:
            return name + ".bn"
        nodes.append(helper.make_node("Clip", [name + ".bn", "zero", "six"], [name + ".relu6"], name + ".relu6"))
        return name + ".relu6"

    initializers += [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("zero", 0), ("six", 6))]
    x, channels = conv_bn("data", 3, 32, 3, 2), 32
    for expand, outputs, repeats, first_stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(repeats):
            stride, inner, shortcut = first_stride if i == 0 else 1, channels * expand, x
            if expand != 1:
                x = conv_bn(x, channels, inner, 1, 1)
            x = conv_bn(x, inner, inner, 3, stride, groups=inner)
            x = conv_bn(x, inner, outputs, 1, 1, clip=False)
            if stride == 1 and channels == outputs:
                nodes.append(helper.make_node("Add", [shortcut, x], [f"add{count}"], f"add{count}"))
                x = f"add{count}"
            channels = outputs
    x = conv_bn(x, channels, 1280, 1, 1)
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["pool"], "pool"))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"], "flatten"))
    nodes.append(helper.make_node("Gemm", ["flat", weight("fc.weight", (1000, 1280)), weight("fc.bias", (1000,))], ["scores"], "fc", transB=1))
    nodes.append(helper.make_node("Softmax", ["scores"], ["probability"], "softmax", axis=1))
    graph = helper.make_graph(nodes, "mobilenet_v2", [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, 224, 224])],
                              [helper.make_tensor_value_info("probability", TensorProto.FLOAT, [1, 1000])], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def gemm(name):
    """A (M, K) times a constant (K, N); M, N and K in this order in the name."""
    m, n, k = (int(v) for v in name.split("_")[1].split("x"))
    rng = np.random.default_rng(m + n + k)
    weight = numpy_helper.from_array((rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32), "b")
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"], "matmul")], name, [helper.make_tensor_value_info("a", TensorProto.FLOAT, [m, k])],
                              [helper.make_tensor_value_info("c", TensorProto.FLOAT, [m, n])], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="tenon-bench")
    model.ir_version = 8
    return model


def fixed(model, shape):
    """The model with its one input of this shape."""
    constants = {t.name for t in model.graph.initializer}
    (value,) = [i for i in model.graph.input if i.name not in constants]
    for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
        dim.dim_value = size
    del model.graph.value_info[:]  # their symbolic dimensions would contradict
    for o in model.graph.output:
        for dim in o.type.tensor_type.shape.dim:
            dim.Clear()
    return model


def constants_of(model):
    """Every value that is constant, by name; ConstantOfShape and Constant nodes are removed."""
    values = {t.name: numpy_helper.to_array(t).copy() for t in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            fill = numpy_helper.to_array(node.attribute[0].t) if node.attribute else np.zeros(1, np.float32)
            values[node.output[0]] = np.full(values[node.input[0]], fill[0], fill.dtype)
        elif node.op_type == "Constant":
            values[node.output[0]] = numpy_helper.to_array(node.attribute[0].t).copy()
        else:
            kept.append(node)
    return values, kept


def run_node(node, feeds, opset):
    """The node's outputs; it runs alone, its inputs given."""
    names = [n for n in dict.fromkeys(node.input) if n]
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(feeds[n].dtype), feeds[n].shape) for n in names]
    outputs = [helper.make_empty_tensor_value_info(o) for o in node.output if o]
    model = helper.make_model(helper.make_graph([node], "one", inputs, outputs), opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in outputs], session.run(None, {n: feeds[n] for n in names})))


def randomise(model, seed):
    rng = np.random.default_rng(seed)
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    constants, nodes = constants_of(model)
    values = dict(constants)
    data = [i for i in model.graph.input if i.name not in constants]
    for i in data:
        shape = [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]
        values[i.name] = rng.random(shape, np.float32)

    def draw(name, scale, offset=0.0):
        if name in constants:
            values[name] = (offset + scale * rng.standard_normal(constants[name].shape)).astype(np.float32)

    for node in nodes:
        if node.op_type in ("Conv", "Gemm"):
            draw(node.input[1], np.sqrt(1 / max(1, constants[node.input[1]][0].size)) if node.input[1] in constants else 1)
            if len(node.input) > 2:
                draw(node.input[2], 0.0)
            spread = run_node(node, values, opset)[node.output[0]].std()
            values[node.input[1]] = (values[node.input[1]] / max(spread, 1e-6)).astype(np.float32)
            if len(node.input) > 2:
                draw(node.input[2], 0.1)
        elif node.op_type == "BatchNormalization":
            x = values[node.input[0]]
            axes = (0, 2, 3) if x.ndim == 4 else (0,)
            draw(node.input[1], 0.1, 1.0)
            draw(node.input[2], 0.1)
            values[node.input[3]] = x.mean(axes).astype(np.float32)
            values[node.input[4]] = (x.var(axes) + 1e-2).astype(np.float32)
        elif node.op_type in ("Mul", "Add"):
            for name in node.input:
                if name in constants and constants[name].dtype == np.float32 and constants[name].size > 1:
                    draw(name, 0.1, 1.0 if node.op_type == "Mul" else 0.0)
        elif node.op_type == "Unsqueeze" and node.input[0] in constants:
            user = next((n for n in nodes if node.output[0] in n.input), None)
            draw(node.input[0], 0.1, 1.0 if user is not None and user.op_type == "Mul" else 0.0)
        values.update(run_node(node, values, opset))
    used = {n for node in nodes for n in node.input}
    outputs = list(model.graph.output)
    last = nodes[-1]
    if last.op_type == "Softmax":
        logits = values[last.input[0]]
        nodes.insert(len(nodes) - 1, helper.make_node("Identity", [last.input[0]], ["logits"], "logits"))
        outputs.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, logits.shape))
    initializers = [numpy_helper.from_array(np.ascontiguousarray(values[n]), n) for n in constants if n in used]
    graph = helper.make_graph(nodes, model.graph.name, data, outputs, initializers)
    out = helper.make_model(graph, opset_imports=list(model.opset_import), producer_name="tenon-bench")
    out.ir_version = max(model.ir_version, 4)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=DEFAULT)
    parser.add_argument("--light", type=pathlib.Path, help="folder with light_*.onnx (default: the onnx package's)")
    parser.add_argument("--real", type=pathlib.Path, help="folder with ppocr_*.onnx and basic_pitch.onnx")
    arguments = parser.parse_args()
    if arguments.real and arguments.names == DEFAULT:
        arguments.names = DEFAULT + [n for n in REAL if (arguments.real / f"{n}.onnx").exists()]
    light = arguments.light or pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    arguments.out.mkdir(parents=True, exist_ok=True)
    status = 0
    for name in arguments.names:
        target = arguments.out / f"{name}.onnx"
        if target.exists():
            continue
        seed = 1000 + sum(name.encode())
        if name == "mobilenet_v2":
            model = randomise(mobilenet_v2(), seed)
        elif name.startswith("gemm_"):
            model = gemm(name)
        elif name in REAL and arguments.real and (source := arguments.real / f"{name}.onnx").exists():
            model = fixed(onnx.load(source), REAL[name])
        elif name in LIGHT and (source := light / f"light_{name}.onnx").exists():
            model = randomise(onnx.load(source), seed)
        else:
            print(f"{name}: no such model" + (f" ({source})" if name in LIGHT else ""), file=sys.stderr)
            status = 1
            continue
        onnx.checker.check_model(model)
        temporary = target.with_suffix(".tmp")
        temporary.write_bytes(model.SerializeToString(deterministic=True))
        temporary.rename(target)
        print(f"wrote {target.name} ({target.stat().st_size / 1e6:.1f} MB)")
    return status


if __name__ == "__main__":
    sys.exit(main())
