#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is refused, with which words and exit status: types, usage, models, artifacts, files. Standard library only.

Run by ctest: test_mistakes.py TENON SOURCE-DIR"""
import json
import os
import re
import sys
import unittest

sys.dont_write_bytecode = True
from support import Command, DIGITS, MODULE, TENON, tenon  # noqa: E402


class Mistakes(Command):
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

    def test_sizes_that_overflow(self):
        """Sizes that do not fit once a symbol has a value, by an option or by the inputs."""
        text = '''
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    return R.broadcast_to(R.const(1, "float32"), R.shape([n * 4611686018427387904, 8]))
'''
        for arguments in (["--dim", "n=2"], ["-i", "x=[1, 2]"]):
            self.refused(3, "run", "-", *arguments, stdin=text, words=["T1101", "more than 64 bits", "--> <stdin>:5:"])

        text = text[:1] + '''@T.prim_func
def main(a: T.handle, B: T.Buffer((8,), "float32")):
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    for i in range(8):
        B[i] = A[0, i]
'''
        self.refused(3, "compile", "-", "--dim", f"n={2**62}", "-o", os.devnull, stdin=text, words=["T1101", "2^62", "--> <stdin>:6:"])

    def test_symbols_that_several_functions_have(self):
        program = '''
    @T.prim_func
    def {0}(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({{"global_symbol": "same"}})
        for i in range(8):
            B[i] = A[i] + T.float32({1})
'''
        graph = '''
    @R.function
    def {0}(x: R.Tensor((8,), "float32")):
        R.func_attr({{"global_symbol": "same"}})
        return R.add(x, x)
'''
        calls = "\n    @R.function\n    def main(x: R.Tensor((8,), \"float32\")):\n"
        for name in "fgh":
            calls += f"        x_{name} = R.call_tir(cls.{name}, (x,), out_sinfo=R.Tensor((8,), \"float32\"))\n"
        calls += "        return (x_f, x_g, x_h)\n"
        head = "@I.ir_module\nclass Module:"
        functions = lambda text: "".join(text.format(name, k) for k, name in enumerate("fgh"))
        for text, lines in ((head + functions(program) + calls, [13, 19]), (head + functions(graph), [9, 14])):
            done = self.refused(3, "compile", "-", "-o", os.devnull, stdin=text, words=["T1033", "`f` and `g`"])
            self.assertEqual([int(n) for n in re.findall(r"--> <stdin>:(\d+):", done.stderr)], lines, done.stderr)

    def test_element_types_that_are_not_known(self):
        text = "@R.function\ndef main(x: R.Tensor((2, 3)), y: R.Tensor((3, 2))):\n    return R.matmul(x, y)\n"
        self.refused(3, "compile", "-", "-o", os.devnull, stdin=text, words=["T0811", "the element type of an argument is not known", "match_cast", ":3:", "declared"])
        self.refused(2, "run", "-", stdin=text, words=["T0913", "`x` has no declared element type and must be given"])

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

    def test_options_that_would_have_no_effect(self):
        """What is accepted has its effect: an artifact is compiled, an input has one value, tolerances are numbers."""
        artifact = self.tmp / "m.so"
        self.ok("compile", DIGITS, "-o", artifact)
        for words in (["--target", "c"], ["-O", "3"], ["--precision", "bf16"], ["--verify"], ["--override", self.tmp],
                      ["--pass-option", "plan_memory.reorder=false"], ["--disable-pass", "fuse_ops"], ["--time-passes"],
                      ["--dim-max", "batch=3"], ["--compile-timeout", "9"]):
            self.refused(2, "run", artifact, *words, words=["T0954", words[0].lstrip("-"), str(artifact)])
        self.ok("run", artifact, "--dim", "batch=2", "--no-cache", "--threads", "1")
        self.refused(2, "run", artifact, "--dim", "sheep=2", words=["T0903", "'sheep'", str(artifact)])
        self.refused(2, "run", DIGITS, "-i", "image=2x1x8x8xf32", "-i", "image=2x1x8x8xf32", words=["T0522", "`image` is given twice"])
        for tolerance in ("nan", "-1", "inf"):
            self.refused(2, "compare", DIGITS, "--against", "interpreter", f"--rtol={tolerance}", words=["T0900", tolerance])
        self.refused(2, "bench", DIGITS, "--seconds", "nan", words=["T0900", "nan"])
        self.refused(2, "bench", DIGITS, "--repeat", "0", words=["T0900", "1 to 1000000000"])
        self.refused(2, "quantize", DIGITS, "--data", self.tmp, "-o", self.tmp / "q.onnx", "--percentile", "99",
                     words=["T0950", "minmax has no percentile"])

    def test_targets_of_functions(self):
        graph = '@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    R.func_attr({"target": "%s"})\n    return R.add(x, x)\n'
        self.refused(3, "run", "-", stdin=graph % "nosuch", words=["T0949", "`main` is for the target `nosuch`"])
        self.refused(3, "run", "-", stdin=graph % "llvm -mcpu=x86-64", words=["T0949", "@T.prim_func"])
        self.ok("run", "-", "--target", "c", stdin=graph % "c")

    def test_items_of_what_has_none(self):
        text = '@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    t = (x, x)\n    y = %s\n    return y\n'
        self.refused(3, "run", "-", stdin=text % "x[0]", words=["T1101", "item 0 is taken of a tensor", "<stdin>:4:9"])
        self.refused(3, "run", "-", stdin=text % "t[2]", words=["T1101", "item 2 of a tuple of 2", "<stdin>:4:9"])

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

    def test_a_compilation_ends_at_its_time_limit(self):
        for verb, more in (("compile", ["-o", self.tmp / "late.so"]), ("run", []), ("bench", [])):
            self.refused(4, verb, DIGITS, "--no-cache", "--compile-timeout", "1e-9", *more, words=["T1005", "longer than 1e-09 s", "node"])
        self.assertFalse((self.tmp / "late.so").exists())
        for wrong in ("0", "-1", "soon", "nan"):
            self.refused(2, "compile", DIGITS, "--compile-timeout", wrong, words=["--compile-timeout"])
        self.ok("compile", DIGITS, "--no-cache", "--compile-timeout", "1e5", "-o", self.tmp / "in_time.so")

    def test_errors_as_json(self):
        done = tenon("run", self.tmp / "absent.onnx", "--json")
        self.assertEqual(done.returncode, 5)
        self.assertEqual(json.loads(done.stdout)["error"].keys(), {"code", "message", "location", "hint"})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
