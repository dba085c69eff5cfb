#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators that fold an axis (sums, extremes, norms, softmax, running sums, the first k) against ONNX Runtime and OpenVINO.

    bench/folds.py FOLDER --tenon build/release/bin/tenon [--prepare] [--only REGEX] [--threads 1 2] [--docs FILE]

One operator each, over one long row, many short ones, the outer or a middle axis, a tiny one, odd sizes; float32, float16,
bytes. --prepare writes and compiles the models into FOLDER; without it they are timed, so that an idle machine is needed
for that alone. Contenders are processes that take turns in slots; the best run of all slots counts, since other work on the machine
only adds. Values are compared with the peers'. --docs writes the table."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench import Contender, Failure, arrays, package_of

FLOAT, HALF, INT8, INT64, INT32 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.INT64, TensorProto.INT32
NUMPY = {FLOAT: np.float32, HALF: np.float16, INT8: np.int8, INT32: np.int32}
NAMES = {FLOAT: "f32", HALF: "f16", INT8: "i8", INT32: "i32"}
SLOTS, SLOT_SECONDS, PAUSE_SECONDS = 3, 0.04, 0.005
TOLERANCE = {FLOAT: 2e-4, HALF: 4e-3, INT8: 0, INT32: 0}


def reduce_of(kind):
    def made(shape, t, axis):
        kept = [1 if i == axis % len(shape) else n for i, n in enumerate(shape)]
        return [helper.make_node(kind, ["x", "axes"], ["y"])], {"axes": np.array([axis], np.int64)}, [("y", t, kept)]
    return made


def arg_of(kind):
    def made(shape, t, axis):
        kept = [1 if i == axis % len(shape) else n for i, n in enumerate(shape)]
        return [helper.make_node(kind, ["x"], ["y"], axis=axis)], {}, [("y", INT64, kept)]
    return made


def along(kind):
    def made(shape, t, axis):
        return [helper.make_node(kind, ["x"], ["y"], axis=axis)], {}, [("y", t, shape)]
    return made


def variance(shape, t, axis):
    kept = [1 if i == axis % len(shape) else n for i, n in enumerate(shape)]
    nodes = [helper.make_node("ReduceMean", ["x", "axes"], ["m"]), helper.make_node("Sub", ["x", "m"], ["d"]), helper.make_node("Mul", ["d", "d"], ["s"]),
             helper.make_node("ReduceMean", ["s", "axes"], ["y"])]
    return nodes, {"axes": np.array([axis], np.int64)}, [("y", t, kept)]


def layer_norm(shape, t, axis):
    rng, n = np.random.default_rng(3), shape[-1]
    scale, bias = (rng.standard_normal(n).astype(NUMPY[t]) for _ in range(2))
    return [helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1)], {"g": scale, "b": bias}, [("y", t, shape)]


def rms_norm(shape, t, axis):
    """As exports write it."""
    g = np.random.default_rng(3).standard_normal(shape[-1]).astype(NUMPY[t])
    nodes = [helper.make_node("Mul", ["x", "x"], ["s"]), helper.make_node("ReduceMean", ["s", "axes"], ["m"]), helper.make_node("Add", ["m", "e"], ["v"]),
             helper.make_node("Sqrt", ["v"], ["r"]), helper.make_node("Div", ["x", "r"], ["n"]), helper.make_node("Mul", ["n", "g"], ["y"])]
    return nodes, {"axes": np.array([-1], np.int64), "e": np.array(1e-5, NUMPY[t]), "g": g}, [("y", t, shape)]


def instance_norm(shape, t, axis):
    scale, bias = (np.random.default_rng(3).standard_normal(shape[1]).astype(NUMPY[t]) for _ in range(2))
    return [helper.make_node("InstanceNormalization", ["x", "g", "b"], ["y"])], {"g": scale, "b": bias}, [("y", t, shape)]


def cumsum(shape, t, axis):
    return [helper.make_node("CumSum", ["x", "a"], ["y"])], {"a": np.array(axis, np.int64)}, [("y", t, shape)]


def topk(k):
    def made(shape, t, axis):
        out = list(shape)
        out[axis] = k or shape[axis]
        return [helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=axis)], {"k": np.array([out[axis]], np.int64)}, [("y", t, out), ("i", INT64, out)]
    return made


