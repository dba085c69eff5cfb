#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python costs: calls, arrays, sessions, import, parsing, each beside its bar and, where it is here, ONNX Runtime.

    PYTHONPATH=build/release/python nice -n -10 python3 bench/python.py [--only WORDS] [--json FILE]

Times are the least of many repetitions, because other work on the machine only adds to them; NumPy is needed, onnx and
onnxruntime are the peers."""
import argparse
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import timeit

import numpy as np

import tenon
from tenon import _core, tir

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIGITS = str(ROOT / "examples" / "digits" / "digits.onnx")
ROWS = []

ONE_OPERATOR = b"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        y = R.nn.relu(x)
        return y
"""


def row(what, unit, bar, better="least"):
    """A row of the table: a function that gives the figure, or the figure and the peer's."""
    def add(f):
        ROWS.append((what, unit, bar, better, f))
        return f
    return add


def least_us(statement, **names):
    """Microseconds of one call of `statement`, the least of many repetitions of about 2 ms."""
    timer = timeit.Timer(statement, globals=names)
    number, _ = timer.autorange()
    number = max(1, number // 100)
    return min(timer.repeat(200, number)) / number * 1e6


# ---------------------------------------------------------------- the border
@row("call of a C++ function, three ints", "µs", 0.20)
def call():
    return least_us("f(1, 2, 3)", f=_core.poll_signals)


@row("the same, calling back into Python", "µs", 0.30)
def callback():
    return least_us("f(1)", f=tenon.convert_func(lambda a: a))


@row("field read", "µs", 0.10)
def field():
    x = tir.Var(dtype="int64", name="x")
    return least_us("e.a", e=tir.Add(x, 1), keep=x)


@row("NumPy argument, zero copy", "µs", 0.20)
def numpy_argument():
    x, y, z = (np.zeros((4, 4), "f") for _ in range(3))
    f = _core.poll_signals
    return (least_us("f(x, y, z)", f=f, x=x, y=y, z=z) - least_us("f(1, 2, 3)", f=f)) / 3


# ---------------------------------------------------------------- sessions
def onnx_relu():
    from onnx import TensorProto, helper
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1,)) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", info[:1], info[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def peer(measure):
    """The figure of ONNX Runtime, or None where it is not."""
    if importlib.util.find_spec("onnxruntime") is None or importlib.util.find_spec("onnx") is None:
        return None
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return measure(onnxruntime.InferenceSession(onnx_relu(), options, providers=["CPUExecutionProvider"]))


def run_us(session):
    name = session.get_outputs()[0].name
    return least_us("run(names, {'x': x})", run=session.run, names=[name], x=np.ones(1, "f"))


def binding_us(session):
    binding = session.io_binding()
    x, y = np.ones(1, "f"), np.zeros(1, "f")
    binding.bind_cpu_input("x", x)
    binding.bind_output(session.get_outputs()[0].name, "cpu", 0, np.float32, (1,), y.ctypes.data)
    return least_us("run(b)", run=session.run_with_iobinding, b=binding)


@row("InferenceSession.run, one operator", "µs", 3.0)
def session_run():
    return run_us(tenon.InferenceSession(ONE_OPERATOR)), peer(run_us)


@row("the same by IOBinding", "µs", 1.5)
def session_binding():
    return binding_us(tenon.InferenceSession(ONE_OPERATOR)), peer(binding_us)


CONVOLUTIONS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 64, 56, 56), "float32"), w: R.Tensor((64, 64, 3, 3), "float32")) -> R.Tensor((1, 64, 56, 56), "float32"):
%s
        return y7
