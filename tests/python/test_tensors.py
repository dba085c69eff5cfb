# SPDX-License-Identifier: Apache-2.0
"""Arrays across the border, without copies where they allow it."""
import array
import gc
import unittest
import weakref

import tenon

try:
    import numpy
except ImportError:
    numpy = None


def through(value):
    return tenon.convert_func(lambda x: x)(value)


class Buffers(unittest.TestCase):
    def test_a_buffer_is_a_view(self):
        data = array.array("f", [1, 2, 3])
        t = through(data)
        self.assertIsInstance(t, tenon.NDArray)
        self.assertEqual((t.shape, t.dtype, t.__dlpack_device__()), ((3,), "float32", (1, 0)))
        self.assertEqual(t.data_ptr, data.buffer_info()[0])
        data[1] = 7
        self.assertEqual(memoryview(t).tolist(), [1, 7, 3])
        with self.assertRaises(BufferError):
            data.append(4)  # it is in use
        del t
        gc.collect()
        data.append(4)

    def test_shapes_and_gaps(self):
        m = memoryview(bytearray(range(24))).cast("B", (4, 6))
        t = through(m)
        self.assertEqual((t.shape, t.dtype, memoryview(t).tolist()[1]), ((4, 6), "uint8", list(range(6, 12))))
        gaps = memoryview(array.array("i", range(6)))[::2]
        self.assertEqual(memoryview(through(gaps)).tolist(), [0, 2, 4])
        self.assertEqual(memoryview(through(array.array("d", []))).tolist(), [])

    def test_dlpack_of_our_own(self):
        t = through(array.array("h", [1, -2]))
        for capsule in [t.__dlpack__(), t.__dlpack__(max_version=(1, 1)), t.__dlpack__(max_version=None)]:
            class Producer:
                def __dlpack__(self, max_version=None):
                    return capsule

            again = through(Producer())
            self.assertEqual((again.data_ptr, memoryview(again).tolist()), (t.data_ptr, [1, -2]))
            with self.assertRaises(BufferError):
                through(Producer())  # used
        class Old:
            def __dlpack__(self):
                return t.__dlpack__()

        self.assertEqual(through(Old()).shape, (2,))
        with self.assertRaises(BufferError):
            t.__dlpack__(stream=1)

    def test_a_capsule_that_nobody_takes(self):
        t = through(array.array("h", [1]))
        capsule = t.__dlpack__()
        self.assertGreater(t.use_count(), 1)
        del capsule
        self.assertEqual(t.use_count(), 1)

    def test_what_is_read_only_stays_so(self):
        for data in (b"abc", memoryview(array.array("f", [1, 2])).toreadonly()):
            t = tenon.NDArray(data)
            for view in (t, tenon.NDArray(t), t._carrier(), t._of("uint8", (2,))):
                self.assertTrue(memoryview(view).readonly)
                with self.assertRaises(BufferError):
                    view.__dlpack__()  # the older form cannot say so
            capsule = t.__dlpack__(max_version=(1, 0))
            again = through(type("Producer", (), {"__dlpack__": lambda self, max_version: capsule})())
            self.assertEqual((again.data_ptr, memoryview(again).readonly), (t.data_ptr, True))
            self.assertFalse(memoryview(through(type("Copy", (), {"__dlpack__": lambda self, **k: t.__dlpack__(copy=True)})())).readonly)
        self.assertFalse(memoryview(through(bytearray(b"abc"))).readonly)

    def test_programs_do_not_write_what_is_read_only(self):
        from tenon import te
        a = te.placeholder((2,), name="A")
        program = te.create_prim_func([a, te.compute((2,), lambda i: a[i] + 1.0)])
        run, x = tenon.get_global_func("ir.interpret"), array.array("f", [1, 2])
        with self.assertRaisesRegex(tenon.Error, "T0406"):
            run(program, [through(x), through(memoryview(x).toreadonly())])
        self.assertEqual(list(x), [1, 2])
        y = array.array("f", [0, 0])
        run(program, [through(memoryview(x).toreadonly()), through(y)])
        self.assertEqual(list(y), [2, 3])

    def test_the_interpreter_takes_tuples_of_tensors(self):
        module = tenon.parse("""
@R.function
def main(x: R.Tensor((2,), "float32"), p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((1,), "float32"))) -> R.Tensor((2,), "float32"):
    y = R.multiply(x, p[0])
    return R.add(y, p[1])
""")
        x, y, z = (tenon.NDArray(array.array("f", v)) for v in ([1, 2], [3, 4], [5]))
        out = tenon.get_global_func("ir.interpret")(module, [x, (y, z)])
        self.assertEqual(list(memoryview(out)), [8, 13])
        with self.assertRaisesRegex(tenon.Error, "`inputs`"):
            tenon.get_global_func("ir.interpret")(module, [x, None])

    def test_the_interpreter_takes_tuples_of_nothing(self):
        module = tenon.parse("""
@R.function
def main(p: R.Tuple(R.Tuple(), R.Tensor((2,), "float32")), e: R.Tuple()):
    return (p[1], e, p[0])
""")
        x = tenon.NDArray(array.array("f", [1, 2]))
        out = tenon.get_global_func("ir.interpret")(module, [((), x), ()])
        self.assertEqual([list(memoryview(out[0])), list(out[1]), list(out[2])], [[1, 2], [], []])
        with self.assertRaisesRegex(tenon.Error, "T0357"):
            tenon.get_global_func("ir.interpret")(module, [((), x), (x,)])

    def test_the_interpreter_takes_shapes_and_numbers(self):
        module = tenon.parse("""
@R.function
def main(x: R.Tensor((2,), "float32"), p: R.Tuple(R.Shape(["n", "m"]), R.Prim("int64"))) -> R.Tensor(("n", "m"), "float32"):
    n = T.int64()
    m = T.int64()
    return R.broadcast_to(x, R.shape([n, m]))
""")
        x = tenon.NDArray(array.array("f", [1, 2]))
        out = tenon.get_global_func("ir.interpret")(module, [x, ((3, 2), 5)])
        self.assertEqual(memoryview(out).tolist(), [[1, 2]] * 3)
        with self.assertRaisesRegex(tenon.Error, "T0357.*a shape is needed"):
            tenon.get_global_func("ir.interpret")(module, [x, (x, 5)])

    def test_the_interpreter_takes_operands_that_are_left_out(self):
        module = tenon.transform.infer_types(tenon.parse("""
@R.function
def main(x: R.Tensor((2,), "float32")):
    y = R.memory.view(x, dtype="int32", relative_byte_offset=0)
    return y
"""))
        x = tenon.NDArray(array.array("f", [1, 0]))
        self.assertEqual(list(memoryview(tenon.get_global_func("ir.interpret")(module, [x]))), [0x3F800000, 0])

    def test_what_is_no_array(self):
        for bad in [1, "x", object(), [1]]:
            with self.assertRaises(TypeError):
                tenon.NDArray(bad)
        self.assertEqual(tenon.NDArray(array.array("b", [5])).shape, (1,))


