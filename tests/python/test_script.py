# SPDX-License-Identifier: Apache-2.0
"""Script text in Python: decorators, captured values, macros, places of mistakes."""
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import tenon
from tenon.script import ir as I, relax as R, tir as T

N = 16
FACTOR = 3
DTYPE = "float32"
SIZES = (N, 4)


class Config:
    block = 8


def scaled(x, by=2):
    """A function that returns an expression."""
    return x * by


@T.prim_func
def add_one(A: T.Buffer((N,), DTYPE), B: T.Buffer((N,), DTYPE)):
    for i in range(N):
        with T.block("B"):
            v = T.axis.spatial(N, i)
            B[v] = A[v] + T.float32(1)


@T.macro
def store(X, i, value):
    with T.block("store"):
        v = T.axis.spatial(N, i)
        X[v] = value * FACTOR


def text_of(program):
    """The same program from its text alone."""
    return tenon.parse(program.script()).functions["main"]


def parsed(text, name="main"):
    return tenon.parse(textwrap.dedent(text)).functions[name]


class Decorators(unittest.TestCase):
    def test_a_function_is_what_its_text_says(self):
        self.assertEqual(add_one, parsed("""
            @T.prim_func
            def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
                for i in range(16):
                    with T.block("B"):
                        v = T.axis.spatial(16, i)
                        B[v] = A[v] + T.float32(1)
            """))
        self.assertEqual(text_of(add_one), add_one)

    def test_a_module_holds_what_it_names(self):
        @I.ir_module
        class Module:
            @T.prim_func
            def exp(A: T.Buffer((N,), DTYPE), B: T.Buffer((N,), DTYPE)):
                for i in range(N):
                    B[i] = T.exp(A[i])

            @R.function
            def main(x: R.Tensor((N,), DTYPE)) -> R.Tensor((N,), DTYPE):
                y = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((N,), DTYPE))  # noqa: F821
                z = R.call_tir(add_one, (y,), out_sinfo=R.Tensor((N,), DTYPE))
                return z

        self.assertEqual(list(Module.functions), ["exp", "main", "add_one"])
        self.assertEqual(Module.functions["add_one"], add_one)
        self.assertEqual(tenon.parse(Module.script()), Module)

    def test_a_graph_function_alone(self):
        @R.function
        def main(x: R.Tensor((N, "m"), DTYPE)):
            return R.nn.relu(x)

        self.assertIsInstance(main, tenon.graph.Function)

        with self.assertRaisesRegex(ValueError, "ir_module"):
            @R.function
            def calls(x: R.Tensor((N,), DTYPE)):
                y = R.call_tir(add_one, (x,), out_sinfo=R.Tensor((N,), DTYPE))
                return y

    def test_what_the_verifier_refuses(self):
        with self.assertRaises(tenon.ModelError):
            @T.prim_func
            def twice(A: T.Buffer((N,), DTYPE)):
                for i in range(N):
                    with T.block("A"):
                        v = T.axis.spatial(4, i)
                        w = T.axis.spatial(N, v)
                        A[v + w] = T.float32(0)


