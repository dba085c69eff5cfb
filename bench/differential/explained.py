# SPDX-License-Identifier: Apache-2.0
"""Differences that are right, each with its reason."""
import dataclasses
import re

import numpy as np
import onnx
from draw import session_of, value_info
from judge import by_onnxruntime, needed


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


def graphs_of(graph):
    """A graph and the bodies in it."""
    return [graph, *(g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH for g in graphs_of(a.g))]


def nodes_of(model, *operators):
    return [n for g in graphs_of(model.graph) for n in g.node if n.op_type in operators]


def attribute(node, name, otherwise=None):
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), otherwise)


def known_value(model, feed, name):
    """An input or constant of a reduced model, or what ONNX Runtime computes for a value of its main graph; None for others."""
    if name in feed:
        return feed[name]
    constant = next((i for g in graphs_of(model.graph) for i in g.initializer if i.name == name), None)
    if constant is not None:
        return onnx.numpy_helper.to_array(constant)
    if not any(name in n.output for n in model.graph.node):
        return None
    part = needed(model, [onnx.helper.make_empty_tensor_value_info(name)])
    try:
        results, _ = by_onnxruntime(session_of(part.SerializeToString()), {i.name: feed[i.name] for i in part.graph.input})
    except Exception:
        return None
    return results[0] if results and isinstance(results[0], np.ndarray) else None


REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
              "ReduceSum", "ReduceSumSquare")


def of_nothing(*operators):
    """An operator of these in it has an operand without elements."""
    def holds(model, feed):
        given = [known_value(model, feed, i) for n in nodes_of(model, *operators) for i in n.input if i]
        return any(v is not None and not v.size for v in given)
    return holds


def runs_no_iteration(model, feed):
    """A loop in it has no iteration."""
    return any(n.input[0] and (v := known_value(model, feed, n.input[0])) is not None and v.size and int(v.flat[0]) <= 0 for n in nodes_of(model, "Loop"))


def averaged(node, x):
    """The means of the windows of a QLinearAveragePool over real numbers."""
    last = attribute(node, "channels_last")
    x = np.moveaxis(x, -1, 1) if last else x
    kept = [a for a in node.attribute if a.name != "channels_last"]
    pool = onnx.helper.make_node("AveragePool", ["x"], ["y"])
    pool.attribute.extend(kept)
    graph = onnx.helper.make_graph([pool], "g", [value_info("x", "float32", x.shape)], [onnx.helper.make_empty_tensor_value_info("y")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=10)
    return session_of(model.SerializeToString()).run(None, {"x": x.astype(np.float32)})[0].astype(np.float64)


def ties_of_odd_zero_points(model, feed):
    """A quantised result with an odd zero point lies halfway between two numbers."""
    def ties(node):
        given = [known_value(model, feed, i) for i in node.input]
        if any(v is None for v in given):
            return False
        real = lambda k: (given[k].astype(np.float64) - float(given[k + 2].flat[0])) * float(given[k + 1].flat[0])  # noqa: E731
        if node.op_type == "QLinearAveragePool":
            result, to = averaged(node, real(0)), 3
        else:
            result, to = real(0) + real(3) if node.op_type == "QLinearAdd" else real(0) * real(3), 6
        odd = len(given) > to + 1 and int(given[to + 1].flat[0]) % 2 == 1
        return odd and bool(np.any(np.abs(result / float(given[to].flat[0]) % 1 - 0.5) < 1e-4))
    return any(ties(n) for n in nodes_of(model, "QLinearAdd", "QLinearMul", "QLinearAveragePool"))


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


def shrinks_ends(model, feed):
    """Shrink of an integer at the end of its type, which no float that is next to it fits."""
    def at_end(node):
        a = known_value(model, feed, node.input[0])
        return a is not None and a.dtype.kind in "iu" and bool(np.any(a.astype(np.float32) >= float(np.iinfo(a.dtype).max)))
    return any(at_end(n) for n in nodes_of(model, "Shrink"))


def strides_beyond_window(model, feed):
    """A transposed convolution whose padding is SAME leaves gaps between its windows."""
    def gaps(node):
        w = known_value(model, feed, node.input[1])
        kernel = attribute(node, "kernel_shape") or (w.shape[2:] if w is not None else ())
        dilations = attribute(node, "dilations", [1] * len(kernel))
        return any(s > (k - 1) * d + 1 for s, k, d in zip(attribute(node, "strides", []), kernel, dilations))
    return any(gaps(n) and attribute(n, "auto_pad", b"").startswith(b"SAME") for n in nodes_of(model, "ConvTranspose"))


def windows_apart(model, feed):
    """A pool whose padding is SAME leaves gaps between its windows."""
    def gaps(node):
        kernel = attribute(node, "kernel_shape")
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, attribute(node, "dilations") or [1] * len(kernel))]
        return attribute(node, "auto_pad", b"").startswith(b"SAME") and any(s > r for s, r in zip(attribute(node, "strides") or [], reach))
    return any(gaps(n) for n in nodes_of(model, "MaxPool", "AveragePool", "LpPool"))


