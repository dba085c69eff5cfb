#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peak memory of compiling a model and of running its artifact, against what is allowed; needs no peers.

    bench/memory.py --tenon build/release/bin/tenon MODEL.onnx …

Running may take 1.25 · (weights + arena) + 25 MB; ends with 1 when a model takes more. Compiling holds the weights
once, the largest tensor twice while it is packed, and about 95 MB of compiler."""
import argparse
import pathlib
import sys
import tempfile

from bench import Failure, compile_model
from inputs import inputs_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", type=pathlib.Path, required=True)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    o = parser.parse_args()
    print(f"{'model':24} {'weights':>8} {'arena':>7} {'running':>8} {'allowed':>8} {'compiling':>10}   MB")
    failures = 0
    for path in o.models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                t = compile_model(o.tenon.resolve(), path, pathlib.Path(folder) / "model.so", inputs_of(path), folder)
            except Failure as e:
                print(f"{path.stem:24} {e}")
                failures += 1
                continue
        allowed = 1.25 * (t["weights_bytes"] + t["arena_bytes"]) + 25e6
        over = t["peak_rss_bytes"] > allowed
        failures += over
        values = [t["weights_bytes"], t["arena_bytes"], t["peak_rss_bytes"], allowed, t["compile_rss_bytes"]]
        print("{:24} {:8.1f} {:7.1f} {:8.1f} {:8.1f} {:10.1f}".format(path.stem, *(v / 1e6 for v in values)) + ("   over" if over else ""), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
