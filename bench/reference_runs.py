# SPDX-License-Identifier: Apache-2.0
"""For bench/reference_scripts.py: programs read twice, or each of their graph functions by the interpreter and compiled.

usage: bench/reference_runs.py read|run FILE…   prints lines of JSON: [file, function, outcome], with "began" before what may end the process

read: as `tenon opt` does, and once more what it printed: "equal", "refused: " and the error, or what is wrong with the second text.
run: on random inputs. A function is called when each of its parameters is a tensor, a shape, a number or a tuple of these; symbolic and
unknown sizes are chosen. The outcome is "equal", "both refuse: …" (such as a size that does not fit; with both errors where their codes differ) or
what differs. `tenon` and NumPy must be importable."""
import faulthandler
import json
import operator
import os
import re
import signal
import sys

SIZES = (4, 3, 5, 2, 6, 7, 8)  # of symbolic sizes, in the order in which they are met
UNKNOWN = (3, 4, 2, 5, 3, 2, 2, 2)  # of dimensions of which nothing is known
COMBINED = {"tir.Add": operator.add, "tir.Sub": operator.sub, "tir.Mul": operator.mul, "tir.FloorDiv": operator.floordiv,
            "tir.FloorMod": operator.mod, "tir.Div": operator.floordiv, "tir.Min": min, "tir.Max": max}
LIMIT_S = 2  # of processor time, for one program or function
RTOL, ATOL = 1e-4, 1e-4  # sums in another order
HALF = 2e-2              # float16 and bfloat16


class NotCalled(Exception):
    """Why a function is not called."""


SAID = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what programs print is no outcome


def say(path, function, outcome):
    print(json.dumps([path, function, outcome]), file=SAID, flush=True)


def begin(path, function):
    """From here on LIMIT_S of processor time, also for what calls no Python: it ends the process (SIGPROF)."""
    say(path, function, "began")
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)


def first_line(e):
    return str(e).split("\n")[0]


def read(paths):
    import tenon

    def printed(path):
        return tenon.get_global_func("compiler.opt")({"model": path})["text"]

    def outcome(path):
        try:
            text = printed(path)
        except tenon.Error as e:
            return ("refused: " if e.code else "") + first_line(e)
        again = path.removesuffix(".py") + ".tir"
        with open(again, "w") as f:
            f.write(text)
        try:
            return "equal" if printed(again) == text else "the second text is another one"
        except tenon.Error as e:
            return "printed text is refused: " + first_line(e)

    for path in paths:
        begin(path, "")
        say(path, "", outcome(path))


