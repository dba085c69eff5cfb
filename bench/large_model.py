#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models over 2 GB with external data: compiled, run, compared with ONNX Runtime; peak memory and the time of loading.

    bench/large_model.py --tenon TENON [--folder FOLDER] [--gb 2.3] [KIND…]

A protobuf file ends at 2 GB, so the weights lie in a file beside it. Kinds: `chain`, dense layers of 268 MB each; `table`, one
embedding of more than 2 GB, rows of which are gathered; `head`, one dense layer of more than 2 GB; `decoder`, layers of a
language model with shared keys and gates. Compiling may take
1.3 times the weights and 150 MB, running 1.25 times the weights and 25 MB. FOLDER needs three times the weights; it is emptied
of what was written. Exit status 1: a result differs, or the memory is more than allowed."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

WIDTH = 8192  # of the chain's layers
ROW = 2048    # of the table and the head
BLOCK = 1 << 22  # elements that are drawn at a time
ALLOWED_DIFFERENCE = 1e-3  # root mean square of the difference over that of the result
COMPILE_FACTOR, COMPILE_MORE = 1.3, 150e6
RUN_FACTOR, RUN_MORE = 1.25, 25e6


class Weights:
    """Tensors of a model, written to the file beside it one after the other."""

    def __init__(self, path):
        self.path, self.file, self.tensors, self.bytes = path, open(path, "wb"), [], 0

    def add(self, name, *shape):
        """A tensor of random numbers, so wide that a product with it keeps its size."""
        count, r = int(np.prod(shape)), np.random.default_rng(len(self.tensors))
        start = self.file.tell()
        scale = np.float32(1.7 / np.sqrt(shape[0]))
        for done in range(0, count, BLOCK):
            ((r.random(min(BLOCK, count - done), np.float32) - np.float32(0.5)) * 2 * scale).tofile(self.file)
        self.file.write(b"\0" * (-self.file.tell() % 4096))
        t = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.path.name), ("offset", start), ("length", 4 * count)):
            t.external_data.add(key=key, value=str(value))
        self.tensors.append(t)
        self.bytes += 4 * count


def chain(w, size):
    nodes, layers = [], max(2, -(-size // (4 * WIDTH * WIDTH)))
    for i in range(layers):
        w.add(f"w{i}", WIDTH, WIDTH)
        nodes += [helper.make_node("MatMul", [f"y{i - 1}" if i else "x", f"w{i}"], [f"z{i}"]), helper.make_node("Relu", [f"z{i}"], [f"y{i}"])]
    return nodes, helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, WIDTH]), f"y{layers - 1}"


def table(w, size):
    w.add("rows", size // (4 * ROW), ROW)
    w.add("dense", ROW, 16)
    nodes = [helper.make_node("Gather", ["rows", "x"], ["picked"]), helper.make_node("MatMul", ["picked", "dense"], ["y"])]
    return nodes, helper.make_tensor_value_info("x", TensorProto.INT64, [1, 40]), "y"


def head(w, size):
    w.add("dense", ROW, size // (4 * ROW))
    return [helper.make_node("MatMul", ["x", "dense"], ["y"])], helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, ROW]), "y"


