#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peak memory of the plan with operators in the order that the planner chooses beside that in the order of the model.

    bench/memory_order.py --tenon build/release/bin/tenon MODEL.onnx …

The peak is the arena of `tenon inspect --memory`, once as usual and once with plan_memory.reorder=false; symbolic
dimensions are all 1 or, where the model takes no such sizes, 64 or 640. "bound" is what the chosen order cannot do without, whatever the places. Ends with 1 when an arena
is larger than in the order of the model, and prints the geometric mean over the models that it changes."""
import argparse
import concurrent.futures
import json
import math
import pathlib
import subprocess
import sys

import onnx

SIZES = (1, 64, 640)  # of symbolic dimensions


def dimensions(path, size):
    """--dim NAME=N for every symbolic dimension."""
    names = set()
    for value in onnx.load(path, load_external_data=False).graph.input:
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value <= 0:
                names.add(dim.dim_param if dim.dim_param not in ("", "?") else f"{value.name}_d{i}")
    return [a for n in sorted(names) for a in ("--dim", f"{n}={size}")]


def plan(tenon, path, size, reorder):
    """The memory plan, or why there is none."""
    command = [str(tenon), "inspect", str(path), "--memory", "--json", *dimensions(path, size)]
    run = subprocess.run(command + ([] if reorder else ["--pass-option", "plan_memory.reorder=false"]), capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError((run.stderr.strip() or "no output").splitlines()[0])
    return json.loads(run.stdout)["memory"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    o = parser.parse_args()
    print(f"{'model':32} {'ordered':>10} {'as it is':>10} {'bound':>10} {'ratio':>6}   KB")
    ratios, larger, failed, without = [], 0, 0, 0

    def both(path):
        for size in SIZES:
            try:
                return [plan(o.tenon.resolve(), path, size, reorder) for reorder in (True, False)]
            except RuntimeError as e:
                why = str(e)
        return why

    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for path, plans in zip(o.models, pool.map(both, o.models)):
            if isinstance(plans, str):
                print(f"{path.stem:32} {plans}")
                failed += 1
                continue
            ordered, plain = (p["arena_bytes"] for p in plans)
            without += plain == 0
            larger += ordered > plain
            if ordered == plain:
                continue
            ratios.append(ordered / plain)
            values = (ordered, plain, plans[0]["lower_bound_bytes"])
            print("{:32} {:10.1f} {:10.1f} {:10.1f} {:6.3f}".format(path.stem, *(v / 1e3 for v in values), ratios[-1]), flush=True)
    same = len(o.models) - len(ratios) - failed - without
    print(f"\nof {len(o.models)} models {len(ratios)} have another arena, {same} the same, {without} none (all from the pool); {failed} have no plan")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"larger: {larger}; geometric mean of those that change: {mean:.3f}")
    return 1 if larger else 0


if __name__ == "__main__":
    sys.exit(main())
