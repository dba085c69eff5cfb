#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the command tells: help, `inspect`, `bench`, `doctor`, `ops`, `explain`, keys of JSON. Standard library only.

Run by ctest: test_inspect.py TENON SOURCE-DIR"""
import json
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from support import Command, DIGITS, MODULE, SANITIZED, SHARED, tenon  # noqa: E402


class Inspect(Command):
    def test_help_fits_a_screen(self):
        for verb in ("", "run", "compile", "bench", "compare", "inspect", "extract", "opt", "ops", "doctor"):
            text = self.ok(*([verb] if verb else []), "--help")
            self.assertIn("Example:", text)
            self.assertLessEqual(len(text.splitlines()), 40, verb)

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
        self.assertIn("not softmax.by_blocks, priority 12: a row of 16 bytes stays in the second cache", text)
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

    def test_lint(self):
        clean = self.ok("lint", self.module)
        self.assertIn("0 that keep it from compiling, 0 that make it slow, 0 about its numbers", clean)
        wrong = self.tmp / "wrong.py"
        wrong.write_text(MODULE.replace("nn.relu", "nn.rellu"))
        done = tenon("lint", wrong, "--json")
        self.assertEqual(done.returncode, 3)
        self.assertEqual([p["kind"] for p in json.loads(done.stdout)["problems"]], ["error"])

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


    def test_a_bound_of_a_size_that_must_equal_another(self):
        module = self.tmp / "join.tir"
        module.write_text(
            "@R.function\n"
            'def main(x: R.Tensor((n, 3), "float32"), y: R.Tensor((m, 4), "float32")):\n'
            "    return R.concat((x, y), axis=1)\n"
        )
        artifact = self.tmp / "join.so"
        for name in ("n", "m"):
            self.ok("compile", module, "--dim-max", f"{name}=8", "-o", artifact)
            self.ok("run", artifact, "-i", "x=8x3xf32", "-i", "y=8x4xf32")
            refused = tenon("run", artifact, "-i", "x=16x3xf32", "-i", "y=16x4xf32")
            self.assertIn("T0505", refused.stderr)
            self.assertIn(f"dimension `{name}` is 16, the model was compiled for at most 8", refused.stderr)

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
