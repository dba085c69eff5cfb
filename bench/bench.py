#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times Tenon against ONNX Runtime and OpenVINO on this machine, interleaved, and prints ratios.

Every contender has a process of its own, and one works at a time. For every model and thread count the outputs are
checked first: |difference| <= 1e-4 RMS + 1e-4 |x| against ONNX Runtime on every output, and Tenon's bits must be the
same on all thread counts. Then come rounds: each contender has one slot in turn, the order turns by one every round,
and a pause goes before each slot. A slot is the median of as many runs as fit into it, one at least.

The ratio is that of Tenon's slot to the slot of the better f32 peer (the one with the smaller median) in the same
round; the table gives the median of the ratios with its 95 % bootstrap interval, and the ratio of minima.
Below 1 Tenon is faster. OpenVINO's default, bf16 where the machine has it, stands beside and is not judged.

--isa avx2 compares machines with AVX2 on one that has more: Tenon compiles for x86-64-v3, and OpenVINO is told to use no
more (ONEDNN_MAX_CPU_ISA). ONNX Runtime takes what the processor says and cannot be told: it checks the outputs, stands
beside with all instructions, and is not judged.

    bench/bench.py --tenon build/release/bin/tenon --models build/bench/models
    bench/bench.py --tenon build/release/bin/tenon --base other/bin/tenon resnet50 bert_base"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import machine
from inputs import dims_arguments, inputs_of

HERE = pathlib.Path(__file__).resolve().parent
# Of --isa: the processor that Tenon compiles for, and what oneDNN is told.
ISAS = {"avx2": ("x86-64-v3", "AVX2")}
GEMMS = ["gemm_512x512x512", "gemm_1024x1024x1024", "gemm_2048x2048x2048", "gemm_128x3072x768"]


class Failure(Exception):
    pass


def package_of(tenon):
    """The folder of the Python package that was built with a command."""
    folder = pathlib.Path(tenon).resolve().parent.parent / "python"
    if not (folder / "tenon").is_dir():
        sys.exit(f"bench: there is no Python package in {folder}: build the target tenon_python (Debian: python3-dev)")
    return folder


class Contender:
    """A process of contender.py."""

    def __init__(self, label, *arguments, most=None):
        self.label, self.arguments, self.process = label, [str(a) for a in arguments], None
        self.environment = dict(os.environ, ONEDNN_MAX_CPU_ISA=most) if most else None
        self.start()

    def start(self):
        command = [sys.executable, HERE / "contender.py", *self.arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment)
        self.version = self.read()["version"]

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.start()
            raise Failure(f"{self.label}: the process ended ({code})")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(f"{self.label}: {answer['error']}")
        return answer

    def ask(self, do, **values):
        self.process.stdin.write(json.dumps({"do": do, **values}) + "\n")
        self.process.stdin.flush()
        return self.read()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def arrays(path):
    with np.load(path) as f:
        return [f[n] for n in f.files]


def error_of(got, want):
    """Largest difference as a share of what is allowed; infinite when not comparable."""
    if len(got) != len(want):
        return float("inf")
    worst = 0.0
    for g, w in zip(got, want):
        if g.size != w.size:
            return float("inf")
        w64 = w.astype(np.float64)
        bound = 1e-4 * np.sqrt(np.mean(w64 * w64)) + 1e-4 * np.abs(w64)
        share = np.abs(g.reshape(w.shape) - w64) / np.maximum(bound, 1e-300)
        worst = max(worst, float(np.nanmax(np.where(np.isnan(share), np.inf, share), initial=0)))
    return worst


