#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports architectures in every form strangers have, compiles each and compares it with ONNX Runtime at two sizes.

    bench/export_zoo.py --tenon TENON [--out build/zoo] [--docs docs] [--only REGEX] [--forms REGEX] [--again REGEX] [--seconds 1]
    bench/export_zoo.py --tenon TENON [--check REGEX] [--time REGEX] …

Architectures are those of bench/zoo, small ones with seeded weights. A form is an exporter of PyTorch (`dynamo`,
`script`) at fixed or free sizes, that of scikit-learn (`skl2onnx`) or Keras (`tf2onnx`), and what other tools make of the first of them that there is, free sizes preferred: ONNX Runtime's
optimiser (`optimised`), its quantisers (`qdq`, `qoperator`, `dynamic`) and the float16 converter (`f16`). Forms that
the tools themselves cannot write, that ONNX Runtime cannot load, or of which its results with and without its optimisations
differ by more than is allowed (where a choice hangs on a step of a quantised value), are counted and left out.

What holds float32 is timed against ONNX Runtime as well, on one thread, runs of both alternating in one process (--seconds for
each size; 0: no times); an artifact for free sizes also against one that is compiled for the size.

Models and their inputs are kept in OUT/models and made once (--again makes and checks those rows anew, as a failure is);
OUT/zoo.json holds a row for each form. Rows of models that are there are compiled and compared anew by --check, and
timed anew by --time, from artifacts in OUT/artifacts (`zoo_sizes.py --compile` makes those for sizes there), so that a
machine has to be idle for times alone. --docs writes zoo.md and zoo.json there. Exit status 1: some form is not right."""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
EXPORTS = ["dynamo_fixed", "dynamo_free", "script_fixed", "script_free", "skl2onnx_free", "tf2onnx_free"]
TOOLS = ["optimised", "qdq", "qoperator", "dynamic", "f16"]
# Root mean square of the difference over that of ONNX Runtime's result. A step of a quantised value is 1/255 of its
# range and may go either way where sums are rounded in another order; f16 has 11 bits, and each operator rounds.
ALLOWED = {"qdq": 0.05, "qoperator": 0.05, "dynamic": 0.05, "f16": 0.02}
ALLOWED_F32 = 1e-3
EXPORTERS = ["torch", "skl2onnx", "tf2onnx"]  # by framework
ANY_VALUES = ["skl2onnx_free"]  # their values may be texts and maps
TIMED = [e for e in EXPORTS if e not in ANY_VALUES] + ["optimised"]
ALLOWED_TIME, ALLOWED_FREE = 1.3, 1.1  # times ONNX Runtime's; times that of an artifact for the size
LEVELS = ("ORT_ENABLE_ALL", "ORT_DISABLE_ALL")  # of ONNX Runtime's optimisations
EXPORT_SECONDS, COMPILE_SECONDS, RUN_SECONDS = 400, 120, 120
ROUNDS = 5  # of all contenders, at least


def write_torch(exporter, sizes, one, feeds, path):
    """By an exporter of PyTorch."""
    import torch
    from zoo import entry

    module, names, values = entry.module_of(one.name), list(feeds[0]), tuple(feeds[0].values())
    with torch.no_grad():
        if exporter == "dynamo":
            free = {s: torch.export.Dim.DYNAMIC for axes in one.free.values() for s in axes.values()}
            shapes = {"xs": tuple({a: free[s] for a, s in one.free.get(n, {}).items()} for n in names)} if sizes == "free" else None
            torch.onnx.export(module, values, path, input_names=names, dynamo=True, external_data=False, dynamic_shapes=shapes, opset_version=20, verbose=False)
        else:
            torch.onnx.export(module, values, path, input_names=names, dynamo=False, opset_version=17, dynamic_axes=one.free if sizes == "free" else None)


def write_skl2onnx(one, feeds, path):
    """A fitted estimator of scikit-learn; rows are free."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    fitted, options = one.make()
    kinds = {"f": FloatTensorType, "U": StringTensorType}
    types = [(n, kinds[v.dtype.kind]([None, v.shape[1]])) for n, v in feeds[0].items()]
    versions = {"": 21, "ai.onnx.ml": 3}  # with newer ones it refuses some estimators
    path.write_bytes(convert_sklearn(fitted, initial_types=types, options=options, target_opset=versions).SerializeToString())