SUM, MAX, MEAN = reduce_of("ReduceSum"), reduce_of("ReduceMax"), reduce_of("ReduceMean")
LONG, LONGER, TWO, ODD, SHORT, TINY, MANY = [1, 131072], [1, 1048576], [2, 200000], [37, 10007], [4096, 64], [100000, 3], [512, 1024]
CASES = [(name, op, shape, axis, t)
         for name, op, places in [
             ("sum", SUM, [(LONG, 1), (LONGER, 1), (TWO, 1), (ODD, 1), (SHORT, 1), (TINY, 1), (MANY, 1), (MANY, 0), ([1000000, 3], 0), ([65536, 64], 0), ([100003, 7], 0),
                           ([131072, 1], 0), ([16, 512, 1024], 1), ([1, 21, 512, 512], 1), ([4, 4096, 5], 1), ([8, 7, 13, 1001], 2)]),
             ("max", MAX, [(LONGER, 1), (TWO, 1), (SHORT, 1), (TINY, 1), ([1000000, 3], 0), ([65536, 64], 0), ([16, 512, 1024], 1)]),
             ("mean", MEAN, [(LONGER, 1), (ODD, 1), ([100003, 7], 0)]),
             ("variance", variance, [(LONGER, 1), (ODD, 1), (MANY, 1), ([65536, 64], 0), (TINY, 1)]),
             ("l2", reduce_of("ReduceL2"), [(LONGER, 1), (SHORT, 1)]),
             ("prod", reduce_of("ReduceProd"), [(LONGER, 1), ([65536, 64], 0)]),
             ("logsumexp", reduce_of("ReduceLogSumExp"), [(LONG, 1), (TWO, 1), (MANY, 1), ([1, 21, 512, 512], 1), (TINY, 1), ([65536, 64], 0)]),
             ("argmax", arg_of("ArgMax"), [(LONG, 1), (LONGER, 1), (TWO, 1), (SHORT, 1), (TINY, 1), ([65536, 64], 0), ([1, 21, 512, 512], 1), ([8, 7, 13, 1001], 2)]),
             ("softmax", along("Softmax"), [(LONG, 1), (LONGER, 1), (TWO, 1), (ODD, 1), (SHORT, 1), (TINY, 1), (MANY, 1), ([1, 21, 512, 512], 1), ([16, 512, 1024], 1),
                                            ([65536, 64], 0), ([4, 4096, 5], 1)]),
             ("log_softmax", along("LogSoftmax"), [(LONG, 1), (SHORT, 1), ([1, 21, 512, 512], 1)]),
             ("layer_norm", layer_norm, [(LONG, 1), (TWO, 1), (ODD, 1), (SHORT, 1), (MANY, 1)]),
             ("rms_norm", rms_norm, [(LONG, 1), (TWO, 1), (SHORT, 1), (MANY, 1)]),
             ("instance_norm", instance_norm, [([1, 3, 512, 512], 2), ([1, 64, 56, 56], 2), ([1, 1, 1, 262144], 2)]),
             ("cumsum", cumsum, [(LONG, 1), (LONGER, 1), (SHORT, 1), (TINY, 1), (MANY, 0), ([65536, 64], 0), ([16, 512, 1024], 1)]),
             ("top5", topk(5), [(LONG, 1), (LONGER, 1), (SHORT, 1), (MANY, 1), ([1024, 512], 0)]),
             ("top100", topk(100), [(LONG, 1), (MANY, 1)]),
             ("sort", topk(0), [(LONG, 1), (SHORT, 1), (TINY, 1), (MANY, 1)])]
         for shape, axis in places for t in [FLOAT]]
CASES += [(name, op, shape, axis, HALF)
          for name, op in [("sum", SUM), ("max", MAX), ("softmax", along("Softmax")), ("layer_norm", layer_norm)] for shape, axis in [(LONG, 1), (MANY, 1), (SHORT, 1)]]
CASES += [("sum", SUM, [65536, 64], 0, HALF)]
CASES += [("max", MAX, shape, axis, INT8) for shape, axis in [(LONGER, 1), (SHORT, 1), ([65536, 64], 0)]]
CASES += [("argmax", arg_of("ArgMax"), shape, axis, INT8) for shape, axis in [(LONG, 1), (SHORT, 1)]]
CASES += [("sum", SUM, shape, axis, INT32) for shape, axis in [(LONGER, 1), ([100003, 7], 0)]]


def name_of(case):
    name, _, shape, axis, t = case
    return f"{name} {'×'.join(map(str, shape))} axis {axis} {NAMES[t]}"