def run(paths):
    import numpy as np
    import tenon

    rng = np.random.default_rng(5)

    def size_of(d, sizes):
        """Of a size: a symbol that was not met yet gets one."""
        value = d if isinstance(d, int) else getattr(d, "value", None)
        if isinstance(value, int):
            return value
        if hasattr(d, "name"):
            return sizes.setdefault(d.name, SIZES[len(sizes) % len(SIZES)])
        combine = COMBINED.get(d._type_key)
        if combine is None:
            raise NotCalled(f"a size that is {d._type_key}")
        return combine(size_of(d.a, sizes), size_of(d.b, sizes))

    def random(shape, dtype):
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.startswith(("int", "uint")) and "x" not in dtype:
            return rng.integers(0, 3, shape).astype(dtype)
        if dtype in ("float16", "float32", "float64"):
            return rng.standard_normal(shape).astype(dtype)
        raise NotCalled(f"no random values of {dtype}")

    def argument(t, sizes):
        """What the compiled one is given: arrays, a shape as the array of its sizes, a number as one element."""
        kind = t._type_key
        if kind == "ir.TensorType":
            dims = getattr(t.shape, "values", None)
            if dims is None:
                dims = UNKNOWN[:t.ndim] if t.ndim >= 0 else UNKNOWN[:2]
            return random([size_of(d, sizes) for d in dims], "float32" if str(t.dtype) == "void" else str(t.dtype))
        if kind == "ir.TupleType":
            return tuple(argument(x, sizes) for x in t.items)
        if kind == "ir.ShapeType":
            dims = list(t.values) if t.known else UNKNOWN[:t.ndim] if t.ndim >= 0 else UNKNOWN[:2]
            return np.array([size_of(d, sizes) for d in dims], "int64")
        if kind == "ir.PrimType":
            value = getattr(t, "value", None)
            return random([], str(t.dtype)) if value is None else np.array(size_of(value, sizes), str(t.dtype))
        raise NotCalled(f"a parameter of type {kind.split('.')[-1]}")

    def interpreted(t, value):
        """An argument as the interpreter takes it: shapes are lists of sizes, numbers are numbers."""
        if isinstance(value, tuple):
            return tuple(map(interpreted, t.items, value))
        return value.tolist() if t._type_key in ("ir.ShapeType", "ir.PrimType") else tenon.NDArray(value)

    def tensor_type(t, x):
        """The type with the element type, and where the rank is open the sizes, of an array."""
        said = tenon.parse(f'@R.function\ndef main(x: R.Tensor({x.shape}, "{x.dtype}")):\n    return x\n')["main"].params[0].type
        return said if t.ndim < 0 else t.replace(dtype=said.dtype)

    def with_types_of(module, args):
        """The compiled one is made for the element types and ranks of what it is given, where parameters do not say them."""
        open_ones = [(p, x) for p, x in zip(module["main"].params, args) if isinstance(x, np.ndarray)
                     and p.type._type_key == "ir.TensorType" and (str(p.type.dtype) == "void" or p.type.ndim < 0)]
        if not open_ones:
            return module
        types = {p.name: tensor_type(p.type, x) for p, x in open_ones}
        with tenon.transform.PassContext(required_pass=["update_param_type"], config={"update_param_type.types": types}):
            return tenon.transform.update_param_type(tenon.transform.infer_types(module))

    def parts(args):
        """A tuple is given in parts."""
        return [x for a in args for x in (parts(a) if isinstance(a, tuple) else [a])]

    def plain(value):
        """Tensors as NumPy arrays, tuples as lists, the rest as it is."""
        if isinstance(value, (tuple, list)) or type(value).__name__ == "Array":
            return [plain(v) for v in value]
        if hasattr(value, "__dlpack__"):
            return np.asarray(value)
        return value

    def differ(a, b):
        if isinstance(a, list) or isinstance(b, list):
            a, b = (x if isinstance(x, list) else [x] for x in (a, b))
            if len(a) != len(b):
                return f"{len(a)} and {len(b)} results"
            return next((d for d in map(differ, a, b) if d), "")
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            return ""
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
        if a.dtype.kind != "f":
            return "" if (a == b).all() else "other values"
        # What is left of large halves that cancel is as exact as these.
        half = HALF * max(1.0, float(np.sqrt(np.mean(np.square(a.astype("d")))))) if a.dtype.itemsize == 2 and a.size else 0
        same = np.isclose(a.astype("d"), b.astype("d"), rtol=RTOL, atol=ATOL + half, equal_nan=True)
        return "" if same.all() else f"other values: {a[~same].flat[0]} and {b[~same].flat[0]}"

    def outcome(f):
        try:
            return plain(f()), None
        except tenon.Error as e:
            return None, e

    def kind_of(e):
        return re.sub(r"\d+", "N", re.sub(r"`[^`]*`", "`…`", first_line(e)))[:120]

    def is_stub(f):
        return f._type_key == "tir.PrimFunc" and f.body._type_key == "tir.Evaluate" and hasattr(f.body.value, "value")

    def judge(module, name):
        f = module[name]
        if any(is_stub(g) for g in module.functions.values()):
            raise NotCalled("a program of it is a stub, which writes nothing")
        sizes = {}
        args = [argument(p.type, sizes) for p in f.params]
        given = [interpreted(p.type, x) for p, x in zip(f.params, args)]
        want, refused = outcome(lambda: tenon.get_global_func("ir.interpret")(module, given, name))
        # As main it has no symbol of its own: the function of that name keeps it.
        own = f.replace(attrs={k: v for k, v in f.attrs.items() if k != "global_symbol"})
        entry = module if name == "main" else module.replace(functions={**dict(module.functions.items()), "main": own})
        got, wrong = outcome(lambda: tenon.compile(with_types_of(entry, args), threads=1)(*parts(args)))
        if refused and refused.code == "T0350" and "is registered" in str(refused):
            raise NotCalled("it calls a function that is not registered")
        if refused and wrong:
            other = "" if refused.code == wrong.code else f", compiled: {kind_of(wrong)}"
            return f"both refuse: {kind_of(refused)}{other}"
        if refused or wrong:
            return f"only {'the interpreter' if refused else 'the compiled one'} refuses: {kind_of(refused or wrong)}"
        return differ(want, got) or "equal"

    for path in paths:
        with open(path) as f:
            text = f.read()
        begin(path, "")
        try:
            module = tenon.transform.infer_types(tenon.parse(text))
            names = [n for n, g in module.functions.items() if g._type_key == "graph.Function"]
        except tenon.Error as e:
            say(path, "", "not read: " + kind_of(e))
            continue
        for name in names:
            begin(path, name)
            try:
                outcome_of = judge(module, name)
            except NotCalled as e:
                outcome_of = f"not called: {e}"
            except Exception as e:  # what Python itself refuses, such as arguments of another type
                outcome_of = f"{type(e).__name__}: {kind_of(e)}"
            say(path, name, outcome_of)


if __name__ == "__main__":
    faulthandler.enable()
    {"read": read, "run": run}[sys.argv[1]](sys.argv[2:])
