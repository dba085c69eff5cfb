# SPDX-License-Identifier: Apache-2.0
"""Draws typed random ONNX models and compares what Tenon computes with ONNX Runtime.

    make differential ARGS="--models 1000 --seed 1"

Each model is drawn from its own seed (SEED, SEED + 1, …): operators of the importer with corner values of their attributes,
broadcasting, several element types, symbolic sizes that are 1 or 0 in some runs, If, Loop and Scan, arithmetic on shapes, quantised
chains. ONNX Runtime without optimisations is the reference. Where Tenon says something else, ONNX's reference evaluator is
asked: who agrees with it is right. Results that ONNX Runtime itself changes when its inputs change by 1e-6 are not compared.

Each model runs with its sizes known (`sizes`) and with symbolic sizes (`symbolic`), and in one more mode:
    O0, O3      optimisation level             c           target c, sizes known
    verify      every pass is checked          bounds      --dim-max of each size
    artifact    written to a file and loaded
    interpreter not compiled, but interpreted as it was imported (by name only: no code is made, so it is cheap)

With --networks layers are drawn that have channels as models do, with a symbolic batch (--networks blocks: also norms, caches, recurrent
layers, resizing and slices of all kinds), and the third mode is a precision:
    bf16, f16   --precision, batch symbolic    bf16sizes   batch known
    qdq         quantised by ONNX Runtime's quantiser
    qdqverify   the same, every pass checked (by name only)

A finding is cut down to a few nodes and written to OUT/SEED_MODE: model.onnx, inputs_0.npz and finding.txt. Kinds of findings:
    differs     another result                  refused     Tenon refuses what ONNX Runtime runs
    accepted    Tenon runs what both refuse     internal, crash, hang
Differences that are right stand in explained.py with their reasons and are counted.
Exit status 1: something is not explained.

Again: --again OUT/SEED_MODE judges what was written; --seed SEED --models 1 draws the whole model."""
import argparse
import collections
import json
import os
import pathlib
import random
import select
import shutil
import sys
import tempfile
import time

import explained
import judge
import shrink
from worker import Worker

EXTRA = [m for m in judge.MODES if m not in ("sizes", "symbolic", *judge.PRECISIONS, *judge.BY_NAME)]


def modes_of(seed, only, networks):
    """Known sizes, symbolic sizes, and one more mode that the seed picks; of networks a precision."""
    return only or ["sizes", "symbolic", random.Random(seed).choice(judge.PRECISIONS if networks else EXTRA)]


def findings_of(reply):
    if "ended" not in reply:
        return [judge.Finding(**f) for f in reply["findings"]]
    kind = reply["ended"].split(":")[0]
    what, mode, run = (reply["stage"].split() + ["", "", ""])[:3]
    # A crash while a model is drawn or while the reference runs is none of Tenon's.
    return [] if what in ("draw", "start", "reference") else [judge.Finding(mode, kind, int(run or -1), reply["ended"])]


def reduced(worker, folder, finding, out):
    """Writes a small case that fails like the finding; its finding, operators, model and inputs."""
    model, feeds, exact = judge.load(folder)
    feed = feeds[max(finding.run, 0)]
    last = [finding]

    def fails(candidate, values):
        with tempfile.TemporaryDirectory() as other:
            judge.save(pathlib.Path(other), candidate, [values], exact)
            for f in findings_of(worker.ask({"folder": other, "modes": [finding.mode]})):
                if f.like(finding):
                    last[0] = f
                    return True
        return False

    if not fails(model, feed):
        finding.words += " (only after the runs before it)"
        judge.save(out, model, feeds, exact)
        last[0] = finding
    else:
        model, feed = shrink.shrunk(model, feed, fails)
        judge.save(out, model, [feed], exact)
    f = last[0]
    shapes = ", ".join(f"{n}: {v.dtype}{list(v.shape)}" for n, v in feed.items())
    operators = judge.operators_of(model.graph)
    (out / "finding.txt").write_text(f"{f.kind} in mode {f.mode}, {'compilation' if f.run < 0 else 'run'}: {f.code} {f.words}\n"
                                     f"inputs: {shapes}\n{judge.text_of(model)}\n")
    return f, operators, model, feed


