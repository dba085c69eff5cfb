# SPDX-License-Identifier: Apache-2.0
"""Tensor programs that call functions of Python by name, from text and from tensor expressions; what fails, and what is missing."""
from __future__ import annotations

import os
import tempfile
import unittest

import tenon
from tenon import te
from tenon.script import tir as T

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not here") from None

TEXT = '''
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        B[i, j] = A[i, j]
    T.call_packed("test.packed.negate", T.tensor_view(A[0:4, 1], "r"), B[0:4, 2])
    n = T.call_packed("test.packed.count", T.tensor_view(A, "r"), 3, "text", T.bool(True), dtype="int32")
    B[0, 0] = T.Cast("float32", n)
'''


def negate(x, y):
    np.asarray(y)[...] = -np.asarray(x)


class PackedCalls(unittest.TestCase):
    def setUp(self):
        self.seen = []
        tenon.register_func("test.packed.negate", negate, override=True)
        tenon.register_func("test.packed.count", self.count, override=True)

    def count(self, *args):
        self.seen.append((np.asarray(args[0]).copy(),) + args[1:])
        return len(args)

    def test_text(self):
        module = tenon.parse(TEXT)
        a = np.arange(24, dtype="f").reshape(4, 6)
        want = a.copy()
        want[:, 2] = -a[:, 1]
        want[0, 0] = 4
        for target in ("llvm", "c"):
            np.testing.assert_array_equal(tenon.compile(module, target)(a), want)
            (x, k, text, flag), = self.seen
            np.testing.assert_array_equal(x, a)
            self.assertEqual((k, text, flag), (3, "text", True))
            self.seen.clear()

    def test_tensor_expressions(self):
        a = te.placeholder((4,), name="A")
        b = te.extern((4,), [a], lambda ins, outs: T.call_packed("test.packed.negate", ins[0], outs[0]), name="B")
        f = te.build(te.create_schedule(b.op), [a, b])
        x = np.arange(4, dtype="f")
        np.testing.assert_array_equal(f(x), -x)

    def test_artifacts_and_failures(self):
        exe = tenon.compile(tenon.parse(TEXT))
        a = np.ones((4, 6), "f")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.so")
            exe.save(path)
            session = tenon.load(path)
            self.assertEqual(session(a)[0, 0], 4)

            def fails(*args):
                raise ValueError("not today")

            tenon.register_func("test.packed.count", fails, override=True)
            session = tenon.load(path)
            for _ in range(2):
                with self.assertRaisesRegex(tenon.error.Error, "test.packed.count.*not today") as caught:
                    session(a)
                self.assertEqual(caught.exception.code, "T0525")
            tenon.remove_global_func("test.packed.count")
            with self.assertRaisesRegex(tenon.error.ModelError, "test.packed.count") as caught:
                tenon.load(path)
            self.assertEqual(caught.exception.code, "T0609")

    def test_a_call_is_made_in_every_run(self):
        # Runs of equal shapes are recorded, and kernels of constants computed once: not those that call.
        exe = tenon.compile(tenon.parse('''
@I.ir_module
class Module:
    @T.prim_func
    def fill(C: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            B[i] = C[i]
        T.call_packed("test.packed.count", T.tensor_view(B, "r"), dtype="void")

    @R.function
    def main(x: R.Tensor((n,), "float32")):
        y = R.call_tir(Module.fill, (R.const([1.0, 2.0], "float32"),), out_sinfo=R.Tensor((2,), "float32"))
        return (y, R.exp(x))
'''))
        for _ in range(6):
            exe(np.zeros(3, "f"))
        self.assertEqual([seen[0].tolist() for seen in self.seen], [[1, 2]] * 6)


if __name__ == "__main__":
    unittest.main()
