# SPDX-License-Identifier: Apache-2.0
"""Attention to part of the keys, experts, gates."""
import numpy as np

from sample_cases.case import bools, CONTRIB, contrib, evaluated, floats, i64, ints, Node, one, refused, runs, seed
from sample_cases.microsoft import scale

# Attention to part of the keys.
seed("Attention of part of the keys")
qkv = floats(2, 2, 3, 4), floats(2, 2, 5, 4), floats(2, 2, 5, 4)
one("Attention", *qkv, left_window_size=1, right_window_size=0, name="Attention in a window")
one("Attention", *qkv, floats(2, 1, 3, 7), floats(2, 2, 2, 4), floats(2, 2, 2, 4), left_window_size=2, is_causal=1, results=3, name="Attention in a window, causal with a past and a mask")
one("Attention", *qkv, None, None, None, i64(2, 5), is_causal=1, name="Attention, causal over padded keys")
one("Attention", *qkv, floats(3, 1), name="Attention with a mask of one key")
one("Attention", *qkv, floats(2, 1, 3, 4), None, None, i64(3, 2), name="Attention with a short mask over padded keys")
for kind, mask in (("floats", floats), ("truth", bools)):
    runs(f"Attention with a mask of {kind} for batches of its own", Node("Attention", ["a", "b", "b", "c"], ["y"]), [("N", 2, "L", 4), ("N", 2, "K", 4), ("M", 1, "L", "P")],
         *((floats(n, 2, 3, 4), floats(n, 2, 5, 4), mask(m, 1, 3, p)) for n, m, p in ((2, 2, 5), (2, 1, 5), (1, 1, 5), (3, 1, 4), (2, 2, 1))),
         refused("T0501", floats(1, 2, 3, 4), floats(1, 2, 5, 4), mask(2, 1, 3, 5)), refused("T0501", floats(2, 2, 3, 4), floats(2, 2, 5, 4), mask(2, 1, 3, 6)))
# Experts, and weights of four bits.
seed("experts")


def experts(name, *arrays, **attributes):
    contrib("MoE", *arrays, constants=range(2, len(arrays)), name=f"MoE {name}", **attributes)


tokens, routes = floats(5, 8), floats(5, 4)
for kind in ("relu", "gelu", "silu", "identity"):
    experts(f"with {kind}", tokens, routes, floats(4, 6, 8), floats(4, 6), floats(4, 8, 6), floats(4, 8), activation_type=kind, k=2, normalize_routing_weights=int(kind == "relu"))
experts("of one best expert for sequences", floats(2, 3, 8), floats(6, 4), floats(4, 6, 8), None, floats(4, 8, 6))
for name, attributes in (("", {}), (", bounded", {"activation_alpha": 1.5, "activation_beta": 1.0, "swiglu_limit": 0.75})):
    experts(f"with gates{name}", tokens, routes, floats(4, 12, 8), floats(4, 12), floats(4, 8, 6), floats(4, 8), activation_type="swiglu", swiglu_fusion=1, k=2, **attributes)