def write_tf2onnx(one, feeds, path):
    """A network of Keras, as a function of its inputs."""
    import tensorflow as tf
    import tf2onnx

    network = one.make()
    signature = [tf.TensorSpec([None if a in one.free[n] else d for a, d in enumerate(v.shape)], v.dtype, name=n) for n, v in feeds[0].items()]
    tf2onnx.convert.from_function(tf.function(lambda *xs: network(xs if len(xs) > 1 else xs[0])), input_signature=signature, opset=17, output_path=str(path))


WRITERS = {"skl2onnx": write_skl2onnx, "tf2onnx": write_tf2onnx}  # besides PyTorch's


def export(name, form, path):
    """Writes the model, and its inputs at both sizes beside it. Runs in a process of its own."""
    import torch
    from zoo import entry

    exporter, sizes = form.split("_")
    load_entries(exporter)
    one = entry.ENTRIES[name]
    torch.manual_seed(1)
    feeds = [one.inputs(0), one.inputs(0 if sizes == "fixed" else 1)]
    temporary = path.with_suffix(".tmp")
    if exporter in WRITERS:
        WRITERS[exporter](one, feeds, temporary)
    else:
        write_torch(exporter, sizes, one, feeds, temporary)
    for k, feed in enumerate(feeds):
        np.savez(path.with_suffix(f".{k}.npz"), **{n: np.asarray(t) for n, t in feed.items()})
    temporary.rename(path)


def load_entries(exporter):
    """The entries of a framework, one at a time in a process."""
    if exporter == "skl2onnx":
        from zoo import learned  # noqa: F401 (entries register themselves)
    elif exporter == "tf2onnx":
        from zoo import keras_layers  # noqa: F401
    else:
        from zoo import deployed, further, other, scene_text, scenes, sequences, space, text, vision, voices  # noqa: F401


def entries_of(exporter):
    """Prints what there is by name."""
    from zoo import entry

    load_entries(exporter)
    print(json.dumps({n: {"family": e.family, "exporters": e.exporters, "free": bool(e.free), "tools": e.tools} for n, e in entry.ENTRIES.items()}))


def derive(form, source, target):
    """Writes what a tool makes of an export. Runs in a process of its own."""
    import onnx
    import onnxruntime as ort
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    feed = dict(np.load(source.with_suffix(".0.npz")))
    kept = {i.name for i in onnx.load(source, load_external_data=False).graph.input}
    feed = {n: v for n, v in feed.items() if n in kept}

    class Samples(CalibrationDataReader):
        def __init__(self):
            self.left = [feed]

        def get_next(self):
            return self.left.pop() if self.left else None

    temporary = target.with_suffix(".tmp")
    if form == "optimised":
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(temporary)
        ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    elif form == "f16":
        from onnxruntime.transformers import float16
        onnx.save(float16.convert_float_to_float16(onnx.load(source), keep_io_types=False), temporary)
    else:
        with tempfile.TemporaryDirectory() as folder:
            folded = pathlib.Path(folder) / "folded.onnx"
            try:
                quant_pre_process(str(source), str(folded), skip_symbolic_shape=True)
            except Exception:
                shutil.copy(source, folded)
            if form == "dynamic":
                quantize_dynamic(str(folded), str(temporary))
            else:
                quantize_static(str(folded), str(temporary), Samples(), per_channel=form == "qdq", activation_type=QuantType.QUInt8,
                                weight_type=QuantType.QInt8, quant_format=QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator)
    for k in (0, 1):
        shutil.copy(source.with_suffix(f".{k}.npz"), target.with_suffix(f".{k}.npz"))
    temporary.rename(target)


