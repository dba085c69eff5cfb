#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`run` and `compare`: values in and out, sizes, bound inputs, artifacts, traces of a run. Standard library only.

Run by ctest: test_run.py TENON SOURCE-DIR"""
import json
import os
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from support import Command, DIGITS, MODULE, npy, read_floats, tenon  # noqa: E402


class Run(Command):
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
        self.refused(2, "run", self.tmp / "m.tir", *given[2:], "-i", "x=3xf32=1", words=["T0505"])
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

    def test_other_processors(self):
        for arch, machine in (("aarch64", 183), ("riscv64", 243)):
            self.ok("compile", self.module, "--target", f"llvm -mtriple={arch}-linux-gnu", "-o", self.tmp / "other.so")
            self.assertEqual((self.tmp / "other.so").read_bytes()[18], machine)
            self.refused(3, "run", self.tmp / "other.so", words=["another kind of machine"])
            self.refused(3, "run", self.module, "--target", f"llvm -mtriple={arch}-linux-gnu", words=["T0603", arch])
        self.refused(2, "compile", self.module, "--target", "llvm -mtriple=sparc-linux-gnu", "-o", self.tmp / "other.so", words=["T0901"])
        self.refused(2, "compile", self.module, "--target", "llvm -mattr=+v", "-o", self.tmp / "other.so", words=["T0901", "+v"])

    def test_profile_names_instructions(self):
        report = json.loads(self.ok("run", self.module, "--profile", "--json"))["profile"]
        self.assertTrue(any(line["function"] == "main" and line["calls"] == 1 for line in report))

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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
