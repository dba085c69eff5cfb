#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times models against ONNX Runtime, in one process, interleaved.

For every model and thread count: outputs are checked first, |difference| <= 1e-4 RMS + 1e-4 |x| on every output,
and must have the same bits on all thread counts. Then pairs of slots are timed, Tenon and the peer in turn (who
begins alternates), with a pause before each slot so that neither heats the other's caches or clocks. A slot is the
median of as many runs as fit into 60 ms. The table gives medians, and of the ratios Tenon / peer the median with
its 95 % bootstrap interval and the ratio of minima. Below 1.0 Tenon is faster.

    bench/bench.py --tenon build/release/bin/tenon --models build/bench/models"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort

from tenon_c import Runtime, Session


class OnnxRuntime:
    name = f"onnxruntime {ort.__version__}"

    def __init__(self, path, feed, threads, spin):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.feed = feed

    def run(self):
        return self.session.run(None, self.feed)


# Symbolic dimensions that are not 1 in the benchmark: model, input, shape.
SHAPES = {("ppocr_v2_cls", "x"): [1, 3, 48, 192]}


def inputs_of(path, seed=1):
    """Seeded values for the model's inputs; a symbolic dimension is 1 unless SHAPES says otherwise."""
    rng = np.random.default_rng(seed)
    model = onnx.load(path, load_external_data=False)
    constants = {t.name for t in model.graph.initializer}
    feed = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = [d.dim_value if d.dim_value > 0 else 1 for d in tensor.shape.dim]
        shape = SHAPES.get((path.stem, value.name), shape)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        feed[value.name] = rng.random(shape).astype(dtype) if dtype.kind == "f" else rng.integers(0, 10, shape).astype(dtype)
    return feed


def agree(got, want):
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        w64 = w.astype(np.float64)
        bound = 1e-4 * np.sqrt(np.mean(w64 * w64)) + 1e-4 * np.abs(w64)
        worst = max(worst, float(np.max(np.abs(g.reshape(w.shape) - w64) / np.maximum(bound, 1e-300), initial=0)))
    return worst


def slot(run, seconds):
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3, min(times) * 1e3


def timed_pairs(ours, theirs, pairs, pause, seconds):
    a, b = [], []
    for _ in range(3):
        ours()
        theirs()
    for i in range(pairs):
        for who, run in ((a, ours), (b, theirs)) if i % 2 == 0 else ((b, theirs), (a, ours)):
            time.sleep(pause)
            run()  # the first run after a pause only wakes the machine
            who.append(slot(run, seconds))
    return np.array(a), np.array(b)


def interval(ratios, rng=np.random.default_rng(0)):
    medians = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
    return np.quantile(medians, [0.025, 0.975])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True, type=pathlib.Path)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--threads", type=int, nargs="*", default=sorted({1, min(2, len(os.sched_getaffinity(0)))}))
    parser.add_argument("--pause", type=float, default=0.02, help="seconds before each slot")
    parser.add_argument("--slot", type=float, default=0.06, help="seconds of each slot")
    parser.add_argument("--spin", action="store_true", help="let the peer's threads spin between runs")
    parser.add_argument("names", nargs="*", help="models to time (default: all in the folder)")
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    runtime = Runtime(o.tenon.parent.parent / "lib" / "libtenon_runtime.so")
    paths = sorted(p for p in o.models.glob("*.onnx") if not o.names or p.stem in o.names)
    if not paths:
        sys.exit(f"bench: no models in {o.models}")
    print(f"{platform.processor() or platform.machine()}, {OnnxRuntime.name}, {o.pairs} pairs, peer's spinning {'on' if o.spin else 'off'}\n")
    head = f"{'model':<16} {'threads':>7} {'tenon ms':>9} {'peer ms':>9} {'ratio':>6} {'95 %':>13} {'of minima':>9} {'error':>6}   compile s  load ms"
    print(head + "\n" + "-" * len(head))
    results, failed = [], False
    for path in paths:
        artifact = o.out / (path.stem + ".so")
        feed, bits = inputs_of(path), None
        done = subprocess.run([o.tenon, "compile", path, "-o", artifact, "--json", "-q"] + dims_arguments(path, feed), stdout=subprocess.PIPE, check=False)
        if done.returncode:
            print(f"{path.stem:<16} did not compile (exit {done.returncode})")
            failed = True
            continue
        compile_s = json.loads(done.stdout)["compile_ms"] / 1e3
        load_ms = json.loads(subprocess.run([o.tenon, "bench", artifact, "--json", "-q", "--repeat", "1", "--warmup", "0"], stdout=subprocess.PIPE, check=True).stdout)["load_ms"]
        for threads in o.threads:
            ours = Session(runtime, artifact, [np.ascontiguousarray(v) for v in feed.values()], threads)
            theirs = OnnxRuntime(path, feed, threads, o.spin)
            error = agree(ours.run(), theirs.run())
            now = [v.tobytes() for v in ours.outputs]
            same, bits = bits is None or bits == now, now
            if error > 1 or not same:
                print(f"{path.stem:<16} {threads:>7} " + ("differs from the peer" if error > 1 else "differs between thread counts") + f" ({error:.2f} of the bound)")
                failed = True
                continue
            a, b = timed_pairs(ours.run, theirs.run, o.pairs, o.pause, o.slot)
            ratios = a[:, 0] / b[:, 0]
            low, high = interval(ratios)
            row = {"model": path.stem, "threads": threads, "tenon_ms": float(np.median(a[:, 0])), "peer_ms": float(np.median(b[:, 0])), "ratio": float(np.median(ratios)),
                   "low": float(low), "high": float(high), "ratio_of_minima": float(a[:, 1].min() / b[:, 1].min()), "error_of_bound": error, "compile_s": compile_s, "load_ms": load_ms}
            results.append(row)
            print(f"{path.stem:<16} {threads:>7} {row['tenon_ms']:>9.3f} {row['peer_ms']:>9.3f} {row['ratio']:>6.2f} {low:>6.2f}-{high:<6.2f} {row['ratio_of_minima']:>9.2f} {error:>6.2f}   {compile_s:>9.2f} {load_ms:>8.1f}", flush=True)
            ours.close()
    with (o.out / "history.jsonl").open("a") as history:
        head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
        history.write(json.dumps({"time": int(time.time()), "commit": head, "peer": OnnxRuntime.name, "pairs": o.pairs, "spin": o.spin, "results": results}) + "\n")
    print("\nratio: Tenon's time / the peer's; error: largest difference as a share of 1e-4 RMS + 1e-4 |x|")
    return 1 if failed else 0


def dims_arguments(path, feed):
    """--dim NAME=N for every symbolic dimension, as the inputs have it."""
    dims = {}
    for value in onnx.load(path, load_external_data=False).graph.input:
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if value.name in feed and dim.dim_value <= 0:
                name = dim.dim_param if dim.dim_param not in ("", "?") else f"{value.name}_d{i}"
                dims[name] = feed[value.name].shape[i]
    return [a for n, size in sorted(dims.items()) for a in ("--dim", f"{n}={size}")]


if __name__ == "__main__":
    sys.exit(main())