def decoder(w, size):
    """Layers as in Llama: RMS norms, keys and values shared by four heads each, gates."""
    inner, heads, shared, words = 11 * ROW // 4, 16, 4, 16000
    keys = ROW * shared // heads
    layer = 4 * ROW * (2 * ROW + 2 * keys + 3 * inner)
    w.add("words", words, ROW)
    nodes = [helper.make_node("Gather", ["words", "x"], ["h0"])]
    for i in range(max(1, (size - 8 * words * ROW) // layer)):
        for name, rows, columns in (("q", ROW, ROW), ("k", ROW, keys), ("v", ROW, keys), ("o", ROW, ROW), ("gate", ROW, inner), ("up", ROW, inner), ("down", inner, ROW)):
            w.add(f"{name}{i}", rows, columns)
        for name in ("a", "b"):
            w.add(f"norm_{name}{i}", ROW)

        def node(op, inputs, output, i=i, **attrs):
            nodes.append(helper.make_node(op, [f"{n}{i}" for n in inputs], [f"{output}{i}"], **attrs))
        node("RMSNormalization", ["h", "norm_a"], "x_a")
        for name in "qkv":
            node("MatMul", ["x_a", name], f"y_{name}")
        node("Attention", ["y_q", "y_k", "y_v"], "mixed", q_num_heads=heads, kv_num_heads=shared, is_causal=1)
        node("MatMul", ["mixed", "o"], "joined")
        node("Add", ["h", "joined"], "m")
        node("RMSNormalization", ["m", "norm_b"], "x_b")
        node("MatMul", ["x_b", "gate"], "y_gate")
        node("MatMul", ["x_b", "up"], "y_up")
        node("Sigmoid", ["y_gate"], "opened")
        node("Mul", ["y_gate", "opened"], "swish")
        node("Mul", ["swish", "y_up"], "gated")
        node("MatMul", ["gated", "down"], "y_down")
        nodes.append(helper.make_node("Add", [f"m{i}", f"y_down{i}"], [f"h{i + 1}"]))
    w.add("head", ROW, words)
    nodes.append(helper.make_node("MatMul", [f"h{i + 1}", "head"], ["y"]))
    return nodes, helper.make_tensor_value_info("x", TensorProto.INT64, [1, 16]), "y"


KINDS = {"chain": chain, "table": table, "head": head, "decoder": decoder}
OPSET, IR_VERSION = 23, 11  # the first with attention and RMS norms


def write(kind, size, folder):
    """The model's path, its weights in bytes, and an input."""
    weights = Weights(folder / "model.data")
    nodes, x, y = KINDS[kind](weights, size)
    weights.file.close()
    result = helper.make_empty_tensor_value_info(y)
    result.type.tensor_type.elem_type = TensorProto.FLOAT
    model = helper.make_model(helper.make_graph(nodes, kind, [x], [result], weights.tensors), opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    shape, r = [d.dim_value for d in x.type.tensor_type.shape.dim], np.random.default_rng(7)
    if x.type.tensor_type.elem_type == TensorProto.INT64:  # the last row lies behind the 2 GB
        rows = weights.tensors[0].dims[0]
        feed = r.integers(0, rows, shape)
        feed[0, :3] = 0, rows - 1, rows // 2
    else:
        feed = r.standard_normal(shape).astype(np.float32)
    return folder / "model.onnx", weights.bytes, feed


# What a process does with the artifact or the model: results into a file; seconds of loading, the process's peak of memory as JSON.
RUN = """
import json, resource, sys, time
import numpy as np
kind, model, feed, target = sys.argv[1:]
if kind == "tenon":
    from tenon import InferenceSession
else:
    import onnxruntime
    InferenceSession = lambda path: onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
x = np.load(feed)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
session = InferenceSession(model)
loaded = time.perf_counter()
y = session.run(None, {"x": x})[0]
done = time.perf_counter()
np.save(target, y)
print(json.dumps({"load_s": loaded - start, "run_s": done - loaded, "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "before": 1024 * before}))
"""


def ran(kind, model, folder):
    """The result of a process, and its numbers."""
    done = subprocess.run([sys.executable, "-c", RUN, kind, str(model), str(folder / "x.npy"), str(folder / f"{kind}.npy")], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{kind}: {done.stderr.strip()[-400:]}")
    return np.load(folder / f"{kind}.npy"), json.loads(done.stdout.splitlines()[-1])


def check(tenon, kind, size, folder):
    """Prints a line; what is wrong."""
    model, weights, feed = write(kind, size, folder)
    np.save(folder / "x.npy", feed)
    start = time.perf_counter()
    done = subprocess.run([tenon, "compile", model, "-o", folder / "model.so", "--json", "--no-cache", "-q"], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        return [f"{kind}: compile ended with {done.returncode}: {done.stderr.strip()[-400:]}"]
    compiling = json.loads(done.stdout)["peak_rss_bytes"]
    got, own = ran("tenon", folder / "model.so", folder)
    want, peer = ran("onnxruntime", model, folder)
    wrong = []
    same = got.shape == want.shape
    error = float(np.sqrt(np.mean((got - want) ** 2)) / np.sqrt(np.mean(want ** 2))) if same else float("inf")
    if not error <= ALLOWED_DIFFERENCE:
        wrong.append(f"{kind}: the result differs by {error:.2g}")
    for what, peak, allowed in (("compiling", compiling, COMPILE_FACTOR * weights + COMPILE_MORE), ("running", own["peak"] - own["before"], RUN_FACTOR * weights + RUN_MORE)):
        if peak > allowed:
            wrong.append(f"{kind}: {what} takes {peak / 1e6:.0f} MB; {allowed / 1e6:.0f} are allowed")
    print(f"{kind}: weights {weights / 1e6:.0f} MB; compiling {seconds:.1f} s, {compiling / 1e6:.0f} MB; loading {own['load_s'] * 1e3:.0f} ms "
          f"(ONNX Runtime {peer['load_s'] * 1e3:.0f}), first run {own['run_s'] * 1e3:.0f} ms ({peer['run_s'] * 1e3:.0f}), peak {(own['peak'] - own['before']) / 1e6:.0f} MB "
          f"({(peer['peak'] - peer['before']) / 1e6:.0f}); difference {error:.2g}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, help="where models are written (default: a temporary folder)")
    parser.add_argument("--gb", type=float, default=2.3, help="of weights (default 2.3)")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    o = parser.parse_args()
    if unknown := set(o.kinds) - set(KINDS):
        parser.error(f"no kind {', '.join(sorted(unknown))}")
    wrong = []
    for kind in o.kinds or KINDS:
        with tempfile.TemporaryDirectory(dir=o.folder) as folder:
            wrong += check(o.tenon.resolve(), kind, int(o.gb * 1e9), pathlib.Path(folder))
    print("\n".join(wrong) or "all right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
