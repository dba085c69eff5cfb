#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is proved of the kernels of models, and what the proofs cost.

    bench/proofs.py [--tenon BIN] [--json FILE] [--show] MODEL…
    bench/proofs.py [--tenon BIN] --programs

A row for each model: accesses of its kernels, how many are proved inside of their buffers, how many are guarded because their index comes
from data, how many are guarded because no proof was found (`--show` prints these), and the processor time of the proofs as a share of the
whole compilation's. Exit status 1: an access without a proof whose index does not come from data, or a share above five percent. A model
without guards runs the code that it would run if accesses were never looked at. `--programs` times what guards cost where they stand:
small programs with indices from data, guarded and with `T.assume` in place of the guards, in turns."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PASSES = ("prove_programs", "guard_accesses")
MOST_SHARE = 0.05  # of a compilation


# Rows and elements that an index picks, and elements that it changes: what stands around each access, and the access. {stated} says
# nothing, or what makes the guard needless.
PROGRAMS = {
    "rows of 64": ("A: T.Buffer((4096, 64), 'float32'), I: T.Buffer((4096,), 'int64'), B: T.Buffer((4096, 64), 'float32')", """
    for i in T.parallel(4096):
        {stated}
        for j in T.vectorized(64):
            B[i, j] = A[I[i], j]
"""),
    "elements": ("A: T.Buffer((4096,), 'float32'), I: T.Buffer((262144,), 'int64'), B: T.Buffer((262144,), 'float32')", """
    for i in range(262144):
        {stated}
        B[i] = A[I[i]]
"""),
    "sums of 16 elements": ("A: T.Buffer((4096,), 'float32'), I: T.Buffer((262144,), 'int64'), B: T.Buffer((16384,), 'float32')", """
    for r in range(16384):
        B[r] = T.float32(0)
        for k in range(16):
            {stated}
            B[r] = B[r] + A[I[r * 16 + k]]
"""),
    "changed elements": ("A: T.Buffer((262144,), 'float32'), I: T.Buffer((262144,), 'int64'), B: T.Buffer((4096,), 'float32')", """
    for i in range(262144):
        {stated}
        B[I[i]] = A[i]
"""),
}
ROUNDS = 5


def told(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def row_of(tenon, model, folder):
    proofs = told(tenon, "inspect", model, "--proofs", "--json")
    timed = told(tenon, "compile", model, "-o", str(folder / "proofs.so"), "--no-cache", "--threads", "1", "--time-passes", "--json")
    ms = {}
    for p in timed["passes"]:
        ms[p["name"]] = ms.get(p["name"], 0) + p["ms"]
    unproved = [f"{k['name']}: {o['what']}" for k in proofs["kernels"] for o in k["open"] if o["end"] == "unknown"]
    opened = sum(len(k["open"]) for k in proofs["kernels"])
    return {"model": pathlib.Path(model).name, "accesses": proofs["accesses"], "data": opened - len(unproved), "unproved": len(unproved),
            "proof_ms": sum(ms.get(p, 0) for p in PASSES), "compile_ms": sum(ms.values()), "open": unproved}


def time_programs(tenon, folder):
    """A row for each program: µs with guards and without, least of rounds in turns."""
    print("| program | with guards, µs | without, µs | share of guards |\n|---|---|---|---|")
    for name, (parameters, body) in PROGRAMS.items():
        index = "r * 16 + k" if "r * 16" in body else "i"
        files = []
        for stated in ("T.evaluate(0)", f"T.evaluate(T.assume(0 <= I[{index}] and I[{index}] < 4096))"):
            text = body.format(stated=stated)
            file = folder / f"{len(files)}.tir"
            file.write_text(f"@T.prim_func\ndef main({parameters}):{text}")
            artifact = folder / f"{len(files)}.so"
            told(tenon, "compile", str(file), "-o", str(artifact), "--no-cache", "--json")
            files.append(artifact)
        times = [[], []]
        for _ in range(ROUNDS):
            for k in range(2):
                times[k].append(told(tenon, "bench", str(files[k]), "--threads", "1", "--seconds", "0.3", "--json")["latency_ms"]["min"])
        guarded, free = (1000 * min(t) for t in times)
        print(f"| {name} | {guarded:.1f} | {free:.1f} | {(guarded - free) / guarded:.1%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="build/release/bin/tenon")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    args = parser.parse_args()
    if args.programs == bool(args.models):
        parser.error("give models, or --programs")
    if args.programs:
        with tempfile.TemporaryDirectory() as folder:
            time_programs(args.tenon, pathlib.Path(folder))
        return 0
    rows = []
    print("| model | accesses | guarded: from data | guarded: no proof | proofs, ms | of compiling |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models:
            r = row_of(args.tenon, model, pathlib.Path(folder))
            rows.append(r)
            print(f"| {r['model']} | {r['accesses']} | {r['data']} | {r['unproved']} | {r['proof_ms']:.0f} | {r['proof_ms'] / r['compile_ms']:.1%} |", flush=True)
            for text in r["open"] if args.show else []:
                print("   ", text)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return any(r["unproved"] or r["proof_ms"] > MOST_SHARE * r["compile_ms"] for r in rows)


if __name__ == "__main__":
    sys.exit(main())
