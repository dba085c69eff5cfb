#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers against ONNX Runtime: one layer, for each kind, size, batch and number of steps.

    PYTHONPATH=build/release/python bench/recurrent.py --tenon build/release/bin/tenon [--only REGEX] [--seconds 1] [--docs FILE]
                                                       [--artifacts FOLDER [--compile]]

Each layer is compiled twice, for the number of steps and for any number. Runs of both artifacts and of ONNX Runtime
alternate in one process on one thread; times are those of the thread, the best of all rounds, because other work on the
machine only adds. Values are compared with ONNX Runtime's. --docs writes the table. Artifacts are kept in a given folder
and not made again: with --compile first, the machine can be idle when they are timed. Ends with 1 when a value differs or
a ratio is above 1."""
import argparse
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from tenon_session import Session

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUTS = 64
TOLERANCE = 1e-4
# kind, units, batch, steps, what is special
LAYERS = [(kind, units, batch, steps, "") for kind in GATES for units in (64, 128, 256, 512) for batch in (1, 8) for steps in (10, 100, 1000)
          if units < 512 or steps < 1000]
LAYERS += [(kind, 64, 1, 10000, "") for kind in GATES]
LAYERS += [(kind, 128, batch, 100, what) for kind in GATES for batch in (1, 8) for what in ("bidirectional", "reverse", "lengths")]
LAYERS += [("GRU", 128, batch, 100, "linear_before_reset") for batch in (1, 8)] + [("LSTM", 100, batch, 100, "") for batch in (1, 8)]


def model(kind, units, batch, steps, what):
    """A model of one layer with seeded weights; `steps` may be a name."""
    rng = np.random.default_rng(units)
    directions, gates = 2 if what == "bidirectional" else 1, GATES[kind]
    weights = {"w": rng.uniform(-1, 1, (directions, gates * units, INPUTS)) / INPUTS ** 0.5,
               "r": rng.uniform(-1, 1, (directions, gates * units, units)) / units ** 0.5, "b": rng.uniform(-1, 1, (directions, 2 * gates * units)) / 4}
    attributes = {"hidden_size": units}
    if directions == 2 or what == "reverse":
        attributes["direction"] = what
    if what == "linear_before_reset":
        attributes[what] = 1
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [steps, batch, INPUTS])]
    if what == "lengths":
        inputs.append(helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, [batch]))
    node = helper.make_node(kind, ["x", "w", "r", "b"] + ["lengths"] * (what == "lengths"), ["y", "h"], **attributes)
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [steps, directions, batch, units]),
               helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, [directions, batch, units])]
    graph = helper.make_graph([node], "layer", inputs, outputs, [numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def compiled(tenon, proto, folder, name):
    """The artifact, and the processor time that it took."""
    took = folder / f"{name}.seconds"
    if took.exists():
        return folder / f"{name}.so", float(took.read_text())
    onnx.save(proto, folder / f"{name}.onnx")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([tenon, "compile", folder / f"{name}.onnx", "-o", folder / f"{name}.so", "--threads", "1", "--no-cache"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr.strip()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    took.write_text(f"{seconds:.3f}")
    return folder / f"{name}.so", seconds


def interleaved(runs, seconds):
    """The best time of each in milliseconds."""
    best = [float("inf")] * len(runs)
    for run in runs:
        run()
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end or rounds < 5:
        for i, run in enumerate(runs):
            start = time.thread_time()
            run()
            best[i] = min(best[i], time.thread_time() - start)
        rounds += 1
    return [b * 1e3 for b in best]


def artifacts(tenon, layer, folder):
    """For the number of steps and for any number."""
    kind, units, batch, steps, what = layer
    return [compiled(tenon, model(kind, units, batch, n, what), folder, name) for name, n in (("fixed", steps), ("free", "steps"))]


def measure(tenon, layer, seconds, folder):
    _, _, batch, steps, what = layer
    rng = np.random.default_rng(1)
    feed = {"x": rng.standard_normal((steps, batch, INPUTS)).astype(np.float32)}
    if what == "lengths":
        feed["lengths"] = np.linspace(steps, steps // 2, batch).astype(np.int32)
    (fixed, seconds_fixed), (free, seconds_free) = artifacts(tenon, layer, folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    peer = onnxruntime.InferenceSession(str(folder / "fixed.onnx"), options, providers=["CPUExecutionProvider"])
    ours = [Session(path, list(feed.values()), 1) for path in (fixed, free)]
    want = peer.run(None, feed)
    for s in ours:
        s.run()
        for got, value in zip(s.outputs(), want, strict=True):
            if not np.allclose(got, value, rtol=TOLERANCE, atol=TOLERANCE):
                sys.exit(f"{layer}: differs from ONNX Runtime by {np.abs(got - value).max()}")
    times = interleaved([lambda: peer.run(None, feed), *(s.run for s in ours)], seconds)
    for s in ours:
        s.close()
    return times, seconds_fixed, seconds_free


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="", help="layers whose name matches")
    parser.add_argument("--seconds", type=float, default=1, help="for each layer (default 1)")
    parser.add_argument("--docs", type=pathlib.Path, help="write the table into this file")
    parser.add_argument("--artifacts", type=pathlib.Path, help="a folder that keeps them")
    parser.add_argument("--compile", action="store_true", help="makes the artifacts, measures nothing")
    o = parser.parse_args()
    lines = ["| layer | units | batch | steps | ONNX Runtime | fixed | free | fixed / peer | free / peer | compiling fixed, free |", "|---|" + "---:|" * 9]
    ratios, over = [], False
    if not o.compile:
        print("\n".join(lines), flush=True)
    for layer in LAYERS:
        kind, units, batch, steps, what = layer
        if not re.search(o.only, f"{kind} {units} {batch} {steps} {what}"):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = o.artifacts / "_".join(map(str, layer)) if o.artifacts else pathlib.Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            if o.compile:
                artifacts(o.tenon, layer, folder)
                continue
            (peer, fixed, free), a, b = measure(o.tenon, layer, o.seconds, folder)
        ratios.append((fixed / peer, free / peer))
        over |= max(ratios[-1]) > 1
        lines.append(f"| {kind}{', ' if what else ''}{what} | {units} | {batch} | {steps} | {peer:.3f} ms | {fixed:.3f} ms | {free:.3f} ms | {fixed / peer:.2f} | {free / peer:.2f} | "
                     f"{a:.2f} s, {b:.2f} s |")
        print(lines[-1], flush=True)
    if o.compile:
        return 0
    means = np.exp(np.mean(np.log(np.array(ratios)), axis=0))
    print(f"geometric mean: fixed {means[0]:.2f}, free {means[1]:.2f}; the largest: fixed {max(r[0] for r in ratios):.2f}, free {max(r[1] for r in ratios):.2f}")
    if o.docs:
        o.docs.write_text("\n".join(lines) + "\n")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