class Captured(unittest.TestCase):
    def test_numbers_tuples_attributes_and_what_is_computed_of_them(self):
        @T.prim_func
        def f(A: T.Buffer(SIZES, DTYPE), B: T.Buffer((SIZES[0] // 2, len(SIZES)), "int32")):
            for i in T.vectorized(Config.block):
                A[i, max(FACTOR, 1)] = T.float32(N * FACTOR)

        self.assertEqual(f, parsed("""
            @T.prim_func
            def main(A: T.Buffer((16, 4), "float32"), B: T.Buffer((8, 2), "int32")):
                for i in T.vectorized(8):
                    A[i, 3] = T.float32(48)
            """))

    def test_functions_that_return_expressions(self):
        @T.prim_func
        def f(A: T.Buffer((N,), DTYPE)):
            for i in range(N):
                A[i] = scaled(A[i]) + scaled(A[i], by=FACTOR)

        self.assertEqual(f, parsed("""
            @T.prim_func
            def main(A: T.Buffer((16,), "float32")):
                for i in range(16):
                    A[i] = A[i] * T.float32(2) + A[i] * T.float32(3)
            """))

    def test_graph_functions_that_return_expressions(self):
        def layer(x, bias):
            return tenon.op.nn.relu(x + bias) * 2.0

        @R.function
        def f(x: R.Tensor((N,), DTYPE), b: R.Tensor((N,), DTYPE)):
            y = layer(x, b)
            return y

        @R.function
        def g(x: R.Tensor((N,), DTYPE), b: R.Tensor((N,), DTYPE)):
            y = R.multiply(R.nn.relu(R.add(x, b)), R.const(2, "float32"))
            return y

        self.assertEqual(re.sub(r": R\.Tensor\(.*?\) =", " =", f.script()), g.script())  # its types are known already

    def test_expressions_variables_and_buffers(self):
        n = tenon.tir.Var(name="n", dtype="int64")
        extent = n * 2 + 1

        @T.prim_func
        def f(A: T.Buffer((n,), DTYPE), B: T.Buffer((extent,), DTYPE)):
            for i in range(n):
                B[i + extent - n - 1] = A[i]

        self.assertEqual(f, parsed("""
            @T.prim_func
            def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n * 2 + 1,), "float32")):
                for i in range(n):
                    B[i + (n * 2 + 1) - n - 1] = A[i]
            """))

    def test_closures_and_names_in_annotations_only(self):
        def outer(rows):
            columns = rows * 2  # named in an annotation alone: in no closure

            def inner(dtype):
                @T.prim_func
                def f(A: T.Buffer((rows, columns), dtype)):
                    A[0, 0] = T.cast(1, dtype)
                return f
            return inner("float64")

        buffer = next(iter(outer(3).buffer_map.values()))
        self.assertEqual([int(d.value) for d in buffer.shape], [3, 6])
        self.assertEqual(buffer.dtype, "float64")

    def test_names_of_the_text_come_first(self):
        i, A = 100, "shadowed"  # noqa: F841

        @T.prim_func
        def f(A: T.Buffer((N,), DTYPE)):
            for i in range(N):
                A[i] = T.float32(0)

        self.assertEqual(text_of(f), f)

    def test_an_error_of_python_says_where_it_was_evaluated(self):
        with self.assertRaises(ZeroDivisionError) as caught:
            @T.prim_func
            def f(A: T.Buffer((N,), DTYPE)):
                A[0] = T.float32(N // (FACTOR - FACTOR))
        line = self.test_an_error_of_python_says_where_it_was_evaluated.__code__.co_firstlineno + 4
        self.assertIn(f"test_script.py:{line}:", "".join(caught.exception.__notes__))

    def test_numpy(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("NumPy is not here")
        table, size = np.arange(4, dtype="float32"), np.int64(4)

        @T.prim_func
        def f(A: T.Buffer((size,), np.float32)):
            A[0] = T.float32(0)

        @R.function
        def g(x: R.Tensor((size,), np.dtype("float32"))):
            return x + table

        self.assertEqual(next(iter(f.buffer_map.values())).dtype, "float32")
        self.assertIn("R.const([0.0, 1.0, 2.0, 3.0]", g.script())

    def test_dictionaries_texts_truth_and_none(self):
        notes, flag, nothing, tag = {"note": [1, "two"], "deep": {"x": 1.5}}, True, None, "threads"

        @T.prim_func
        def f(A: T.Buffer((N,), DTYPE), B: T.Buffer((N,), DTYPE, strides=nothing)):
            T.func_attr({"tag": tag, "flag": flag, "sizes": SIZES})
            for i in T.serial(N, annotations=notes):
                A[i] = T.Select(flag, B[i], T.float32(0))

        self.assertEqual(f, parsed("""
            @T.prim_func
            def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
                T.func_attr({"tag": "threads", "flag": True, "sizes": [16, 4]})
                for i in T.serial(16, annotations={"note": [1, "two"], "deep": {"x": 1.5}}):
                    A[i] = T.Select(True, B[i], T.float32(0))
            """))

    def test_a_value_that_means_nothing_here(self):
        what = object()
        with self.assertRaises(tenon.ScriptError) as caught:
            @T.prim_func
            def f(A: T.Buffer((N,), DTYPE)):
                A[0] = what
        self.assertEqual(caught.exception.code, "T0225")


class Macros(unittest.TestCase):
    def test_statements_are_put_where_it_is_called(self):
        @T.prim_func
        def f(A: T.Buffer((N,), DTYPE)):
            for i in range(N):
                store(A, i, T.float32(2))

        self.assertEqual(f, parsed("""
            @T.prim_func
            def main(A: T.Buffer((16,), "float32")):
                for i in range(16):
                    with T.block("store"):
                        v = T.axis.spatial(16, i)
                        A[v] = T.float32(2) * T.float32(3)
            """))

    def test_hygiene(self):
        FACTOR = 5  # noqa: F841

        @T.macro(hygienic=False)
        def dynamic(X, i):
            X[i] = X[i] * shift  # noqa: F821

        @T.macro
        def lexical(X, i):
            X[i] = X[i] * shift  # noqa: F821

        @T.prim_func
        def f(A: T.Buffer((N,), DTYPE)):
            for i in range(N):
                shift = A[i]
                dynamic(A, i)
        self.assertIn("shift", f.script())

        with self.assertRaises(tenon.ScriptError) as caught:
            @T.prim_func
            def g(A: T.Buffer((N,), DTYPE)):
                for i in range(N):
                    shift = A[i]
                    lexical(A, i)
        self.assertEqual(caught.exception.code, "T0220")

    def test_macros_of_graph_functions(self):
        scale = 2.0

        @R.macro
        def layer(x, b, dtype):
            y = R.add(x, b)
            z = R.nn.relu(y)
            return R.multiply(z, R.const(scale, dtype))

        @R.function
        def f(x: R.Tensor((N,), DTYPE), b: R.Tensor((N,), DTYPE)):
            y = layer(x, b, "float32")
            z = layer(y, R.exp(b), dtype="float32")
            return z

        @R.function
        def g(x: R.Tensor((N,), DTYPE), b: R.Tensor((N,), DTYPE)):
            y = R.multiply(R.nn.relu(R.add(x, b)), R.const(2, "float32"))
            e = R.exp(b)
            z = R.multiply(R.nn.relu(R.add(y, e)), R.const(2, "float32"))
            return z

        self.assertEqual(f, g)

        @R.macro(hygienic=False)
        def shifted(x):
            return R.add(x, b)  # noqa: F821

        @R.function
        def h(x: R.Tensor((N,), DTYPE), b: R.Tensor((N,), DTYPE)):
            return shifted(x)

        self.assertIn("R.add(x, b)", h.script())
        with self.assertRaises(tenon.ScriptError) as caught:
            @R.macro
            def nothing(x):
                y = R.exp(x)  # noqa: F841

            @R.function
            def k(x: R.Tensor((N,), DTYPE)):
                return nothing(x)
        self.assertEqual(caught.exception.code, "T0241")
        with self.assertRaises(tenon.ScriptError) as caught:
            @R.macro
            def hidden(x):
                return R.add(x, b)  # noqa: F821

            @R.function
            def m(x: R.Tensor((N,), DTYPE), b: R.Tensor((N,), DTYPE)):
                return hidden(x)
        self.assertEqual(caught.exception.code, "T0220")

    def test_a_macro_that_calls_itself(self):
        with self.assertRaises(tenon.ScriptError) as caught:
            @T.macro
            def again(X):
                again(X)

            @T.prim_func
            def f(A: T.Buffer((N,), DTYPE)):
                again(A)
        self.assertEqual(caught.exception.code, "T0222")  # it is not there yet when its values are captured

    def test_arguments(self):
        with self.assertRaises(tenon.ScriptError) as caught:
            @T.prim_func
            def f(A: T.Buffer((N,), DTYPE)):
                store(A, 0)
        self.assertEqual(caught.exception.code, "T0223")


class Mistakes(unittest.TestCase):
    def test_places_are_those_of_the_file(self):
        with self.assertRaises(SyntaxError) as caught:
            @T.prim_func
            def f(A: T.Buffer((N,), DTYPE)):
                for i in range(N):
                    A[i] = nothing  # noqa: F821
                    A[i] = A[i, 2]
        e = caught.exception
        first = self.test_places_are_those_of_the_file.__code__.co_firstlineno
        self.assertIsInstance(e, tenon.ScriptError)
        self.assertEqual((e.code, os.path.basename(e.filename), e.lineno, e.offset),
                         ("T0220", "test_script.py", first + 5, 28))
        self.assertIn("A[i] = nothing", e.text)
        self.assertIn(f"test_script.py:{first + 6}:28", str(e))  # every mistake

    def test_text_alone(self):
        with self.assertRaises(tenon.ScriptError) as caught:
            tenon.parse("@T.prim_func\ndef main(A: T.Buffer((4,), \"float32\")):\n    A[0] = B[0]\n", "a.py")
        self.assertEqual((caught.exception.filename, caught.exception.lineno), ("a.py", 3))

    def test_no_source(self):
        names = {"T": T}
        with self.assertRaisesRegex(OSError, "source text of `f`"):
            exec("@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    A[0] = T.float32(0)\n", names)


class Files(unittest.TestCase):
    def run_file(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w") as f:
                f.write(textwrap.dedent(text))
            done = subprocess.run([sys.executable, path], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_future_annotations(self):
        out = self.run_file("""
            from __future__ import annotations
            from tenon.script import ir as I, tir, relax as R

            def make(rows):
                columns = 3
                @I.ir_module
                class Module:
                    @tir.prim_func
                    def f(A: tir.Buffer((rows, columns), "float32")):
                        A[0, 0] = tir.float32(1)
                return Module
            print(make(2).script())
            """)
        self.assertIn('A: T.Buffer((2, 3), "float32")', out)

    def test_text_that_is_read_from_a_pipe(self):
        program = ("from tenon.script import tir as T\n@T.prim_func\ndef f(A: T.Buffer((2,), 'float32')):\n"
                   "    A[0] = T.float32(0)\n")
        done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        if done.returncode:  # newer versions keep what they read
            self.assertIn("the source text of `f` is not there", done.stderr)
            self.assertIn("tenon.parse", done.stderr)

    def test_a_notebook(self):
        out = self.run_file("""
            import linecache
            cell = '''
            from tenon.script import tir as T
            size = 5
            @T.prim_func
            def f(A: T.Buffer((size,), "float32")):
                A[0] = T.float32(1)
            print(f.script())
            '''.replace("\\n            ", "\\n")
            linecache.cache["<ipython-input-1>"] = (len(cell), None, cell.splitlines(True), "<ipython-input-1>")
            exec(compile(cell, "<ipython-input-1>", "exec"), {"__name__": "__main__"})
            """)
        self.assertIn("T.Buffer((5,)", out)


class Show(unittest.TestCase):
    def test_colours(self):
        from tenon.script.show import coloured
        text = add_one.script()
        shown = coloured(text)
        self.assertNotEqual(shown, text)
        self.assertEqual(re.sub("\033\\[[0-9]+m", "", shown), text)


if __name__ == "__main__":
    unittest.main()