def references(path):
    """What ONNX Runtime computes at both sizes, and without its optimisations, kept beside the model. In a process of its own."""
    import onnxruntime as ort

    for level in LEVELS:
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for k in (0, 1):
            feed = dict(np.load(path.with_suffix(f".{k}.npz")))
            kinds = {i.name: i.type for i in session.get_inputs()}
            feed = {n: v.astype(np.float16) if kinds[n] == "tensor(float16)" else v for n, v in feed.items() if n in kinds}
            np.savez(path.with_suffix(f".{k}.feed.npz"), **feed)
            np.savez(path.with_suffix(f".{k}.{level}.npz"), *arrays(session.run(None, feed)))


def arrays(values):
    """Results as arrays that compare and are kept: texts as such, a list of maps as its keys and its values."""
    out = []
    for v in values:
        if isinstance(v, list):
            out += [np.array([list(row) for row in v]), np.array([list(row.values()) for row in v], np.float32)]
        else:
            out.append(v.astype(str) if v.dtype == object else v)
    return out


def session(artifact, model, k, target):
    """Keeps what the artifact computes at size k, of values of any kind. In a process of its own."""
    import tenon

    results = tenon.InferenceSession(str(artifact)).run(None, dict(np.load(model.with_suffix(f".{k}.feed.npz"))))
    np.savez(target, *arrays(results))


def times(model, k, seconds, *artifacts):
    """Prints the best times of ONNX Runtime and of the artifacts at size k in milliseconds of one thread. In a process of its own.
    ONNX Runtime runs before each artifact, so that both find the same in the caches: little of theirs."""
    import onnxruntime as ort

    from tenon_session import Session

    feed = dict(np.load(model.with_suffix(f".{k}.feed.npz")))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    peer = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    runs = [lambda: peer.run(None, feed)] + [Session(a, list(feed.values()), 1).run for a in artifacts]
    best = [float("inf")] * len(runs)
    for run in runs:
        run()
    end, rounds = time.monotonic() + float(seconds), 0
    while time.monotonic() < end or rounds < ROUNDS:
        for turn in range(2 * len(artifacts)):
            i = 0 if turn % 2 == 0 else turn // 2 + 1
            start = time.thread_time()
            runs[i]()
            best[i] = min(best[i], time.thread_time() - start)
        rounds += 1
    print(json.dumps([b * 1e3 for b in best]))


