#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`compile` and `quantize`: every kind of output, code for several processors, debug information. Standard library only.

Run by ctest: test_compile.py TENON SOURCE-DIR"""
import array
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from support import Command, DIGITS, LINKS_THE_RUNTIME, MODULE, SOURCE, TENON, npy, read_floats, tenon  # noqa: E402


class Compile(Command):
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
    def test_c_of_loops_that_collect(self):
        # What a loop collects goes on as its state while the next turn collects anew, in memory of its own.
        text = """@R.function
def main(s: R.Tensor((3,), "float32"), m: R.Tensor((4, 3), "float32")) -> R.Tensor((5, 4, 3), "float32"):
    none = R.call_pure_packed("tenon.sequence.empty", sinfo_args=R.Object)
    @R.loop(R.const(0, "int64"), s, m, none)
    def outer(i: R.Tensor((), "int64"), a: R.Tensor((3,), "float32"), rows: R.Tensor((4, 3), "float32"), all: R.Object):
        with R.condition():
            return R.less(i, R.const(5, "int64"))
        x = R.add(R.tanh(rows), a)
        fresh = R.call_pure_packed("tenon.sequence.empty", sinfo_args=R.Object)
        @R.loop(R.const(0, "int64"), a, fresh)
        def inner(j: R.Tensor((), "int64"), b: R.Tensor((3,), "float32"), some: R.Object):
            with R.condition():
                return R.less(j, R.const(4, "int64"))
            row = R.add(R.take(x, j, axis=0), b)
            longer = R.call_pure_packed("tenon.sequence.append", some, R.multiply(row, b), sinfo_args=R.Object)
            return (R.add(j, R.const(1, "int64")), R.sigmoid(row), longer)
        open = R.call_pure_packed("tenon.sequence.stack", inner[2], R.const(0.0, "float32"), R.prim_value(3), sinfo_args=R.Tensor(dtype="float32", ndim=2))
        stacked = R.match_cast(open, R.Tensor((4, 3), "float32"))
        more = R.call_pure_packed("tenon.sequence.append", all, R.add(rows, stacked), sinfo_args=R.Object)
        return (R.add(i, R.const(1, "int64")), inner[1], stacked, more)
    whole = R.call_pure_packed("tenon.sequence.stack", outer[3], R.const(0.0, "float32"), R.prim_value(4), R.prim_value(3), sinfo_args=R.Tensor(dtype="float32", ndim=3))
    y = R.match_cast(whole, R.Tensor((5, 4, 3), "float32"))
    return y
"""
        inputs = [("s", (3,), [0.5, -0.25, 1.0]), ("m", (4, 3), [0.1 * k - 0.6 for k in range(12)])]
        self.run_as_c(text, inputs)
        # As many as the data say, and a list that two others begin with.
        (self.tmp / "data.tir").write_text(text.replace("R.less(i, R.const(5, \"int64\"))", "R.less(R.sum(a), R.const(9.0, \"float32\"))")
                                           .replace("R.Tensor((5, 4, 3), \"float32\")", "R.Tensor(dtype=\"float32\", ndim=3)"))
        self.refused(3, "compile", self.tmp / "data.tir", "--emit", "c", "-o", self.tmp / "x.c", words=["T0924", "the number of a loop's outputs is not known"])
        (self.tmp / "twice.tir").write_text("""@R.function
def main(x: R.Tensor((3,), "float32"), z: R.Tensor((3,), "float32")):
    none = R.call_pure_packed("tenon.sequence.empty", sinfo_args=R.Object)
    a = R.call_pure_packed("tenon.sequence.append", none, x, sinfo_args=R.Object)
    b = R.call_pure_packed("tenon.sequence.append", a, x, sinfo_args=R.Object)
    c = R.call_pure_packed("tenon.sequence.append", a, z, sinfo_args=R.Object)
    p = R.call_pure_packed("tenon.sequence.stack", b, R.const(0.0, "float32"), R.prim_value(3), sinfo_args=R.Tensor(dtype="float32", ndim=2))
    q = R.call_pure_packed("tenon.sequence.stack", c, R.const(0.0, "float32"), R.prim_value(3), sinfo_args=R.Tensor(dtype="float32", ndim=2))
    y = R.match_cast(p, R.Tensor((2, 3), "float32"))
    w = R.match_cast(q, R.Tensor((2, 3), "float32"))
    return R.concat((y, w), axis=0)
""")
        self.refused(3, "compile", self.tmp / "twice.tir", "--emit", "c", "-o", self.tmp / "x.c", words=["T0924", "it reads a list that was extended"])

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

    def test_same_bytes_twice(self):
        self.ok("compile", DIGITS, "-o", self.tmp / "a.so", "--threads", 1, "--no-cache")
        self.ok("compile", DIGITS, "-o", self.tmp / "b.so", "--threads", 2, "--no-cache")
        self.assertEqual((self.tmp / "a.so").read_bytes(), (self.tmp / "b.so").read_bytes())
        for name, cached in (("c.so", False), ("d.so", True)):  # the cache gives the same file
            done = json.loads(self.ok("compile", DIGITS, "-o", self.tmp / name, "--cache", self.tmp / "own", "--json"))
            self.assertEqual(done["cached"], cached)
            self.assertTrue(done["passes"])
            self.assertEqual((self.tmp / "a.so").read_bytes(), (self.tmp / name).read_bytes())

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
        npy(samples / "labels.npy", (359,), [10] * 359, "<i4", "i")
        self.refused(2, "quantize", DIGITS, "--data", samples, "-o", out, words=["T0951", "the label 10 of sample 0 is none of 10 classes"])
        self.assertFalse(out.exists())
        (samples / "labels.npy").unlink()
        for shape, values in (((2, 1, 8, 9), [0] * 144), ((0, 1, 8, 8), []), ((1, 1, 8, 8), [float("nan")] * 64)):
            npy(samples / "image.npy", shape, values)
            self.refused(2, "quantize", DIGITS, "--data", samples, "-o", out, words=["T0951", "image"])
            self.assertFalse(out.exists())
        (samples / "image.npy").unlink()
        self.refused(2, "quantize", DIGITS, "--data", samples, "-o", out, words=["T0951", "no samples of the input 'image'"])
        self.refused(5, "quantize", DIGITS, "--data", self.tmp / "absent", "-o", out, words=["T3001"])
        self.assertFalse(out.exists())

    def test_bfloat16_that_does_not_pay(self):
        out = self.tmp / "narrow.tir"
        for target, stays in (("llvm -mcpu=x86-64-v3", True), ("llvm -mcpu=sapphirerapids -mattr=-amx_bf16", True),
                              ("llvm -mcpu=sapphirerapids", False), ("llvm -mcpu=znver4", False)):
            words = ("compile", DIGITS, "--precision", "bf16", "--target", target, "--emit", "tir", "-o", out, "--json", "--dim", "batch=1")
            self.assertEqual("note" in json.loads(self.ok(*words)), stays, target)
            self.assertEqual("bfloat16" in out.read_text(), not stays, target)
            self.ok(*words, "--require-pass", "to_mixed_precision")
            self.assertIn("bfloat16", out.read_text())

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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
