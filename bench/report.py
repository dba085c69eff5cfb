#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the results page, its chart and its data from one run of bench.py.

    bench/report.py build/bench/last.json docs      writes docs/benchmarks.md, .svg and .json"""
import json
import pathlib
import sys
import time
from xml.sax.saxutils import escape

TITLES = {"resnet50": "ResNet-50", "squeezenet": "SqueezeNet", "densenet121": "DenseNet-121", "inception_v1": "Inception v1", "inception_v2": "Inception v2", "vgg19": "VGG-19",
          "shufflenet": "ShuffleNet", "bvlc_alexnet": "AlexNet", "zfnet512": "ZFNet-512", "mobilenet_v2": "MobileNetV2", "bert_base": "BERT-base, 128 tokens", "vit_b16": "ViT-B/16",
          "ppocr_v4_det": "PP-OCRv4 detection, 640×640", "ppocr_v4_rec": "PP-OCRv4 recognition, 48×320", "ppocr_v2_cls": "PP-OCRv2 direction, 48×192", "basic_pitch": "basic_pitch"}
GOALS = {"resnet50": 1.25, "vgg19": 1.25, "inception_v2": 1.25, "densenet121": 1.25, "squeezenet": 1.25, "mobilenet_v2": 1.35, "shufflenet": 1.35, "bert_base": 1.35, "vit_b16": 1.35}
GEMM_GOAL, LOAD_GOAL_MS, SCALE_GOAL, COMPILE_GOALS = 0.88, 60, 1.03, {"resnet50": 8}


def title(name):
    return TITLES.get(name, name.replace("gemm_", "").replace("x", "×"))


def ms(value):
    return "–" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def mark(text, kept):
    """The text, with a cross when its goal is missed."""
    return text if kept else text + " ✗"


def mb(value):
    return "–" if value is None else f"{value / 1e6:.1f}" if value < 1e8 else f"{value / 1e6:.0f}"


def table(head, rows):
    align = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(str(c) for c in r) + " |" for r in [head, align, *rows])


def flop_of(name):
    m, n, k = (int(v) for v in name.split("_")[1].split("x"))
    return 2 * m * n * k


def rows_of(run, gemm):
    return [(m, r) for m in run["models"] if m["model"].startswith("gemm") == gemm for r in m["rows"] if "ratio" in r]


def speed_table(run):
    default = f"OpenVINO default ({next((m['openvino_precision'] for m in run['models'] if 'openvino_precision' in m), '?').strip('<>').split()[-1].strip(chr(39))})"
    head = ["model", "threads", "Tenon", "ONNX Runtime", "…spinning", "OpenVINO f32", default, "ratio", "95 %", "of minima", "goal"]
    rows = []
    for m, r in rows_of(run, gemm=False):
        goal = GOALS.get(m["model"])
        at = "" if goal is None else f"{goal} {'✓' if r['ratio'] <= goal else '✗'}"
        time_of = r["median_ms"].get
        rows.append([title(m["model"]), r["threads"], ms(time_of("tenon")), ms(time_of("onnxruntime sleep")), ms(time_of("onnxruntime spin")), ms(time_of("openvino f32")),
                     ms(time_of("openvino default")), f"**{r['ratio']:.2f}**", f"{r['low']:.2f}–{r['high']:.2f}", f"{r['ratio_of_minima']:.2f}", at])
    return table(head, rows)


def gemm_table(run):
    head = ["M×N×K", "threads", "Tenon ms", "GFLOP/s", "FMA peak", "share", "ONNX Runtime ms", "OpenVINO f32 ms", "ratio", "95 %"]
    rows = []
    for m, r in rows_of(run, gemm=True):
        best = flop_of(m["model"]) / r["min_ms"]["tenon"] / 1e6
        ort = min((r["median_ms"][p] for p in ("onnxruntime sleep", "onnxruntime spin") if p in r["median_ms"]), default=None)
        peak = r.get("peak_gflops")
        rows.append([title(m["model"]), r["threads"], ms(r["median_ms"]["tenon"]), f"{best:.0f}", f"{peak:.0f}" if peak else "–", mark(f"{100 * best / peak:.0f} %", best >= GEMM_GOAL * peak) if peak else "–", ms(ort),
                     ms(r["median_ms"].get("openvino f32")), f"{r['ratio']:.2f}", f"{r['low']:.2f}–{r['high']:.2f}"])
    return table(head, rows)


def cost_table(run):
    head = ["model", "compile s", "ONNX Runtime session s", "OpenVINO compile s", "load ms", "weights MB", "arena MB", "peak memory MB", "allowed MB", "compiling MB", "2 threads / 1"]
    rows = []
    for m in run["models"]:
        t = m.get("tenon")
        if not t or m["model"].startswith("gemm") or not m["rows"]:
            continue
        made = m["rows"][-1]["create_s"]
        allowed = 1.25 * (t["weights_bytes"] + t["arena_bytes"]) + 25e6
        by_threads = {r["threads"]: r["min_ms"].get("tenon") for r in m["rows"]}
        ratio = by_threads[2] / by_threads[1] if by_threads.get(1) and by_threads.get(2) else None
        scale = "–" if ratio is None else mark(f"{ratio:.2f}", ratio <= SCALE_GOAL)
        seconds = lambda v: "–" if v is None else f"{v:.2f}"
        rows.append([title(m["model"]), mark(seconds(t["compile_s"]), t["compile_s"] <= COMPILE_GOALS.get(m["model"], float("inf"))), seconds(made.get("onnxruntime sleep")), seconds(made.get("openvino f32")), mark(f"{t['load_ms']:.1f}", t["load_ms"] <= LOAD_GOAL_MS), mb(t["weights_bytes"]),
                     mb(t["arena_bytes"]), mark(mb(t["peak_rss_bytes"]), t["peak_rss_bytes"] <= allowed), mb(allowed), mb(t["compile_rss_bytes"]) if "compile_rss_bytes" in t else "–", scale])
    return table(head, rows)


def chart(run):
    """Horizontal bars: time relative to the better f32 peer, one group a model, whiskers the 95 % interval."""
    groups = {}
    for m, r in rows_of(run, gemm=False):
        groups.setdefault(m["model"], {})[r["threads"]] = r
    threads = sorted({t for g in groups.values() for t in g})
    order = sorted(groups, key=lambda n: max(r["ratio"] for r in groups[n].values()))
    left, right, top, bar, gap = 232, 60, 64, 13, 10
    width, plot = 860, 860 - left - right
    height = top + len(order) * (bar * len(threads) + gap) + 34
    high = max([1.5] + [min(r["high"], 1.25 * r["ratio"]) for g in groups.values() for r in g.values()]) * 1.02
    x = lambda v: left + plot * min(v, high) / high
    colors = ["#2f6f8f", "#7fb3c8", "#b9d6e0", "#d9e8ee"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<title>Time of Tenon relative to the better of ONNX Runtime and OpenVINO in f32</title><rect width="{width}" height="{height}" fill="#fff"/>',
           '<text x="16" y="22" font-size="15" font-weight="bold" fill="#222">Time relative to the better f32 peer (shorter is faster)</text>']
    at = left
    for i, t in enumerate(threads):
        out.append(f'<rect x="{at}" y="34" width="12" height="12" fill="{colors[i % 4]}"/><text x="{at + 17}" y="44" fill="#222">{t} thread{"s" if t > 1 else ""}</text>')
        at += 92
    out.append(f'<circle cx="{at + 6}" cy="40" r="3.5" fill="none" stroke="#c0651a" stroke-width="1.5"/><text x="{at + 17}" y="44" fill="#222">OpenVINO\'s default, not f32</text>')
    step = 0.25 if high < 2.6 else 0.5 if high < 5 else 1
    tick = 0.0
    while tick <= high:
        one = abs(tick - 1) < 1e-9
        out.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top - 4}" y2="{height - 28}" stroke="{"#222" if one else "#ddd"}"/>'
                   f'<text x="{x(tick):.1f}" y="{height - 12}" text-anchor="middle" fill="#222">{tick:g}</text>')
        tick += step
    y = top
    for name in order:
        out.append(f'<text x="{left - 8}" y="{y + bar * len(threads) / 2 + 4:.1f}" text-anchor="end" fill="#222">{escape(title(name))}</text>')
        for i, t in enumerate(threads):
            r = groups[name].get(t)
            if r:
                middle = y + bar / 2
                out.append(f'<rect x="{left}" y="{y}" width="{x(r["ratio"]) - left:.1f}" height="{bar - 1}" fill="{colors[i % 4]}"/>'
                           f'<line x1="{x(r["low"]):.1f}" x2="{x(r["high"]):.1f}" y1="{middle}" y2="{middle}" stroke="#222"/>'
                           f'<text x="{max(x(r["high"]), x(r["ratio"])) + 5:.1f}" y="{middle + 4}" font-size="11" fill="#222">{r["ratio"]:.2f}</text>')
                if "openvino default" in r["median_ms"]:
                    out.append(f'<circle cx="{x(r["median_ms"]["openvino default"] / r["median_ms"][r["better_peer"]]):.1f}" cy="{middle}" r="3.5" fill="none" stroke="#c0651a" stroke-width="1.5"/>')
            y += bar
        y += gap
    return "\n".join(out) + "\n</svg>\n"


def page(run):
    m, v = run["machine"], run["versions"]
    limits, target = m.get("limits") or {}, m.get("target") or {}
    problems = [f"- {title(r['model'])}: {p}" for r in run["models"] for p in r["problems"]]
    gemms = rows_of(run, gemm=True)
    one = next((r["peak_gflops"] for _, r in gemms if r["threads"] == 1 and "peak_gflops" in r), None)
    absent = [title(n) for n in TITLES if n not in {x["model"] for x in run["models"]}]
    return f"""# Benchmarks

