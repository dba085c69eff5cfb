#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports for free sizes against artifacts for the size: the pairs of docs/zoo.json, one by one.

    bench/zoo_sizes.py --tenon build/release/bin/tenon --models build/zoo/models [--only TEXT ...] [--artifacts FOLDER [--compile]]

Runs `tenon bench` on one thread with each artifact in turn, --rounds times, and takes the best run of each: other work on
the machine only adds. Slow models come last. Ends with 1 when a pair takes more than 1.1 times. Artifacts are kept in a
given folder and not made again: with --compile first, the machine can be idle when it is timed."""
import argparse
import json
import math
import pathlib
import sys
import tempfile

import numpy as np

from export_zoo import ALLOWED_FREE, COMPILE_SECONDS, RUN_SECONDS, child, sizes_of

SLOW_MS = 4


def pairs_of(table):
    """Model and number of the size, of what was timed at both; the longest first, but slow ones last."""
    pairs = [(ms[2], key, k) for key, row in table.items() for k, ms in enumerate(row.get("ms", [])) if len(ms) > 2]
    return [(key, k) for slow, _, key, k in sorted((ms >= SLOW_MS, -ms, key, k) for ms, key, k in pairs)]


def best_run(tenon, artifact, words, seconds):
    """Milliseconds; infinite where the run fails."""
    status, out, _ = child([tenon, "bench", artifact, "--threads", "1", "--seconds", seconds, "--json", *words], RUN_SECONDS)
    return json.loads(out)["latency_ms"]["min"] if status == 0 else math.inf


def compiled(o, path, k, folder):
    """The artifact for free sizes and the one for the size; null when one does not compile."""
    artifacts = [folder / f"{path.stem}.so", folder / f"{path.stem}.{k}.so"]
    for i, artifact in enumerate(artifacts):
        if not artifact.exists():
            dims = sizes_of(o.tenon, path, k) if i else []
            if child([o.tenon, "compile", path, "-o", artifact, "--no-cache", "-q", *dims], COMPILE_SECONDS)[0] != 0:
                return None
    return artifacts


def measure(o, path, k, artifacts, folder):
    """Best milliseconds of each artifact."""
    words = []
    for i, (name, value) in enumerate(np.load(path.with_suffix(f".{k}.feed.npz")).items()):
        np.save(folder / f"{i}.npy", value)
        words += ["-i", f"{name}=@{folder / f'{i}.npy'}"]
    best = [math.inf, math.inf]
    for _ in range(o.rounds):
        for i, artifact in enumerate(artifacts):
            best[i] = min(best[i], best_run(o.tenon, artifact, words, o.seconds))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True, help="the folder that export_zoo.py has written")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names, such as segformer.script_free.0")
    parser.add_argument("--artifacts", type=pathlib.Path, help="a folder that keeps them")
    parser.add_argument("--compile", action="store_true", help="makes the artifacts, measures nothing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.25)
    o = parser.parse_args()
    if o.artifacts:
        o.artifacts.mkdir(parents=True, exist_ok=True)
    table = json.loads((pathlib.Path(__file__).resolve().parent.parent / "docs" / "zoo.json").read_text())
    ratios = []
    for key, k in pairs_of(table):
        if o.only and not any(text in f"{key}.{k}" for text in o.only):
            continue
        path = o.models / f"{key}.onnx"
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            artifacts = compiled(o, path, k, o.artifacts or folder)
            if o.compile and artifacts:
                continue
            best = artifacts and measure(o, path, k, artifacts, folder)
        if best is None or not all(map(math.isfinite, best)):
            print(f"{key}.{k}: does not compile or run", flush=True)
            continue
        ratios.append(best[0] / best[1])
        print(f"{key + f'.{k}':40} free {best[0]:9.4f} ms, for the size {best[1]:9.4f} ms, {ratios[-1]:5.2f}", flush=True)
    above = sum(r > ALLOWED_FREE for r in ratios)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} pairs: geometric mean {mean:.2f}, {above} above {ALLOWED_FREE}")
    sys.exit(above > 0)


if __name__ == "__main__":
    main()