def file_of(case):
    return re.sub(r"\W+", "_", name_of(case).replace("×", "x"))


def model(case):
    _, op, shape, axis, t = case
    nodes, constants, results = op(shape, t, axis)
    graph = helper.make_graph(nodes, "fold", [helper.make_tensor_value_info("x", t, shape)], [helper.make_tensor_value_info(*r) for r in results],
                              [numpy_helper.from_array(v, n) for n, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def prepare(tenon, cases, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for case in cases:
        path = folder / f"{file_of(case)}.onnx"
        onnx.save(model(case), path)
        done = subprocess.run([tenon, "compile", path, "-o", path.with_suffix(".so")], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name_of(case)}: {done.stderr.strip()}")


def values_of(case):
    _, _, shape, _, t = case
    rng = np.random.default_rng(1)
    if t == INT8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    if t == INT32:
        return rng.integers(-1000, 1000, shape).astype(np.int32)
    if case[0] == "prod":
        return (1 + 0.001 * rng.standard_normal(shape)).astype(NUMPY[t])
    return rng.standard_normal(shape).astype(NUMPY[t])


def differs(case, ours, theirs):
    """The largest difference from a peer, when it is too large; equal elements of a sort keep no order there."""
    tolerance = TOLERANCE[case[4]]
    for got, want in zip(ours[:1] if case[0] in ("sort", "top5", "top100") else ours, theirs):
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        scale = max(1.0, float(np.abs(want).max()) if want.size else 1.0)
        if not np.allclose(got, want.reshape(got.shape), rtol=tolerance, atol=tolerance * scale):
            return float(np.abs(got - want.reshape(got.shape)).max())
    return None


def measure(case, folder, threads, contenders):
    """The best time of each in ms, and what differs; a peer that lacks the operator is left out."""
    path, inputs, outputs = folder / f"{file_of(case)}.onnx", folder / "inputs.npz", folder / "outputs.npz"
    np.savez(inputs, x=values_of(case))
    best, results, notes = {}, {}, []
    for c in contenders:
        try:
            c.ask("create", model=str(path), artifact=str(path.with_suffix(".so")), inputs=str(inputs), threads=threads)
            c.ask("check", outputs=str(outputs))
            results[c.label], best[c.label] = arrays(outputs), float("inf")
        except Failure:
            if c.label == "tenon":
                raise
    for _ in range(SLOTS):
        for c in contenders:
            if c.label in best:
                time.sleep(PAUSE_SECONDS)
                best[c.label] = min(best[c.label], c.ask("slot", seconds=SLOT_SECONDS, wake=True)["slot"][1])
    for c in contenders:
        c.ask("close")
        if c.label in results and (d := differs(case, results["tenon"], results[c.label])) is not None:
            notes.append(f"differs from {c.label} by {d:.3g}")
    return best, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tenon", type=pathlib.Path, required=True)
    parser.add_argument("--prepare", action="store_true", help="write and compile the models, time nothing")
    parser.add_argument("--only", default="", help="cases whose name matches")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", type=pathlib.Path, help="add results to this file")
    parser.add_argument("--part", default="0/1", help="every n-th case from the i-th on: i/n")
    o = parser.parse_args()
    part, parts = map(int, o.part.split("/"))
    cases = [c for c in CASES if re.search(o.only, name_of(c))][part::parts]
    if o.prepare:
        prepare(o.tenon, cases, o.folder)
        return 0
    results = json.loads(o.json.read_text()) if o.json and o.json.exists() else {}
    contenders = [Contender("tenon", "tenon", package_of(o.tenon)), Contender("onnxruntime", "onnxruntime", "spin"), Contender("openvino", "openvino", "f32")]
    for case in cases:
        for threads in o.threads:
            best, notes = measure(case, o.folder, threads, contenders)
            peers = {k: v for k, v in best.items() if k != "tenon"}
            least = min(peers, key=peers.get, default=None)
            ratio = best["tenon"] / peers[least] if least else float("nan")
            results[f"{name_of(case)} {threads}"] = best
            print(f"{ratio:6.2f}  {name_of(case):45s} {threads} thread{'s' * (threads > 1)}  " + "  ".join(f"{k} {v:.4f}" for k, v in best.items()) + "".join(f"  {n}" for n in notes), flush=True)
    for c in contenders:
        c.stop()
    if o.json:
        o.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