@unittest.skipUnless(numpy, "NumPy is not installed")
class Numpy(unittest.TestCase):
    def test_every_type_is_a_view(self):
        for name in ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
                     "float32", "float64"]:
            a = numpy.arange(6).reshape(2, 3).astype(name)
            t = through(a)
            self.assertEqual((t.dtype, t.shape, t.data_ptr), (name, (2, 3), a.ctypes.data), name)
            back = numpy.asarray(t)
            self.assertEqual((back.dtype, back.ctypes.data), (a.dtype, a.ctypes.data))
            if name != "bool":  # NumPy 1.24 has no bool of DLPack
                self.assertTrue((numpy.from_dlpack(t) == a).all())

    def test_views_keep_their_array(self):
        a = numpy.zeros(4)
        gone = weakref.ref(a)
        t = through(a)
        del a
        self.assertIsNotNone(gone())
        back = numpy.asarray(t)
        del t
        self.assertIsNotNone(gone())
        del back
        gc.collect()
        self.assertIsNone(gone())

    def test_strides_order_alignment(self):
        a = numpy.arange(24, dtype="int32").reshape(2, 3, 4)
        odd = numpy.frombuffer(b"\0" + a.tobytes(), dtype="uint8")[1:].view("int32")
        for value in [a.T, a[:, ::2], a[::-1], numpy.asfortranarray(a), odd, numpy.broadcast_to(a[0], (5, 3, 4)),
                      a[:, :0], numpy.int32(3).reshape(())]:
            t = through(value)
            self.assertEqual(t.shape, value.shape)
            self.assertTrue((numpy.asarray(t) == value).all())

    def test_read_only_arrays_are_taken(self):
        a = numpy.arange(3)
        a.flags.writeable = False
        t = through(a)
        self.assertEqual(t.data_ptr, a.ctypes.data)
        for back in (numpy.asarray(t), t.numpy(), numpy.array(t, copy=False)):
            self.assertEqual((back.ctypes.data, back.flags.writeable), (a.ctypes.data, False))
        self.assertTrue(numpy.array(t).flags.writeable)
        with self.assertRaises(ValueError):
            numpy.asarray(t)[0] = 5

    def test_types_that_numpy_has_not(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not here")
        for dtype, shared in ((ml_dtypes.bfloat16, True), (ml_dtypes.float8_e5m2, True), (ml_dtypes.int4, False)):
            a = numpy.array([[1, -2, 3], [0, 1, -1]]).astype(dtype)
            t = tenon.NDArray(a)
            self.assertEqual((t.dtype, t.shape), (dtype.__name__, (2, 3)))
            for back in (t.numpy(), numpy.asarray(t), through(a).numpy()):
                self.assertEqual(back.dtype, a.dtype)
                numpy.testing.assert_array_equal(back.astype("f"), a.astype("f"))
            a[0, 0] = 2
            self.assertEqual(float(t.numpy()[0, 0]), 2 if shared else 1)
            numpy.testing.assert_array_equal(tenon.NDArray(a.T).numpy().astype("f"), a.T.astype("f"))

    @unittest.skipIf(numpy and numpy.lib.NumpyVersion(numpy.__version__) < "2.1.0", "this NumPy's from_dlpack does not copy")
    def test_copies_by_dlpack(self):
        t = tenon.NDArray(numpy.arange(6.0).reshape(2, 3))
        self.assertNotEqual(numpy.from_dlpack(t, copy=True).ctypes.data, t.data_ptr)
        numpy.testing.assert_array_equal(numpy.from_dlpack(t, copy=True), t.numpy())
        self.assertEqual(numpy.from_dlpack(t, copy=False).ctypes.data, t.data_ptr)

    def test_what_no_tensor_holds(self):
        for value in [numpy.array([object()]), numpy.array(["text"]), numpy.array([1j]), numpy.array([1], ">i4")]:
            with self.assertRaises((TypeError, ValueError, BufferError)):
                tenon.NDArray(value)


if __name__ == "__main__":
    unittest.main()
