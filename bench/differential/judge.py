# SPDX-License-Identifier: Apache-2.0
"""Runs a model in Tenon and in ONNX Runtime, and says how the results differ. `answer` is what a worker process does."""
import copy
import dataclasses
import pathlib
import sys
import tempfile
import warnings

import layers
import numpy as np
import onnx
from draw import outer_names, session_of

# Of the largest element of a result; half precision has 11 bits, and a chain rounds at each operator.
TOLERANCE = {"float16": 2e-2, "float32": 3e-4, "float64": 3e-4}
NUDGE = 1e-6  # floats of an input are changed by so much where it is asked whether a model magnifies rounding


@dataclasses.dataclass
class Mode:
    """How Tenon compiles: settings of `tenon.compile`; sizes left symbolic, or those of each run. `loose`: most root mean square of
    the difference for one of the result where values are rounded on the way; `quantised`: by ONNX Runtime's quantiser first."""
    settings: dict
    symbolic: bool = True
    bounds: bool = False
    file: bool = False
    interpreted: bool = False
    loose: float = 0
    quantised: bool = False


MODES = {
    "sizes": Mode({}, symbolic=False),
    "symbolic": Mode({}),
    "O0": Mode({"opt_level": 0}),
    "O3": Mode({"opt_level": 3}),
    "c": Mode({"target": "c"}, symbolic=False),
    "verify": Mode({"verify": True}, symbolic=False),
    "bounds": Mode({}, bounds=True),
    "artifact": Mode({}, file=True),
    "interpreter": Mode({}, interpreted=True),
    "bf16": Mode({"precision": "bf16"}, loose=0.03),
    "bf16sizes": Mode({"precision": "bf16"}, symbolic=False, loose=0.03),
    "f16": Mode({"precision": "f16"}, loose=0.01),
    "qdq": Mode({}, loose=0.08, quantised=True),
    "qdqverify": Mode({"verify": True}, symbolic=False, loose=0.08, quantised=True),
}
PRECISIONS = ("bf16", "bf16sizes", "f16", "qdq")
BY_NAME = ("interpreter", "qdqverify")  # never drawn


# What the interpreter says where compiled programs say the other: a shape is not the one that is required.
INTERPRETED = {"T0357": "T0501"}


@dataclasses.dataclass
class Finding:
    """What is wrong with a model: `kind` is `differs`, `refused`, `accepted` (ONNX Runtime and the reference evaluator refuse), `internal`,
    `crash` or `hang`; `run` is the number of the inputs, -1 for the compilation."""
    mode: str
    kind: str
    run: int
    words: str
    code: str = ""

    def like(self, other):
        return self.kind == other.kind and self.code == other.code


def difference(got, want, exact):
    """What differs between two arrays, or None."""
    got, want = (v.astype(str).astype(object) if v.dtype.kind in "OUS" else v for v in (np.asarray(got), np.asarray(want)))
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, wanted {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f" or exact:
        wrong = ~((got == want) | ((got != got) & (want != want)))
    else:
        with np.errstate(all="ignore"):
            a, b = got.astype(np.float64), want.astype(np.float64)
            top = np.max(np.abs(b[np.isfinite(b)]), initial=1e-3)
            wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= TOLERANCE[want.dtype.name] * top))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"element {list(at)} of {list(want.shape)} is {got[at]!r}, wanted {want[at]!r} ({int(wrong.sum())} differ)"


def far_off(got, want, most):
    """The same for results of values that were rounded on the way."""
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, wanted {want.dtype}{list(want.shape)}"
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinite alike
        apart = np.where(a == b, 0, a - b)
    off, size = (np.sqrt(np.mean(np.square(v))) for v in (apart, np.where(np.isfinite(b), b, 0)))
    return None if off <= most * (size + 1e-3) else f"the root mean square of the difference is {off / (size + 1e-3):.3f} of the result's"


def compared(got, want, exact):
    words = [f"output {k}: {w}" for k, (g, v) in enumerate(zip(got, want)) if (w := difference(g, v, exact[k]))]
    return "; ".join(words)[:400]


def by_onnxruntime(session, feed):
    """Results and None, or None and the words of the refusal."""
    try:
        return session.run(None, feed), None
    except Exception as e:
        return None, str(e).splitlines()[0][:300]


def by_reference(model, feed):
    """Results, or None where the evaluator ends with an error (it lacks operators and has faults of its own)."""
    from onnx.reference import ReferenceEvaluator
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [np.asarray(v) for v in ReferenceEvaluator(model).run(None, feed)]
    except Exception:
        return None


