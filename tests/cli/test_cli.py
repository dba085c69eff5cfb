#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command as people and programs use it: verbs, values, JSON keys, errors, exit codes. Standard library only.

Run by ctest: test_cli.py TENON SOURCE-DIR"""
import array
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
from support import Command as Case, DIGITS, LINKS_THE_RUNTIME, MODULE, SANITIZED, SHARED, SOURCE, TENON, npy, read_floats, tenon  # noqa: E402


PRODUCT = """@I.ir_module
class Module:
    @T.prim_func
    def product(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
        for i, j, k in T.grid(64, 64, 64):
            with T.block("c"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


class Command(Case):
    def test_help_fits_a_screen(self):
        for verb in ("", "run", "compile", "bench", "compare", "inspect", "extract", "opt", "ops", "doctor"):
            text = self.ok(*([verb] if verb else []), "--help")
            self.assertIn("Example:", text)
            self.assertLessEqual(len(text.splitlines()), 40, verb)

    def test_run_text_module(self):
        npy(self.tmp / "x.npy", (2, 3), [1, -2, 3, -4, 5, -6])
        self.ok("run", self.module, "-i", f"x=@{self.tmp}/x.npy", "-i", "y=[[1,1,1],[2,2,2]]", "-o", self.tmp / "out")
        self.assertEqual(read_floats(self.tmp / "out" / "output_0.npy"), [2, 0, 4, 0, 7, 0])
        listed = json.loads((self.tmp / "out" / "outputs.json").read_text())
        self.assertEqual([(o["dtype"], o["shape"], o["file"]) for o in listed], [("float32", [2, 3], "output_0.npy")])

    def test_devices_and_pipes_are_written_to(self):
        pipe = self.tmp / "pipe"
        os.mkfifo(pipe)
        for arguments, start in [(("opt", self.module), b"@I.ir_module"), (("compile", self.module), b"\x7fELF")]:
            reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
            self.ok(*arguments, "-o", pipe)
            self.assertTrue(pipe.is_fifo())
            self.assertEqual(reader.communicate(timeout=60)[0][:len(start)], start)

    def test_run_from_standard_input(self):
        result = json.loads(self.ok("run", "-", "--json", "-i", "x=2x3xf32=1.5", "-i", "y=2x3xf32=-0.5", stdin=MODULE))
        self.assertEqual(result["outputs"][0]["summary"]["min"], 1.0)

    def test_value_kinds(self):
        (self.tmp / "x.bin").write_bytes(struct.pack("<6f", *range(6)))
        result = json.loads(self.ok("run", self.module, "--json", "-i", f"x=2x3xf32=@{self.tmp}/x.bin", "-i", "y=2x3xf32=0"))
        self.assertEqual(result["outputs"][0]["summary"]["max"], 5.0)
        scalars = "@R.function\ndef main(c: R.Tensor((), 'bool'), n: R.Tensor((), 'int64')):\n    y = R.where(c, n, R.const(7, 'int64'))\n    return y\n"
        for c, n, y in [("true", 2**53 + 1, 2**53 + 1), ("false", 5, 7), ("i1=true", 6, 6)]:
            result = json.loads(self.ok("run", "-", "--json", "-i", f"c={c}", "-i", f"n={n}", stdin=scalars))
            self.assertEqual(result["outputs"][0]["summary"]["max"], float(y))
        self.refused(2, "run", "-", "-i", "c=true", "-i", "n=1.5", stdin=scalars, words=["1.5", "int64"])
        self.refused(2, "run", "-", "-i", "c=true", "-i", "n=i8=300", stdin=scalars, words=["300", "int8"])
        one, two = (json.loads(self.ok("run", self.module, "--json", "--seed", seed))["outputs"] for seed in (1, 2))
        self.assertNotEqual(one, two)
        self.assertEqual(one, json.loads(self.ok("run", self.module, "--json", "--seed", 1))["outputs"])

    def test_results_that_are_no_tensors(self):
        module = '''
@I.ir_module
class Module:
    @I.data_type
    class List[A]:
        Nil: ()
        Cons: (A, List[A])
    @I.data_type
    class Option[A]:
        Nothing: ()
        Some: A
    @I.data_type
    class Tree[A]:
        Leaf: ()
        Node: (Tree[A], A, Tree[A])
    @R.function
    def main(x: R.Tensor((2,), "float32"), n: R.Tensor((), "int64")):
        more = R.less(n, R.const(3, "int64"))
        if more:
            o = Some(Cons(n, Cons(R.add(n, n), Nil())))
        else:
            o = Nothing()
        t = Node(Leaf(), x, Node(Leaf(), R.negative(x), Leaf()))
        return (o, (t, R.shape_of(x), x))
'''
        inputs = ["-i", "x=[1.5,2]"]
        shown = self.ok("run", "-", *inputs, "-i", "n=2", stdin=module)
        self.assertIn("(Some(List[2, 4]), (Node(Leaf(), [1.5, 2], Node(Leaf(), [-1.5, -2], Leaf())), [2], [1.5, 2]))", shown)
        artifact = self.tmp / "m.so"
        (self.tmp / "m.tir").write_text(module)
        self.ok("compile", self.tmp / "m.tir", "-o", artifact)
        reply = json.loads(self.ok("run", artifact, *inputs, "-i", "n=5", "--json"))
        self.assertEqual(reply["result"], [{"Nothing": []}, [{"Node": [{"Leaf": []}, [1.5, 2.0], {"Node": [{"Leaf": []}, [-1.5, -2.0], {"Leaf": []}]}]}, [2], [1.5, 2.0]]])
        self.refused(2, "run", artifact, *inputs, "-i", "n=5", "-o", self.tmp / "out", words=["T0930"])

    def test_inputs_that_are_no_tensors(self):
        shaped = "@R.function\ndef main(x: R.Tensor((n,), 'float32'), s: R.Shape(ndim=2)):\n    y = R.reshape(x, s)\n    return R.add(y, y)\n"
        result = json.loads(self.ok("run", "-", "--json", "-i", "x=6xf32=1", "-i", "s=[2,3]", stdin=shaped))
        self.assertEqual((result["outputs"][0]["shape"], result["outputs"][0]["summary"]["mean"]), ([2, 3], 2.0))
        self.refused(3, "run", "-", "-i", "x=6xf32=1", "-i", "s=[4,3]", stdin=shaped, words=["T0501"])
        counted = "@R.function\ndef main(n: R.Prim('int64')):\n    return R.arange(R.prim_value(0), n, R.prim_value(1), dtype='int64')\n"
        self.assertEqual(json.loads(self.ok("run", "-", "--json", "-i", "n=4", stdin=counted))["outputs"][0]["summary"]["max"], 3.0)
        some = "@I.ir_module\nclass Module:\n    @I.data_type\n    class Option[A]:\n        Nothing: ()\n        Some: A\n    @R.function\n    def main(o: cls.Option[R.Tensor((2,), 'float32')]):\n        match o:\n            case Some(v):\n                r = v\n            case Nothing():\n                r = R.const([0.0, 0.0], 'float32')\n        return r\n"
        path = self.tmp / "option.tir"
        path.write_text(some)
        for value, want in (("Some(R.const([1.0, 2.0], 'float32'))", [1.0, 2.0]), ("Nothing()", [0.0, 0.0])):
            result = json.loads(self.ok("run", path, "--json", "-i", "o=" + value))
            self.assertEqual(result["outputs"][0]["value"], want)
        self.refused(2, "run", path, words=["T0913", "Option", "must be given"])
        self.refused(3, "run", path, "-i", "o=Some(1", words=["T02", "<value>"])
        self.refused(3, "run", path, "-i", "o=Some(R.const([1.0], 'float32'))", words=["T1105"])

    def test_inputs_that_are_tuples_are_given_in_parts(self):
        module = '''
@R.function
def main(x: R.Tensor((n,), "float32"), p: R.Tuple(R.Tensor((n,), "float32"), R.Tuple(R.Shape(ndim=2), R.Tensor((), "float32")), R.Prim("int64"))):
    a, b, k = p
    s, c = b
    y = R.add(R.add(x, a), c)
    return (R.reshape(y, s), p)
'''
        given = ["-i", "x=4xf32=1", "-i", "p_0=[1,2,3,4]", "-i", "p_1_0=[2,2]", "-i", "p_1_1=0.5", "-i", "p_2=7"]
        def values(reply):
            outputs = json.loads(reply)["outputs"]
            return [(o["name"], o["shape"], o["summary"]["max"]) for o in outputs]
        want = [("output_0", [2, 2], 5.5), ("output_1", [4], 4.0), ("output_2", [2], 2.0), ("output_3", [], 0.5), ("output_4", [], 7.0)]
        self.assertEqual(values(self.ok("run", "-", "--json", *given, stdin=module)), want)
        self.assertEqual(values(self.ok("run", "-", "--json", "--verify", *given, stdin=module)), want)
        (self.tmp / "m.tir").write_text(module)
        self.ok("compile", self.tmp / "m.tir", "-o", self.tmp / "m.so")
        self.assertEqual(values(self.ok("run", self.tmp / "m.so", "--json", *given)), want)
        self.ok("compare", self.tmp / "m.tir", "--against", "interpreter", *given)
        # A size that one part tells holds for the others, wherever they are.
        self.assertEqual(json.loads(self.ok("run", self.tmp / "m.tir", "--json", "-i", "p_0=[1,2,3,4]", "-i", "p_1_0=[4,1]"))["outputs"][0]["shape"], [4, 1])
        self.refused(2, "run", self.tmp / "m.tir", "-i", "p=[1,2]", words=["T0912", "`p`", "p_1_0"])
        self.refused(2, "run", self.tmp / "m.tir", *given, "-i", "x=3xf32=1", words=["T0505"])
        # A function that calls itself keeps its tuple.
        loop = '''
@R.function
def main(p: R.Tuple(R.Tensor((), "int64"), R.Tensor((), "int64"))) -> R.Tensor((), "int64"):
    n, s = p
    if R.less(R.const(0, "int64"), n):
        r = main((R.subtract(n, R.const(1, "int64")), R.add(s, n)))
    else:
        r = s
    return r
'''
        self.assertEqual(json.loads(self.ok("run", "-", "--json", "-i", "p_0=4", "-i", "p_1=5", stdin=loop))["outputs"][0]["summary"]["max"], 15.0)

    def test_references_as_results_are_refused_where_they_stand(self):
        module = "@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n    @R.function\n    def f(v: R.Tensor((2,), 'float32')):\n        return R.add(v, x)\n    return (x, f)\n"
        self.assertIn("Closure", self.ok("run", "-", stdin=module))
        cell = "@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n    c = R.ref_create(x)\n    return c\n"
        self.refused(3, "run", "-", stdin=cell, words=["T0820", "R.ref_read"])

    def test_proofs(self):
        module = self.tmp / "gather.tir"
        module.write_text(
            "@T.prim_func\n"
            'def gather(A: T.Buffer((6,), "float32"), I: T.Buffer((8,), "int64"), B: T.Buffer((8,), "float32")):\n'
            "    for i in T.parallel(8):\n"
            "        B[i] = A[I[i]]\n"
            "    for j in T.parallel(4):\n"
            "        B[T.max(T.min(I[j], 7), 0)] = T.float32(1)\n"
        )
        text = self.ok("inspect", module, "--proofs")
        self.assertIn("index 0 of buffer `A`", text)
        self.assertIn("checked, as data decide it", text)
        open_proofs = json.loads(self.ok("inspect", module, "--proofs", "--json"))["kernels"][0]["open"]
        self.assertEqual([(o["kind"], o["end"]) for o in open_proofs], [("loop", "serial"), ("access", "data")])
        self.assertTrue(open_proofs[1]["where"].endswith("gather.tir:4:9"))

    def test_strategies(self):
        module = self.tmp / "dense.tir"
        module.write_text(
            "@R.function\n"
            'def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32")):\n'
            "    return R.nn.softmax(R.nn.dense(x, w))\n"
        )
        text = self.ok("inspect", module, "--strategies", "--target", "llvm -mcpu=x86-64-v3")
        self.assertIn("nn.dense: dense.sum, priority 5", text)
        self.assertIn("not dense.panels, priority 10: 4 columns are no whole panels of 16", text)
        self.assertIn("not dense.cblas, priority 15: the target does not name the library `cblas`", text)
        self.assertIn("nn.softmax: softmax.default, priority 10: its only implementation", text)
        # With a library in the target both forms are run; which one is faster is not the test's business.
        said = tenon("inspect", module, "--strategies", "--json", "--target", "llvm -libs=cblas")
        if said.returncode:
            self.assertIn("T3010", said.stderr)  # no BLAS here
            return
        dense = [c for c in json.loads(said.stdout)["calls"] if c["operator"] == "nn.dense"][0]
        self.assertRegex(dense["why"], r"^`dense.cblas` takes [0-9.e-]+ ms, the compiler's own code [0-9.e-]+ ms$")
        names = {dense["chosen"]} | {r["name"] for r in dense["rejected"]}
        self.assertLessEqual({"dense.cblas", "dense.panels", "dense.sum"}, names)
        self.assertEqual(dense.get("library", "none"), {"dense.cblas": "cblas"}.get(dense["chosen"], "none"))

    def test_json_keys(self):
        self.assertLessEqual({"outputs", "compile_ms", "run_ms"}, json.loads(self.ok("run", DIGITS, "--json")).keys())
        compiled = json.loads(self.ok("compile", DIGITS, "-o", self.tmp / "d.so", "--json"))
        self.assertLessEqual({"output", "bytes", "compile_ms", "peak_rss_bytes", "passes"}, compiled.keys())
        self.assertEqual(compiled["bytes"], (self.tmp / "d.so").stat().st_size)
        bench = json.loads(self.ok("bench", self.tmp / "d.so", "--json", "--repeat", 5, "--kernels", "--threads", 1))
        self.assertLessEqual({"threads", "latency_ms", "compile_ms", "load_ms", "peak_rss_bytes", "weights_bytes", "arena_bytes", "kernels"}, bench.keys())
        self.assertEqual(bench["latency_ms"].keys(), {"min", "median", "p90", "p99", "mean", "runs"})
        self.assertEqual(bench["latency_ms"]["runs"], 5)
        self.assertAlmostEqual(sum(k["share"] for k in bench["kernels"]), 1, places=6)
        for kernel in bench["kernels"]:
            self.assertLessEqual({"name", "ms", "share", "flop", "bytes", "share_of_limit"}, kernel.keys())
        # Constants are mapped, and nothing of the compiler is loaded.
        if not SANITIZED:
            self.assertLess(bench["peak_rss_bytes"], 1.25 * (bench["weights_bytes"] + bench["arena_bytes"]) + 25e6)
        inspected = json.loads(self.ok("inspect", DIGITS, "--json"))
        self.assertLessEqual({"inputs", "outputs", "operators", "parameters", "flop"}, inspected.keys())
        self.assertEqual(inspected["operators"]["Conv"], 2)
        self.assertEqual(inspected["inputs"][0]["shape"], ["batch", 1, 8, 8])
        artifact = json.loads(self.ok("inspect", self.tmp / "d.so", "--json"))
        self.assertEqual(artifact["inputs"][0]["name"], "image")
        bytecode = json.loads(self.ok("inspect", self.tmp / "d.so", "--bytecode", "--json"))["bytecode"]
        self.assertRegex(bytecode, r"^function main\(image: float32\(batch, 1, 8, 8\)\) -> ")
        self.assertRegex(bytecode, r"(?m)^ +\d+  kernel fused_conv2d\w*\(.*r0")
        self.assertRegex(bytecode, r"(?m)^  c0 = float32\(.*\) hash [0-9a-f]{16}$")
        self.refused(2, "inspect", DIGITS, "--bytecode", words=["T0921", "tenon compile"])
        self.assertIn("operators", json.loads(self.ok("ops", "--json")))
        self.assertLessEqual({"cpu", "limits", "devices"}, json.loads(self.ok("doctor", "--json")).keys())

    def test_kernels_beside_what_the_machine_reaches(self):
        n = 256
        module = self.tmp / "product.tir"
        module.write_text(MODULE.replace("(2, 3)", f"({n}, {n})").replace("R.add(x, y)", "R.matmul(x, y)"))
        self.ok("compile", module, "-o", self.tmp / "product.so")
        for model in (module, self.tmp / "product.so"):
            bench = json.loads(self.ok("bench", model, "--json", "--repeat", 5, "--kernels", "--threads", 1))
            (kernel,) = [k for k in bench["kernels"] if k["flop"]]
            self.assertEqual(kernel["flop"], 2 * n**3 + n * n)  # products, sums, and the maximum of relu
            self.assertEqual(kernel["bytes"], 3 * 4 * n * n)
            self.assertEqual(kernel["limit"], "arithmetic")
            self.assertGreater(kernel["share_of_limit"], 0)  # how large depends on what else the machine does
        self.assertEqual(json.loads(self.ok("inspect", self.tmp / "product.so", "--json"))["flop"], 2 * n**3 + n * n)

    def test_machine_limits_make_sense(self):
        doctor = json.loads(self.ok("doctor", "--json"))
        limits = doctor["limits"]
        # Bounds that hold on a busy machine too: what is measured there falls to a share of the real limit.
        for name in ("clock_ghz", "fma_vectors_per_cycle", "l2_read_gbytes_one_thread", "memory_read_gbytes_one_thread"):
            self.assertGreater(limits[name], 0, name)
            self.assertLess(limits[name], 1e5, name)
        self.assertLessEqual({"kind", "cpu", "features", "vector_bits", "vector_registers", "l1d_bytes", "l2_bytes", "cores", "fma"}, doctor["cpu"].keys())

    def test_artifact_gives_the_compiled_result(self):
        self.ok("compile", DIGITS, "-o", self.tmp / "d.so")
        direct = json.loads(self.ok("run", DIGITS, "--dim", "batch=3", "--json"))
        loaded = json.loads(self.ok("run", self.tmp / "d.so", "--dim", "batch=3", "--json"))
        self.assertEqual(direct["outputs"][0]["shape"], [3, 10])
        self.assertEqual(loaded["outputs"][0]["shape"], [3, 10])
        self.assertAlmostEqual(direct["outputs"][0]["summary"]["max"], loaded["outputs"][0]["summary"]["max"], places=5)

    def test_several_dims(self):
        symbolic = self.tmp / "symbolic.tir"
        symbolic.write_text(MODULE.replace("(2, 3)", '("n", "m")'))
        self.ok("compile", symbolic, "-o", self.tmp / "s.so")
        for model in (symbolic, self.tmp / "s.so"):
            for words in ((model, "--dim", "n=4", "--dim", "m=5"), ("--dim", "n=4", "--dim", "m=5", model)):
                self.assertEqual(json.loads(self.ok("run", *words, "--json"))["outputs"][0]["shape"], [4, 5])
                self.assertEqual(json.loads(self.ok("bench", *words, "--json", "--repeat", 2))["latency_ms"]["runs"], 2)

    def test_inputs_are_bound(self):
        ones = self.tmp / "ones.npy"
        npy(ones, (2, 3), [1.0] * 6)
        for value in (f"@{ones}", "2x3xf32=1"):
            done = self.ok("run", self.module, "--bind", f"y={value}", "-i", "x=2x3xf32=2", "--json")
            self.assertEqual(json.loads(done)["outputs"][0]["summary"]["max"], 3)
        self.assertIn("ok", self.ok("compare", self.module, "--bind", f"y=@{ones}", "--against", "interpreter"))
        artifact = self.tmp / "bound.so"
        self.ok("compile", self.module, "--bind", f"y=@{ones}", "-o", artifact)
        facts = json.loads(self.ok("inspect", artifact, "--json"))
        self.assertEqual([i["name"] for i in facts["inputs"]], ["x"])
        self.assertEqual(facts["metadata"]["bound_input.y"], "float32(2, 3) [1, 1, 1, 1, 1, 1]")
        self.ok("inspect", self.module, "--bind", f"y=@{ones}", "--memory")
        # Another value is another entry of the cache.
        for name, value in (("a", 1), ("b", 2), ("a", 1)):
            self.ok("compile", self.module, "--bind", f"y=2x3xf32={value}", "-o", self.tmp / f"{name}.so")
            done = self.ok("run", self.tmp / f"{name}.so", "-i", "x=2x3xf32=0", "--json")
            self.assertEqual(json.loads(done)["outputs"][0]["summary"]["max"], value)

    def test_what_cannot_be_bound_is_refused(self):
        artifact = self.tmp / "bound.so"
        self.ok("compile", self.module, "--bind", "y=2x3xf32=1", "-o", artifact)
        for arguments, code, words in (
                (("run", self.module, "--bind", "yy=2x3xf32=1"), "T0912", "did you mean `y`?"),
                (("run", self.module, "--bind", "y=2x3xf32=1", "-i", "y=2x3xf32=2"), "T0522",
                 "bound to 2x3xf32=1, and -i gives it 2x3xf32=2"),
                (("run", self.module, "--bind", "y=2x3xf32=1", "--bind", "y=2x3xf32=2"), "T0522", "bound twice"),
                (("run", artifact, "-i", "y=2x3xf32=2"), "T0522", "bound to float32(2, 3) [1, 1, 1, 1, 1, 1]"),
                (("run", artifact, "--bind", "x=2x3xf32=2"), "T0953", "this is an artifact"),
                (("compile", self.module, "--bind", "y=2x3xi64=1", "-o", self.tmp / "no.so"), "T0953", "int64(2, 3)")):
            done = tenon(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(code, done.stderr)
            self.assertIn(words, done.stderr)

    def test_compare_with_the_interpreter(self):
        result = json.loads(self.ok("compare", DIGITS, "--against", "interpreter", "--json", "--rtol", 1e-4, "--atol", 1e-6))
        self.assertTrue(result["passed"])
        self.assertEqual(result["outputs"][0].keys() & {"name", "max_abs", "max_rel", "mismatches"}, {"name", "max_abs", "max_rel", "mismatches"})
        failed = tenon("compare", DIGITS, "--against", "interpreter", "--rtol", 0, "--atol", 0, "--json")
        self.assertIn(failed.returncode, (0, 1))
        self.assertEqual(json.loads(failed.stdout)["passed"], failed.returncode == 0)

    def test_emit(self):
        for kind, sign in (("asm", ".globl"), ("llvm", "define"), ("c", "int32_t"), ("tir", "@T.prim_func"), ("dot", "digraph"), ("json", "arg_nodes")):
            self.ok("compile", self.module, "--emit", kind, "-o", self.tmp / "out.txt")
            self.assertIn(sign, (self.tmp / "out.txt").read_text(), kind)
        self.ok("compile", self.module, "--emit", "obj", "--emit-option", "prefix=net", "-o", self.tmp / "out.o")
        self.assertEqual((self.tmp / "out.o").read_bytes()[:4], b"\x7fELF")
        header = (self.tmp / "out.h").read_text()
        self.assertRegex(header, r"int32_t net_\w+\(void\* const\* buffers")
        if shutil.which("cc"):
            (self.tmp / "user.c").write_text('#include "out.h"\n#include "out.h"\n')
            subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", self.tmp / "user.c"], check=True)
        self.assertIn("define", self.ok("compile", self.module, "--emit", "llvm", "-o", "-"))

    def run_as_c(self, text, inputs, options=(), name="tenon"):
        """The module as C, through the strictest warnings of the compilers that are there; its first result as floats."""
        (self.tmp / "small.tir").write_text(text)
        args, files = [], []
        for k, (key, shape, values) in enumerate(inputs):
            npy(self.tmp / f"{key}.npy", shape, values)
            args += ["-i", f"{key}=@{self.tmp / key}.npy"]
            files.append(self.tmp / f"{key}.bin")
            files[-1].write_bytes(array.array("f", values).tobytes())
        self.ok("run", self.tmp / "small.tir", *args, "-o", self.tmp / "want")
        self.ok("compile", self.tmp / "small.tir", "--emit", "c", "-o", self.tmp / "small.c", *options)
        source = (self.tmp / "small.c").read_text()
        self.assertIn(f"int32_t {name}_run(", source)
        self.assertIn(f"int32_t {name}_run(", (self.tmp / "small.h").read_text())
        for word in ("malloc", "calloc", "free("):
            self.assertNotIn(word, source)
        want = read_floats(self.tmp / "want" / "output_0.npy")
        for compiler in ("gcc", "clang-22"):
            if not shutil.which(compiler):
                continue
            subprocess.run([compiler, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-DTENON_MAIN", self.tmp / "small.c", "-o",
                            self.tmp / "small", "-lm"], check=True)
            subprocess.run([self.tmp / "small", *files, self.tmp / "y.bin"], check=True)
            got = array.array("f", (self.tmp / "y.bin").read_bytes())
            self.assertEqual(len(got), len(want))
            for a, b in zip(got, want):
                self.assertAlmostEqual(a, b, places=5)
        return source

    @unittest.skipUnless(shutil.which("gcc"), "no C compiler")
    def test_c_of_branches_and_calls(self):
        text = """@I.ir_module
class Module:
    @R.function
    def soft(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        return R.nn.softmax(R.add(x, x), axis=-1)
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "float32")) -> R.Tensor((2, 3), "float32"):
        positive = R.greater(c, R.const(0.0, "float32"))
        a = Module.soft(x)
        if positive:
            y = Module.soft(a)
        else:
            y = R.negative(a)
        return R.add(a, y)
"""
        x = ("x", (2, 3), [0.1, 2.0, -1.0, 0.5, 0.25, 3.0])
        for c in (1.0, -1.0):
            source = self.run_as_c(text, [x, ("c", (), [c])], ["--emit-option", "prefix=net", "--emit-option", "alignment=128"], "net")
            self.assertIn("_Alignas(128)", source)
            self.assertNotIn("tenon_run(", source)

    @unittest.skipUnless(shutil.which("gcc"), "no C compiler")
    def test_c_of_loops(self):
        # States that change places, each in the arena.
        text = """@R.function
def main(x: R.Tensor((2, 3), "float32"), n: R.Tensor((), "float32")) -> R.Tensor((2, 3), "float32"):
    z = R.negative(x)
    @R.loop(x, z, n)
    def s(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32"), k: R.Tensor((), "float32")):
        with R.condition():
            return R.greater(k, R.const(0.0, "float32"))
        c = R.add(a, R.nn.softmax(b, axis=-1))
        return (b, c, R.subtract(k, R.const(1.0, "float32")))
    return R.add(R.multiply(s[0], R.const(2.0, "float32")), s[1])
"""
        # States inside a tuple, which are held in registers, and results of a function: memory that is still read is not used anew.
        held = """@I.ir_module
class Module:
    @R.function
    def soft(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        return R.nn.softmax(R.add(x, x), axis=-1)
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), n: R.Tensor((), "float32")) -> R.Tensor((2, 3), "float32"):
        z = R.negative(x)
        t = (x, z)
        @R.loop(t, n)
        def s(p: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32")), k: R.Tensor((), "float32")):
            with R.condition():
                return R.greater(k, R.const(0.0, "float32"))
            c = R.add(p[0], Module.soft(p[1]))
            return ((p[1], c), R.subtract(k, R.const(1.0, "float32")))
        q = s[0]
        return R.add(R.multiply(q[0], R.const(2.0, "float32")), q[1])
"""
        x = ("x", (2, 3), [0.1, 2.0, -1.0, 0.5, 0.25, 3.0])
        for n in (0.0, 1.0, 5.0):
            self.run_as_c(text, [x, ("n", (), [n])])
            self.assertIn("tenon_unused(", self.run_as_c(held, [x, ("n", (), [n])]))

    def test_c_says_why_there_is_no_function(self):
        text = """@R.function
def main(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
    return R.nn.relu(x)
"""
        (self.tmp / "free.tir").write_text(text)
        self.refused(3, "compile", self.tmp / "free.tir", "--emit", "c", "-o", self.tmp / "free.c", words=["T0924", "symbolic size"])
        self.ok("compile", self.tmp / "free.tir", "--emit", "c", "-o", self.tmp / "free.c", "--emit-option", "entry=none")
        self.assertNotIn("tenon_run(", (self.tmp / "free.c").read_text())
        self.ok("compile", self.tmp / "free.tir", "--emit", "c", "-o", self.tmp / "free.c", "--system-lib", "free")
        self.assertIn("No free_run: ", (self.tmp / "free.c").read_text())
        self.refused(2, "compile", self.module, "--emit", "c", "--emit-option", "aligment=64", "-o", "-", words=["T0970", "did you mean `alignment`"])
        self.refused(2, "compile", self.module, "--emit", "c", "--emit-option", "alignment=48", "-o", "-", words=["T0970", "power of two"])
        self.refused(2, "compile", self.module, "--emit", "asm", "--emit-option", "alignment=64", "-o", "-", words=["T0970", "it has none"])

    def test_other_processors(self):
        for arch, machine in (("aarch64", 183), ("riscv64", 243)):
            self.ok("compile", self.module, "--target", f"llvm -mtriple={arch}-linux-gnu", "-o", self.tmp / "other.so")
            self.assertEqual((self.tmp / "other.so").read_bytes()[18], machine)
            self.refused(3, "run", self.tmp / "other.so", words=["another kind of machine"])
            self.refused(3, "run", self.module, "--target", f"llvm -mtriple={arch}-linux-gnu", words=["T0603", arch])
        self.refused(2, "compile", self.module, "--target", "llvm -mtriple=sparc-linux-gnu", "-o", self.tmp / "other.so", words=["T0901"])
        self.refused(2, "compile", self.module, "--target", "llvm -mattr=+v", "-o", self.tmp / "other.so", words=["T0901", "+v"])

    @unittest.skipUnless(shutil.which("gcc"), "no C compiler")
    def test_c_with_static_memory_runs_alone(self):
        text = """@R.function
def main(x: R.Tensor((2, 8), "float32")) -> R.Tensor((2, 4), "float32"):
    w = R.const([[1.0, 2.0, 3.0, 4.0]], "float32")
    a = R.sum(R.exp(x), axis=[1], keepdims=True)
    return R.nn.softmax(R.multiply(a, w), axis=-1)
"""
        self.run_as_c(text, [("x", (2, 8), [0.05 * i for i in range(16)])])

    @unittest.skipUnless(shutil.which("gcc"), "no C compiler")
    def test_c_of_nested_results(self):
        # Tensors of tuples in tuples are outputs one behind the other, in the text, the header and `main`.
        (self.tmp / "nested.tir").write_text("""@R.function
def main(x: R.Tensor((3,), "float32")):
    y = R.add(x, x)
    z = R.cast(y, dtype="float64")
    return (z, (x, (y,)))
""")
        self.ok("compile", self.tmp / "nested.tir", "--emit", "c", "-o", self.tmp / "nested.c")
        header = (self.tmp / "nested.h").read_text()
        for line in ("#define TENON_NUM_OUTPUTS 3", "#define TENON_OUTPUT_0_BYTES 24", "#define TENON_OUTPUT_2_BYTES 12", "output 1: float32 [3]"):
            self.assertIn(line, header)
        subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-DTENON_MAIN", self.tmp / "nested.c", "-o", self.tmp / "nested", "-lm"], check=True)
        (self.tmp / "x.bin").write_bytes(array.array("f", [1, 2, 3]).tobytes())
        outputs = [self.tmp / f"out{k}.bin" for k in range(3)]
        subprocess.run([self.tmp / "nested", self.tmp / "x.bin", *outputs], check=True)
        self.assertEqual([array.array(t, o.read_bytes()).tolist() for t, o in zip("dff", outputs)], [[2, 4, 6], [1, 2, 3], [2, 4, 6]])

    def test_profile_names_instructions(self):
        report = json.loads(self.ok("run", self.module, "--profile", "--json"))["profile"]
        self.assertTrue(any(line["function"] == "main" and line["calls"] == 1 for line in report))

    def test_lint(self):
        clean = self.ok("lint", self.module)
        self.assertIn("0 that keep it from compiling, 0 that make it slow, 0 about its numbers", clean)
        wrong = self.tmp / "wrong.py"
        wrong.write_text(MODULE.replace("nn.relu", "nn.rellu"))
        done = tenon("lint", wrong, "--json")
        self.assertEqual(done.returncode, 3)
        self.assertEqual([p["kind"] for p in json.loads(done.stdout)["problems"]], ["error"])

    def test_trace_of_a_run(self):
        module = self.tmp / "wide.py"
        module.write_text("""@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2048, 512), "float32")) -> R.Tensor((2048, 512), "float32"):
        y = R.exp(x)
        z = R.sum(y, axis=[0], keepdims=True)
        return R.subtract(y, z)
""")
        report = json.loads(self.ok("run", module, "--threads", 2, "--trace", self.tmp / "trace.json", "--profile", "--json"))
        events = json.loads((self.tmp / "trace.json").read_text())["traceEvents"]
        instructions = [e for e in events if e.get("cat") == "instruction"]
        self.assertEqual([(e["args"]["instruction"], e["name"]) for e in instructions],
                         [(line["instruction"], line["callee"]) for line in report["profile"]])
        self.assertEqual([e["ts"] for e in instructions], sorted(e["ts"] for e in instructions))
        memory = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
        self.assertEqual(len(memory), len(instructions))
        self.assertGreaterEqual(max(memory), 2048 * 512 * 4)
        # Loops over a million elements are split; each part lies inside its instruction, whichever thread ran it.
        tasks = [e for e in events if e.get("cat") == "task"]
        self.assertGreaterEqual(len(tasks), 2)
        for task in tasks:
            self.assertTrue(any(e["name"] == task["name"] and e["ts"] <= task["ts"] and
                                task["ts"] + task["dur"] <= e["ts"] + e["dur"] + 1e-3 for e in instructions), task)
        named = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertTrue({e["tid"] for e in tasks} <= set(named))
        self.assertEqual(list(named.values()).count("instructions"), 1)

    def test_same_bytes_twice(self):
        self.ok("compile", DIGITS, "-o", self.tmp / "a.so", "--threads", 1, "--no-cache")
        self.ok("compile", DIGITS, "-o", self.tmp / "b.so", "--threads", 2, "--no-cache")
        self.assertEqual((self.tmp / "a.so").read_bytes(), (self.tmp / "b.so").read_bytes())
        for name, cached in (("c.so", False), ("d.so", True)):  # the cache gives the same file
            done = json.loads(self.ok("compile", DIGITS, "-o", self.tmp / name, "--cache", self.tmp / "own", "--json"))
            self.assertEqual(done["cached"], cached)
            self.assertTrue(done["passes"])
            self.assertEqual((self.tmp / "a.so").read_bytes(), (self.tmp / name).read_bytes())

    def test_standard_input_is_cached(self):
        for cached in (False, True):
            done = json.loads(self.ok("run", "-", "--cache", self.tmp / "own", "--json", stdin=MODULE))
            self.assertEqual(done["cached"], cached)
        done = json.loads(self.ok("run", "-", "--cache", self.tmp / "own", "--json", stdin=MODULE.replace("nn.relu", "tanh")))
        self.assertFalse(done["cached"])

    def test_pictures(self):
        self.assertIn("digraph", self.ok("opt", self.module, "--pass", "fuse_ops", "--emit", "dot"))
        for stage, words in (("import", "relu"), ("fuse_ops", "fused"), ("plan_memory", "fused"), ("default_schedule", "fused"), ("vectorize_loop", "for ")):
            self.assertIn(words, self.ok("compile", self.module, "--emit", "dot", "--stage", stage, "-o", "-"), stage)
        self.refused(2, "compile", self.module, "--emit", "dot", "--stage", "absent", "-o", "-", words=["T0931", "fuse_ops"])
        self.refused(2, "compile", self.module, "--stage", "fuse_ops", words=["T0921"])
        self.refused(5, "compile", self.module, "--emit", "svg", "-o", self.tmp / "x.svg", words=["T0925", "apt install graphviz"],
                     env={**os.environ, "TENON_DOT": "/nonexistent/dot"})
        for verb in (("compile", self.module), ("opt", self.module)):
            self.refused(5, *verb, "--emit", "png", "-o", self.tmp / "x.png", words=["T0925", "apt install graphviz"],
                         env={**os.environ, "TENON_DOT": "/nonexistent/dot"})
            self.refused(2, *verb, "--emit", "png", *(["-o", "-"] if verb[0] == "compile" else []), words=["T0921", "-o"])
        # What is asked of Graphviz, and that its bytes arrive as they are, by a program in its place.
        dot, png = self.tmp / "dot", b"\x89PNG\r\n\x1a\n\x00\xff"
        (self.tmp / "bytes").write_bytes(png)
        dot.write_text(f'#!/bin/sh\n[ "$1" = -Tpng ] && /bin/cat > /dev/null && exec /bin/cat {self.tmp / "bytes"}\n')
        dot.chmod(0o755)
        for verb in (("compile", self.module), ("compile", self.module, "--stage", "fuse_ops"), ("opt", self.module, "--json")):
            self.ok(*verb, "--emit", "png", "-o", self.tmp / "x.png", env={**os.environ, "TENON_DOT": str(dot)})
            self.assertEqual((self.tmp / "x.png").read_bytes(), png)
            (self.tmp / "x.png").unlink()
        if not shutil.which("dot"):
            self.skipTest("Graphviz is not installed: nothing drawn")
        self.ok("compile", self.module, "--emit", "png", "-o", self.tmp / "x.png")
        self.assertEqual((self.tmp / "x.png").read_bytes()[1:4], b"PNG")
        self.ok("compile", self.module, "--emit", "svg", "-o", self.tmp / "x.svg")
        self.assertIn("<svg", (self.tmp / "x.svg").read_text())

    def test_memory_report(self):
        memory = json.loads(self.ok("inspect", DIGITS, "--memory", "--dim", "batch=2", "--json"))["memory"]
        self.assertGreater(memory["lower_bound_bytes"], 0)
        self.assertLessEqual(memory["lower_bound_bytes"], memory["arena_bytes"])
        self.assertLessEqual(memory["ratio"], 1.1)
        apart = json.loads(self.ok("inspect", DIGITS, "--memory", "--dim", "batch=2", "--json", "--disable-pass", "fuse_ops"))["memory"]
        self.assertGreater(apart["functions"][0]["tensors"], memory["functions"][0]["tensors"])
        self.refused(2, "inspect", DIGITS, "--pass-option", "plan_memory.in_place=false", words=["T0921", "--memory"])
        bounded = json.loads(self.ok("inspect", DIGITS, "--memory", "--dim-max", "batch=8", "--json"))["memory"]
        self.assertGreater(bounded["arena_bytes"], memory["arena_bytes"])
        self.ok("compile", DIGITS, "--dim-max", "batch=8", "-o", self.tmp / "d.so")
        self.assertEqual(json.loads(self.ok("inspect", self.tmp / "d.so", "--json"))["memory"]["arena_bytes"], bounded["arena_bytes"])
        self.ok("run", self.tmp / "d.so", "--dim", "batch=8")
        self.refused(2, "run", self.tmp / "d.so", "--dim", "batch=9", words=["T0505", "at most 8"])

    @LINKS_THE_RUNTIME
    def test_executable_reads_and_writes_npy(self):
        npy(self.tmp / "x.npy", (2, 3), [-1, 2, -3, 4, -5, 6])
        npy(self.tmp / "y.npy", (2, 3), [0.5] * 6)
        self.ok("compile", self.module, "--emit", "exe", "-o", self.tmp / "model")
        done = subprocess.run([self.tmp / "model", "y=" + str(self.tmp / "y.npy"), self.tmp / "x.npy", "-o", self.tmp], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_floats(self.tmp / "output_0.npy"), [0, 2.5, 0, 4.5, 0, 6.5])
        self.assertIn("x (2, 3)", subprocess.run([self.tmp / "model", "--help"], capture_output=True, text=True).stdout)
        npy(self.tmp / "bad.npy", (3, 2), [0] * 6)
        for files, status, words in (([self.tmp / "bad.npy", self.tmp / "y.npy"], 2, "T0505"), ([self.tmp / "x.npy"], 2, "T0506"),
                                     ([self.module, self.tmp / "y.npy"], 5, "T3002"), ([self.tmp / "absent.npy"], 5, "T3001")):
            done = subprocess.run([self.tmp / "model", *files, "-o", self.tmp], capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(words, done.stderr)

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    @LINKS_THE_RUNTIME
    def test_models_linked_into_a_program(self):
        other = self.tmp / "other.tir"
        other.write_text(MODULE.replace("nn.relu", "negative"))
        self.ok("compile", self.module, "--emit", "obj", "--system-lib", "first", "-o", self.tmp / "first.o")
        self.ok("compile", other, "--emit", "obj", "--system-lib", "second", "-o", self.tmp / "second.o")
        self.ok("compile", self.module, "--emit", "c", "--system-lib", "third", "-o", self.tmp / "third.c")
        self.refused(2, "compile", self.module, "--emit", "obj", "--system-lib", "no-name", words=["T0921"])
        (self.tmp / "main.c").write_text(r"""
#include <stdio.h>
#include <tenon/tenon.h>
#include "second.h"
static int run(const char* name) {
  TenonArtifact* model = 0;
  TenonSession* session = 0;
  float x[6] = {1, 2, 3, -4, -5, -6}, y[6] = {0}, z[6];
  int64_t shape[] = {2, 3};
  int i;
  if (tenon_artifact_load(name, TENON_LOAD_CHECK, &model)) return puts(tenon_last_error()->message), 1;
  if (tenon_session_create(model, 0, &session)) return 2;
  tenon_session_set_input_data(session, 0, x, tenon_dtype("float32"), 2, shape);
  tenon_session_set_input_data(session, 1, y, tenon_dtype("float32"), 2, shape);
  tenon_session_set_output_data(session, 0, z, tenon_dtype("float32"), 2, shape);
  if (tenon_session_run(session)) return 3;
  for (i = 0; i < 6; ++i) printf("%g ", z[i]);
  puts("");
  tenon_session_release(session);
  tenon_artifact_release(model);
  return 0;
}
int main(void) {
  return tenon_register_second() || run("system:first") || run("system:second") || run("system:third");
}
""")
        lib = TENON.parent.parent / "lib"
        subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", "main.c", "first.o", "second.o", "third.c", "-o", "program",
                        f"-L{lib}", "-ltenon_runtime", f"-Wl,-rpath,{lib}", "-lm"], check=True, cwd=self.tmp)
        done = subprocess.run([self.tmp / "program"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "1 2 3 0 0 0 \n-1 -2 -3 4 5 6 \n1 2 3 0 0 0 \n"))

    def test_opt(self):
        text = self.ok("opt", "-", "--pass", "fuse_ops", "--pass", "lower_to_call_tir", stdin=MODULE)
        self.assertIn("call_tir", text)
        self.assertIn("fuse_ops", self.ok("opt", "--list"))
        again = self.ok("opt", "-", stdin=text)
        self.assertEqual(text.strip(), again.strip())

    def test_opt_folds_constants(self):
        program = '''
@R.function
def main(x: R.Tensor((3,), "float32")):
    a = R.multiply(R.ones(R.shape([3]), dtype="float32"), R.full(R.shape([3]), R.const(2.0, "float32"), dtype="float32"))
    return R.add(x, a)
'''
        self.assertIn("R.add(x, R.const([2.0, 2.0, 2.0]", self.ok("opt", "-", "--pass", "fold_constant", stdin=program))

    def test_opt_replays_schedules(self):
        steps = ["--pass", "fuse_ops", "--pass", "lower_to_call_tir"]
        plain = self.tmp / "plain.tir"
        scheduled = self.tmp / "scheduled.tir"
        self.ok("opt", "-", *steps, "-o", plain, stdin=MODULE)
        self.ok("opt", plain, "--pass", "default_schedule", "-o", scheduled)
        self.assertIn("tenon.trace", scheduled.read_text())
        # The traces that a module carries make the identical programs again.
        self.assertEqual(self.ok("opt", plain, "--schedule", scheduled).strip(), scheduled.read_text().strip())
        # A trace alone, as written by hand.
        block = re.search(r'T\.block\("(?!root)(\w+)"', plain.read_text()).group(1)
        trace = self.tmp / "trace.json"
        trace.write_text(json.dumps([
            {"name": "get_block", "out": ["b1"], "attrs": {"name": block}},
            {"name": "get_loops", "in": ["b1"], "out": ["l2", "l3"]},
            {"name": "split", "in": ["l3"], "out": ["l4", "l5"], "attrs": {"factors": [-1, 3]}},
            {"name": "parallel", "in": ["l2"]},
        ]))
        self.assertIn("T.parallel(2)", self.ok("opt", plain, "--schedule", trace))
        trace.write_text(json.dumps([{"name": "get_block", "out": ["b1"], "attrs": {"name": "nothing"}}]))
        self.refused(3, "opt", plain, "--schedule", trace, words=["T0704", "nothing"])
        self.refused(2, "opt", plain, "--schedule", trace, "--function", "absent", words=["T0923", "absent"])
        self.refused(2, "opt", plain, "--schedule", plain, words=["T0923", "no trace"])

    def slowest(self, model, *options):
        kernels = json.loads(self.ok("bench", model, *options, "--kernels", "--repeat", 3, "--json"))["kernels"]
        return max((k for k in kernels if not k["name"].startswith("vm.")), key=lambda k: k["ms"])["name"]

    def extracted_and_put_back(self, model, *options):
        """The slowest kernel, as it is, scheduled otherwise and changed by hand; the model gives what it gave."""
        kernel = self.slowest(model, *options)
        folder = self.tmp / "kernel"
        done = json.loads(self.ok("extract", model, kernel, *options, "-o", folder, "--json"))
        self.assertTrue(done["from_run"])
        program, before, trace = folder / done["program"], folder / done["unscheduled"], folder / done["trace"]
        # The file alone runs, is timed and explained, and gives what the model's run gave.
        for alone in (program, before):
            self.ok("compare", alone, "--data", folder, "--rtol", "1e-4", "--atol", "1e-5")
        self.ok("bench", program, "--data", folder, "--repeat", 3)
        self.assertIn("# ---- " + kernel, self.ok("opt", program, "--explain"))
        self.ok("run", model, *options, "-o", self.tmp / "own")

        def put_back(proof, where=folder):
            made = json.loads(self.ok("compile", model, *options, "--override", where, "-o", self.tmp / "m.so", "--no-cache", "--json"))
            self.assertIn(proof, made["overrides"][kernel])
            self.ok("run", self.tmp / "m.so", *options, "-o", self.tmp / "out")
            for file in sorted((self.tmp / "own").glob("*.npy")):
                for x, y in zip(read_floats(file), read_floats(self.tmp / "out" / file.name), strict=True):
                    self.assertAlmostEqual(x, y, delta=1e-5 * max(1, abs(x)))

        put_back("proved by its schedule")
        # Fewer steps: the first half of those that place loops, as one would cut a trace by hand.
        steps = json.loads(trace.read_text())
        cut = next(k for k, step in enumerate(steps) if step["name"] == "compute_inline") + 1 if any(
            s["name"] == "compute_inline" for s in steps) else 0
        (self.tmp / "mine.json").write_text(json.dumps(steps[:cut]))
        self.ok("opt", before, "--schedule", self.tmp / "mine.json", "-o", program)
        put_back("proved by its schedule")
        # By hand: no loop runs in parallel, the trace stands there as it was.
        self.ok("opt", before, "--schedule", trace, "-o", program)
        text = program.read_text()
        self.assertIn("T.parallel(", text)
        program.write_text(text.replace("T.parallel(", "T.serial("))
        put_back("random and corner inputs")
        # Without a sum's first value, or with another number, it is another kernel.
        self.assertIn("T.float32(0)", text)
        program.write_text(text.replace("T.float32(0)", "T.float32(1)"))
        self.refused(3, "compile", model, *options, "--override", folder, "-o", self.tmp / "m.so",
                     words=["T1037", kernel, "whole numbers", " at [", str(program)])
        return kernel, folder

    def test_extract_and_override(self):
        kernel, folder = self.extracted_and_put_back(DIGITS, "--dim", "batch=1")
        # Sizes that the model does not have, and names.
        self.refused(3, "compile", DIGITS, "--dim", "batch=2", "--override", folder, words=["T1036", kernel, "T.Buffer((2, ", "T.Buffer((1, "])
        self.refused(2, "extract", DIGITS, kernel + "s", words=["T0923", f"did you mean `{kernel}`"])
        program = folder / f"{kernel}.tir"
        program.write_text(program.read_text().replace(f"def {kernel}(", f"def {kernel}s("))
        self.refused(3, "run", DIGITS, "--dim", "batch=1", "--override", folder, words=["T1035", f"no kernel `{kernel}s`"])
        self.refused(5, "run", DIGITS, "--override", self.tmp / "absent", words=["T3001", "absent"])

    def test_the_compile_cache_knows_overrides(self):
        folder = self.tmp / "kernel"
        kernel = self.slowest(DIGITS, "--dim", "batch=1")
        self.ok("extract", DIGITS, kernel, "--dim", "batch=1", "-o", folder)
        program, words = folder / f"{kernel}.tir", ["--dim", "batch=1", "--cache", self.tmp / "own"]

        def compiled():
            done = json.loads(self.ok("compile", DIGITS, *words, "--override", folder, "-o", self.tmp / "m.so", "--json"))
            return done["cached"], done["overrides"][kernel].split(": ")[1]

        self.ok("compile", DIGITS, *words, "-o", self.tmp / "own.so")
        self.assertEqual(compiled(), (False, "proved by its schedule"))
        self.assertEqual(compiled(), (True, "proved by its schedule"))
        program.write_text((folder / "unscheduled" / program.name).read_text())
        self.assertEqual(compiled(), (False, "proved by its structure"))
        self.assertTrue(json.loads(self.ok("compile", DIGITS, *words, "-o", self.tmp / "own.so", "--json"))["cached"])

    @unittest.skipUnless((SHARED / "models" / "ppocr_v2_cls.onnx").exists(), "the shared models are not there")
    def test_a_kernel_of_a_network_is_put_back(self):
        self.extracted_and_put_back(SHARED / "models" / "ppocr_v2_cls.onnx", "--dim", "x_d0=1", "--dim", "x_d2=48", "--dim", "x_d3=192")

    def sections(self, file):
        """Sections of an ELF64 file by name."""
        raw = file.read_bytes()
        (table,), (size, count, names) = struct.unpack_from("<Q", raw, 40), struct.unpack_from("<HHH", raw, 58)
        heads = [struct.unpack_from("<IIQQQQ", raw, table + k * size) for k in range(count)]
        texts = raw[heads[names][4]:heads[names][4] + heads[names][5]]
        return {texts[h[0]:texts.index(b"\0", h[0])].decode(): raw[h[4]:h[4] + h[5]] for h in heads}

    def test_debug_information(self):
        plain, file, text = self.tmp / "plain.so", self.tmp / "m.so", self.tmp / "m.kernels.tir"
        self.ok("compile", DIGITS, "-o", plain)
        self.assertFalse([name for name in self.sections(plain) if name.startswith(".debug")])
        self.ok("compile", DIGITS, "-g", "-o", file)
        with_lines = self.sections(file)
        self.assertIn(".debug_line", with_lines)
        self.assertEqual(self.sections(plain)[".text"], with_lines[".text"])  # the same code
        self.ok("run", file)
        lines = text.read_text().splitlines()
        self.assertTrue(any("Conv" in line for line in lines if "tenon.source" in line))
        for kind in ("obj", "asm", "llvm", "exe"):
            out = self.tmp / f"other.{kind}"
            self.ok("compile", DIGITS, "-g", "--emit", kind, "-o", out)
            self.assertEqual((self.tmp / "other.kernels.tir").read_text().splitlines()[0], lines[0])
        for words in (["--emit", "c"], ["--emit", "tir"], ["--emit", "asm", "-o", "-"], ["--target", "c", "--emit", "artifact"]):
            self.refused(2, "compile", DIGITS, "-g", *words, cwd=self.tmp, words=["T0921", "machine code"])
        # What a debugger sees.
        tool = shutil.which("llvm-dwarfdump") or shutil.which("llvm-dwarfdump-22")
        if not tool:
            self.skipTest("llvm-dwarfdump is not installed: line tables not read back")
        rows = subprocess.run([tool, "--debug-line", file], capture_output=True, text=True, check=True).stdout
        self.assertIn("m.kernels.tir", rows)
        numbers = {int(m[1]) for m in re.finditer(r"(?m)^0x[0-9a-f]+ +(\d+) ", rows)} - {0}
        stores = {k for k, line in enumerate(lines, 1) if re.match(r" +\w+\[.*\] = ", line)}
        # Stores and loops have instructions, and no instruction a line that is not there.
        self.assertGreater(len(numbers & stores), len(stores) // 2)
        self.assertLessEqual(max(numbers), len(lines))
        kernels = {m[1]: k for k, line in enumerate(lines, 1) if (m := re.match(r" +def (\w+)\(", line))}
        info = subprocess.run([tool, "--debug-info", file], capture_output=True, text=True, check=True).stdout
        named = dict(re.findall(r'DW_AT_name\t\("(\w+)"\)(?:\n\s+DW_AT(?!_decl_line)\S+.*)*\n\s+DW_AT_decl_line\t\((\d+)\)', info))
        self.assertTrue(named)
        for name, line in named.items():
            self.assertEqual(kernels[name], int(line), name)

    def test_a_debugger_shows_the_line_of_the_program(self):
        if not shutil.which("gdb"):
            self.skipTest("gdb is not installed")
        self.ok("compile", DIGITS, "-g", "-o", self.tmp / "m.so")
        lines = (self.tmp / "m.kernels.tir").read_text().splitlines()
        name, line = next((m[1], k) for k, text in enumerate(lines, 1) if (m := re.match(r" +def (\w*conv\w*)\(", text)))
        shown = subprocess.run(["gdb", "-batch", "-nx", "-ex", f"info line {name}", "-ex", f"list {line},{line}", self.tmp / "m.so"],
                               capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
        self.assertIn(f"Line {line} of", shown)
        self.assertIn(lines[line - 1].strip()[:60], shown)

    def test_explain(self):
        fixed, symbolic = self.tmp / "fixed.tir", self.tmp / "symbolic.tir"
        fixed.write_text(PRODUCT)
        symbolic.write_text(PRODUCT.replace("C: T.Buffer((64, 64)", "C: T.Buffer((64, n)"))
        how = ["--pass", "default_schedule", "--explain", "--target", "llvm -mcpu=x86-64-v3"]
        text = self.ok("opt", fixed, *how)
        self.assertRegex(text, r"# .*-- \d+ instructions: \d+ fma.*256-bit vectors")
        self.assertRegex(text, r"#\s+\|\s+vfmadd\w+ps ")
        self.assertEqual(self.ok("opt", "-", stdin=text).strip(), self.ok("opt", fixed, "--pass", "default_schedule", "--target", how[-1]).strip())
        (kernel,) = json.loads(self.ok("opt", fixed, *how, "--json"))["kernels"]
        hot = max(kernel["machine_loops"], key=lambda m: m["fma"])
        self.assertTrue(hot["innermost"] and hot["load"] > 0 and hot["assembly"][0].startswith(".LBB"))
        self.assertIn("for ", kernel["text"].splitlines()[kernel["loop_lines"][hot["loop"]]])
        # Another processor's, and one that is measured.
        arm = self.tmp / "arm.json"
        arm.write_text(json.dumps({"kind": "llvm", "triple": "aarch64-unknown-linux-gnu", "features": ["asimd"], "vector_bits": 128, "vector_registers": 32, "fma": True}))
        self.assertRegex(self.ok("opt", fixed, "--pass", "default_schedule", "--explain", "--target", f"@{arm}"), r"fmla v\d+\.4s")
        (kernel,) = json.loads(self.ok("opt", fixed, "--pass", "default_schedule", "--measure", "--json"))["kernels"]
        self.assertEqual(kernel["note"], "")
        for nest in kernel["nests"]:
            self.assertGreater(nest["ms"], 0)
        self.assertGreaterEqual(sum(nest["flop"] for nest in kernel["nests"]), 2 * 64**3)
        self.assertIn("share_of_limit", max(kernel["nests"], key=lambda nest: nest["flop"]))
        self.assertIn("'n' is not known", self.ok("opt", symbolic, "--measure"))
        self.assertNotIn("not measured", self.ok("opt", symbolic, "--measure", "--dim", "n=64"))

    def test_explain_rules(self):
        program = self.tmp / "product.tir"
        program.write_text(PRODUCT)
        how = ["opt", program, "--pass", "default_schedule", "--explain", "--target", "llvm -mcpu=x86-64-v3"]
        text = self.ok(*how)
        rules = ["# ---- rules of product", "# c", "#   by_columns: a stage is no fold of columns that each are read once",
                 "#   dot_instruction: the sum is not one of products of two widened loads",
                 "#   inner_product: the operands are not both contiguous along the sum", "#   register_tile: applied"]
        self.assertIn("\n".join(rules), text)
        self.assertRegex(text, r'#   register_tile: applied\n#       tile \{"vj":\[\d+,8\].*\}: applied')
        self.assertNotIn("rules of", self.ok(*how[:4]))
        (report,) = json.loads(self.ok(*how, "--json"))["schedule"]
        self.assertEqual(report["function"], "product")
        tile = next(a for a in report["attempts"] if a["tile"] and a["outcome"] == "applied")
        self.assertGreaterEqual(tile["cycles"], 64**3 / 8 / 2)
        # A tile that is given, and one that does not fit.
        block = 'T.block("c"):\n                vi, vj, vk = T.axis.remap("SSR", [i, j, k])\n'
        self.assertIn(block, PRODUCT)
        given = lambda tile: PRODUCT.replace(block, f'{block}                T.block_attr({{"tile": {tile}}})\n')
        program.write_text(given('{"vj": [1, 8], "vi": 3}'))
        self.assertIn('tile {"vj":[1,8],"vi":3}: applied', self.ok(*how))
        program.write_text(given('{"vk": [1, 8]}'))
        self.refused(3, *how, words=["T0746", "vk"])

    def test_explain_proofs_that_were_given_up(self):
        # Nothing follows of these sizes from their parts alone, and a proof about them branches on each quotient.
        size = lambda c: " + ".join(f"(x{t} + y{t}) // {c + t} - x{t} // {c + 2 + t}" for t in range(8))
        names = [f"{v}{t}" for t in range(8) for v in "xy"]
        program = self.tmp / "quotients.tir"
        program.write_text(f'''
@T.prim_func
def add({", ".join(f"{n}: T.int64" for n in names)}, A: T.Buffer(({size(3)},), "float32"), B: T.Buffer(({size(3)},), "float32")):
    for i in range({size(3)}):
        with T.block("b"):
            v = T.axis.spatial({size(3)}, i)
            B[v] = A[v] + T.float32(1)
''')
        how = ["opt", program, "--pass", "default_schedule", "--explain"]
        self.assertRegex(self.ok(*how), r"#   elementwise: applied\n(#  .*\n)*#       split: (a proof|\d+ proofs) given up after 4000 steps")
        (report,) = json.loads(self.ok(*how, "--json"))["schedule"]
        given_up = {a["rule"]: a["given_up"] for a in report["attempts"] if a["block"] == "b"}
        self.assertEqual(given_up["register_tile"], [])
        self.assertIn("split", given_up["elementwise"])
        self.assertNotIn("given up", self.ok("opt", self.module, "--pass", "check_sizes", "--explain"))

    def test_explain_fusion(self):
        text = self.ok("opt", self.module, "--pass", "fuse_ops", "--explain")
        self.assertIn("# fusion of @main", text)
        self.assertRegex(text, r"#   z = add \[.*computed in the kernel of w")
        self.assertIn("z = add", json.loads(self.ok("opt", self.module, "--pass", "fuse_ops", "--explain", "--json"))["fusion"])
        self.assertNotIn("fusion of", self.ok("opt", self.module, "--pass", "fuse_ops"))

    def test_relay_text(self):
        path = self.tmp / "net.txt"
        path.write_text('''#[version = "0.0.5"]
def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(4, 3), float32]) {
  %0 = nn.dense(%x, %w, units=4);
  let %twice = fn (%v: Tensor[(?, 4), float32]) { add(%v, %v) };
  %twice(nn.relu(%0))
}
''')
        for verb, word in (("opt", "R.nn.dense(x, w"), ("inspect", "nn.relu"), ("lint", "0 that keep it from compiling")):
            self.assertIn(word, self.ok(verb, path))
        values = ["-i", "x=2x3xf32=1", "-i", "w=4x3xf32=0.5"]
        self.ok("compile", path, "-o", self.tmp / "net.so")
        for model in (path, self.tmp / "net.so"):
            summary = json.loads(self.ok("run", model, "--json", *values))["outputs"][0]["summary"]
            self.assertEqual((summary["min"], summary["max"]), (3.0, 3.0))
        self.assertIn("(2, 4)", self.ok("opt", path, "--dim", "x_0=2"))
        path.write_text("def @main(%x: int32) {\n  nn.magic(%x)\n}\n")
        self.refused(3, "compile", path, "-o", self.tmp / "no.so", words=["T0222", "net.txt:2:3", "nn.magic"])

    def test_opt_refuses_what_is_no_program(self):
        race = '''
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for i in T.parallel(8):
        B[0] = B[0] + A[i]
'''
        for how in ([], ["--pass", "simplify_tir"]):
            done = self.refused(3, "opt", "-", *how, stdin=race, words=["T0335", ":4:5"])
            self.assertNotIn("bug in Tenon", done.stderr)

    def test_sizes_that_are_expressions(self):
        path = self.tmp / "sizes.tir"
        path.write_text('''
@R.function
def main(x: R.Tensor((n, m), "float32"), y: R.Tensor((n * m,), "float32"), z: R.Tensor((n + 1,), "float32"), c: R.Tensor((), "bool")):
    a = R.add(R.reshape(x, R.shape([n * m])), y)
    return (a, R.exp(z), c)
''')
        shapes = lambda *how: [o["shape"] for o in json.loads(self.ok("run", *how, "--json"))["outputs"]]
        self.assertEqual(shapes(path, "--dim", "n=3", "--dim", "m=4"), [[12], [4], []])
        self.assertEqual(shapes(path, "-i", "x=2x5xf32", "-i", "y=10xf32=1", "-i", "c=true"), [[10], [3], []])
        self.ok("compile", path, "-o", self.tmp / "sizes.so")
        self.assertEqual(shapes(self.tmp / "sizes.so", "-i", "x=2x3xf32"), [[6], [3], []])
        self.refused(3, "run", self.tmp / "sizes.so", "-i", "x=2x3xf32", "-i", "y=7xf32", words=["T0501"])

    def test_verify_reaches_closures(self):
        path = self.tmp / "closure.tir"
        path.write_text('''
@R.function
def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    @R.function
    def double(v: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        w = R.add(v, x)
        return w
    y = double(x)
    z = double(y)
    return z
''')
        self.ok("run", path, "--verify")

    PROGRAM = '''
@T.prim_func
def product(A: T.Buffer((n, 24), "float32"), B: T.Buffer((24, 32), "float32"), C: T.Buffer((n, 32), "float32")):
    for i, j, k in T.grid(n, 32, 24):
        with T.block("c"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
'''

    def test_tensor_program_alone(self):
        path = self.tmp / "product.tir"
        path.write_text(self.PROGRAM)
        how = ["-i", "A=5x24xf32=0.5", "-i", "B=24x32xf32=2"]
        (out,) = json.loads(self.ok("run", path, *how, "--verify", "--json"))["outputs"]
        self.assertEqual((out["shape"], out["summary"]["min"], out["summary"]["max"]), ([5, 32], 24, 24))
        self.assertIn("dimension", self.refused(2, "run", path, "--dim", "q=2").stderr)
        self.ok("compile", path, "-o", self.tmp / "product.so")
        self.assertIn("5x32xf32", self.ok("run", self.tmp / "product.so", *how))
        self.assertIn("A: float32(n, 24)", self.ok("inspect", path))
        self.ok("compare", path, "--against", "interpreter", "--dim", "n=7")
        self.assertIn("nothing to reduce", self.ok("reduce", path))
        two = self.tmp / "two.tir"
        two.write_text(self.PROGRAM + self.PROGRAM.replace("product", "other"))
        self.refused(3, "run", two, words=["T0928", "`product`", "`other`"])
        self.refused(3, "run", "-", stdin=self.PROGRAM.replace("C:", "X:").replace("A:", "C:").replace("X:", "A:"), words=["T0928", "behind"])
        self.refused(3, "run", "-", stdin="@I.ir_module\nclass Module:\n    pass\n", words=["T0928"])

    def test_verify_runs_programs(self):
        # Every pass of a compilation, around the program alone.
        for sizes in ("n", "7"):
            self.ok("opt", "-", "--verify", *(w for p in ("lower_block_init", "plan_buffer_allocation", "convert_blocks_to_opaque", "lower_opaque_block", "flatten_buffer", "vectorize_loop", "make_packed_api") for w in ("--pass", p)), stdin=self.PROGRAM.replace("(n,", f"({sizes},"))
        outside = '''
@T.prim_func
def f(K: T.Buffer((1,), "int32"), A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(9):
        if K[0] != 12345:
            B[i] = A[i]
'''
        self.refused(3, "opt", "-", "--verify", "--pass", "simplify_tir", stdin=outside, words=["T0355", "A"])

    def test_target_c_runs(self):
        how = ["-i", "x=2x3xf32=1", "-i", "y=2x3xf32=0.5"]
        for more in ([], ["--no-cache"], ["--verify"]):
            self.assertIn("min 1.5  max 1.5", self.ok("run", self.module, "--target", "c", *how, *more))
        self.ok("compile", self.module, "--target", "c", "-o", self.tmp / "c.so")
        self.assertIn("min 1.5  max 1.5", self.ok("run", self.tmp / "c.so", *how))
        environment = {**os.environ, "TENON_CC": str(self.tmp / "absent")}
        self.refused(5, "run", self.module, "--target", "c", "--no-cache", words=["T0819", "absent", "TENON_CC"], env=environment)

    def test_all_type_errors_at_once(self):
        text = '''
@R.function
def other(x: R.Tensor((4, 3), "float32")):
    return R.reshape(x, R.shape([5]))

@R.function
def main(x: R.Tensor((4, 3), "float32"), w: R.Tensor((5, 2), "float32")) -> R.Tensor((4, 2), "float32"):
    y = R.matmul(x, w)
    z = R.add(y, x)
    s = R.sum(x, axis=[7])
    t = R.concat((z, s), axis=0)
    if R.less(R.sum(x), R.const(1.0, "float32")):
        b = R.add(x, w)
    else:
        b = R.exp(x)
    q: R.Tensor((2,), "float32") = R.nn.relu(x)
    return y
'''
        done = self.refused(3, "run", "-", stdin=text)
        places = re.findall(r"--> <stdin>:(\d+):", done.stderr)
        self.assertEqual(sorted(map(int, places)), [4, 8, 10, 13, 16], done.stderr)  # what follows from another is not reported
        self.assertIn("     |     y = R.matmul(x, w)\n".strip(), done.stderr)
        reported = json.loads(tenon("run", "-", "--json", stdin=text).stdout)
        self.assertEqual({d["code"] for d in reported["diagnostics"]}, {"T1101", "T1105"})

    def test_seeing_passes(self):
        self.assertIn("# after fuse_ops", self.ok("run", self.module, "--print-after", "fuse_ops"))
        self.ok("compile", self.module, "-o", self.tmp / "m.so", "--dump", self.tmp / "dump")
        names = sorted(f.name for f in (self.tmp / "dump").iterdir())
        self.assertGreater(len(names), 40)
        for stage in ("fuse_ops.tir", "default_schedule.tir", "vectorize_loop.tir", "int4_legalize.tir", "codegen.ll", "llvm.s"):
            self.assertTrue(any(n.endswith("_" + stage) for n in names), stage)
        self.assertIn("llvm", [p["name"] for p in json.loads(self.ok("compile", self.module, "-o", self.tmp / "m.so", "--json"))["passes"]])
        self.assertIn("fuse_ops", self.ok("compile", self.module, "-o", self.tmp / "m.so", "--time-passes"))
        self.ok("run", self.module, "--verify")

    def test_passes_by_name(self):
        listing = self.ok("opt", "--list")
        self.assertRegex(listing, r"(?m)^split_args +graph/lowering +request ")
        self.assertRegex(listing, r"(?m)^    split_args\.max=\d+ ")
        graph = ("compile", self.module, "--emit", "tir", "--stage", "lower_to_call_tir", "-o", "-")
        # Fused, the module has one program; each operator has its own without.
        count = [self.ok(*graph, *how).count("T.prim_func") for how in ([], ["--disable-pass", "fuse_ops"])]
        self.assertLess(count[0], count[1])
        self.assertEqual(count[1], self.ok(*graph, "--pass-option", "fuse_ops.max_depth=1").count("T.prim_func"))
        # Cached models of other passes are other models.
        where = ("run", self.module, "--cache", self.tmp / "cache", "--json")
        for how in ([], ["--require-pass", "fast_math"], ["--disable-pass", "fuse_ops"], ["--pass-option", "fuse_ops.max_depth=1"]):
            self.assertEqual([json.loads(self.ok(*where, *how))["cached"] for _ in range(2)], [False, True], how)
        for how, words in (
            (["--require-pass", "fast_mat"], ["T0919", "did you mean `fast_math`?"]),
            (["--disable-pass", "fuse_op"], ["T0919", "did you mean `fuse_ops`?"]),
            (["--disable-pass", "lower_to_call_tir"], ["T0946"]),
            (["--require-pass", "common_subexpr_elim"], ["T0947", "tenon opt --pass common_subexpr_elim"]),
            (["--pass-option", "fuse_ops.max_dept=1"], ["T0943", "did you mean `fuse_ops.max_depth`?"]),
            (["--pass-option", "fuse_ops.max_depth=deep"], ["T0944", "integer"]),
            (["--pass-option", "split_args.max=2"], ["T0945", "--require-pass split_args"]),
        ):
            self.refused(2, "run", self.module, *how, words=words)
        self.refused(2, "opt", self.module, "--pass", "fuse_ops", "--pass-option", "split_args.max=2", words=["T0945"])
        # All mistakes at once, in one list.
        wrong = ["--pass-option", "fuse_ops.max_dept=1", "--pass-option", "fuse_ops.max_depth=deep", "--pass-option", "fuse_op.x=1",
                 "--require-pass", "fast_mat", "--require-pass", "lazy_transform_params", "--disable-pass", "lift_transform_params"]
        said = json.loads(tenon("run", self.module, "--json", "--print-after", "fuse_osp", *wrong).stdout)
        self.assertEqual([d["code"] for d in said["diagnostics"]], ["T0919", "T0943", "T0944", "T0919", "T0919", "T1004"])
        named = ["--pass", "fuse_op", "--pass", "split_args", "--pass-option", "split_args.mx=2", "--pass-option", "split_args.max=two"]
        said = json.loads(tenon("opt", self.module, "--json", *named).stdout)
        self.assertEqual([d["code"] for d in said["diagnostics"]], ["T0919", "T0943", "T0944"])
        self.ok("opt", self.module, "--pass", "fuse_ops", "--pass-option", "fuse_ops.max_depth=1")

    def test_ops(self):
        text = self.ok("ops", "nn.conv2d")
        for word in ("strides", "padding", "fusion kind"):
            self.assertIn(word, text)
        self.assertRegex(self.ok("ops", "where", "nn.conv2d"), r"^\S+\.cpp:\d+$")
        for name, word in (("sort", "sort.cpp:"), ("fuse_ops", "fuse_ops.cpp:"), ("compute_at", "compute_at.cpp:")):
            self.assertIn(word, self.ok("ops", "where", name))
        self.assertIn("src/op/conv_transpose.cpp", self.ok("ops", "where", "nn.conv1d_transpose"))
        self.refused(2, "ops", "where", "fuse_opps", words=["no operator, pass, schedule primitive or function", "fuse_ops"])
        self.assertIn("Conv", self.ok("ops", "--onnx"))
        self.refused(2, "ops", "nn.conv2dd", words=["no operator"])

    def test_error_codes_are_explained(self):
        text = self.ok("explain", "T0501")
        self.assertIn("T0501: a value has another shape", text)
        self.assertIn("cause: ", text)
        self.assertIn("remedy: ", text)
        self.assertEqual(set(json.loads(self.ok("explain", "T0501", "--json"))), {"code", "sentence", "cause", "remedy"})
        self.assertIn("T05…  running a model", self.ok("explain"))
        group = self.ok("explain", "T05").splitlines()
        self.assertGreater(len(group), 10)
        self.assertTrue(all(line.startswith("T05") for line in group))
        self.refused(2, "explain", "T05" + "99", words=["T0932", "nearest are T0601"])
        self.refused(2, "explain", "memory", words=["T0932", "lists the groups"])

    def test_usage_errors(self):
        self.refused(2)
        self.refused(2, "jump")
        self.refused(2, "run")
        self.refused(2, "run", DIGITS, "--fast")
        self.refused(2, "frob", words=["T0900", "no verb `frob`", "run, compile"])
        self.refused(2, "comple", DIGITS, words=["T0900", "did you mean `compile`?"])
        self.refused(2, words=["T0900", "run, compile"])
        self.refused(2, "run", DIGITS, "--thread", 2, words=["T0900", "no option `--thread`", "did you mean `--threads`?"])
        self.refused(2, "opt", self.module, "--pas=fuse_ops", words=["no option `--pas`", "did you mean `--pass`?"])
        self.refused(2, "run", DIGITS, "--target", "lvm", words=["T0901", "did you mean `llvm`?"])
        self.refused(2, "run", DIGITS, "--target", "llvm -mcpuu=native", words=["T0901", "did you mean `-mcpu=`?"])
        self.refused(2, "run", DIGITS, "--target", "llvm -libs=cblast", words=["T0901", "did you mean `cblas`?"])
        self.refused(2, "compile", DIGITS, "--emit", "artefact", words=["T0920", "did you mean `artifact`?"])
        self.refused(2, "opt", self.module, "--pass", "fuse_op", words=["T0919", "did you mean `fuse_ops`?"])
        self.refused(2, "run", DIGITS, "--print-after", "fuse_op", words=["T0919", "did you mean `fuse_ops`?"])
        self.refused(2, "run", DIGITS, "-i", "nothing")
        self.refused(2, "run", DIGITS, "-i", "picture=1x1x8x8xf32", words=["picture", "image"])
        self.refused(2, "run", DIGITS, "-i", "image=1x1x8x8xf99")
        self.refused(2, "run", DIGITS, "-i", "image=[[1,2],[3]]", words=["rows differ"])
        self.refused(2, "run", DIGITS, "-i", "image=1x1x9x9xf32", words=["image"])
        self.refused(2, "run", DIGITS, "-i", "image=1x1x8x8xi32", words=["image"])
        self.refused(2, "run", DIGITS, "--dim", "height=3", words=["height", "batch"])
        self.refused(2, "run", DIGITS, "--dim", "batch=x")
        self.refused(2, "run", DIGITS, "--target", "toaster")
        self.refused(2, "run", DIGITS, "--precision", "f8")
        self.refused(2, "run", DIGITS, "-O", 9)
        self.refused(2, "compile", DIGITS, "--emit", "pdf")
        self.refused(2, "opt", self.module, "--pass", "no_such_pass", words=["no_such_pass", "--list"])
        self.refused(2, "compare", DIGITS)

    def test_model_errors(self):
        garbage = self.tmp / "garbage.onnx"
        garbage.write_bytes(bytes(range(256)) * 40)
        self.refused(3, "run", garbage, words=["garbage.onnx"])
        letter = self.tmp / "letter.txt"
        letter.write_text("Dear compiler,\nplease make this faster: 1 + 1.\n" * 20)
        done = self.refused(3, "run", letter, words=["T2001", "neither a model nor a module", "letter.txt"])
        self.assertEqual(done.stderr.count("error["), 1)
        empty = self.tmp / "empty.onnx"
        empty.write_bytes(b"")
        self.refused(3, "inspect", empty)
        cut = self.tmp / "cut.onnx"
        cut.write_bytes(DIGITS.read_bytes()[:30000])
        self.refused(3, "compile", cut, "-o", self.tmp / "cut.so")
        self.assertFalse((self.tmp / "cut.so").exists())
        bad = self.tmp / "bad.tir"
        bad.write_text(MODULE.replace("R.add(x, y)", "R.ad(x, y)").replace("R.nn.relu(z)", "R.nn.relu(zz)"))
        done = self.refused(3, "run", bad, words=["bad.tir:6", "bad.tir:7"])
        self.assertGreaterEqual(done.stderr.count("error["), 2)
        wrong = self.tmp / "wrong.tir"
        wrong.write_text(MODULE.replace('y: R.Tensor((2, 3)', 'y: R.Tensor((4, 5)'))
        self.refused(3, "run", wrong, words=["(2, 3)", "(4, 5)"])

    def test_artifact_errors(self):
        self.ok("compile", self.module, "-o", self.tmp / "m.so")
        whole = (self.tmp / "m.so").read_bytes()
        (self.tmp / "cut.so").write_bytes(whole[:len(whole) - 100])
        self.refused(3, "run", self.tmp / "cut.so", words=["T0604"])
        flipped = bytearray(whole)
        flipped[2000] ^= 1
        (self.tmp / "flip.so").write_bytes(flipped)
        self.refused(3, "run", self.tmp / "flip.so", words=["T0605"])
        self.refused(3, "run", TENON, words=["T0601"])

    def test_code_for_several_processors(self):
        """One artifact: the loader takes the best that fits, or the one that is asked for; each computes what its own artifact does."""
        names = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
        several = self.tmp / "several.so"
        self.ok("compile", DIGITS, "--dim", "batch=1", "--target", "llvm -mcpu=" + ",".join(names), "-o", several)
        shown = json.loads(self.ok("inspect", several, "--json"))["variants"]
        self.assertEqual([v["cpu"] for v in shown], names)
        fit = [v["cpu"] for v in shown if not v["missing"]]
        self.assertEqual([v["cpu"] for v in shown if v["chosen"]], fit[-1:])
        single_bytes = []
        for name in names:
            single = self.tmp / f"{name}.so"
            self.ok("compile", DIGITS, "--dim", "batch=1", "--target", f"llvm -mcpu={name}", "-o", single)
            single_bytes.append(single.stat().st_size)
            forced = {**os.environ, "TENON_VARIANT": name}
            chosen = [v["cpu"] for v in json.loads(self.ok("inspect", several, "--json", env=forced))["variants"] if v["chosen"]]
            self.assertEqual(chosen, [name])
            if name not in fit:
                self.refused(3, "run", several, words=["T0603", "lacks"], env=forced)
                continue
            self.ok("run", several, "-o", self.tmp / "got", env=forced)
            self.ok("run", single, "-o", self.tmp / "want")
            self.assertEqual((self.tmp / "got" / "output_0.npy").read_bytes(), (self.tmp / "want" / "output_0.npy").read_bytes(), name)
        self.assertLess(several.stat().st_size, sum(single_bytes))
        self.ok("run", several, "-o", self.tmp / "got")
        self.ok("run", self.tmp / f"{fit[-1]}.so", "-o", self.tmp / "want")
        self.assertEqual((self.tmp / "got" / "output_0.npy").read_bytes(), (self.tmp / "want" / "output_0.npy").read_bytes())
        self.ok("run", DIGITS, "--target", "llvm -mcpu=x86-64,x86-64-v2")

    def test_code_for_several_processors_that_does_not_fit(self):
        several = self.tmp / "several.so"
        self.ok("compile", self.module, "--target", "llvm -mcpu=x86-64,x86-64-v2", "-o", several)
        self.refused(3, "run", several, words=["T0621", "x86-64, x86-64-v2"], env={**os.environ, "TENON_VARIANT": "znver9"})
        # Whatever is damaged is found, but in the code that is not taken.
        whole = several.read_bytes()
        for at in range(0, len(whole), len(whole) // 40 + 1):
            flipped = bytearray(whole)
            flipped[at] ^= 0x55
            (self.tmp / "flip.so").write_bytes(flipped)
            done = tenon("run", self.tmp / "flip.so")
            self.assertIn(done.returncode, (0, 3), done.stderr)
            (self.tmp / "cut.so").write_bytes(whole[:at])
            self.refused(3, "run", self.tmp / "cut.so")
        unknown = [v["cpu"] for v in json.loads(self.ok("inspect", several, "--json"))["variants"]]
        self.assertEqual(unknown, ["x86-64", "x86-64-v2"])
        for target, words in (("llvm -mcpu=x86-64,x86-64", ["T0901", "named twice"]), ("llvm -mcpu=x86-64,", ["T0901", "unknown CPU"]),
                              ("llvm -mcpu=x86-64,x86-64-v9", ["T0901", "x86-64-v9"])):
            self.refused(2, "compile", self.module, "--target", target, "-o", self.tmp / "no.so", words=words)
        for kind in ("asm", "json", "obj", "exe", "tir", "c"):
            self.refused(2, "compile", self.module, "--target", "llvm -mcpu=x86-64,x86-64-v2", "--emit", kind, "-o", self.tmp / "no", words=["T0924", "several"])
        self.refused(2, "compile", self.module, "--target", "llvm -mcpu=x86-64,x86-64-v2", "-g", "-o", self.tmp / "no.so", words=["T0921"])
        self.refused(2, "inspect", self.module, "--strategies", "--target", "llvm -mcpu=x86-64,x86-64-v2", words=["T0901", "one processor"])
        self.assertFalse((self.tmp / "no.so").exists())

    def test_graphs(self):
        """A graph of operators and its code: run, timed, looked at, compared; refused where it does not fit."""
        graph = self.tmp / "digits.json"
        self.ok("compile", DIGITS, "--dim", "batch=1", "--emit", "json", "-o", graph)
        self.assertTrue((self.tmp / "digits.json.so").exists())
        whole = json.loads(graph.read_text())
        self.assertEqual(self.ok("run", graph).split("loaded")[0], self.ok("run", DIGITS, "--dim", "batch=1").split("compiled")[0].split("taken")[0])
        profile = json.loads(self.ok("run", graph, "--profile", "--json"))["profile"]
        operators = [n["name"] for n in whole["nodes"] if n["op"] != "null" and n["attrs"]["func_name"] != "__nop"]
        self.assertEqual([line["callee"] for line in profile if not line["callee"].startswith("vm.")], operators)
        self.assertEqual(json.loads(self.ok("bench", graph, "--repeat", 2, "--json"))["latency_ms"]["runs"], 2)
        shown = json.loads(self.ok("inspect", graph, "--json"))
        self.assertEqual((shown["kind"], shown["arena_bytes"]), ("graph", whole["attrs"]["storage_bytes"]))
        self.assertIn(operators[0], self.ok("inspect", graph, "--bytecode"))
        data = self.tmp / "data"
        self.ok("run", DIGITS, "--dim", "batch=1", "-o", data)
        self.ok("compare", graph, "--data", data)
        self.assertIn("arg_nodes", self.ok("compile", DIGITS, "--dim", "batch=1", "--emit", "json", "-o", "-"))
        self.refused(2, "compile", DIGITS, "--emit", "json", "-o", self.tmp / "free.json", words=["T0515", "--dim"])

        def refuse(words, change):
            changed = json.loads(graph.read_text())
            change(changed)
            (self.tmp / "changed.json").write_text(json.dumps(changed))
            self.refused(3, "run", self.tmp / "changed.json", words=words)
        (self.tmp / "cut.json").write_text(graph.read_text()[:500])
        self.refused(3, "run", self.tmp / "cut.json", words=["T0616", "ends early, at byte 500"])
        refuse(["T0617", "`absent`"], lambda j: j["nodes"][-1]["attrs"].update(func_name="absent"))
        refuse(["T0618", "as output 0"], lambda j: (j["attrs"]["shape"].__setitem__(-1, [1, 9]), j["attrs"]["outputs"][0].update(shape=[1, 9])))
        refuse(["T0619", "still needed"], lambda j: j["attrs"].update(storage_offset=[min(n, 0) for n in j["attrs"]["storage_offset"]]))
        refuse(["T0620", "other code"], lambda j: j["attrs"]["code"].update(hash="00ff"))
        (self.tmp / "digits.json.so").unlink()
        self.refused(5, "run", graph, words=["T3001", "digits.json.so"])

    def test_files_and_limits(self):
        self.refused(5, "run", self.tmp / "absent.onnx", words=["absent.onnx"])
        self.refused(5, "run", DIGITS, "-i", "image=@absent.npy", words=["absent.npy"])
        (self.tmp / "short.bin").write_bytes(b"1234")
        self.refused(5, "run", self.module, "-i", f"x=2x3xf32=@{self.tmp}/short.bin", words=["24 bytes"])
        self.refused(5, "compile", DIGITS, "-o", self.tmp / "no" / "such" / "d.so")
        self.refused(5, "compare", DIGITS, "--data", self.tmp / "absent")
        self.refused(5, "compare", DIGITS, "--data", self.tmp, words=["output_0.pb"])
        for i in range(2):
            (self.tmp / f"output_{i}.pb").write_bytes(b"")
        self.refused(2, "compare", DIGITS, "--data", self.tmp, words=["T0922", "2 expected outputs", "gives 1"])
        self.refused(4, "run", DIGITS, "--dim", "batch=64", "--memory-limit", "4K", words=["T0902", "limit", "largest", "Conv"])
        self.ok("compile", DIGITS, "--dim", "batch=64", "-o", self.tmp / "d64.so")
        self.refused(4, "run", self.tmp / "d64.so", "--memory-limit", "4K", words=["T0507", "limit"])
        self.ok("run", self.tmp / "d64.so", "--memory-limit", "64M")
        self.ok("run", DIGITS, "--dim", "batch=64", "--memory-limit", "64M")

    def cached(self, *arguments, **options):
        """Whether the compile cache had it, and what the model gave."""
        result = json.loads(self.ok("run", *arguments, "--json", **options))
        return result["cached"], result["outputs"]

    def test_compile_cache(self):
        folder = self.tmp / "cache"
        first = self.cached(DIGITS, "--cache", folder)
        self.assertFalse(first[0])
        self.assertEqual(self.cached(DIGITS, "--cache", folder), (True, first[1]))
        self.assertEqual(self.cached(DIGITS, "--cache", folder, "--no-cache"), first)
        self.assertEqual(self.cached(DIGITS, "--cache", folder, "-O", 1)[0], False)
        self.assertEqual(self.cached(DIGITS, "--cache", folder, "--dim", "batch=2")[0], False)
        self.assertTrue(json.loads(self.ok("bench", DIGITS, "--cache", folder, "--json", "--repeat", 2))["cached"])
        self.ok("compare", DIGITS, "--cache", folder, "--against", "interpreter", "--rtol", 1e-4, "--atol", 1e-6)
        self.assertIn("from the compile cache", tenon("run", DIGITS, "--cache", folder, "-v").stderr)
        self.assertEqual(tenon("run", DIGITS, "--cache", folder).stderr, "")
        self.assertEqual(len(list(folder.iterdir())), 3)

    def test_compile_cache_survives_damage(self):
        folder = self.tmp / "cache"
        time.sleep(0.2)  # what was written a moment ago is not kept
        _, outputs = self.cached(self.module, "--cache", folder)
        (entry,) = folder.iterdir()
        whole = entry.read_bytes()
        for bad in (b"", whole[:-1], whole[:4000], b"\x7fELF" + bytes(3000), whole[:3000] + b"\xff" * 64 + whole[3064:]):
            entry.unlink()
            entry.write_bytes(bad)
            done = tenon("run", self.module, "--cache", folder, "--json", "-v")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("removed a bad entry", done.stderr)
            self.assertEqual(json.loads(done.stdout)["outputs"], outputs)
            self.assertEqual(self.cached(self.module, "--cache", folder), (True, outputs))

    def test_processes_share_a_compile_cache(self):
        folder = self.tmp / "cache"
        line = [TENON, "run", DIGITS, "--cache", folder, "--json"]
        running = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        results = []
        for process in running:
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
            results.append(json.loads(out)["outputs"])
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0], results[2])
        self.assertEqual(len(list(folder.iterdir())), 1)
        self.assertTrue(self.cached(DIGITS, "--cache", folder)[0])

    def test_no_room_for_the_compile_cache(self):
        expected = self.cached(self.module, "--no-cache")

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

        folder = self.tmp / "cache"
        done = tenon("run", self.module, "--cache", folder, "--json", "-v", preexec_fn=small_files, restore_signals=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not stored in the compile cache", done.stderr)
        self.assertEqual(json.loads(done.stdout)["outputs"], expected[1])
        self.assertEqual(list(folder.iterdir()), [])
        if os.geteuid() != 0:  # whom permissions do not bind
            folder.chmod(0o500)
            self.assertEqual(self.cached(self.module, "--cache", folder), expected)
        self.assertEqual(self.cached(self.module, "--cache", self.module / "below"), expected)

    def test_quantize(self):
        samples, out = self.tmp / "samples", self.tmp / "digits_int8.onnx"
        samples.mkdir()
        digits = DIGITS.parent
        for file, name in (("test_images.npy", "image.npy"), ("test_labels.npy", "labels.npy")):
            shutil.copy(digits / file, samples / name)
        report = json.loads(self.ok("quantize", DIGITS, "--data", samples, "-o", out, "--json"))
        self.assertEqual(len(report["layers"]), 4)
        self.assertEqual(report["samples"], 359)
        self.assertGreaterEqual(report["accuracy_after"], report["accuracy_before"] - 0.005)
        self.assertLess(out.stat().st_size, DIGITS.stat().st_size / 2)
        self.ok("compare", out, "--against", "interpreter", "--rms-tol", "0.02")
        first = report["layers"][0]["name"]
        shown = self.ok("quantize", DIGITS, "--data", samples, "-o", out, "--method", "entropy", "--exclude", first)
        self.assertNotIn(first + " ", shown)
        self.assertIn("accuracy on 359 samples", shown)
        # What cannot be calibrated leaves no model.
        out.unlink()
        (samples / "labels.npy").unlink()
        for shape, values in (((2, 1, 8, 9), [0] * 144), ((0, 1, 8, 8), []), ((1, 1, 8, 8), [float("nan")] * 64)):
            npy(samples / "image.npy", shape, values)
            self.refused(2, "quantize", DIGITS, "--data", samples, "-o", out, words=["T0951", "image"])
            self.assertFalse(out.exists())
        (samples / "image.npy").unlink()
        self.refused(2, "quantize", DIGITS, "--data", samples, "-o", out, words=["T0951", "no samples of the input 'image'"])
        self.refused(5, "quantize", DIGITS, "--data", self.tmp / "absent", "-o", out, words=["T3001"])
        self.assertFalse(out.exists())

    def test_reduce_says_when_nothing_is_wrong(self):
        self.assertIn("nothing to reduce", self.ok("reduce", DIGITS, "--pass", "fold_constant", "--pass", "fuse_ops"))
        done = tenon("reduce", DIGITS, "--pass", "no_such_pass")
        self.assertEqual(done.returncode, 2)
        self.assertIn("T0919", done.stderr)

    def test_target_records(self):
        record = json.loads(self.ok("doctor", "--json"))["cpu"]
        path = self.tmp / "machine.json"
        path.write_text(json.dumps(record))
        self.assertEqual(self.cached(DIGITS, "--target", f"@{path}", "--no-cache"), self.cached(DIGITS, "--no-cache"))
        missing = [f for f in ("avx512_fp16", "amx_tile", "amx_bf16") if f not in record["features"]]
        if missing:
            path.write_text(json.dumps({**record, "features": record["features"] + missing}))
            self.refused(3, "run", DIGITS, "--target", path, words=["T0603", missing[0]])
            self.ok("compile", DIGITS, "--target", path, "-o", self.tmp / "other.so")
            self.refused(3, "run", self.tmp / "other.so", words=["T0603", missing[0]])
        for lie in ({"vector_bits": 4096}, {"cores": 0}, {"l1d_bytes": 0}, {"features": ["avx9"]}, {"speed": 3}):
            path.write_text(json.dumps({**record, **lie}))
            self.refused(2, "run", DIGITS, "--target", path, words=["T0901", "machine.json", *lie.keys()][:2])
        path.write_text("not JSON")
        self.refused(2, "run", DIGITS, "--target", path, words=["T0901"])
        self.refused(5, "run", DIGITS, "--target", self.tmp / "absent.json", words=["T3001"])

    def test_errors_as_json(self):
        done = tenon("run", self.tmp / "absent.onnx", "--json")
        self.assertEqual(done.returncode, 5)
        self.assertEqual(json.loads(done.stdout)["error"].keys(), {"code", "message", "location", "hint"})

    def test_every_small_conformance_file(self):
        archive = SHARED / "conformance" / "onnx-1.22.0-backend-test-data.tar.xz"
        if not archive.exists():
            self.skipTest(f"the ONNX backend test data are missing ({archive}; set TENON_SHARED)")
        subprocess.run(["tar", "xf", archive, "-C", self.tmp], check=True)
        files = sorted(p for p in (self.tmp / "onnx").rglob("*") if p.is_file() and p.stat().st_size < 1_000_000)
        step = 1 if os.environ.get("TENON_SLOW_TESTS") else 25
        for path in files[::step]:
            done = tenon("inspect", path, "-q")
            self.assertIn(done.returncode, (0, 3), f"{path}: {done.stderr[-400:]}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