def window_numbers(model, feed):
    """How many windows fit along each axis of the images of a pool: rounded down, and rounded towards 0."""
    for node in nodes_of(model, "MaxPool", "AveragePool", "LpPool", "NhwcMaxPool", "QLinearAveragePool"):
        x, padding = known_value(model, feed, node.input[0]), attribute(node, "auto_pad", b"NOTSET")
        if x is None or padding.startswith(b"SAME") or (attribute(node, "ceil_mode") and padding != b"VALID"):
            continue
        last = node.op_type == "NhwcMaxPool" or attribute(node, "channels_last")
        sizes, kernel = x.shape[1:-1] if last else x.shape[2:], attribute(node, "kernel_shape")
        number = lambda name: attribute(node, name) or [1] * len(kernel)  # noqa: E731
        pads = (attribute(node, "pads") if padding == b"NOTSET" else None) or [0] * 2 * len(kernel)
        for i, (n, k, d, s) in enumerate(zip(sizes, kernel, number("dilations"), number("strides"))):
            slack = n + pads[i] + pads[i + len(kernel)] - (k - 1) * d - 1
            yield slack // s + 1, int(slack / s) + 1


def windows_below_none(model, feed):
    """The number of windows that fit is below 0 rounded down, and 0 rounded towards 0."""
    return any(down < 0 == cut for down, cut in window_numbers(model, feed))


def windows_of_none(model, feed):
    """The number of windows that fit is 0 rounded down, and 1 rounded towards 0."""
    return any(down == 0 and cut == 1 for down, cut in window_numbers(model, feed))


def cropped_away(model, feed):
    """A Pad takes all of an axis away and adds nothing to it."""
    def empties(node):
        x, pads = known_value(model, feed, node.input[0]), known_value(model, feed, node.input[1])
        given = known_value(model, feed, node.input[3]) if len(node.input) > 3 and node.input[3] else None
        axes = given if given is not None else range(x.ndim if x is not None else 0)
        if x is None or pads is None or len(pads) != 2 * len(axes):
            return False
        return any(x.shape[a] + b + e == 0 and b <= 0 and e <= 0 for a, b, e in zip(axes, pads[:len(axes)], pads[len(axes):]))
    return any(empties(n) for n in nodes_of(model, "Pad"))


def scans_backward(model, feed):
    """A Scan takes an input or gives an output from its end on."""
    return any(1 in (attribute(n, name) or []) for n in nodes_of(model, "Scan") for name in ("scan_input_directions", "scan_output_directions"))


def scans_nothing(model, feed):
    """A Scan over inputs of length 0."""
    def nothing(node):
        count = attribute(node, "num_scan_inputs", 0)
        axes = attribute(node, "scan_input_axes") or [0] * count
        given = [known_value(model, feed, i) for i in list(node.input)[len(node.input) - count:]]
        return any(v is not None and v.shape[a] == 0 for v, a in zip(given, axes))
    return any(nothing(n) for n in nodes_of(model, "Scan"))


def empty_transposed(model, feed):
    """What the standard computes for a transposed convolution is a size of 0, and none below."""
    def empty(node):
        x, w = known_value(model, feed, node.input[0]), known_value(model, feed, node.input[1])
        if x is None or w is None:
            return False
        axes, same = x.ndim - 2, attribute(node, "auto_pad", b"").startswith(b"SAME")
        number = lambda name, otherwise: attribute(node, name) or [otherwise] * axes  # noqa: E731
        pads = attribute(node, "pads") or [0] * 2 * axes
        sizes = [n * s if same else s * (n - 1) + extra + (k - 1) * d + 1 - pads[i] - pads[i + axes]
                 for i, (n, k, s, d, extra) in enumerate(zip(x.shape[2:], w.shape[2:], number("strides", 1), number("dilations", 1), number("output_padding", 0)))]
        return min(sizes) == 0
    return any(empty(n) for n in nodes_of(model, "ConvTranspose"))


def statistics_of_halves(model, feed):
    """Means and deviations, which are float32, of what another operator computes in half precision."""
    made = {o for g in graphs_of(model.graph) for n in g.node for o in n.output}

    def of_halves(node):
        x = known_value(model, feed, node.input[0])
        return any(node.output[1:]) and node.input[0] in made and x is not None and x.dtype == np.float16
    return any(of_halves(n) for n in nodes_of(model, "LayerNormalization"))