for name, bits, block, zeros in (("4 bits", 4, 0, False), ("4 bits in blocks", 4, 16, False), ("4 bits in blocks with zero points", 4, 16, True), ("2 bits in blocks", 2, 16, False)):
    units, width, parts = 16, 16, (lambda depth: (depth // block,) if block else ())
    packed = lambda *shape: ints(*shape, low=0, high=256, dtype=np.uint8)
    scales = lambda rows, depth: floats(3, rows, *parts(depth), low=0.02, high=0.1)
    inputs = [floats(4, width), floats(4, 3), packed(3, 2 * units, width * bits // 8), scales(2 * units, width), floats(3, 2 * units), packed(3, width, units * bits // 8), scales(width, units), floats(3, width)]
    if zeros:
        inputs += [None, None, None, packed(3, 2 * units, 1), packed(3, width, 1)]
    contrib("QMoE", *inputs, constants=[i for i in range(2, len(inputs)) if inputs[i] is not None], name=f"QMoE of {name}", activation_type="swiglu", swiglu_fusion=1, k=2, expert_weight_bits=bits,
            normalize_routing_weights=1, **({"block_size": block} if block else {}))
runs("MoE of any number of rows", Node("MoE", ["a", "b", "w", "", "v"], ["y"], CONTRIB, k=2), [("N", 4), ("N", 3)], *((floats(n, 4), floats(n, 3)) for n in (1, 4)),
     constants={"w": floats(3, 5, 4), "v": floats(3, 4, 5)}, domains=((CONTRIB, 1),), opset=21)
for kind, name in ((0, "floats"), (1, "quantiles")):
    contrib("MatMulBnb4", floats(2, 20), ints(30, low=0, high=256, dtype=np.uint8), floats(4, low=0.5, high=2), constants=[1, 2], name=f"MatMulBnb4 of {name}", K=20, N=3, block_size=16, quant_type=kind)
contrib("UnfoldTensor", floats(2, 7, 3), name="UnfoldTensor", constants=[], dim=1, size=3, step=2)
short = [refused("T0501", floats(1, 2))]
runs("UnfoldTensor of any length", Node("UnfoldTensor", ["a"], ["y"], CONTRIB, dim=-1, size=3, step=2), [(1, "N")], *((floats(1, n),) for n in (3, 4, 9)), *short, domains=((CONTRIB, 1),), opset=21)
bytes_of = lambda *shape: ints(*shape, low=0, high=256, dtype=np.uint8)
ids = np.array([[1, 2, 0], [3, 0, 1]], np.int32)
tables = [bytes_of(5, 8), bytes_of(4, 8), bytes_of(2, 8), bytes_of(8), bytes_of(8)]
steps = [scale(s) for s in (0.02, 0.03, 0.01, 0.05, 0.04)] + [np.array(z, np.uint8) for z in (120, 130, 127, 110, 140)]
contrib("QEmbedLayerNormalization", ids, ids % 2, *tables, ids % 2, *steps, constants=[*range(2, 7), *range(8, 18)], name="QEmbedLayerNormalization", results=2)
contrib("LinearAttention", floats(1, 4, 6), floats(1, 4, 6), floats(1, 4, 6), None, -np.abs(floats(1, 4, 2)), np.abs(floats(1, 4, 2)), constants=[], name="LinearAttention of com.microsoft", q_num_heads=2,
        kv_num_heads=2, update_rule="gated_delta", results=2)
contrib("CausalConvWithState", floats(2, 4, 6), floats(4, 1, 3), floats(4), floats(2, 4, 2), constants=[], name="CausalConvWithState of com.microsoft", activation="silu", results=2)

# What stands around linear attention, and rotary positions of images.
seed("gates")
for kind in ("silu", "sigmoid"):
    contrib("GatedRMSNorm", floats(2, 3, 8), floats(4), floats(2, 3, 8), constants=[1], name=f"GatedRMSNorm with {kind}", activation=kind, epsilon=1e-4)
for name, shape, weight, branches in (("of parts", (3, 8), (4,), 2), ("of parts with a scale for each", (3, 8), (2, 4), 2), ("of groups", (3, 2, 4), (8,), 0), ("of groups with one scale", (3, 2, 4), (4,), 0)):
    contrib("BranchwiseRMSNorm", floats(*shape), floats(*weight), constants=[1], name=f"BranchwiseRMSNorm {name}", num_branches=branches)
contrib("LinearAttentionGate", floats(1, 3, 4), floats(4), floats(4), floats(1, 3, 4), constants=[1, 2], name="LinearAttentionGate", results=2)
contrib("GatedAdd", floats(2, 3), floats(2, 3), floats(2, 1), constants=[], name="GatedAdd")
contrib("ScaledSiLU", floats(2, 3), constants=[], name="ScaledSiLU", alpha=1.5)
places = ints(3, 2, 3, low=0, high=10)
for layout, sections in ((0, [1, 2, 1]), (1, [1, 2, 1]), (1, [2, 1, 1])):
    contrib("MRotaryEmbedding", floats(2, 2, 3, 8), places, floats(10, 4), floats(10, 4), constants=[2, 3], name=f"MRotaryEmbedding, layout {layout}, sections {sections}", mrope_layout=layout, mrope_section=sections,
            interleaved=layout)
contrib("MRotaryEmbedding", floats(2, 3, 24), places, floats(10, 4), floats(10, 4), constants=[2, 3], name="MRotaryEmbedding of part of a head", mrope_section=[1, 2, 1], rotary_embedding_dim=8, num_heads=2)
# ONNX Runtime has normalised queries on other processors only.
grouped = {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1}
q, k, v, q_scale, k_scale = floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), floats(16), floats(16)
ends, end, cos, sin = np.array([2, 2], np.int32), np.array(3, np.int32), floats(8, 8), floats(8, 8)
over = lambda x, w: (x.reshape(2, 3, -1, 16) / np.sqrt((x.reshape(2, 3, -1, 16) ** 2).mean(-1, keepdims=True) + 1e-3) * w).astype(np.float32).reshape(x.shape)
given = {"a": over(q, q_scale), "b": over(k, k_scale), "c": v, "d": ends, "e": end, "f": cos, "g": sin}
by_hand = evaluated([Node("GroupQueryAttention", ["a", "b", "c", "", "", "d", "e", "f", "g"], ["y", "y1", "y2"], CONTRIB, **grouped)], given, {}, ("y", "y1", "y2"), 21, ((CONTRIB, 1),))
contrib("GroupQueryAttention", q, k, v, None, None, ends, end, cos, sin, None, None, None, None, None, q_scale, k_scale, constants=[6, 7, 8, 14, 15], name="GroupQueryAttention of normalised queries", qk_norm_epsilon=1e-3,
        results=3, expected=by_hand, **grouped)
