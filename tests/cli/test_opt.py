#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opt`, `reduce` and kernels that a person edits: passes, schedules, what `--explain` says. Standard library only.

Run by ctest: test_opt.py TENON SOURCE-DIR"""
import json
import re
import sys
import unittest

sys.dont_write_bytecode = True
from support import Command, DIGITS, MODULE, SHARED, read_floats, tenon  # noqa: E402

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


class Opt(Command):
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
            self.ok("run", self.tmp / "m.so", "-o", self.tmp / "out")
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
        put_back("proved by its values")
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
        program.write_text("")
        self.refused(3, "run", DIGITS, "--dim", "batch=1", "--override", folder, words=["T1035", "no program", str(program)])

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
        rules = ["# ---- rules of product", "# c",
                 *(f"#   {rule}: a stage is no fold of columns that each are read once" for rule in ("fold_in_order", "by_columns")),
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

    def test_explain_what_a_pass_says(self):
        program = self.tmp / "product.tir"
        program.write_text(MODULE.replace("(2, 3)", "(3, 3)").replace("R.add(x, y)", "R.matmul(x, y)"))
        call = ["opt", program, "--pass", "infer_types", "--pass", "use_libraries", "--target", "llvm -libs=cblas", "--pass-option", "use_libraries.choose=always", "--explain"]
        (said,) = json.loads(self.ok(*call, "--json"))["sentences"]
        self.assertEqual(said["pass"], "use_libraries")
        self.assertIn("`matmul.cblas`", said["what"])
        self.assertIn(f"# use_libraries: {said['what']}", self.ok(*call))

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

    def test_reduce_says_when_nothing_is_wrong(self):
        self.assertIn("nothing to reduce", self.ok("reduce", DIGITS, "--pass", "fold_constant", "--pass", "fuse_ops"))
        done = tenon("reduce", DIGITS, "--pass", "no_such_pass")
        self.assertEqual(done.returncode, 2)
        self.assertIn("T0919", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