def mean_between(model, feed):
    """A quantised mean lies halfway between two numbers."""
    def between(node):
        x, from_scale, point, to_scale = (known_value(model, feed, i) for i in node.input[:4])
        if x is None or not x.size:
            return False
        axes = tuple(range(1, x.ndim - 1)) if attribute(node, "channels_last") else tuple(range(2, x.ndim))
        count = int(np.prod([x.shape[a] for a in axes]))
        doubled = (x.astype(np.float64) - float(point.flat[0])).sum(axes) * 2 * float(from_scale.flat[0]) / float(to_scale.flat[0])
        return bool(np.any(doubled % (2 * count) == count))
    return any(between(n) for n in nodes_of(model, "QLinearGlobalAveragePool"))


def squeezes_no_axes(model, feed):
    """The list of axes of a Squeeze is empty."""
    given = [known_value(model, feed, n.input[1]) for n in nodes_of(model, "Squeeze") if len(n.input) > 1 and n.input[1]]
    return any(v is not None and not v.size for v in given)


def images_without_channels(model, feed):
    given = [known_value(model, feed, n.input[0]) for n in nodes_of(model, "MaxRoiPool")]
    return any(v is not None and v.shape[1] == 0 for v in given)


def quantises_infinite_ranges(model, feed):
    """NaN or an infinity is among the elements whose range is taken."""
    given = [known_value(model, feed, n.input[0]) for n in nodes_of(model, "DynamicQuantizeLinear")]
    return any(v is not None and not np.isfinite(v).all() for v in given)


def quantises_nan(model, feed):
    given = [known_value(model, feed, n.input[0]) for n in nodes_of(model, "DynamicQuantizeMatMul", "DynamicQuantizeLinear")]
    return any(v is not None and bool(np.isnan(v).any()) for v in given)


def pools_nan(model, feed):
    """NaN is among the elements of which the largest are taken."""
    given = [known_value(model, feed, n.input[0]) for n in nodes_of(model, "MaxPool")]
    return any(v is not None and v.dtype.kind == "f" and bool(np.isnan(v).any()) for v in given)


def sums_past_doubles(model, feed):
    """Integers whose sum may be no double are averaged."""
    given = [known_value(model, feed, n.input[0]) for n in nodes_of(model, "ReduceMean")]
    return any(v is not None and v.dtype.kind in "iu" and sum(abs(int(x)) for x in v.flat) >= 2 ** 53 for v in given)


def sums_that_cancel(model, feed):
    """Terms of a sum add up to next to nothing beside their sizes: to as little as they are rounded by."""
    def cancels(node):
        x = known_value(model, feed, node.input[0])
        if x is None or x.dtype != np.float32 or not x.size:
            return False
        given = len(node.input) > 1 and node.input[1]
        axes = known_value(model, feed, node.input[1]) if given else attribute(node, "axes")
        axes = tuple(int(a) for a in axes) if axes is not None and len(axes) else None
        wide = x.astype(np.float64)
        size = np.abs(wide).sum(axis=axes)
        return bool(np.any((size > 0) & (np.abs(wide.sum(axis=axes)) <= 1e-6 * size)))
    return any(cancels(n) for n in nodes_of(model, "ReduceSum", "ReduceMean"))


def positions_of_spectra(model, feed):
    """A pool gives positions in what a Fourier transform computed, where equal values differ by rounding."""
    spectra = {o for n in nodes_of(model, "DFT", "STFT") for o in n.output}
    return any(len(n.output) > 1 and n.input[0] in spectra for n in nodes_of(model, "MaxPool"))


def normalises_equal_values(model, feed):
    """Finite values that are normalised do not differ, but for rounding."""
    def equal(node):
        x = known_value(model, feed, node.input[0])
        if x is None or not x.size or not np.isfinite(x).all():
            return False
        spread = x.astype(np.float64).std(tuple(attribute(node, "axes") or (0, 2, 3)))
        return bool(np.any(spread <= 1e-3 * max(1e-3, float(np.abs(x).max()))))
    return any(equal(n) for n in nodes_of(model, "MeanVarianceNormalization"))