def magnifies(session, feed, want):
    """ONNX Runtime's own results change beyond the tolerance when floats of the inputs change by NUDGE."""
    generator = np.random.default_rng(0)
    moved = {n: (v * (1 + NUDGE * generator.choice((-1, 1), v.shape))).astype(v.dtype) if v.dtype.kind == "f" else v for n, v in feed.items()}
    other, refusal = by_onnxruntime(session, moved)
    return refusal is not None or bool(compared(other, want, [False] * len(want)))


def sizes_of(model, feed):
    """Value of each symbolic size of a model's inputs."""
    dims = {}
    for i in model.graph.input:
        for d, s in zip(i.type.tensor_type.shape.dim, feed[i.name].shape):
            if d.dim_param:
                dims[d.dim_param] = s
    return dims


def interpreted(model):
    """The model as the importer gives it, run by the interpreter; None where it gives strings, which are no arrays there."""
    import tenon
    if any(o.type.tensor_type.elem_type == onnx.TensorProto.STRING for o in model.graph.output):
        return None
    module, names = tenon.onnx.load(model.SerializeToString(), name="model.onnx"), [i.name for i in model.graph.input]
    run = tenon.get_global_func("ir.interpret")
    return lambda **feed: tuple(r) if isinstance(r := run(module, [feed[n] for n in names]), tenon.Array) else r


def compiled(model, mode, feeds, folder):
    import tenon
    if MODES[mode].interpreted:
        return interpreted(model)
    settings = dict(MODES[mode].settings)
    if not MODES[mode].symbolic:
        settings["dims"] = sizes_of(model, feeds[0])
    if MODES[mode].bounds:
        every = [sizes_of(model, f) for f in feeds]
        settings["dim_bounds"] = {n: max(max(s[n] for s in every), 1) for n in every[0]}
    executable = tenon.compile(model.SerializeToString(), threads=1, name="model.onnx", **settings)
    if MODES[mode].file:
        executable.save(folder / "model.so")
        executable = tenon.load(folder / "model.so", threads=1)
    return executable


def failure(mode, run, error):
    kind = "internal" if type(error).__name__ == "InternalError" or not hasattr(error, "code") else "refused"
    code = getattr(error, "code", type(error).__name__)
    return Finding(mode, kind, run, f"{error} {getattr(error, 'location', '')}"[:600], INTERPRETED.get(code, code))


def alone(model, feed, k):
    """Output k of a model as a model of its own, and its inputs."""
    part = needed(model, [model.graph.output[k]])
    return part, {i.name: feed[i.name] for i in part.graph.input}


def accepted(model, feed, got, exact, refusal):
    """Kind and words where ONNX Runtime refuses the model: an output that it gives when it is asked for that one alone is compared with
    its own, others with the reference evaluator's. None where they agree."""
    words, refused = [], False
    for k, (g, e) in enumerate(zip(got, exact)):
        part, inputs = alone(model, feed, k)
        try:
            session = session_of(part.SerializeToString())
            want, _ = by_onnxruntime(session, inputs)
        except Exception:
            want = None
        if want is not None:
            found = differing(part, session, inputs, [g], want, [e])
            words += [f"output {k}: {found[1]}"] if found else []
            continue
        second = by_reference(part, inputs)
        refused = refused or second is None
        if second is not None and (what := difference(g, second[0], e)):
            words.append(f"from the reference evaluator (output {k}: {what})")
    if words:
        return "differs", f"{'; '.join(words)[:300]}; ONNX Runtime: {refusal}"
    return ("accepted", f"both refuse; ONNX Runtime: {refusal}") if refused else None


def differing(model, session, feed, got, want, exact):
    """Kind and words of results that neither ONNX Runtime nor the reference evaluator gives, or None."""
    words = []
    for k, (g, w, e) in enumerate(zip(got, want, exact)):
        if not (what := difference(g, w, e)):
            continue
        second = by_reference(*alone(model, feed, k))
        if second is not None and not difference(g, second[0], e):
            continue
        if e or not magnifies(session, feed, want):
            same = second is not None and not difference(second[0], w, e)
            words.append(f"output {k}: {what}" + (", as the reference evaluator says" if same else ""))
    return ("differs", "; ".join(words)[:400]) if words else None


