# SPDX-License-Identifier: Apache-2.0
"""Differences that are right, each with its reason."""
import dataclasses
import re

import numpy as np
import onnx


@dataclasses.dataclass
class Explained:
    """Findings of these operators (any of them in the reduced model), of this kind, whose words match and, where there is one, for
    whose model and inputs `when` is true."""
    operators: tuple
    kind: str
    words: str
    reason: str
    when: object = None

    def covers(self, finding, operators, model, feed):
        return (finding.kind == self.kind and set(self.operators) & set(operators) and re.search(self.words, finding.code + " " + finding.words)
                and (self.when is None or self.when(model, feed)))


def nodes_of(model, *operators):
    return [n for n in model.graph.node if n.op_type in operators]


def attribute(node, name, otherwise=None):
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), otherwise)


def known_value(model, feed, name):
    """An input or constant of a reduced model; None where a node computes it."""
    return feed[name] if name in feed else next((onnx.numpy_helper.to_array(i) for i in model.graph.initializer if i.name == name), None)


def of_nothing(*operators):
    """An operator of these in it has an operand without elements."""
    def holds(model, feed):
        given = [known_value(model, feed, i) for n in nodes_of(model, *operators) for i in n.input if i]
        return any(v is not None and not v.size for v in given)
    return holds


def runs_no_iteration(model, feed):
    """A loop in it has no iteration."""
    return any(n.input[0] and (v := known_value(model, feed, n.input[0])) is not None and v.size and int(v.flat[0]) <= 0 for n in nodes_of(model, "Loop"))


def odd_zero_point(model, feed):
    """The quantised result of the last node has an odd zero point, by which ties go to the other side."""
    last = model.graph.node[-1]
    at = {"QLinearAdd": 7, "QLinearMul": 7, "QLinearWhere": 8}.get(last.op_type, 4)
    v = known_value(model, feed, last.input[at]) if len(last.input) > at else None
    return v is not None and int(v.flat[0]) % 2 == 1


def unit_masks(model, feed):
    """A mask of one element in all."""
    masks = [known_value(model, feed, n.input[3]) for n in nodes_of(model, "Attention") if len(n.input) > 3 and n.input[3]]
    return any(m is not None and m.size == 1 for m in masks)


def largest_magnitude(model, feed):
    """Rows with negative elements are divided by their largest one."""
    given = [known_value(model, feed, n.input[0]) for n in nodes_of(model, "Normalizer") if attribute(n, "norm", b"MAX") == b"MAX"]
    return any(v is not None and v.size and v.min() < 0 for v in given)


def valid_with_ceiling(model, feed):
    return any(attribute(n, "auto_pad") == b"VALID" and attribute(n, "ceil_mode") for n in nodes_of(model, "MaxPool", "AveragePool", "LpPool"))


def same_with_dilations(model, feed):
    """Padding SAME and windows with gaps."""
    return any(attribute(n, "auto_pad", b"").startswith(b"SAME") and max(attribute(n, "dilations", [1])) > 1 for n in model.graph.node)


def unit_grids(model, feed):
    """A grid that is aligned at corners along an axis of one element."""
    def unit(node):
        size = known_value(model, feed, node.input[1])
        return attribute(node, "align_corners") and size is not None and 1 in size[2:]
    return any(unit(n) for n in nodes_of(model, "AffineGrid"))


def slices_backward_to_a_large_end(model, feed):
    """A slice with a negative step ends at the largest 32-bit or 64-bit integer."""
    def large(node):
        ends = known_value(model, feed, node.input[2])
        steps = known_value(model, feed, node.input[4]) if len(node.input) > 4 and node.input[4] else None
        return ends is not None and steps is not None and any(e >= 2**31 - 1 and s < 0 for e, s in zip(ends, steps))
    return any(large(n) for n in nodes_of(model, "Slice"))


def symbolic_kernels(model, feed):
    """The window of a transposed convolution is an input's symbolic size."""
    given = {i.name: i.type.tensor_type.shape.dim for i in model.graph.input}
    return any(d.dim_param for n in nodes_of(model, "ConvTranspose") for d in list(given.get(n.input[1], ()))[2:])


def casts_out_of_range(model, feed):
    """A Cast in it is one of floats that its integers cannot hold."""
    def out(node):
        a = known_value(model, feed, node.input[0])
        to = onnx.helper.tensor_dtype_to_np_dtype(attribute(node, "to", 1)) if node.op_type == "Cast" else known_value(model, feed, node.input[1]).dtype
        if a is None or a.dtype.kind != "f" or to.kind not in "iu":
            return False
        whole = np.trunc(a.astype(np.float64))
        return bool(np.any(np.isnan(whole) | (whole < np.iinfo(to).min) | (whole > np.iinfo(to).max)))
    return any(out(n) for n in nodes_of(model, "Cast", "CastLike"))