def classes_without_a_leaf(model, feed):
    """A row ends in leaves of which none speaks for some class."""
    def silent(node):
        x, classes = known_value(model, feed, node.input[0]), len(attribute(node, "classlabels_int64s", []) or attribute(node, "classlabels_strings", []))
        if x is None or not x.size:
            return False
        kept = [a for a in node.attribute if a.name.startswith("nodes_")]
        ids = {name.replace("class", "target"): attribute(node, name) for name in ("class_ids", "class_nodeids", "class_treeids")}
        votes = onnx.helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=classes, target_weights=[1.0] * len(ids["target_ids"]), **ids)
        votes.attribute.extend(kept)
        graph = onnx.helper.make_graph([votes], "g", [value_info("x", "float64", x.shape)], [onnx.helper.make_empty_tensor_value_info("y")])
        opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
        session = session_of(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
        return bool((session.run(None, {"x": x.astype(np.float64)})[0] == 0).any())
    return any(silent(n) for n in nodes_of(model, "TreeEnsembleClassifier"))


def stretches_to_nothing(model, feed):
    """Batches of a product broadcast, a size of 0 with one of 1."""
    def nothing(node):
        a, b = known_value(model, feed, node.input[0]), known_value(model, feed, node.input[1])
        if a is None or b is None:
            return False
        try:
            return 0 in np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            return False
    return any(nothing(n) for n in nodes_of(model, "TransposeMatMul", "FusedMatMul"))


def splits_nothing(model, feed):
    """An empty text is split at a delimiter."""
    given = [known_value(model, feed, n.input[0]) for n in nodes_of(model, "StringSplit") if attribute(n, "delimiter")]
    return any(v is not None and "" in v for v in given)


def single_antialiased(model, feed):
    """An antialiased result by pytorch_half_pixel has one element along an axis."""
    def single(node):
        if attribute(node, "antialias") != 1 or attribute(node, "coordinate_transformation_mode") != b"pytorch_half_pixel":
            return False
        x, scales, sizes = (known_value(model, feed, node.input[i]) if len(node.input) > i and node.input[i] else None for i in (0, 2, 3))
        if x is not None and scales is not None and scales.size:
            sizes = np.floor(np.array([x.shape[a] for a in attribute(node, "axes") or range(x.ndim)]) * scales)
        return sizes is not None and bool(np.any(sizes == 1))
    return any(single(n) for n in nodes_of(model, "Resize"))


def aligned_by_parts(model, feed):
    """Corners are aligned where the scaled size is not whole."""
    def parts(node):
        x, scales = known_value(model, feed, node.input[0]), known_value(model, feed, node.input[2]) if len(node.input) > 2 and node.input[2] else None
        if x is None or scales is None or not scales.size or attribute(node, "coordinate_transformation_mode") != b"align_corners":
            return False
        sizes = np.array([x.shape[a] for a in attribute(node, "axes") or range(x.ndim)]) * scales
        return bool(np.any(sizes != np.floor(sizes)))
    return any(parts(n) for n in nodes_of(model, "Resize"))


def loops_without_condition(model, feed):
    return any(len(n.input) < 2 or not n.input[1] for n in nodes_of(model, "Loop"))


def other_images(model, feed):
    """A global pool over one axis, or three, of nothing."""
    given = [known_value(model, feed, n.input[0]) for n in nodes_of(model, "GlobalMaxPool")]
    return any(v is not None and v.ndim != 4 and not v.size for v in given)


def reshapes_by_zeros(model, feed):
    """A shape without -1 in which a computed size is 0."""
    given = [known_value(model, feed, n.input[1]) for n in nodes_of(model, "Reshape") if not attribute(n, "allowzero")]
    return any(v is not None and 0 in v and -1 not in v for v in given)


EXPLAINED = [
    Explained(("MaxPool", "AveragePool", "LpPool"), "refused", "window is larger", "the number of windows is below 0, as the standard rounds it; ONNX Runtime divides towards zero and gives an empty tensor", windows_below_none),
    Explained(("Reshape",), "accepted", "running Reshape node", "-1 over no elements is the size for which the counts agree, 0 where any does; without a -1, a size of 0 that a symbol has stays 0"),
    Explained(("Concat", "com.microsoft::QLinearConcat"), "refused", "T0501|T1101.*differ outside of axis", "sizes beside the axis must be equal; ONNX Runtime does not look at tensors without elements", of_nothing("Concat", "QLinearConcat")),
    Explained(("GroupNormalization",), "refused", "T0501", "scale and bias have a size for each channel; ONNX Runtime reads behind shorter ones"),
    Explained(("ReduceLogSumExp", "ReduceLogSum", "ReduceL2"), "differs", "np.u?int", "of integers, ONNX Runtime truncates in between, Tenon the result"),
    Explained(("Gemm",), "accepted", "Invalid bias shape", "C is left out where beta is 0, whatever its shape"),
    Explained(("Cast", "CastLike"), "differs", "u?int", "a float that an integer type cannot hold is the nearest number it has; the standard leaves it open", casts_out_of_range),
    Explained(("Shrink",), "differs", r"np\.u?int", "a float that an integer type cannot hold is the nearest number it has; the standard leaves it open", shrinks_ends),
    Explained(("ConvTranspose",), "differs", "wanted float", "padding SAME gives stride times the size, as the standard says, also where strides are longer than windows", strides_beyond_window),
    Explained(("ConvTranspose",), "accepted", "Computed output dimension is <= 0", "the size that the standard computes is 0 here, and results of nothing are allowed", empty_transposed),
    Explained(("ReduceMean", "ReduceLogSum", "ReduceLogSumExp"), "refused", "of nothing is not supported for this type", "the standard has no mean or logarithm of nothing among integers"),
    Explained(("GroupNormalization",), "accepted", "running Reshape node. Name:''", "the normalised batch has no elements; ONNX Runtime's reshape cannot tell one of its sizes", of_nothing("GroupNormalization")),
    Explained(("MaxPool", "AveragePool", "LpPool", "com.microsoft::NhwcMaxPool", "com.microsoft::QLinearAveragePool"), "refused", r"has shape \[\d+\] where \[-\d+\] is required", "the number of windows is below 0, as the standard rounds it; ONNX Runtime divides towards zero and gives an empty tensor", windows_below_none),
    Explained(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), "accepted", "running Reshape node. Name:''", "the loss of nothing; ONNX Runtime's reshape cannot tell one of its sizes", of_nothing("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")),
    Explained(("Pad", "com.microsoft::Pad"), "accepted", "Pad reflect(: (pre|post)-pad .* exceeds| requires axis length >= 2)", "reflections beyond the axis go on back and forth, those of one element are that element, as NumPy has them"),
    Explained(("LpPool", "MaxPool", "AveragePool"), "differs", r"wanted \w+\[", "padding VALID gives the same size with ceil_mode and without, as the standard's formulas say", valid_with_ceiling),
    Explained(("LpPool", "MaxPool", "AveragePool", "Conv", "ConvTranspose", "com.microsoft::FusedConv"), "differs", r"wanted \w+\[", "padding SAME gives the size divided by the stride; ONNX Runtime leaves dilations out when it pads", same_with_dilations),
    Explained(("com.microsoft::QLinearSoftmax",), "differs", r"is np.u?int8\((255|127)\), wanted np.u?int8\((0|-128)\)", "a share of 1 is 256 steps, which saturate; ONNX Runtime lets them wrap"),
    Explained(("ArgMax", "ArgMin"), "differs", r"int64\[[^\]]*\b1\b[^\]]*\], wanted int64\[[^\]]*\b0\b", "the reduced axis has size 1 in a result without elements, too", of_nothing("ArgMax", "ArgMin")),
    Explained(("ai.onnx.ml::Normalizer",), "differs", "np.float", "MAX divides by the largest magnitude, as the reference evaluator does; ONNX Runtime takes the largest value", largest_magnitude),
    Explained(("ArgMax", "ArgMin"), "differs", r"int64\[0\], wanted int64\[0, 0\]", "the reduced axis is left out of a result without elements, too", of_nothing("ArgMax", "ArgMin")),
    Explained(("ArgMax", "ArgMin"), "refused", "T0501|T1101", "there is no largest element of nothing (docs/onnx_checks.md)", of_nothing("ArgMax", "ArgMin")),
    Explained(("RoiAlign", "MaxRoiPool"), "refused", "T0501|T1101.*has no elements", "nothing can be picked from an image without elements (docs/onnx_checks.md)", of_nothing("RoiAlign", "MaxRoiPool")),
    Explained(("LpPool", "AveragePool", "MaxPool", "com.microsoft::QLinearAveragePool"), "accepted", "SetOutputSize|pool_attributes.h", "an image without elements has windows of padding, or none", of_nothing("LpPool", "AveragePool", "MaxPool", "QLinearAveragePool")),
    Explained(("GlobalLpPool", "GlobalAveragePool", "GlobalMaxPool"), "accepted", "SetOutputSize|pool_attributes.h", "an image without elements has a norm, mean or largest element like any reduction of nothing", of_nothing("GlobalLpPool", "GlobalAveragePool", "GlobalMaxPool")),
    Explained(("LayerNormalization", "SimplifiedLayerNormalization"), "accepted", "must be at least 1, got 0", "what is normalised has no elements", of_nothing("LayerNormalization", "SimplifiedLayerNormalization")),
    Explained(("AffineGrid",), "differs", "np.float", "the only place of an axis of one element is its middle, as in PyTorch; the standard's formula divides by zero", unit_grids),
    Explained(("com.microsoft::SkipSimplifiedLayerNormalization", "com.microsoft::SkipLayerNormalization"), "refused", "T0501", "what is skipped has the shape of the input or is stretched to it; ONNX Runtime reads as many of its rows as it needs"),
    Explained(("com.microsoft::Attention",), "refused", "T0501", "a mask of one element is none of keys; ONNX Runtime takes it for one that stands for no mask", unit_masks),
    Explained(("StringSplit",), "differs", r"int64\(1\), wanted np.int64\(0\)|object\[[^\]]*1\], wanted object\[[^\]]*0\]", "an empty text is one piece between delimiters, as Python's split has it", splits_nothing),
    Explained(("com.microsoft::QLinearGlobalAveragePool",), "accepted", "out of computation range", "an image without elements has a mean like any reduction of nothing", of_nothing("QLinearGlobalAveragePool")),
    Explained(("Pad", "com.microsoft::Pad"), "refused", "T1101.*are cropped from axis", "nothing is left to crop from or to reflect", of_nothing("Pad")),
    Explained(("com.microsoft::TransposeMatMul", "com.microsoft::FusedMatMul"), "differs", r"is np.float32\(-?0.0\), wanted", "a product over nothing is 0; ONNX Runtime scales what its memory held", of_nothing("TransposeMatMul", "FusedMatMul")),
    Explained(("com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"), "accepted", "hidden_size must be positive", "what is normalised has no elements", of_nothing("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")),
    Explained(("Resize",), "accepted", "ScalesValidation", "ONNX Runtime resizes some sets of axes only"),
    Explained(("Split",), "accepted", "Invalid num_outputs value", "of fewer elements than pieces the later pieces are empty"),
    Explained(("PRelu",), "refused", "T0501", "slopes are stretched to the data, as the standard says, never the data to the slopes"),
    Explained(("GatherND", "com.microsoft::GatherND"), "refused", "T0509", "an index into an axis of nothing is outside; ONNX Runtime does not look where slices have no elements", of_nothing("GatherND")),
    Explained(("Loop",), "differs", r"\w+\[0[^\]]*\], wanted \w+\[0[^\]]*\]", "what a loop of no iteration collects has the shape that its body gives; ONNX Runtime gives 0 for sizes that it does not know", runs_no_iteration),
    Explained(("Loop",), "accepted", "Broadcaster", "what a loop of no iteration collects has the shape that its body gives; ONNX Runtime gives it rank 1", runs_no_iteration),
    Explained(("com.microsoft::QLinearAdd", "com.microsoft::QLinearMul", "com.microsoft::QLinearAveragePool"), "differs", "np.u?int8", "halfway between two numbers the even one is taken before the zero point is added, as QuantizeLinear does; ONNX Runtime adds it first", ties_of_odd_zero_points),
    Explained(("ai.onnx.ml::SVMClassifier",), "refused", "PROBIT'? of SVMClassifier with one pair", "ONNX Runtime writes one of the two columns"),
    Explained(("GatherND",), "refused", "T0501|T1101.*differ in batch axis", "sizes of batch dimensions must be equal; ONNX Runtime does not look when there are no indices"),
    Explained(("Slice",), "differs", r"\w+\[[^\]]*\b0\b[^\]]*\], wanted", "an end is clamped to the last element of an axis; going backward, ONNX Runtime takes the largest integer for no end", slices_backward_to_a_large_end),
    Explained(("Unique",), "differs", r"int64\[\d+\], wanted int64\[", "an end is clamped to the last element of an axis; going backward, ONNX Runtime takes the largest integer for no end", slices_backward_to_a_large_end),
    Explained(("Slice",), "refused", r"T0501.*\b0\b|T1101.*\b0\b", "an end is clamped to the last element of an axis; going backward, ONNX Runtime takes the largest integer for no end", slices_backward_to_a_large_end),
    Explained(("Pad",), "accepted", "zero effective input extent", "nothing is repeated along an axis that is cropped away", cropped_away),
    Explained(("Scan",), "accepted", "OrtValueTensorSlicer|ort_value_tensor_slicer", "a scan over nothing has no iteration; neither reference knows the sizes of its results", scans_nothing),
    Explained(("LayerNormalization",), "differs", "np.float32", "results between operators of half precision are not rounded (`--disable-pass promote_f16` rounds each), which statistics in float32 show", statistics_of_halves),
    Explained(("com.microsoft::QLinearGlobalAveragePool",), "differs", "np.u?int8", "halfway between two numbers the even one is taken; ONNX Runtime multiplies by a rounded share", mean_between),
    Explained(("Attention",), "accepted", "attention_(parameters|helper).h", "no keys give zeros, no queries nothing; ONNX Runtime takes no tensors without elements", of_nothing("Attention")),
    Explained(REDUCTIONS, "differs", r"\w+\[(\]|[^\]]*\b1\b[^\]]*\]), wanted \w+\[[^\]]*\b0\b",
              "a reduced axis has size 1, or goes; ONNX Runtime keeps some axes of a tensor of nothing",
              of_nothing(*REDUCTIONS)),
    Explained(("Squeeze",), "differs", r"\w+\[[^\]]*\b1\b[^\]]*\], wanted \w+\[", "an empty list of axes removes none, as the reference evaluator has it; ONNX Runtime takes it for one left out", squeezes_no_axes),
    Explained(("Squeeze",), "accepted", "rank|Rank|axis|dimension", "an empty list of axes removes none; ONNX Runtime, which alone has what follows, removes all of size 1 and refuses what is left", squeezes_no_axes),
    Explained(("MaxRoiPool",), "accepted", "roi_pool.cc", "images without channels have results without elements", images_without_channels),
    Explained(("DynamicQuantizeLinear",), "differs", "np.u?int8|np.float32", "the standard's function makes an infinite scale or NaN of such a range, and a zero point of NaN, which is 0; the evaluator's own rule and ONNX Runtime's kernel clip NaN to 255, and ONNX Runtime leaves NaN out of the range", quantises_infinite_ranges),
    Explained(("MaxPool",), "differs", r"from the reference evaluator .*(\(-inf\), wanted np.float\d+\(nan\)|int8\(-128\), wanted np.int8\(0\))", "the largest of nothing is -infinity, the least of a type; the evaluator gives NaN, 0 as a byte, and ONNX Runtime takes no image without elements", of_nothing("MaxPool")),
    Explained(("MaxPool", "AveragePool", "LpPool"), "accepted", "padding values must be non-negative", "windows apart need no padding; ONNX Runtime computes a negative one for them", windows_apart),
    Explained(("TfIdfVectorizer",), "accepted", "B > 0", "no rows give no rows", of_nothing("TfIdfVectorizer")),
    Explained(("MaxPool", "AveragePool", "LpPool"), "refused", "T1101.*has no elements", "the number of windows is 0, as the standard rounds it; ONNX Runtime divides towards zero, and pads what it has", windows_of_none),
    Explained(("Optional",), "differs", r"from the reference evaluator \(output \d+: (\w+)\[(.*)\], wanted \1\[1, \2\]\)", "the evaluator keeps what an optional holds in a list"),
    Explained(("Scan",), "accepted", "Subgraph must have the shape set", "sizes of what a body gives need not be declared; the evaluator scans forward only", scans_backward),
    Explained(("Loop",), "refused", "T2102.*collects values of unknown rank", "a limit: what a loop collects has a rank that import knows (docs/status.md)"),
    Explained(("com.microsoft::CDist",), "accepted", "wrong shape", "rows without elements lie at the distance 0; ONNX Runtime takes none", of_nothing("CDist")),
    Explained(("com.microsoft::DynamicQuantizeMatMul",), "differs", r"np.float32\(nan\)", "the range of data with NaN is NaN; ONNX Runtime leaves NaN out", quantises_nan),
    Explained(("MaxPool",), "differs", r"is np\.float\d+\(nan\)", "NaN goes through maxima (docs/numerics.md); the others keep what they compared it with", pools_nan),
    Explained(("MaxPool", "AveragePool", "LpPool"), "differs", r"element \[", "padding SAME counts dilations, as the standard's formula does; the others leave them out when they pad", same_with_dilations),
    Explained(("MaxPool", "AveragePool", "LpPool"), "refused", r"has shape \[[^\]]*\b0\b[^\]]*\] where", "the number of windows is 0, as the standard rounds it; ONNX Runtime divides towards zero", windows_of_none),
    Explained(("MaxPool", "AveragePool", "LpPool", "com.microsoft::NhwcMaxPool", "com.microsoft::QLinearAveragePool"), "differs", r"output \d+: \w+\[[^\]]*\b0\b[^\]]*\], wanted \w+\[", "the number of windows is 0, as the standard rounds it; ONNX Runtime divides towards zero", windows_of_none),
    Explained(("com.microsoft::QLinearSoftmax",), "differs", r"wanted object\[\]", "the softmax of nothing is nothing; ONNX Runtime leaves its result out", of_nothing("QLinearSoftmax")),
    Explained(("MatMul", "com.microsoft::FusedMatMul"), "refused", "T0501", "sizes of batches are equal or 1; ONNX Runtime does not look at tensors without elements", of_nothing("MatMul", "FusedMatMul")),
    Explained(("GroupNormalization",), "refused", "T1101.*(beta|gamma) has the shape", "scale and bias have an element for each channel; ONNX Runtime stretches those of one"),
    Explained(("com.microsoft::NhwcMaxPool", "Identity"), "accepted", "nhwc_max_pool.cc", "an image without elements has windows of padding, or none", of_nothing("NhwcMaxPool")),
    Explained(("Gemm", "com.microsoft::FusedMatMul"), "differs", r"element \[", "C is multiplied by beta also where the product is of nothing; ONNX Runtime copies it", of_nothing("Gemm")),
    Explained(("DFT", "STFT", "MaxPool"), "differs", r"is np\.int64", "the largest of values that are equal but for rounding", positions_of_spectra),
    Explained(("ConvTranspose",), "accepted", "Computed output shape is inconsistent", "an image without elements has a result of padding", of_nothing("ConvTranspose")),
    Explained(("GridSample",), "accepted", "Input spatial dimensions must be non-empty", "a grid without places takes nothing from an image", of_nothing("GridSample")),
    Explained(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), "differs", r"is np\.float\d+\(nan\), wanted np\.float\d+\(0", "the mean loss of nothing is 0 / 0; ONNX Runtime gives 0", of_nothing("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")),
    Explained(("ReduceMean",), "differs", r"is np\.float\d+\(nan\)", "the mean of nothing is 0 / 0, as the reference evaluator has it; ONNX Runtime gives a scalar 0", of_nothing("ReduceMean")),
    Explained(REDUCTIONS, "refused", r"axis -?\d+ of Reduce\w+ is outside of rank 0", "a scalar has no axes; ONNX Runtime gives it back"),
    Explained(("ReduceSum", "ReduceMean"), "differs", r"is np\.float32\(-?\d\.?\d*e-\d\d\)|wanted np\.float32\(-?\d\.?\d*e-\d\d\)", "terms that cancel are added in another order, within the bound of docs/numerics.md", sums_that_cancel),
    Explained(("ReduceMean",), "differs", r"is np\.u?int64", "integers are summed as integers, which wrap; ONNX Runtime sums doubles", sums_past_doubles),
    Explained(("ConcatFromSequence", "SequenceConstruct", "SequenceInsert"), "refused", "T0521.*differ in type, or in a size", "sizes beside the axis must be equal; ONNX Runtime does not look at tensors without elements", of_nothing("SequenceConstruct", "SequenceInsert")),
    Explained(("ai.onnx.ml::TreeEnsembleClassifier",), "differs", r"is np\.(int64|float32)", "a class that no leaf speaks for has the score 0 and may be the best one, as the standard has it; ONNX Runtime leaves it out",
              classes_without_a_leaf),
    Explained(("MeanVarianceNormalization",), "differs", r"wanted np.float\d+\(nan\)", "a variance is never negative; ONNX Runtime takes a difference of squares, which rounding makes negative", normalises_equal_values),
    Explained(("com.microsoft::TransposeMatMul", "com.microsoft::FusedMatMul"), "accepted", "operand cannot broadcast on dim", "sizes 0 and 1 broadcast to 0; ONNX Runtime broadcasts to the larger", stretches_to_nothing),
    Explained(("Resize",), "differs", "", "of pytorch_half_pixel a single result lies at 0, with antialiasing too, as the reference evaluator has it", single_antialiased),
    Explained(("Resize",), "differs", "np.float", "corners are aligned by the exact scaled size, as the reference evaluator has it; ONNX Runtime rounds it first", aligned_by_parts),
    Explained(("Loop",), "differs", "from the reference evaluator", "a loop without a condition runs as often as its number says; the reference evaluator does not run it", loops_without_condition),
    Explained(("GlobalMaxPool",), "differs", "from the reference evaluator", "all axes behind the channels are reduced; the reference evaluator reduces two of them, and ONNX Runtime takes no image without elements", other_images),
    Explained(("Reshape",), "differs", r"\w+\[[^\]]*\b0\b[^\]]*\], wanted \w+\[[^\]]*\b0\b", "where all sizes are computed and none is -1, those of a tensor of nothing stay what they are", reshapes_by_zeros),
    Explained(("ConvTranspose",), "refused", "T2102.*weight of known shape", "a limit: windows of transposed convolutions have known sizes", symbolic_kernels),
]


def reason_for(finding, operators, model, feed):
    """Why a finding is right, or None."""
    return next((e.reason for e in EXPLAINED if e.covers(finding, operators, model, feed)), None)