def check(model, feeds, exact_names, mode, say=lambda words: None):
    """The findings of one mode."""
    import tenon
    names = [o.name for o in model.graph.output]
    exact = [n in exact_names for n in names]
    with tempfile.TemporaryDirectory() as folder:
        if MODES[mode].quantised:
            model = layers.quantised(model, feeds[0], pathlib.Path(folder))
            if not all(layers.finite_inside(model, f) for f in feeds):
                return []  # a divisor was rounded to 0, and nothing states which byte NaN is
        session = session_of(model.SerializeToString())
        runs = [(k, f, *by_onnxruntime(session, f)) for k, f in enumerate(feeds)]
        if not MODES[mode].symbolic:
            runs = runs[:1]
        say(f"compile {mode}")
        try:
            executable = compiled(model, mode, [f for _, f, _, _ in runs], pathlib.Path(folder))
        except tenon.Error as e:
            found = failure(mode, -1, e)
            # What --verify draws for inputs need not suit a model whose inputs are sizes or indices.
            unfit = mode == "verify" and found.kind == "refused" and found.code[:3] in ("T04", "T05")
            return [] if unfit or (found.kind == "refused" and all(refusal for _, _, _, refusal in runs)) else [found]
        if executable is None:
            return []
        findings = []
        for k, feed, want, refusal in runs:
            say(f"run {mode} {k}")
            try:
                got = executable(**feed)
                got = [np.asarray(g) for g in (got if isinstance(got, tuple) else (got,))]
            except Exception as e:
                found = failure(mode, k, e)
                if found.kind == "internal" or not refusal:
                    findings.append(found)
                continue
            say(f"reference {mode} {k}")
            if MODES[mode].loose and not refusal:
                words = [f"output {k}: {w}" for k, (g, v) in enumerate(zip(got, want)) if (w := far_off(g, v, MODES[mode].loose))]
                found = ("differs", "; ".join(words)) if words else None
            elif refusal:
                found = accepted(model, feed, got, exact, refusal)
            else:
                found = differing(model, session, feed, got, want, exact)
            findings += [Finding(mode, *found[:1], k, found[1])] if found else []
        return findings


def load(folder):
    """A case as `save` wrote it."""
    model = onnx.load(folder / "model.onnx")
    feeds = []
    while (folder / f"inputs_{len(feeds)}.npz").exists():
        feeds.append(dict(np.load(folder / f"inputs_{len(feeds)}.npz")))
    exact = (folder / "exact.txt").read_text().split()
    return model, feeds, set(exact)


def save(folder, model, feeds, exact):
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    for k, feed in enumerate(feeds):
        np.savez(folder / f"inputs_{k}.npz", **feed)
    (folder / "exact.txt").write_text("\n".join(sorted(exact)))


def read_nodes(graph, wanted):
    """The nodes of a graph that compute the names `wanted`, without what nobody reads in their bodies, either; their names join `wanted`."""
    kept = []
    for node in reversed(graph.node):
        if not wanted & set(node.output):
            continue
        kept.append(copy.deepcopy(node))
        wanted |= {i for i in node.input if i}
        for body in (a.g for a in kept[-1].attribute if a.type == onnx.AttributeProto.GRAPH):
            inside = {o.name for o in body.output}
            replace_items(body, node=read_nodes(body, inside), initializer=[i for i in body.initializer if i.name in inside])
            wanted |= outer_names(body)
    return kept[::-1]


def replace_items(graph, **fields):
    for field, items in fields.items():
        items = [copy.deepcopy(i) for i in items]
        graph.ClearField(field)
        getattr(graph, field).extend(items)


def needed(model, outputs):
    """The model with these outputs only, and without what they do not need."""
    made = copy.deepcopy(model)
    graph, wanted = made.graph, {o.name for o in outputs}
    nodes = read_nodes(graph, wanted)
    replace_items(graph, node=nodes, input=[i for i in graph.input if i.name in wanted],
                  initializer=[i for i in graph.initializer if i.name in wanted], output=outputs)
    return made


def text_of(model):
    """The model as text; long constants are cut short."""
    return "\n".join(line if len(line) < 400 else line[:400] + " …" for line in onnx.printer.to_text(model).splitlines())


def operators_of(graph):
    """Names of the operators of a graph and of its bodies."""
    inner = [o for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH for o in operators_of(a.g)]
    return sorted({f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in graph.node} | set(inner))


def answer(request, say):
    """Findings of a request: {"folder", "modes"}."""
    model, feeds, exact = load(pathlib.Path(request["folder"]))
    found = []
    for mode in request["modes"]:
        found += check(model, feeds, exact, mode, say)
    return [dataclasses.asdict(f) for f in found]


if __name__ == "__main__":
    for f in answer({"folder": sys.argv[1], "modes": sys.argv[2:] or ["symbolic"]}, lambda words: None):
        print(f)
