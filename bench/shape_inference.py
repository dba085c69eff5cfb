#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the types that Tenon's importer infers with those of ONNX's shape inference, for every value of a model's main graph.

    bench/shape_inference.py [--json FILE] [--only REGEX] [--show KIND] MODEL|FOLDER|ARCHIVE…

What a file declares of values and outputs is dropped first, so each side has the inputs, the weights and the operators. The other
side is `onnx.shape_inference.infer_shapes(data_prop=True)` and, where sympy is installed, onnxruntime's symbolic_shape_infer; what either
knows counts. Sizes are numbers or expressions of the inputs' symbols, which are equal when they are for several values of these.

Of each value: `agree`, `ours` (we know a size, rank or type that nobody else does), `theirs`, `contradictory`, or `guess`: only
onnxruntime's tool says otherwise, which splits evenly and squeezes whatever is 1 where the sizes and axes are inputs. Tenon's types are
those of a module whose outputs are all values (`tenon.onnx.load`). Exit status 1: some value is contradictory."""
import argparse
import collections
import json
import os
import pathlib
import re
import resource
import sys
import tarfile
import tempfile

import onnx
import tenon.onnx
from onnx import TensorProto, helper

try:  # needs sympy; before the processes of the models, which share it
    import sympy
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference
except ImportError:
    sympy = None

SECONDS = 120  # of processor time, for one model
SYMBOL_VALUES = [(640, 896, 1024, 768, 1152, 576, 704, 832), (1001, 607, 811, 1507, 911, 709, 503, 1303), (1100, 900, 630, 770, 990, 666, 858, 1050)]
KINDS = ["agree", "ours", "theirs", "guess", "contradictory"]
UNKNOWN = None


def models_of(word):
    """(name, function that gives the bytes) of each model below a path."""
    path = pathlib.Path(word)
    if path.is_dir():
        return [(str(p.relative_to(path)), p.read_bytes) for p in sorted(path.rglob("*.onnx"))]
    if ".tar" in path.name:
        with tarfile.open(path) as archive:
            found = sorted((m.name, archive.extractfile(m).read()) for m in archive if m.name.endswith(".onnx"))
        return [(name, lambda data=data: data) for name, data in found]
    return [(path.name, path.read_bytes)]


def prepared(data):
    """The model with a name for each size of an input that has none, with nothing said of inner values, and of outputs their element types only."""
    model = onnx.load_model_from_string(data)
    for k, i in enumerate(model.graph.input):
        for axis, d in enumerate(i.type.tensor_type.shape.dim):
            if not d.dim_param and (not d.HasField("dim_value") or d.dim_value < 0):
                d.dim_param = f"i{k}_d{axis}"
    del model.graph.value_info[:]
    for o in model.graph.output:
        if o.type.WhichOneof("value") == "tensor_type":
            o.type.tensor_type.ClearField("shape")
    return model


def value_names(graph):
    return [o for n in graph.node for o in n.output if o]


class Symbols:
    """Values of the symbols that inputs declare, by name."""

    def __init__(self, graph):
        given = {t.name for t in graph.initializer}
        names = dict.fromkeys(d.dim_param for i in graph.input if i.name not in given for d in i.type.tensor_type.shape.dim if d.dim_param)
        self.names = list(names)
        self.rounds = [{n: values[k % len(values)] + k // len(values) for k, n in enumerate(self.names)} for values in SYMBOL_VALUES]

    def values(self, evaluate):
        """What an expression is in each round; unknown where it says anything but these symbols."""
        try:
            return tuple(int(evaluate(names)) for names in self.rounds)
        except (NameError, TypeError, ZeroDivisionError, ValueError, KeyError, SyntaxError):
            return UNKNOWN


def sizes_of(tensor_type):
    """The sizes that a type states, or unknown."""
    return getattr(getattr(tensor_type, "shape", None), "values", UNKNOWN)


def our_types(model, folder, symbols):
    """{name: (element type, sizes or unknown)} of all values."""
    names = value_names(model.graph)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names)
    main = tenon.onnx.load(model, folder=folder)["main"]
    declared = {i.name: i.type.tensor_type.shape.dim for i in model.graph.input}
    alias = {}  # as the program names symbols → as the file does
    for p, name in zip(main.params, main.attrs["input_names"] or []):
        for ours, theirs in zip(sizes_of(p.type) or [], declared[name]):
            if theirs.dim_param:
                alias[str(ours)] = theirs.dim_param
    words = {"cast": lambda value, dtype: value, "min": min, "max": max, "int64": int, "if_then_else": lambda c, a, b: a if c else b, "Select": lambda c, a, b: a if c else b,
             "truncdiv": lambda a, b: int(a / b), "ceildiv": lambda a, b: -(-a // b)}
    tir = type("T", (), {k: staticmethod(v) for k, v in words.items()})

    def size(e):
        return symbols.values(lambda values: eval(str(e), {"T": tir, "__builtins__": {}}, {a: values[n] for a, n in alias.items()}))

    types = main.ret_type.items if len(names) > 1 else [main.ret_type]
    found = {}
    for name, t in zip(main.attrs["output_names"], types):
        if hasattr(t, "dtype"):
            shape = sizes_of(t)
            rank = [UNKNOWN] * t.ndim if t.ndim >= 0 else UNKNOWN
            found[name] = (str(t.dtype), [size(d) for d in shape] if shape is not UNKNOWN else rank)
    return found


def type_name(elem):
    """An element type as Tenon writes it; unknown for what a program holds otherwise (strings, 4-bit floats)."""
    name = TensorProto.DataType.Name(elem).lower()
    names = {"float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2", "float8e4m3fnuz": "float8_e4m3fnuz",
             "float8e5m2fnuz": "float8_e5m2fnuz"}
    return UNKNOWN if name in ("undefined", "string", "float4e2m1", "float8e8m0") else names.get(name, name)


def their_types(model, symbols, evaluate):
    """The same of an inferred model; `evaluate(text, values)` says what a symbolic size is."""
    found = {}
    for v in [*model.graph.value_info, *model.graph.output]:
        if v.type.WhichOneof("value") != "tensor_type":
            continue
        t = v.type.tensor_type
        sizes = UNKNOWN
        if t.HasField("shape"):
            sizes = [(d.dim_value,) * len(SYMBOL_VALUES) if d.HasField("dim_value") else
                     symbols.values(lambda values, text=d.dim_param: evaluate(text, values)) if d.dim_param else UNKNOWN for d in t.shape.dim]
        found[v.name] = (type_name(t.elem_type), sizes)
    return found


def by_onnx(model, symbols):
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return their_types(model, symbols, lambda text, values: values[text])


def by_onnxruntime(model, symbols):
    def evaluate(text, values):
        plain = {n: sympy.Symbol(f"s{k}") for k, n in enumerate(values)}
        words = dict(plain)
        e = sympy.sympify(values[text] if text in values else text, locals=words)
        return e.subs({plain[n]: v for n, v in values.items()})

    inference = SymbolicShapeInference(2**31 - 1, False, False, 0)
    inference._preprocess(model)
    while inference.run_:  # its function infer_shapes drops everything when something stays unknown
        inference._infer_impl()
    inference._update_output_from_vi()
    return their_types(inference.out_mp_, symbols, evaluate)


def compare(ours, onnx_says, tool_says):
    """What stands for one value: a kind."""
    kinds = set()

    def one(own, first, second):
        if own is UNKNOWN:
            kinds.add("agree" if first is UNKNOWN and second is UNKNOWN else "theirs")
        elif first is not UNKNOWN:
            kinds.add("agree" if own == first else "contradictory")
        else:
            kinds.add("ours" if second is UNKNOWN else "agree" if own == second else "guess")

    def rank(sizes):
        return UNKNOWN if sizes is UNKNOWN else len(sizes)

    one(ours[0], onnx_says[0], tool_says[0])
    one(rank(ours[1]), rank(onnx_says[1]), rank(tool_says[1]))
    for axis, size in enumerate(ours[1] or []):
        one(size, *(t[1][axis] if rank(t[1]) == len(ours[1]) else UNKNOWN for t in (onnx_says, tool_says)))
    return max(kinds, key=KINDS.index)


def shown(t):
    if t is None:
        return "nothing"
    sizes = "of any rank" if t[1] is UNKNOWN else "(" + ", ".join("?" if s is UNKNOWN else str(s[0]) if len(set(s)) == 1 else "/".join(map(str, s)) for s in t[1]) + ")"
    return f"{t[0] or 'something'} {sizes}"


def judge(data, folder):
    """What is to be said of one model."""
    graph = prepared(data).graph
    symbols = Symbols(graph)
    out = {"counts": collections.Counter(), "values": [], "silent": []}
    peers = {"onnx": {}, "onnxruntime": {}}
    for name, infer in (("onnx", by_onnx), ("onnxruntime", by_onnxruntime)):
        try:
            peers[name] = infer(prepared(data), symbols)
        except Exception as e:  # a peer that gives up says nothing
            out["silent"].append(f"{name}: {type(e).__name__}: {str(e)[:200]}")
    try:
        ours = our_types(prepared(data), folder, symbols)
    except Exception as e:
        return {"refused": " ".join(f"{type(e).__name__} {e}".split())[:300]}
    operators = {o: n.op_type for n in graph.node for o in n.output}
    for value in dict.fromkeys(value_names(graph)):
        if value not in ours:
            continue  # a sequence, an optional
        kind = compare(ours[value], *(types.get(value, (UNKNOWN, UNKNOWN)) for types in peers.values()))
        out["counts"][kind] += 1
        if kind != "agree":
            out["values"].append({"kind": kind, "value": value, "operator": operators[value], "tenon": shown(ours[value]),
                                  **{name: shown(types.get(value)) for name, types in peers.items()}})
    return out


def apart(data, folder, scratch):
    """The same in a process of its own, with a limit of processor time; in a folder of its own, because onnxruntime's tool writes files."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.chdir(scratch)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(write, "w") as pipe:
            json.dump(judge(data, folder), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else {"refused": f"ended with status {status}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL|FOLDER|ARCHIVE")
    parser.add_argument("--json", type=pathlib.Path, help="all of it, by model")
    parser.add_argument("--only", default="", help="models whose name matches")
    parser.add_argument("--show", default="theirs|contradictory", help="kinds of values to print (default: theirs|contradictory)")
    parser.add_argument("--most", type=int, default=3, help="values of one model to print (default 3)")
    o = parser.parse_args()
    rows, counts, by_operator = {}, collections.Counter(), collections.Counter()
    scratch = tempfile.TemporaryDirectory()
    for word in o.models:
        path = pathlib.Path(word).resolve()
        for name, read in models_of(word):
            if not re.search(o.only, name):
                continue
            rows[name] = row = apart(read(), str(path if path.is_dir() else path.parent), scratch.name)
            if "refused" in row:
                print(f"{name}: refused: {row['refused']}", flush=True)
                continue
            counts.update(row["counts"])
            wanted = [v for v in row["values"] if re.search(o.show, v["kind"])]
            by_operator.update((v["kind"], v["operator"]) for v in wanted)
            for v in wanted[:o.most]:
                texts = ", ".join(f"{k} {v[k]}" for k in ("tenon", "onnx", "onnxruntime") if k in v)
                print(f"{name}: {v['kind']}: {v['value']} ({v['operator']}): {texts}", flush=True)
    if o.json:
        o.json.write_text(json.dumps(rows, indent=1) + "\n")
    refused = sum("refused" in r for r in rows.values())
    for (kind, operator), n in by_operator.most_common():
        print(f"{n:6} {kind:14} {operator}")
    print(f"{len(rows)} models, {refused} refused, {sum(counts.values())} values: " + ", ".join(f"{k} {counts[k]}" for k in KINDS))
    return 1 if counts["contradictory"] else 0


if __name__ == "__main__":
    sys.exit(main())