def strides_beyond_window(model, feed):
    """A transposed convolution whose padding is SAME leaves gaps between its windows."""
    def gaps(node):
        w = known_value(model, feed, node.input[1])
        kernel = attribute(node, "kernel_shape") or (w.shape[2:] if w is not None else ())
        dilations = attribute(node, "dilations", [1] * len(kernel))
        return any(s > (k - 1) * d + 1 for s, k, d in zip(attribute(node, "strides", []), kernel, dilations))
    return any(gaps(n) and attribute(n, "auto_pad", b"").startswith(b"SAME") for n in nodes_of(model, "ConvTranspose"))


EXPLAINED = [
    Explained(("MaxPool", "AveragePool", "LpPool"), "refused", "window is larger", "a window larger than the padded image has no results; ONNX Runtime gives an empty tensor"),
    Explained(("Reshape",), "accepted", "", "-1 over no elements is the size for which the counts agree, 0 where any does; without a -1, a size of 0 that a symbol has stays 0"),
    Explained(("Concat", "com.microsoft::QLinearConcat"), "refused", "T0501", "sizes beside the axis must be equal; ONNX Runtime does not look at tensors without elements"),
    Explained(("GroupNormalization",), "refused", "T0501", "scale and bias have a size for each channel; ONNX Runtime reads behind shorter ones"),
    Explained(("ReduceLogSumExp", "ReduceLogSum", "ReduceL2"), "differs", "np.u?int", "of integers, ONNX Runtime truncates in between, Tenon the result"),
    Explained(("Gemm",), "accepted", "Invalid bias shape", "C is left out where beta is 0, whatever its shape"),
    Explained(("Cast", "CastLike"), "differs", "u?int", "a float that an integer type cannot hold is the nearest number it has; the standard leaves it open", casts_out_of_range),
    Explained(("ConvTranspose",), "differs", "wanted float", "padding SAME gives stride times the size, as the standard says, also where strides are longer than windows", strides_beyond_window),
    Explained(("ConvTranspose",), "accepted", r"Computed output dimension is <= 0.*Input shape: \{0", "the size that the standard computes from an image of nothing is 0 here, and results of nothing are allowed"),
    Explained(("ReduceMean", "ReduceLogSum", "ReduceLogSumExp"), "refused", "of nothing is not supported for this type", "the standard has no mean or logarithm of nothing among integers"),
    Explained(("GroupNormalization",), "accepted", "running Reshape node. Name:''", "the normalised batch has no elements; ONNX Runtime's reshape cannot tell one of its sizes", of_nothing("GroupNormalization")),
    Explained(("MaxPool", "AveragePool", "LpPool", "com.microsoft::NhwcMaxPool", "com.microsoft::QLinearAveragePool"), "refused", r"has shape \[\d+\] where \[-\d+\] is required", "a window larger than the padded image has no results; ONNX Runtime gives an empty tensor"),
    Explained(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), "accepted", "running Reshape node. Name:''", "the loss of nothing; ONNX Runtime's reshape cannot tell one of its sizes", of_nothing("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")),
    Explained(("Pad", "com.microsoft::Pad"), "accepted", "Pad reflect requires axis length >= 2", "reflections of one element are that element, as NumPy has them"),
    Explained(("LpPool", "MaxPool", "AveragePool"), "differs", r"wanted \w+\[", "padding VALID gives the same size with ceil_mode and without, as the standard's formulas say", valid_with_ceiling),
    Explained(("LpPool", "MaxPool", "AveragePool", "Conv", "ConvTranspose", "com.microsoft::FusedConv"), "differs", r"wanted \w+\[", "padding SAME gives the size divided by the stride; ONNX Runtime leaves dilations out when it pads", same_with_dilations),
    Explained(("com.microsoft::QLinearSoftmax",), "differs", r"is np.u?int8\((255|127)\), wanted np.u?int8\((0|-128)\)", "a share of 1 is 256 steps, which saturate; ONNX Runtime lets them wrap"),
    Explained(("ArgMax", "ArgMin"), "differs", r"int64\[[^\]]*\b1\b[^\]]*\], wanted int64\[[^\]]*\b0\b", "the reduced axis has size 1 in a result without elements, too", of_nothing("ArgMax", "ArgMin")),
    Explained(("ai.onnx.ml::Normalizer",), "differs", "np.float", "MAX divides by the largest magnitude, as the reference evaluator does; ONNX Runtime takes the largest value", largest_magnitude),
    Explained(("ArgMax", "ArgMin"), "refused", "T0501|T1101", "there is no largest element of nothing (docs/onnx_checks.md)", of_nothing("ArgMax", "ArgMin")),
    Explained(("RoiAlign", "MaxRoiPool"), "refused", "T0501", "nothing can be picked from an image without elements (docs/onnx_checks.md)", of_nothing("RoiAlign", "MaxRoiPool")),
    Explained(("LpPool", "AveragePool", "MaxPool"), "accepted", "SetOutputSize", "an image without elements has windows of padding, or none", of_nothing("LpPool", "AveragePool", "MaxPool")),
    Explained(("GlobalLpPool", "GlobalAveragePool", "GlobalMaxPool"), "accepted", "SetOutputSize", "an image without elements has a norm, mean or largest element like any reduction of nothing", of_nothing("GlobalLpPool", "GlobalAveragePool", "GlobalMaxPool")),
    Explained(("LayerNormalization",), "accepted", "must be at least 1, got 0", "what is normalised has no elements", of_nothing("LayerNormalization")),
    Explained(("AffineGrid",), "differs", "np.float", "the only place of an axis of one element is its middle, as in PyTorch; the standard's formula divides by zero", unit_grids),
    Explained(("com.microsoft::SkipSimplifiedLayerNormalization", "com.microsoft::SkipLayerNormalization"), "refused", "T0501", "what is skipped has the shape of the input or is stretched to it; ONNX Runtime reads as many of its rows as it needs"),
    Explained(("com.microsoft::Attention",), "refused", "T0501", "a mask of one element is none of keys; ONNX Runtime takes it for one that stands for no mask", unit_masks),
    Explained(("StringSplit",), "differs", r"int64\(1\), wanted np.int64\(0\)", "an empty text is one piece between delimiters, as Python's split has it"),
    Explained(("com.microsoft::QLinearGlobalAveragePool",), "accepted", "out of computation range", "an image without elements has a mean like any reduction of nothing", of_nothing("QLinearGlobalAveragePool")),
    Explained(("Pad", "com.microsoft::Pad"), "refused", "T1101.*are cropped from axis", "nothing is left to crop from or to reflect", of_nothing("Pad")),
    Explained(("com.microsoft::TransposeMatMul", "com.microsoft::FusedMatMul"), "differs", r"is np.float32\(-?0.0\), wanted", "a product over nothing is 0; ONNX Runtime scales what its memory held", of_nothing("TransposeMatMul", "FusedMatMul")),
    Explained(("com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"), "accepted", "hidden_size must be positive", "what is normalised has no elements", of_nothing("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")),
    Explained(("Resize",), "accepted", "ScalesValidation", "ONNX Runtime resizes some sets of axes only"),
    Explained(("Split",), "accepted", "Invalid num_outputs value", "of fewer elements than pieces the later pieces are empty"),
    Explained(("PRelu",), "refused", "T0501", "slopes are stretched to the data, as the standard says, never the data to the slopes"),
    Explained(("GatherND",), "refused", "T0509", "an index into an axis of nothing is outside; ONNX Runtime does not look where slices have no elements", of_nothing("GatherND")),
    Explained(("Loop",), "differs", r"\w+\[0[^\]]*\], wanted \w+\[0[^\]]*\]", "what a loop of no iteration collects has the shape that its body gives; ONNX Runtime gives 0 for sizes that it does not know", runs_no_iteration),
    Explained(("Loop",), "accepted", "Broadcaster", "what a loop of no iteration collects has the shape that its body gives; ONNX Runtime gives it rank 1", runs_no_iteration),
    Explained(("com.microsoft::QLinearAdd", "com.microsoft::QLinearMul", "com.microsoft::QLinearAveragePool"), "differs", "np.u?int8", "halfway between two numbers the even one is taken before the zero point is added, as QuantizeLinear does; ONNX Runtime adds it first", odd_zero_point),
    Explained(("ai.onnx.ml::SVMClassifier",), "refused", "PROBIT'? of SVMClassifier with one pair", "ONNX Runtime writes one of the two columns"),
    Explained(("GatherND",), "refused", "T0501|T1101.*differ in batch axis", "sizes of batch dimensions must be equal; ONNX Runtime does not look when there are no indices"),
    Explained(("Slice",), "differs", r"\w+\[[^\]]*\b0\b[^\]]*\], wanted", "an end is clamped to the last element of an axis; going backward, ONNX Runtime takes the largest integer for no end", slices_backward_to_a_large_end),
    Explained(("Slice",), "refused", r"T1101.*\b0\b", "an end is clamped to the last element of an axis; going backward, ONNX Runtime takes the largest integer for no end", slices_backward_to_a_large_end),
    Explained(("ConvTranspose",), "refused", "T2102.*weight of known shape", "a limit: windows of transposed convolutions have known sizes", symbolic_kernels),
]


def reason_for(finding, operators, model, feed):
    """Why a finding is right, or None."""
    return next((e.reason for e in EXPLAINED if e.covers(finding, operators, model, feed)), None)