class Progress:
    """One line on a terminal, a line every half minute elsewhere."""

    def __init__(self):
        self.start, self.last = time.time(), 0.0

    def show(self, words, end=False):
        now = time.time()
        if not end and now - self.last < (0.2 if sys.stderr.isatty() else 30):
            return
        self.last = now
        print(f"\r{words}\x1b[K" if sys.stderr.isatty() else words, end="" if sys.stderr.isatty() and not end else "\n", file=sys.stderr, flush=True)


def run(o):
    workers = [Worker(o.timeout) for _ in range(o.jobs)]
    reducer = Worker(o.timeout)
    seeds = iter(range(o.seed, o.seed + o.models))
    counts, drawn, kinds, progress, done = collections.Counter(), collections.Counter(), collections.Counter(), Progress(), 0
    o.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as space:
        busy = {}

        def begin(worker):
            seed = next(seeds, None)
            if seed is None or (o.seconds and time.time() - progress.start > o.seconds):
                busy.pop(worker, None)
                return
            folder = pathlib.Path(space) / str(seed)
            busy[worker] = seed, folder
            worker.send({"seed": seed, "nodes": o.nodes, "networks": o.networks, "folder": str(folder), "modes": modes_of(seed, o.modes, o.networks)})

        for w in workers:
            begin(w)
        while busy:
            select.select([w.process.stdout for w in busy], [], [], 1)
            for w in list(busy):
                reply = w.receive()
                if reply is None:
                    continue
                seed, folder = busy[w]
                done += 1
                drawn.update(reply.get("operators", ()))
                seen = []
                for f in findings_of(reply):
                    if any(f.like(s) for s in seen):
                        continue
                    seen.append(f)
                    where = o.out / (f"{seed}_{f.mode}" if len(seen) == 1 else f"{seed}_{len(seen)}_{f.mode}")
                    last, operators, model, feed = reduced(reducer, folder, f, where)
                    reason = explained.reason_for(last, operators, model, feed)
                    counts["explained" if reason else last.kind] += 1
                    kinds[reason or f"{last.kind} {last.code} {'+'.join(operators)}"] += 1
                    if reason:
                        shutil.rmtree(where)
                    else:
                        print(f"{where}: {last.kind} {last.code} {'+'.join(operators)}: {last.words[:200]}", flush=True)
                shutil.rmtree(folder, ignore_errors=True)
                begin(w)
                progress.show(f"{done} models, {dict(counts) or 'nothing found'}, {done / (time.time() - progress.start):.1f} models/s")
    for w in [*workers, reducer]:
        w.stop()
    progress.show(f"{done} models of seeds {o.seed} to {o.seed + done - 1}, {len(drawn)} operators, {time.time() - progress.start:.0f} s: {dict(counts) or 'nothing found'}", end=True)
    if o.json:
        o.json.write_text(json.dumps({"models": done, "seed": o.seed, "counts": counts, "kinds": kinds, "operators": drawn}, indent=1) + "\n")
    for what, n in kinds.most_common():
        print(f"{n:5} {what}")
    return 1 if any(k != "explained" for k in counts) else 0


def main():
    parser = argparse.ArgumentParser(prog="bench/differential", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--seconds", type=int, help="end after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the first model (default 1)")
    parser.add_argument("--nodes", type=int, default=10, help="most operators drawn for a model (default 10)")
    parser.add_argument("--networks", nargs="?", const="layers", choices=("layers", "blocks"),
                        help="draw networks of layers with channels as models have them, in place of single operators; blocks: of rarer layers, too")
    parser.add_argument("--modes", type=lambda s: s.split(","), help=f"in place of those above: {','.join(judge.MODES)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--timeout", type=int, default=60, help="seconds of processor time of one step that count as a hang (default 60)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/differential/findings"))
    parser.add_argument("--json", type=pathlib.Path, help="write the counts there")
    parser.add_argument("--again", type=pathlib.Path, help="judge a case that was written")
    o = parser.parse_args()
    unknown = [m for m in o.modes or [] if m not in judge.MODES]
    if unknown:
        parser.error(f"no such mode: {', '.join(unknown)}; there are {', '.join(judge.MODES)}")
    if o.again:
        found = judge.answer({"folder": o.again, "modes": o.modes or [o.again.name.split("_")[-1]]}, lambda words: None)
        print("\n".join(f"{f['kind']} {f['code']}: {f['words']}" for f in found) or "nothing found")
        return 1 if found else 0
    return run(o)


if __name__ == "__main__":
    sys.exit(main())