def processor_seconds():
    """Processor time of all ended child processes: what a compilation costs whatever else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def last_words(text):
    """The line of a tool's output that says what is wrong, shortened; files without their folders."""
    lines = [re.sub(r"(?<!\S)/\S*/", "", line.strip()) for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error\[|Error|Exception|CHECK|Unsupported", line)]
    return (telling or lines or ["(no output)"])[0 if telling and "error[" in telling[0] else -1][:300]


def child(words, seconds):
    """Exit status and output of a process."""
    try:
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=seconds, errors="replace")
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return "time", "", f"more than {seconds} s"


def of_this_file(do, *words, seconds=EXPORT_SECONDS):
    """None, or what went wrong in a process that does one thing of this file."""
    status, out, err = child([sys.executable, __file__, "--do", do, *words], seconds)
    return None if status == 0 else last_words(out + "\n" + err)


def difference(got, want):
    """Relative root mean square of the difference; of integers and booleans the share that differs; infinite when not comparable."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.size == 0:
        return 0.0
    if want.dtype.kind != "f":
        return float(np.mean(got != want))
    got, want = np.float64(got).ravel(), np.float64(want).ravel()
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return float("inf")
    size = np.sqrt(np.mean(np.where(np.isfinite(want), want, 0) ** 2))
    return float(np.sqrt(np.mean(np.where(same, 0, got - want) ** 2)) / max(size, 1e-9)) if not same.all() else 0.0


def kept_results(path, k, level):
    """What ONNX Runtime computed at size k."""
    with np.load(path.with_suffix(f".{k}.{level}.npz")) as f:
        return [f[n] for n in f.files]


def own_difference(path, k):
    """The largest difference of ONNX Runtime's results with and without its optimisations."""
    return max((difference(a, b) for a, b in zip(*(kept_results(path, k, level) for level in LEVELS))), default=0.0)


def sizes_of(tenon, path, k):
    """Values of the model's symbolic sizes in the inputs of size k, as words of the command."""
    status, out, _ = child([tenon, "inspect", path, "--json"], COMPILE_SECONDS)
    feed, dims = np.load(path.with_suffix(f".{k}.feed.npz")), {}
    for info in json.loads(out)["inputs"] if status == 0 else []:
        if info["name"] in feed.files and isinstance(info.get("shape"), list):
            dims |= {d: n for d, n in zip(info["shape"], feed[info["name"]].shape) if isinstance(d, str)}
    return [word for d, n in dims.items() for word in ("--dim", f"{d}={n}")]


def timed_sizes(form):
    """Numbers of the sizes at which a form is timed."""
    return (0, 1) if form.endswith("free") or form == "optimised" else (0,)


def for_size(tenon, path, form, artifact, k):
    """The artifact for the size, beside that for free sizes: [it], or [] where there is none."""
    words = sizes_of(tenon, path, k) if len(timed_sizes(form)) > 1 else []
    own = artifact.with_name(f"{artifact.stem}.{k}.so")
    return [own] if words and child([tenon, "compile", path, "-o", own, "--no-cache", "-q", *words], COMPILE_SECONDS)[0] == 0 else []


def time_forms(path, form, artifact, others, seconds, row):
    """Adds to the row, for each size, milliseconds of ONNX Runtime, of the artifact, and of the one for the size, if there is any."""
    row["ms"] = []
    for k, other in zip(timed_sizes(form), others):
        artifacts = [artifact] + other
        status, out, err = child([sys.executable, __file__, "--do", "times", path, f"={k}", f"={seconds}", *artifacts], RUN_SECONDS)
        if status != 0:
            row["untimed"] = last_words(err)
            return
        row["ms"].append([float(f"{t:.3g}") for t in json.loads(out.splitlines()[-1])])
    row["timed"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime())


def results(tenon, artifact, folder, path, form, k, row):
    """What the artifact computes at size k; None: the row says what went wrong."""
    if form in ANY_VALUES:
        problem = of_this_file("session", artifact, path, f"={k}", folder / f"out{k}.npz", seconds=RUN_SECONDS)
        if problem:
            row["problem"] = f"run at size {k}: {problem}"
            return None
        with np.load(folder / f"out{k}.npz") as f:
            return [f[n] for n in f.files]
    words = []
    for n, v in np.load(path.with_suffix(f".{k}.feed.npz")).items():
        np.save(folder / f"in_{len(words)}.npy", v)
        words += ["-i", f"{n}=@{folder / f'in_{len(words)}.npy'}"]
    status, out, err = child([tenon, "run", artifact, *words, "-o", folder / f"out{k}", "-q"], RUN_SECONDS)
    if status != 0:
        row["problem"] = f"run at size {k} ({status}): {last_words(err)}"
        return None
    return [np.load(folder / f"out{k}" / f"output_{i}.npy") for i in range(len(list((folder / f"out{k}").glob("output_*.npy"))))]


def check(tenon, path, form, artifact, row):
    """Fills the row: compile time and memory, the largest difference at both sizes, and what is wrong. Keeps the artifact."""
    allowed = ALLOWED.get(form, ALLOWED_F32)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        before = processor_seconds()
        status, out, err = child([tenon, "compile", path, "-o", artifact, "--json", "--no-cache", "-q"], COMPILE_SECONDS)
        if status != 0:
            row["problem"] = f"compile ({status}): {last_words(err)}"
            try:
                error = json.loads(out)["error"]
                row["problem"] = f"compile ({status}): {error['code']} {error['message']}; {error.get('location', '')}"[:400]
            except (ValueError, KeyError, TypeError):
                pass
            return
        row["compile_s"], row["peak_mb"] = round(processor_seconds() - before, 2), round(json.loads(out)["peak_rss_bytes"] / 1e6)
        row["weights_mb"] = round(path.stat().st_size / 1e6, 1)
        row["difference"] = []
        for k in (0, 1):
            got = results(tenon, artifact, folder, path, form, k, row)
            if got is None:
                return
            worst = float("inf")
            for level in LEVELS:
                want = kept_results(path, k, level)
                if len(got) == len(want):
                    worst = min(worst, max((difference(g, w) for g, w in zip(got, want)), default=0.0))
            row["difference"].append(float(f"{worst:.2g}"))
            if not worst <= allowed and (own := own_difference(path, k)) > allowed:
                row["left_out"] = f"ONNX Runtime's results at size {k} differ by {own:.2g} with and without its optimisations"
                return
            if not worst <= allowed:
                shapes = "; ".join(f"{g.dtype}{list(g.shape)} {difference(g, w):.2g}" + ("" if g.shape == w.shape else f" want {list(w.shape)}") for g, w in zip(got, want))
                row["problem"] = f"difference at size {k}: {worst:.2g} ({shapes})"[:400]
                return


def refresh(o, rows):
    """Checks and times rows of models that are there anew."""
    for key, old in rows.items():
        path, artifact, form = o.out / "models" / f"{key}.onnx", o.out / "artifacts" / f"{key}.so", old["form"]
        if "left_out" in old or not path.exists():
            continue
        if o.check and re.search(o.check, key):
            rows[key] = row = {n: old[n] for n in ("name", "family", "form", "made_s")}
            check(o.tenon, path, form, artifact, row)
            row |= {n: old[n] for n in ("ms", "timed") if n in old and "problem" not in row}
            for stale in artifact.parent.glob(f"{key}.?.so"):
                stale.unlink()
            yield key
        if o.time and re.search(o.time, key) and artifact.exists() and form in TIMED and "problem" not in rows[key]:
            others = [artifact.with_name(f"{key}.{k}.so") for k in timed_sizes(form)]
            others = [[a] if a.exists() else for_size(o.tenon, path, form, artifact, k) for k, a in enumerate(others)]
            time_forms(path, form, artifact, others, o.seconds, rows[key])
            yield key


def show(key, row):
    print(f"{key:44} {row.get('problem') or row.get('left_out') or 'right'} {row.get('compile_s', '')} s {row.get('difference', '')} {row.get('ms', '')}", flush=True)


def rows_of(o, name, one, kept):
    """A row for each form of an architecture."""
    base = None
    for form in EXPORTS + TOOLS:
        key = f"{name}.{form}"
        if form in EXPORTS and (form.split("_")[0] not in one["exporters"] or (form.endswith("free") and not one["free"])):
            continue
        if form in TOOLS and one["tools"] and form not in one["tools"]:
            continue
        path = o.out / "models" / f"{key}.onnx"
        row = {"name": name, "family": one["family"], "form": form}
        again = o.again and re.search(o.again, key)
        if re.search(o.forms, form):
            timed = form not in TIMED or o.seconds <= 0 or "ms" in kept.get(key, {}) or "left_out" in kept.get(key, {})
            if key in kept and ("problem" not in kept[key] and timed or "left_out" in kept[key]) and not again:
                row = kept[key]
            else:
                if again:
                    path.unlink(missing_ok=True)
                start = time.time()
                problem = None
                if not path.exists():
                    if form in EXPORTS:
                        problem = of_this_file("export", name, form, path)
                    else:
                        problem = of_this_file("derive", form, base, path) if base else "no export"
                if not problem and not path.with_suffix(".1.ORT_DISABLE_ALL.npz").exists():
                    problem = of_this_file("references", path)
                    problem = problem and "ONNX Runtime: " + problem
                row["made_s"] = round(time.time() - start, 1)
                if problem:
                    row["left_out"] = problem
                else:
                    artifact = o.out / "artifacts" / f"{key}.so"
                    check(o.tenon, path, form, artifact, row)
                    if form in TIMED and o.seconds > 0 and "problem" not in row:
                        time_forms(path, form, artifact, [for_size(o.tenon, path, form, artifact, k) for k in timed_sizes(form)], o.seconds, row)
                show(key, row)
            yield key, row
        if form in EXPORTS and form not in ANY_VALUES and path.exists() and "left_out" not in row and (base is None or (form == "dynamo_free" or (form == "script_free" and base.stem.endswith("fixed")))):
            base = path


def times_taken(timed):
    """When the times were taken: those of the last day, and which are older."""
    last = max((r.get("timed", "")[:10] for r in timed.values()), default="")
    if not last:
        return []
    new = sorted(r["timed"] for r in timed.values() if r.get("timed", "").startswith(last))
    old = sorted(k for k, r in timed.items() if not r.get("timed", "").startswith(last))
    return [f"{len(new)} models were timed on {last} from {new[0][11:]} to {new[-1][11:]} UTC" + (", earlier: " + ", ".join(old) if old else "") + "."]


def times_page(rows, names):
    """The part of docs/zoo.md about times."""
    timed = {k: r for k, r in rows.items() if r.get("ms") and "problem" not in r}
    if not timed:
        return []
    peer = [own / ort for r in timed.values() for ort, own, *_ in r["ms"]]
    free = [t[1] / t[2] for r in timed.values() for t in r["ms"] if len(t) > 2]
    def mean(values):
        return float(np.exp(np.mean(np.log(values)))) if values else float("nan")
    lines = ["", "## Times", "",
             f"{len(timed)} float32 models are timed on one thread against ONNX Runtime, runs alternating in one process, the best of each: {mean(peer):.2f} of its time",
             f"(geometric mean over models and sizes). {sum(p > ALLOWED_TIME for p in peer)} of {len(peer)} take more than {ALLOWED_TIME} times its time. One artifact for free sizes takes "
             f"{mean(free):.2f} times", f"what an artifact for the size takes; {sum(f > ALLOWED_FREE for f in free)} of {len(free)} take more than {ALLOWED_FREE}. Most models are small: "
             "below about 0.05 ms the cost of a call is in every figure.", "",
             "A cell has the times over ONNX Runtime's at each size; behind a stroke, those of free sizes over an artifact for the size.",
             *times_taken(timed), "",
             "| architecture | ONNX Runtime, ms | " + " | ".join(TIMED) + " | compiling, s |", "|---" * (3 + len(TIMED)) + "|"]
    for n in names:
        cells, ms, seconds = [], "", []
        for form in TIMED:
            r = timed.get(f"{n}.{form}")
            if r is None:
                cells.append("")
                continue
            ms, seconds = ms or " ".join(f"{t[0]:.3g}" for t in r["ms"]), seconds + [r["compile_s"]]
            over = [t[1] / t[2] for t in r["ms"] if len(t) > 2]
            def shown(values, limit):
                return " ".join(f"**{v:.2f}**" if v > limit else f"{v:.2f}" for v in values)
            cells.append(shown([t[1] / t[0] for t in r["ms"]], ALLOWED_TIME) + (" / " + shown(over, ALLOWED_FREE) if over else ""))
        if seconds:
            lines.append(f"| {n} | {ms} | " + " | ".join(cells) + f" | {max(seconds):.1f} |")
    return lines


def page(rows):
    """The text of docs/zoo.md."""
    judged = [r for r in rows.values() if "left_out" not in r]
    wrong = [r for r in judged if "problem" in r]
    names = sorted({r["name"] for r in rows.values()}, key=lambda n: (next(r["family"] for r in rows.values() if r["name"] == n), n))
    lines = ["# Exported architectures", "",
             "`make zoo` writes this page (`bench/export_zoo.py` says how; the numbers are in [zoo.json](zoo.json)). Small versions of each architecture,",
             "with seeded weights, are exported by both exporters of PyTorch, at fixed and at free sizes (estimators of scikit-learn by skl2onnx, networks of Keras",
             "by tf2onnx), and one of these is rewritten by ONNX Runtime's optimiser and quantisers and by a float16 converter. Each model is compiled once and compared with ONNX Runtime at two sizes.", "",
             f"{len(judged)} models of {len(names)} architectures: {len(judged) - len(wrong)} are right. {len(rows) - len(judged)} more could not be written by a tool, loaded by ONNX Runtime, or judged by it.",
             f"The longest compilation took {max((r.get('compile_s', 0) for r in judged), default=0):.1f} s of processor time, the most memory was {max((r.get('peak_mb', 0) for r in judged), default=0)} MB.", "",
             "A cell is the larger difference of both sizes: the root mean square of the difference over that of ONNX Runtime's result (of integers: the share that differs);",
             f"{ALLOWED_F32:g} is allowed, {ALLOWED['f16']:g} in half precision and {ALLOWED['qdq']:g} for quantised models. `·`: could not be written or loaded by the tools, or ONNX Runtime's own results differ that much with and without its optimisations.", "",
             "| family | architecture | " + " | ".join(EXPORTS + TOOLS) + " |", "|---" * (2 + len(EXPORTS + TOOLS)) + "|"]
    for n in names:
        cells = []
        for form in EXPORTS + TOOLS:
            r = rows.get(f"{n}.{form}")
            cells.append("" if r is None else "·" if "left_out" in r else "**wrong**" if "problem" in r else f"{max(r['difference']):.0e}" if max(r["difference"]) else "0")
        lines.append(f"| {next(r['family'] for r in rows.values() if r['name'] == n)} | {n} | " + " | ".join(cells) + " |")
    lines += times_page(rows, names)
    if wrong:
        lines += ["", "## What is not right", ""] + [f"- {r['name']} ({r['form']}): {r['problem']}" for r in wrong]
    return "\n".join(lines) + "\n"


def export_all(o, rows, file):
    """Makes rows that are not there yet, and those that are asked for again."""
    entries = {}
    for exporter in EXPORTERS:
        status, out, err = child([sys.executable, __file__, "--do", "entries", exporter], EXPORT_SECONDS)
        if status != 0:
            sys.exit(f"export_zoo: {last_words(err)}")
        entries |= json.loads(out.splitlines()[-1])
    for name, one in entries.items():
        if re.search(o.only, name):
            for key, row in rows_of(o, name, one, rows):
                rows[key] = row
                file.write_text(json.dumps(rows, indent=1) + "\n")


def main():
    if sys.argv[1:2] == ["--do"]:
        words = [w[1:] if w.startswith("=") else pathlib.Path(w) if "/" in w else w for w in sys.argv[3:]]
        {"export": export, "derive": derive, "references": references, "session": session, "times": times, "entries": entries_of}[sys.argv[2]](*words)
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/zoo"))
    parser.add_argument("--docs", type=pathlib.Path)
    parser.add_argument("--only", default="", help="architectures whose name matches")
    parser.add_argument("--forms", default="", help="forms whose name matches")
    parser.add_argument("--again", help="ARCHITECTURE.FORM that are made and checked anew")
    parser.add_argument("--check", help="ARCHITECTURE.FORM of models that are there, which are compiled and compared anew")
    parser.add_argument("--time", help="ARCHITECTURE.FORM of those that are timed anew")
    parser.add_argument("--seconds", type=float, default=1, help="for the times of each model and size (default 1; 0: none)")
    o = parser.parse_args()
    o.out, o.tenon = o.out.resolve(), o.tenon.resolve()
    for folder in ("models", "artifacts"):
        (o.out / folder).mkdir(parents=True, exist_ok=True)
    os.environ |= {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": ""}
    file = o.out / "zoo.json"
    rows = json.loads(file.read_text()) if file.exists() else {}
    if o.check or o.time:
        for key in refresh(o, rows):
            show(key, rows[key])
            file.write_text(json.dumps(rows, indent=1) + "\n")
    else:
        export_all(o, rows, file)
    if o.docs:
        (o.docs / "zoo.md").write_text(page(rows))
        shutil.copy(file, o.docs / "zoo.json")
    wrong = [k for k, r in rows.items() if "problem" in r]
    print(f"{len(rows)} forms, {sum('left_out' in r for r in rows.values())} left out, {len(wrong)} not right" + "".join(f"\n  {k}: {rows[k]['problem']}" for k in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
