#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One artifact for all sizes against artifacts for one size each: what do symbolic sizes cost?

    PYTHONPATH=build/release/python bench/symbolic.py --tenon build/release/bin/tenon MODEL.onnx \\
        x=1x3x48x320 x=4x3x48x320
    bench/symbolic.py … MODEL.onnx …       without sizes: those of SIZES that the model's name has

Several inputs of one size are separated by commas (`ids=1x128,mask=1x128`). Runs of both artifacts alternate in one
process on one thread, their times are those of the thread, the best of all rounds, because other work on the machine
only adds. Ends with 1 when a ratio is above its limit: 1.10, and 1.05 for models of products (BERT)."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

from tenon_session import Session

LIMIT, LIMIT_OF_PRODUCTS = 1.10, 1.05
BERT = "input_ids={0},attention_mask={0}"
SIZES = {
    "ppocr_v2_cls": ["x=1x3x48x192", "x=1x3x48x100", "x=6x3x48x192"],
    "ppocr_v4_rec": ["x=1x3x48x100", "x=1x3x48x320", "x=4x3x48x320"],
    "ppocr_v4_det": ["x=1x3x320x320", "x=1x3x480x736", "x=1x3x640x640"],
    "basic_pitch": ["serving_default_input_2:0=1x43844x1", "serving_default_input_2:0=3x43844x1"],
    "bert": [BERT.format(shape) for shape in ("1x128", "4x128", "1x384")],
}


def compile_to(tenon, model, path, dims=()):
    command = [tenon, "compile", model, "-o", path, "--threads", "1", *(a for d in dims for a in ("--dim", d))]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{model}: {done.stderr.strip()}")
    return path


def arrays_and_dims(infos, size):
    """What a size says of each input: an array, and values of the symbolic dimensions."""
    shapes = {n: [int(d) for d in s.split("x")] for n, s in (part.rsplit("=", 1) for part in size.split(","))}
    rng, arrays, dims = np.random.default_rng(0), [], {}
    for info in infos:
        shape = shapes.get(info["name"])
        if shape is None or len(shape) != len(info["shape"]):
            sys.exit(f"{size}: input {info['name']} has the shape {info['shape']}")
        dims |= {d: n for d, n in zip(info["shape"], shape) if isinstance(d, str)}
        kind = np.dtype(info["dtype"])
        arrays.append(rng.standard_normal(shape).astype(kind) if kind.kind == "f" else np.ones(shape, kind))
    return arrays, [f"{d}={n}" for d, n in dims.items()]


def ratio(symbolic, specialised, arrays, seconds):
    """The best times of both in milliseconds."""
    sessions = [Session(path, arrays, 1) for path in (symbolic, specialised)]
    best = [float("inf")] * 2
    for s in sessions:
        s.run()
    end = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < end or rounds < 5:
        for k, s in enumerate(sessions):
            start = time.thread_time()
            s.run()
            best[k] = min(best[k], time.thread_time() - start)
        rounds += 1
    for s in sessions:
        s.close()
    return best[0] * 1e3, best[1] * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=6, help="for each size (default 6)")
    parser.add_argument("what", nargs="+", metavar="MODEL [SIZE …]")
    o = parser.parse_args()
    models = []
    for word in o.what:
        if word.endswith(".onnx"):
            models.append((pathlib.Path(word), []))
        elif models:
            models[-1][1].append(word)
        else:
            sys.exit(f"{word}: sizes stand behind a model")
    over = False
    print(f"{'model':14} {'inputs':36} {'symbolic':>10} {'specialised':>12} {'ratio':>7}")
    for model, sizes in models:
        name = next((n for n in SIZES if model.stem.startswith(n)), "")
        limit = LIMIT_OF_PRODUCTS if name == "bert" else LIMIT
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            symbolic = compile_to(o.tenon, model, folder / "symbolic.so")
            said = subprocess.run([o.tenon, "inspect", model, "--json"], stdout=subprocess.PIPE, check=True)
            infos = json.loads(said.stdout)["inputs"]
            for k, size in enumerate(sizes or SIZES.get(name) or sys.exit(f"{model}: which sizes?")):
                arrays, dims = arrays_and_dims(infos, size)
                specialised = compile_to(o.tenon, model, folder / f"specialised{k}.so", dims)
                ours, theirs = ratio(symbolic, specialised, arrays, o.seconds)
                over |= ours > limit * theirs
                shown = size.split(",")[0].split("=")[-1]
                print(f"{model.stem:14} {shown:36} {ours:7.3f} ms {theirs:9.3f} ms {ours / theirs:7.3f}"
                      + (f"   above {limit}" if ours > limit * theirs else ""), flush=True)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
