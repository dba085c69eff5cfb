#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of the compiler itself: every pass on programs of 1, 10 and 100 times the size, and a model of 200 operators.

    bench/compile_speed.py --tenon build/release/bin/tenon [--small] [--only graph|sizes|tensor|device|optional|model]

Each pass of `tenon opt --list` runs in the order of its list; its processor time at each size is printed with the
exponent of the growth between the last two sizes (1: linear, 2: quadratic; the bench fails above 1.5 where a pass takes
more than 50 ms: n log n is 1.1 here, and memory that fits the caches less adds up to 0.3). Graphs are larger, since one
of 4,000 operators lies in a cache as a whole: from there to 40,000 even one walk over all nodes grows by 1.7. `sizes` are
graphs on symbolic sizes, whose operators become several bindings each. `load` is the parser, `print` the printer. The
model is compiled on one thread: the processor time that `--time-passes` reports, LLVM and the linker apart, is to stay
below 2 seconds. Everything is standard library."""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

EXPONENT, SMALLEST_MS, MODEL_MS = 1.5, 50, 2000
HEAD = "@I.ir_module\nclass Module:\n"


def tensor_program(n):
    """n statements: blocks, reductions, vector, unrolled and parallel loops, conditions, names."""
    lines = [HEAD + "    @T.prim_func", '    def main(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")):']
    kinds = [
        ["for i in range(4):", '    with T.block("b{k}"):', "        v = T.axis.spatial(4, i)", "        y[{at} + v] = x[{at} + v] * T.float32({c})"],
        ["for i in T.vectorized(8):", "    y[{at} + i] = x[{at} + i] + T.float32({c})"],
        ["for i in T.unroll(2):", "    y[{at} + i] = y[{at} + i] + x[{at}]"],
        ["if x[{at}] > T.float32({c}):", "    y[{at}] = T.float32(1)"],
        ["y[{at}] = y[{at}] + x[{at} + 1] * T.float32({c})"],
        ["for i in T.parallel(4):", "    for j in range(2):", "        if i * 2 + j < 7:", "            y[{at} + i * 2 + j] = x[{at} + i] * T.float32({c})"],
    ]
    for k in range(n):
        for line in kinds[k % len(kinds)]:
            lines.append("        " + line.format(k=k, at=k % 4000, c=k % 13 + 1))
    return "\n".join(lines) + "\n"


def device_program(n):
    """n statements of threads, in kernels of some ten each, through shared memory."""
    lines = [HEAD + "    @T.prim_func", '    def main(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")):']
    each = 10
    for k in range(max(1, n // each)):
        lines += ['        for b in T.thread_binding(2, thread="blockIdx.x"):',
                  '            for t in T.thread_binding(32, thread="threadIdx.x"):',
                  '                S = T.allocate((32,), "float32", scope="shared")']
        for j in range(each // 2):
            lines += [f"                S[t] = x[b * 32 + t + {(k * each + j) % 4000}]",
                      f"                y[b * 32 + t + {(k * each + j) % 4000}] = S[31 - t] * T.float32({j + 1})"]
    return "\n".join(lines) + "\n"


def graph_program(n):
    """A chain of n operators that fuse in groups, products of matrices between them."""
    lines = [HEAD + "    @R.function", '    def main(x: R.Tensor((4, 16), "float32"), w: R.Tensor((16, 16), "float32"), b: R.Tensor((16,), "float32")) -> R.Tensor((4, 16), "float32"):']
    kinds = ["R.matmul(v{p}, w)", "R.add(v{p}, b)", "R.nn.relu(v{p})", "R.multiply(v{p}, b)", "R.tanh(v{p})"]
    for k in range(n):
        value = kinds[k % len(kinds)].format(p=k - 1)
        lines.append(f"        v{k} = " + (value.replace("v-1", "x")))
    lines.append(f"        return v{n - 1}")
    return "\n".join(lines) + "\n"


def symbolic_program(n):
    """A chain of n operators on sizes that only the run tells: match_casts that bring symbols, sums that check them."""
    lines = [HEAD + "    @R.function", '    def main(x: R.Tensor(("m",), "float32"), y: R.Tensor(ndim=1, dtype="float32")):']
    kinds = ['R.match_cast(v{p}, R.Tensor(("n{k}",), "float32"))', "R.nn.relu(v{p})", "R.add(v{p}, y)", 'R.reshape(v{p}, R.shape(["m"]))', "R.multiply(v{p}, x)"]
    for k in range(n):
        lines.append(f"        v{k} = " + kinds[k % len(kinds)].format(p=k - 1, k=k).replace("v-1", "y"))
    lines.append(f"        return v{n - 1}")
    return "\n".join(lines) + "\n"


def model_program(operators=200):
    """Products of different shapes, each with bias and activation, softmax and normalisations between: no two alike."""
    rows, width, lines, params = 32, 48, [], ['x: R.Tensor((32, 48), "float32")']
    value, k = "x", 0

    def emit(expression):
        nonlocal value, k
        lines.append(f"        v{k} = {expression}")
        value = f"v{k}"
        k += 1

    layer = 0
    while k < operators:
        out = 48 + layer % 37 * 3
        params += [f'w{layer}: R.Tensor(({width}, {out}), "float32")', f'b{layer}: R.Tensor(({out},), "float32")']
        emit(f"R.matmul({value}, w{layer})")
        emit(f"R.add({value}, b{layer})")
        emit(["R.nn.relu({})", "R.sigmoid({})", "R.tanh({})", "R.nn.softmax({})"][layer % 4].format(value))
        emit(f"R.multiply({value}, b{layer})")
        width, layer = out, layer + 1
    head = f'    def main({", ".join(params)}) -> R.Tensor(({rows}, {width}), "float32"):'
    return "\n".join([HEAD + "    @R.function", head, *lines, f"        return {value}"]) + "\n"


class Bench:
    def __init__(self, tenon, folder, judge):
        self.tenon, self.folder, self.judge, self.failed = tenon, folder, judge, False
        reply = json.loads(self.run("opt", "--list", "--json"))
        self.lists = {name: [n for c in chapters for n in c["on_request"] + c["passes"]] for name, chapters in reply["pipelines"].items()}
        listed = {n for names in self.lists.values() for n in names}
        self.lists["optional"] = [p["name"] for p in reply["passes"] if p["kind"] == "tensor" and p["name"] not in listed]

    def run(self, *arguments):
        done = subprocess.run([self.tenon, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"tenon {' '.join(map(str, arguments[:6]))} …: {done.stderr[-2000:]}")
        return done.stdout

    def file(self, text):
        path = self.folder / "program.tir"
        path.write_text(text)
        return path

    def passes(self, kind, pipeline, make, sizes):
        names = self.lists[pipeline]
        tables = []
        for size in sizes:
            start = time.monotonic()
            arguments = [a for n in names for a in ("--pass", n)]
            reply = json.loads(self.run("opt", self.file(make(size)), *arguments, "--time-passes", "--json"))
            times = {}
            for p in reply["passes"]:
                times[p["name"]] = times.get(p["name"], 0) + p["ms"]
            tables.append(times)
            print(f"{kind}: {size} statements in {time.monotonic() - start:.1f} s", flush=True)
        print(f"{'pass':<34}" + "".join(f"{n:>11}" for n in sizes) + "   exponent")
        for name in tables[-1]:
            ms = [t.get(name, 0) for t in tables]
            exponent = math.log(max(ms[-1], 1e-3) / max(ms[-2], 1e-3)) / math.log(sizes[-1] / sizes[-2])
            slow = self.judge and exponent > EXPONENT and ms[-1] > SMALLEST_MS
            self.failed |= slow
            print(f"{name:<34}" + "".join(f"{t:>9.1f}ms" for t in ms) + f"   {exponent:5.2f}{'  TOO STEEP' if slow else ''}")
        print(flush=True)

    def model(self):
        reply = json.loads(self.run("compile", self.file(model_program()), "-o", self.folder / "model.so", "--threads", 1, "--time-passes", "--json"))
        theirs = {"llvm", "link"}
        ours = sum(p["ms"] for p in reply["passes"] if p["name"] not in theirs)
        print("200 operators, one thread:")
        for p in sorted(reply["passes"], key=lambda p: -p["ms"])[:12]:
            print(f"{p['ms']:>10.1f} ms  {p['name']}")
        others = ", ".join(f"{p['name']} {p['ms']:.0f} ms" for p in reply["passes"] if p["name"] in theirs)
        print(f"the compiler's own share {ours:.0f} ms of {reply['compile_ms']:.0f} ms ({others}); at most {MODEL_MS} ms")
        self.failed |= ours > MODEL_MS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", type=pathlib.Path, required=True)
    parser.add_argument("--small", action="store_true", help="a tenth of the sizes; the growth is not judged")
    parser.add_argument("--only", choices=["graph", "sizes", "tensor", "device", "optional", "model"])
    options = parser.parse_args()
    unit = 100 if options.small else 1000
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.tenon.resolve(), pathlib.Path(folder), judge=not options.small)
        for kind, pipeline, make, sizes in [
                ("tensor", "tensor", tensor_program, [unit, 10 * unit, 100 * unit]),
                ("optional", "optional", tensor_program, [unit, 10 * unit, 100 * unit]),
                ("device", "device", device_program, [unit, 10 * unit, 100 * unit]),
                ("graph", "graph", graph_program, [4 * unit, 40 * unit, 400 * unit]),
                ("sizes", "graph", symbolic_program, [unit, 10 * unit, 100 * unit])]:
            if options.only in (None, kind):
                bench.passes(kind, pipeline, make, sizes)
        if options.only in (None, "model"):
            bench.model()
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
