#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is proved of the kernels of models, and what the proofs cost.

    bench/proofs.py [--tenon BIN] [--json FILE] [--show] MODEL…

A row for each model: accesses of its kernels, how many are proved inside of their buffers, how many are guarded because their index comes
from data, how many are guarded because no proof was found (`--show` prints these), and the processor time of the proofs as a share of the
whole compilation's. Exit status 1: an access without a proof whose index does not come from data, or a share above five percent."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PASSES = ("prove_programs", "guard_accesses")
MOST_SHARE = 0.05  # of a compilation


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="build/release/bin/tenon")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    args = parser.parse_args()
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
