# SPDX-License-Identifier: Apache-2.0
"""Programs that posts about such compilers show, as Python runs them: the decorated ones beside their text, tensor expressions
beside the script, values beside plain Python."""
from __future__ import annotations  # sizes that only the text knows stand in signatures

import array
import math
import unittest

import tenon
from tenon import te, tir
from tenon.ir import IRModule, assert_structural_equal
from tenon.script import relax as R, tir as T


def tensor(values, *shape):
    return tenon.NDArray(memoryview(array.array("f", values)).cast("B").cast("f", shape))


def run(module, name, *tensors):
    out = tenon.get_global_func("ir.interpret")(module, list(tensors), name)
    return out


def numbers(t):
    return list(memoryview(t).cast("B").cast("f"))


SIZE = 8


@tenon.script.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(A: T.Buffer[(SIZE, SIZE), "float32"],
                B: T.Buffer[(SIZE, SIZE), "float32"],
                C: T.Buffer[(SIZE, SIZE), "float32"]):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((SIZE, SIZE), dtype="float32")
        for i, j, k in T.grid(SIZE, SIZE, SIZE):
            with T.block("Y"):
                vi = T.axis.spatial(SIZE, i)
                vj = T.axis.spatial(SIZE, j)
                vk = T.axis.reduce(SIZE, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(SIZE, SIZE):
            with T.block("C"):
                vi = T.axis.spatial(SIZE, i)
                vj = T.axis.spatial(SIZE, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def plain_mm_relu(a, b):
    y = [sum(a[i * SIZE + k] * b[k * SIZE + j] for k in range(SIZE)) for i in range(SIZE) for j in range(SIZE)]
    return [max(v, 0.0) for v in y]


class Programs(unittest.TestCase):
    def test_matrix_product(self):
        a = [float((7 * i) % 11 - 5) for i in range(SIZE * SIZE)]
        b = [float((5 * i) % 13 - 6) for i in range(SIZE * SIZE)]
        out = tensor([0.0] * SIZE * SIZE, SIZE, SIZE)
        run(MyModule, "mm_relu", tensor(a, SIZE, SIZE), tensor(b, SIZE, SIZE), out)
        self.assertEqual(numbers(out), plain_mm_relu(a, b))

    def test_vector_add_is_its_tensor_expression(self):
        @tenon.script.ir_module
        class Module:
            @T.prim_func
            def main(a: T.handle, b: T.handle):
                # We exchange data between function by handles, which are similar to pointer.
                T.func_attr({"global_symbol": "main", "tir.noalias": True})
                A = T.match_buffer(a, (8,), dtype="float32")
                B = T.match_buffer(b, (8,), dtype="float32")
                for i in range(8):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        B[vi] = A[vi] + 1.0

        self.assertEqual(tenon.parse(Module.script()), Module)
        A = te.placeholder((8,), dtype="float32", name="A")
        B = te.compute((8,), lambda *i: A(*i) + 1.0, name="B")
        func = te.create_prim_func([A, B])
        module = IRModule({"main": func})
        self.assertIsInstance(module, tenon.ir.IRModule)
        written = Module["main"]
        self.assertEqual(func, written.replace(attrs=func.attrs))

    def test_sizes_of_the_signature(self):
        @tenon.script.ir_module
        class Module:
            @T.prim_func
            def tir_exp_func(x: T.handle, y: T.handle):
                X = T.match_buffer(x, (n,), "float32")
                Y = T.match_buffer(y, (n,), "float32")
                for i in T.grid(n):
                    with T.block("Y"):
                        v = T.axis.spatial(n, i)
                        Y[v] = T.exp(X[v])

            @R.function
            def relax_func(x: R.Tensor[(n, k), "f32"], w: R.Tensor[_, "f32"]):
                with R.dataflow():
                    lv0 = R.match_shape(w, (k, m))
                    lv1: R.Tensor[(n, m), "f32"] = R.matmul(x, lv0)
                    lv2: R.Tensor[(n * m,), "f32"] = R.reshape(lv1, (n * m,))
                    gv0: R.Tensor[(n * m,), "f32"] = R.call_tir((n * m,), tir_exp_func, [lv2])
                    R.outputs(gv0)
                return gv0

        out = run(Module, "relax_func", tensor([0.0] * 6, 2, 3), tensor([1.0] * 12, 3, 4))
        self.assertEqual(numbers(out), [1.0] * 8)

    def test_relay_text(self):
        module = tenon.parse('''#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
  let %double = fn (%v: Tensor[(2, 4), float32]) -> Tensor[(2, 4), float32] { %v * 2f };
  %double(nn.dense(%x, %w, units=4))
}''')
        out = run(module, "main", tensor([1.0] * 6, 2, 3), tensor([0.5] * 12, 4, 3))
        self.assertEqual(numbers(out), [3.0] * 8)

    def test_two_stages(self):
        for n in (1, 8):
            A = te.placeholder((n,), dtype="int32", name="A")
            B = te.compute((n,), lambda i: A[i] + 1, name="compute_B")
            C = te.compute((n,), lambda j: B[j] + 1, name="compute_C")
            sch = te.create_schedule(C.op)
            sch[B].compute_inline()
            a, c = (tenon.NDArray(array.array("i", v)) for v in (range(n), [0] * n))
            run(te.lower(sch, [A, C]), "main", a, c)
            self.assertEqual(list(memoryview(c)), [i + 2 for i in range(n)])


class Refused(unittest.TestCase):
    """What the posts show and Tenon has no part for is refused by its name (docs/python.md says why)."""

    def test_targets(self):
        module = tenon.parse("@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n    y = R.nn.relu(x)\n    return y\n")
        for target in ("cuda", "opencl"):
            with self.assertRaisesRegex(tenon.UsageError, f"T0901.*`{target}`"):
                tenon.compile(module, target=target)

    def test_texts(self):
        for text, code in (("primfn(A_1: handle, C_1: handle) -> ()\n  attr = {}\n", "T0213"), ("def foo(len):\n    return len\n", "T0211"),
                           ("HloModule m\n", "T0206"), ("fn (%x: Tensor[(4), float32]) { nn.unknown(%x) }", "T0222")):
            with self.assertRaises(tenon.ScriptError) as refused:
                tenon.parse(text)
            self.assertEqual(refused.exception.code, code)

    def test_names(self):
        for name in ("DeadCodeElimination",):
            with self.assertRaisesRegex(AttributeError, name):
                getattr(tenon.transform, name)


class RecordedSteps(unittest.TestCase):
    """The fourteen kinds of steps that a search records, on schedules of a product, and their traces replayed."""

    def setUp(self):
        self.A, self.B = te.placeholder((8, 12), name="A"), te.placeholder((12, 10), name="B")
        self.k = te.reduce_axis((0, 12), name="k")
        self.C = te.compute((8, 10), lambda i, j: te.sum(self.A[i, self.k] * self.B[self.k, j], axis=self.k), name="C")

    def check(self, s, args):
        """The scheduled program computes what the plain one does, and its trace makes it of the plain one."""
        plain, scheduled = te.create_prim_func(args), te.lower(s, args)["main"]
        results = []
        for program in (plain, scheduled):
            tensors = [tensor([float((7 * i + k) % 11 - 5) for i in range(math.prod(shape))], *shape)
                       for k, shape in enumerate([tuple(d.value for d in t.shape) for t in args])]
            run(program, "main", *tensors)
            results.append(numbers(tensors[-1]))
        self.assertEqual(*results)
        again = tir.Schedule(plain)
        again.run(scheduled.attrs["tenon.trace"])
        # Bodies of two functions: their parameters are the same up to names.
        assert_structural_equal(again.func.body, scheduled.body, map_free=True)

    def test_all_on_one_schedule(self):
        A, B, C = self.A, self.B, self.C
        bias = te.placeholder((10,), name="bias")
        scaled = te.compute((8, 10), lambda i, j: C[i, j] * 0.5, name="scaled")
        out = te.compute((8, 10), lambda i, j: scaled[i, j] + bias[j], name="out")
        s = te.create_schedule(out.op)
        CC = s.cache_write(C, "local")                               # CacheWrite
        AA = s.cache_read(A, "local", [CC.op])                       # CacheRead
        s[scaled].compute_inline()                                   # ComputeInline
        xo, yo, xi, yi = s[out].tile(*out.op.axis, 4, 5)             # Split, Reorder
        fx, fi = s[C].split(s[C].axis[0], factor=4)                  # FollowSplit: the factors of `out`
        gx, gi = s[C].split(s[C].axis[1], factor=5)
        s[C].reorder(fx, gx, fi, gi)
        tile = s[out].fuse(xo, yo)                                   # Fuse
        s[C].fuse(fx, gx)                                            # FollowFusedSplit
        s[C].compute_at(s[out], tile).compute_root()                 # ComputeAt, ComputeRoot
        s[CC].compute_at(s[C], gi)
        s[AA].storage_align(s[AA].axis[0], 16, 0)                    # StorageAlign
        s[out].parallel(tile).vectorize(yi).unroll(xi)               # Annotation
        s[out].pragma(tile, "auto_unroll_max_step", 16)              # Pragma
        self.check(s, [A, B, bias, out])

    def test_rfactor(self):
        s = te.create_schedule(self.C.op)
        _, inner = s[self.C].split(self.k, factor=4)
        s.rfactor(self.C, inner, 0)                                  # Rfactor
        self.check(s, [self.A, self.B, self.C])


if __name__ == "__main__":
    unittest.main()