Written by `bench/report.py` from `benchmarks.json`; do not edit. Again on this machine:

    TENON_SHARED=folder make bench ARGS="--transformers --docs docs"

Tenon {m['tenon'].split()[-1] if m['tenon'] else ''} at {m['commit']}, ONNX Runtime {v['onnxruntime']}, OpenVINO {v['openvino']}, {time.strftime('%Y-%m-%d', time.gmtime(run['time']))}.
Machine: {m['cpu']} ({target.get('cpu', '?')}), {m['cores']} cores{' of a virtual machine' if m['virtual'] else ''}, {m['memory_bytes'] / 2**30:.0f} GiB, {m['kernel']}, Python {m['python']}; load average {m['load_before']:.2f} before and {run['load_after']:.2f} after. The whole took {run['seconds'] / 60:.0f} minutes.

Every contender runs in a process of its own, and one works at a time. Outputs are checked first, |Δ| ≤ 1e-4·RMS + 1e-4·|x| against ONNX Runtime (OpenVINO's default is not held to it), and Tenon's must have the same bits for every number of threads. Then {run['pairs']} rounds are timed: each contender in turn has a slot of {1e3 * run['slot_s']:.0f} ms, one run at least, {1e3 * run['pause_s']:.0f} ms after the last. The ratio is Tenon's time over that of the better f32 peer in the same round: its median, the median's 95 % bootstrap interval, and the ratio of the shortest runs. Below 1 Tenon is faster. Batch 1, f32, no tuning. A cross marks a missed goal.

## Networks

Medians in ms.

![Time relative to the better f32 peer](benchmarks.svg)

{speed_table(run)}

## Packed multiplication

One MatMul with a constant right side. GFLOP/s of the shortest run; the peak is that of fused multiply-adds in registers, measured between the slots in the process that runs Tenon; the goal is 88 % (`tenon doctor`: {limits.get('fma_gflops_one_thread', 0):.0f} on one thread, {limits.get('fma_gflops_all_threads', 0):.0f} on all). {f"Two ports of {limits.get('vector_bits', 0)} bits give {one / (4 * limits['vector_bits'] / 32):.2f} GHz." if one and limits.get('vector_bits') else ''}

{gemm_table(run)}

## Compiling, loading, memory

Compile is the whole `tenon compile` on all cores with an empty cache, file to file; the peers' is the creation of a session from the file. Peak memory is that of a process that loads the artifact and runs it; allowed is 1.25 · (weights + arena) + 25 MB; compiling is the peak of `tenon compile`. The last column compares shortest runs; a second thread must not cost more than 3 %.

{cost_table(run)}

## Not measured

- Batches above 1, free dimensions, more threads, half and integer precisions, other machines; GPUs.
- Peers other than these two, and their tuning beyond number of threads, precision and spinning. OpenVINO's pinning is off, as its threads share the cores with nobody else's.
- The nine networks of ONNX's test data, MobileNetV2, BERT and ViT have random weights; sparsity or denormals of trained ones are not seen.
{f"- Not among the models of this run: {', '.join(absent)}." if absent else ""}
{"## Problems" + chr(10) + chr(10) + chr(10).join(problems) + chr(10) if problems else ""}"""


def write(run, folder):
    folder = pathlib.Path(folder)
    text = page(run).rstrip() + "\n"
    (folder / "benchmarks.md").write_text(text)
    (folder / "benchmarks.svg").write_text(chart(run))
    (folder / "benchmarks.json").write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    record = json.loads(pathlib.Path(sys.argv[1]).read_text())
    for model in record["models"]:
        for row in model["rows"]:
            row.pop("slots", None)
    write(record, sys.argv[2])
