# SPDX-License-Identifier: Apache-2.0
"""Programs that posts about such compilers show, as Python runs them: the decorated ones beside their text, tensor expressions
beside the script, values beside plain Python."""
from __future__ import annotations  # sizes that only the text knows stand in signatures

import array
import unittest

import tenon
from tenon import te
from tenon.ir import IRModule
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


if __name__ == "__main__":
    unittest.main()