"""


@row("two threads on one session, against one (peer: two processes)", "×", 1.9, "most")
def two_threads():
    """The machine may not give two runs twice the speed of one; processes of their own show what it gives."""
    body = "".join(f"        y{i} = R.nn.relu(R.nn.conv2d({'x' if i == 0 else f'y{i - 1}'}, w, padding=[1, 1, 1, 1]))\n"
                   for i in range(8))
    options = tenon.SessionOptions()
    options.intra_op_num_threads = 1
    session = tenon.InferenceSession((CONVOLUTIONS % body).encode(), options)
    rng = np.random.default_rng(0)
    feed = {"x": rng.standard_normal((1, 64, 56, 56)).astype("f"),
            "w": (rng.standard_normal((64, 64, 3, 3)) / 24).astype("f")}
    session.run(None, feed)

    def rate(seconds=1.0):
        runs, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            session.run(None, feed)
            runs += 1
        return runs / (time.perf_counter() - start)

    def of_threads(n):
        rates = []
        workers = [threading.Thread(target=lambda: rates.append(rate())) for _ in range(n)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        return sum(rates)

    def of_processes(n):
        pipes = []
        for _ in range(n):
            read, write = os.pipe()
            pid = os.fork()
            if not pid:
                os.write(write, str(rate()).encode())
                os._exit(0)
            pipes.append((read, pid))
        total = 0.0
        for read, pid in pipes:
            total += float(os.read(read, 99))
            os.waitpid(pid, 0)
        return total

    def ratio(of):
        return max(of(2) for _ in range(3)) / max(of(1) for _ in range(3))
    return ratio(of_threads), ratio(of_processes)


# ---------------------------------------------------------------- start
def child_ms(code, tries=9):
    """Milliseconds that a fresh interpreter says `code` took."""
    script = f"import time\nbegin = time.perf_counter()\n{code}\nprint((time.perf_counter() - begin) * 1e3)"
    return min(float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True,
                                    text=True).stdout.split()[-1]) for _ in range(tries))


@row("import tenon", "ms", 60)
def import_time():
    return child_ms("import tenon")


@row("first result of digits from the cache, beyond NumPy's import", "ms", 150)
def first_result():
    with tempfile.TemporaryDirectory() as cache:
        code = (f"import numpy\nbegin = time.perf_counter()\nimport tenon\nex = tenon.compile({DIGITS!r}, cache={cache!r})\n"
                "ex(numpy.zeros([d if isinstance(d, int) else 1 for d in ex.inputs[0][2]], 'f'))")
        child_ms(code, 1)
        return child_ms(code)


# ---------------------------------------------------------------- signals
@row("end of a compilation behind Ctrl-C", "ms", 1000)
def interrupt():
    layers = "".join(f"        y{i} = R.nn.relu(R.nn.conv2d({'x' if i == 0 else f'y{i - 1}'}, w{i}, padding=[1, 1, 1, 1]))\n"
                     for i in range(60))
    weights = ", ".join(f'w{i}: R.Tensor((64, 64, 3, 3), "float32")' for i in range(60))
    text = (f'@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((1, 64, 28, 28), "float32"), {weights}):\n'
            f"{layers}        return y59\n")
    code = (f"import tenon\nprint('begun', flush=True)\nwhile True:\n    tenon.compile({text.encode()!r})\n")
    slowest = 0.0
    for pause in (0.6, 1.2, 2.1, 3.3):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        child.stdout.readline()
        time.sleep(pause)
        start = time.perf_counter()
        child.send_signal(signal.SIGINT)
        child.wait()
        slowest = max(slowest, (time.perf_counter() - start) * 1e3)
    return slowest


# ---------------------------------------------------------------- memory
@row("growth by 10⁶ calls, objects and errors of both sides", "KB", 1024)
def growth():
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tests/python')!r}); import growth; print(growth.grown(10**6, 10**6))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return sum(json.loads(out).values())


# ---------------------------------------------------------------- parsing
def long_module(lines):
    """A decorated module of about so many lines."""
    functions = []
    for k in range(lines // 10):
        functions.append(f"""
    @T.prim_func
    def f{k}(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32")):
        for i, j in T.grid(64, 32):
            with T.block("B"):
                vi = T.axis.spatial(64, i)
                vj = T.axis.spatial(32, j)
                B[vi, vj] = T.max(A[vi, vj] * T.float32({k}), T.float32(0))
                """)
    return "@I.ir_module\nclass Module:" + "\n".join(functions)


@row("a decorated module of 10,000 lines, against its text alone", "×", 1.3)
def parse():
    text = long_module(10000)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "long_module.py")
        with open(path, "w") as file:
            file.write("from tenon.script import ir as I, tir as T\n\n" + text + "\n")
        load = f"""
import tenon
tenon.parse("@T.prim_func\\ndef main(A: T.Buffer((4,), 'float32')):\\n    A[0] = T.float32(0)\\n")
text = open({path!r}).read()
code = compile(text, {path!r}, "exec")  # Python keeps it for the next import
begin = time.perf_counter()
"""
        plain = child_ms(load + "tenon.get_global_func('ir.verify')(tenon.parse(text))")
        return child_ms(load + "exec(code, {'__name__': 'long_module'})") / plain


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="rows whose words contain this")
    options.add_argument("--json", help="a file for the figures")
    options = options.parse_args()
    figures = []
    print(f"{'':66} {'measured':>9} {'bar':>8} {'peer':>8}")
    for what, unit, bar, better, f in ROWS:
        if options.only not in what:
            continue
        found = f()
        value, other = found if isinstance(found, tuple) else (found, None)
        good = value <= bar if better == "least" else value >= bar
        figures.append({"what": what, "unit": unit, "value": value, "bar": bar, "met": good, "peer": other})
        print(f"{what:66} {value:9.3f} {bar:8} {'' if other is None else format(other, '8.3f'):>8} {unit}"
              f"{'' if good else '  MISSED'}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