def interval(ratios):
    """95 % bootstrap interval of the median."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(ratios, (4000, len(ratios))), axis=1)
    return [float(v) for v in np.quantile(medians, [0.025, 0.975])]


def compare_times(ours, theirs):
    """Of two lists of slots, pair by pair."""
    a, b = np.array(ours), np.array(theirs)
    ratios = a[:, 0] / b[:, 0]
    low, high = interval(ratios)
    return {"ratio": float(np.median(ratios)), "low": low, "high": high, "ratio_of_minima": float(a[:, 1].min() / b[:, 1].min())}


def compile_model(tenon, path, artifact, feed, cold, target=()):
    """What it took to compile the artifact."""
    command = [tenon, "compile", path, "-o", artifact, "--json", "-q", *target, *dims_arguments(path, feed)]
    environment = dict(os.environ, TENON_CACHE=str(cold))
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise Failure(f"tenon compile: exit {done.returncode}: {done.stderr.strip().splitlines()[:1]}")
    return {"compile_s": seconds, "compile_rss_bytes": json.loads(done.stdout).get("peak_rss_bytes", 0)}


def load_model(tenon, artifact, feed):
    """What it takes to load and hold the artifact."""
    inputs = []
    for i, (name, value) in enumerate(feed.items()):
        np.save(artifact.with_suffix(f".input{i}.npy"), value)
        inputs += ["-i", f"{name}=@{artifact.with_suffix(f'.input{i}.npy')}"]
    command = [tenon, "bench", artifact, "--json", "-q", "--repeat", "3", "--warmup", "1", *inputs]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure(f"tenon bench: exit {done.returncode}: {done.stderr.strip().splitlines()[:1]}")
    facts = json.loads(done.stdout)
    return {k: facts[k] for k in ("load_ms", "peak_rss_bytes", "weights_bytes", "arena_bytes")}


def bench_model(o, path, contenders, scratch, say):
    """The record of one model: facts, then one row for every thread count."""
    feed = inputs_of(path)
    inputs = scratch / "inputs.npz"
    np.savez(inputs, **feed)
    record = {"model": path.stem, "rows": [], "problems": []}
    artifacts = {}
    for label, tenon in (("tenon", o.tenon), ("base", o.base)):
        if tenon is None:
            continue
        artifacts[label] = o.out / f"{path.stem}.{label}.so"
        with tempfile.TemporaryDirectory() as cold:
            try:
                facts = {} if o.compiled else compile_model(tenon, path, artifacts[label], feed, pathlib.Path(cold), o.target)
                record[label] = facts if o.pairs == 0 else facts | load_model(tenon, artifacts[label], feed)
            except Failure as e:
                record["problems"].append(f"{label}: {e}")
                say(f"{path.stem:<18} {record['problems'][-1]}")
                if label == "tenon":
                    return record
    if o.pairs == 0:
        return record
    bits = None
    for threads in o.threads:
        row = {"threads": threads, "create_s": {}, "error": {}, "median_ms": {}, "min_ms": {}, "slots": {}}
        want, active, typical = None, [], {}
        order = ["onnxruntime sleep"] + [c for c in contenders if c != "onnxruntime sleep"]
        for label in order:
            if label == "onnxruntime spin" and threads == 1:
                continue  # one thread never waits for another
            c = contenders[label]
            if label in ("tenon", "base") and label not in record:
                continue
            try:
                made = c.ask("create", model=str(path), artifact=str(artifacts.get(label, "")), inputs=str(inputs), threads=threads)
                outputs = scratch / "outputs.npz"
                c.ask("check", outputs=str(outputs))
                got = arrays(outputs)
                want = got if want is None else want
                error = error_of(got, want)
                row["create_s"][label], row["error"][label] = made["create_s"], error
                if label == "openvino default":
                    record["openvino_precision"] = made["precision"]
                elif error > 1:
                    record["problems"].append(f"{label}, {threads} threads: differs from ONNX Runtime, {error:.3g} of the bound")
                    if label in ("tenon", "base"):
                        continue
                if label == "tenon":
                    now = [v.tobytes() for v in got]
                    if bits is not None and bits != now:
                        record["problems"].append(f"{threads} threads: bits differ from those of {o.threads[0]}")
                    bits = now
                typical[label] = c.ask("typical", seconds=o.slot)["ms"]
                active.append(label)
            except Failure as e:
                record["problems"].append(str(e))
        for i in range(o.pairs):
            at = i % len(active)
            for label in active[at:] + active[:at]:
                if label == "openvino default" and i % 3:
                    continue  # shown, not judged: a third of the rounds is enough
                time.sleep(o.pause)
                slot = contenders[label].ask("slot", seconds=o.slot, wake=typical[label] < 20)["slot"]
                row["slots"].setdefault(label, []).append(slot)
            if path.stem.startswith("gemm"):
                row.setdefault("peak_gflops", []).append(contenders["tenon"].ask("peak", library=str(o.peak), threads=threads)["gflops"])
        for label in order:
            if label in contenders:
                try:
                    contenders[label].ask("close")
                except Failure as e:
                    record["problems"].append(str(e))
        for label, slots in row["slots"].items():
            row["median_ms"][label] = float(np.median([s[0] for s in slots]))
            row["min_ms"][label] = min(s[1] for s in slots)
        judges = ("openvino f32",) if o.isa else ("onnxruntime sleep", "onnxruntime spin", "openvino f32")
        peers = [p for p in judges if p in row["slots"]]
        if "tenon" in row["slots"] and peers:
            row["better_peer"] = min(peers, key=lambda p: row["median_ms"][p])
            row.update(compare_times(row["slots"]["tenon"], row["slots"][row["better_peer"]]))
            if "base" in row["slots"]:
                row["head_to_base"] = compare_times(row["slots"]["tenon"], row["slots"]["base"])
        if "peak_gflops" in row:
            row["peak_gflops"] = float(max(row["peak_gflops"]))
        row["slots"] = {label: [[round(v, 5) for v in s] for s in slots] for label, slots in row["slots"].items()}
        record["rows"].append(row)
        say(line_of(path.stem, row))
    for problem in record["problems"]:
        say(f"{path.stem:<18} {problem}")
    return record


COLUMNS = [("tenon", "tenon"), ("base", "base"), ("onnxruntime sleep", "ort sleep"), ("onnxruntime spin", "ort spin"), ("openvino f32", "ov f32"), ("openvino default", "ov bf16")]


def line_of(name, row):
    """Medians of all contenders, then ratio, interval, ratio of minima."""
    cells = "".join(f"{row['median_ms'][label]:>10.3f}" if label in row["median_ms"] else f"{'-':>10}" for label, _ in COLUMNS)
    tail = f"{row['ratio']:>7.2f} {row['low']:>6.2f}-{row['high']:<6.2f} {row['ratio_of_minima']:>7.2f}" if "ratio" in row else ""
    if "head_to_base" in row:
        h = row["head_to_base"]
        tail += f"   {h['ratio']:.3f} ({h['low']:.3f}-{h['high']:.3f})"
    if "peak_gflops" in row and "tenon" in row["min_ms"]:
        tail += f"   {flop_of(name) / row['min_ms']['tenon'] / 1e6:.0f} of {row['peak_gflops']:.0f} GFLOP/s"
    return f"{name:<20}{row['threads']:>3}{cells}  {tail}"


def flop_of(gemm):
    m, n, k = (int(v) for v in gemm.split("_")[1].split("x"))
    return 2 * m * n * k


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True, type=pathlib.Path, help="the command to time; its libraries stand beside it")
    parser.add_argument("--base", type=pathlib.Path, help="another build's command, timed in the same rounds")
    parser.add_argument("--models", required=True, type=pathlib.Path, help="folder of models")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"), help="artifacts and history.jsonl")
    parser.add_argument("--pairs", type=int, default=30, help="rounds; 0 only compiles")
    parser.add_argument("--compiled", action="store_true", help="time the artifacts that a run before left in --out")
    parser.add_argument("--threads", type=lambda text: [int(t) for t in text.split(",")], default=sorted({1, min(2, len(os.sched_getaffinity(0)))}))
    parser.add_argument("--pause", type=float, default=0.01, help="seconds before each slot")
    parser.add_argument("--slot", type=float, default=0.02, help="seconds of each slot; one run at least")
    parser.add_argument("--peak", type=pathlib.Path, help="library built from peaks.c")
    parser.add_argument("--isa", choices=sorted(ISAS), help="compare with these instructions at most (above)")
    parser.add_argument("--docs", type=pathlib.Path, help="write benchmarks.md, .svg and .json there")
    parser.add_argument("names", nargs="*", help="models to time (default: all in the folder)")
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    o.out, o.models = o.out.resolve(), o.models.resolve()
    o.peak = (o.peak or o.out / "peaks.so").resolve()
    if not o.peak.exists():
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", HERE / "peaks.c", "-o", o.peak], check=True)
    paths = sorted((p for p in o.models.glob("*.onnx") if not o.names or p.stem in o.names), key=lambda p: (p.stem.startswith("gemm"), p.stem))
    cpu, most = ISAS.get(o.isa, (None, None))
    o.target = ["--target", f"llvm -mcpu={cpu}"] if cpu else []
    missing = set(o.names) - {p.stem for p in paths}
    if missing or not paths:
        sys.exit(f"bench: no {', '.join(sorted(missing)) or 'models'} in {o.models}")
    contenders = {"tenon": Contender("tenon", "tenon", package_of(o.tenon))}
    if o.base:
        contenders["base"] = Contender("base", "tenon", package_of(o.base))
    contenders |= {"onnxruntime sleep": Contender("onnxruntime sleep", "onnxruntime", "sleep"), "onnxruntime spin": Contender("onnxruntime spin", "onnxruntime", "spin"),
                   "openvino f32": Contender("openvino f32", "openvino", "f32", most=most)}
    if not o.isa:  # with AVX2 at most it is f32, too
        contenders["openvino default"] = Contender("openvino default", "openvino", "default")
    say = lambda text: print(text, flush=True)
    begin = time.time()
    run = {"time": int(begin), "machine": machine.facts(o.tenon), "isa": o.isa, "pairs": o.pairs, "pause_s": o.pause, "slot_s": o.slot,
           "versions": {"onnxruntime": contenders["onnxruntime sleep"].version, "openvino": contenders["openvino f32"].version}, "models": []}
    say(f"{run['machine']['cpu']}, {run['machine']['cores']} cores; onnxruntime {run['versions']['onnxruntime']}, openvino {run['versions']['openvino']}; {o.pairs} pairs; medians in ms\n")
    head = f"{'model':<20}{'thr':>3}" + "".join(f"{title:>10}" for _, title in COLUMNS) + f"  {'ratio':>7} {'95 %':>13} {'minima':>7}" + ("   head / base" if o.base else "")
    say(head + "\n" + "-" * len(head))
    scratch_place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=scratch_place) as scratch:
        for path in paths:
            run["models"].append(bench_model(o, path, contenders, pathlib.Path(scratch), say))
    for c in contenders.values():
        c.stop()
    run["seconds"] = time.time() - begin
    run["load_after"] = os.getloadavg()[0]
    slim = json.loads(json.dumps(run))
    for m in slim["models"]:
        for row in m["rows"]:
            del row["slots"]
    with (o.out / "history.jsonl").open("a") as history:
        history.write(json.dumps(slim) + "\n")
    (o.out / "last.json").write_text(json.dumps(run))
    say(f"\nratio: Tenon / the better f32 peer, median of {o.pairs} pairs; {run['seconds']:.0f} s; history in {o.out / 'history.jsonl'}")
    ratios = [row["ratio"] for m in run["models"] for row in m["rows"] if "ratio" in row]
    if len(ratios) > 1:
        say(f"geometric mean of {len(ratios)} ratios: {float(np.exp(np.mean(np.log(ratios)))):.3f}")
    if o.docs:
        import report

        report.write(slim, o.docs)
        say(f"wrote {o.docs}/benchmarks.md, benchmarks.svg and benchmarks.json")
    return 1 if any(m["problems"] for m in run["models"]) else 0


if __name__ == "__main__":
    sys.exit(main())
