# SPDX-License-Identifier: Apache-2.0
"""Models that take and give more than tensors, by every way of running them; functions by name; inputs that stay."""
import gc
import tempfile
import threading
import unittest

import tenon

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not here") from None

VECTOR = 'R.Tensor((2,), "float32")'
PAIRS = f"""
@I.ir_module
class Module:
    @R.function
    def main(pair: R.Tuple({VECTOR}, {VECTOR}), z: {VECTOR}):
        a = pair[0]
        b = pair[1]
        s = R.add(a, b)
        t = R.multiply(s, z)
        u = (s, (t, a))
        return u
""".encode()
ONE_TUPLE = f"""
@I.ir_module
class Module:
    @R.function
    def main(x: {VECTOR}, y: {VECTOR}):
        return ((x, y), x)
""".encode()
LIST = f"""
@I.ir_module
class Module:
    @R.function
    def main(x: {VECTOR}, y: {VECTOR}):
        l0 = R.call_packed("tenon.sequence.empty", sinfo_args=R.Object)
        l1 = R.call_packed("tenon.sequence.append", l0, x, sinfo_args=R.Object)
        s = R.add(x, y)
        l2 = R.call_packed("tenon.sequence.append", l1, s, sinfo_args=R.Object)
        return l2
""".encode()
ANY = f"""
@I.ir_module
class Module:
    @R.function
    def main(value: R.Object, x: {VECTOR}):
        y = R.nn.relu(x)
        out = R.call_packed("test.values.seen", value, y, sinfo_args=R.Object)
        return out
""".encode()
FUNCTIONS = f"""
@I.ir_module
class Module:
    @R.function
    def main(x: {VECTOR}, y: {VECTOR}) -> {VECTOR}:
        z = R.subtract(x, y)
        return z

    @R.function
    def twice(x: {VECTOR}):
        R.func_attr({{"global_symbol": "twice"}})
        y = R.add(x, x)
        return (y, x)

    @R.function
    def sizes(x: R.Tensor(("n", "m"), "float32")) -> R.Shape(ndim=2):
        R.func_attr({{"global_symbol": "sizes"}})
        s = R.shape_of(x)
        return s
""".encode()
A, B, C = (np.array(v, "f") for v in ([1, -2], [3, 5], [10, 100]))


def same(test, got, want):
    if isinstance(want, (list, tuple)):
        test.assertIsInstance(got, type(want))
        test.assertEqual(len(got), len(want))
        for g, w in zip(got, want):
            same(test, g, w)
    elif isinstance(want, dict):
        test.assertEqual(list(got), list(want))
        for key in want:
            same(test, got[key], want[key])
    elif isinstance(want, np.ndarray):
        np.testing.assert_array_equal(got, want)
        test.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
    else:
        test.assertEqual(got, want)


class Values(unittest.TestCase):
    def tearDown(self):
        tenon.remove_global_func("test.values.seen")

    def test_tuples(self):
        """Items of a tuple are inputs of their own; a tuple among the outputs is a list."""
        want = [A + B, [(A + B) * C, A]]
        ex = tenon.compile(PAIRS)
        self.assertEqual([name for name, _, _ in ex.inputs], ["pair_0", "pair_1", "z"])
        same(self, ex(A, B, C), tuple(want))
        same(self, ex(z=C, pair_1=B, pair_0=A.tolist()), tuple(want))
        s = tenon.InferenceSession(PAIRS)
        feed = {"pair_0": A, "pair_1": B[::-1].copy()[::-1], "z": C}
        same(self, s.run(None, feed), want)
        names = [o.name for o in s.get_outputs()]
        same(self, s.run([names[1], names[0], names[1]], feed), [want[1], want[0], want[1]])
        binding = s.io_binding()
        for name, value in feed.items():
            binding.bind_cpu_input(name, value)
        for name in names:
            binding.bind_output(name)
        s.run_with_iobinding(binding)
        same(self, binding.copy_outputs_to_cpu(), want)

    def test_a_tuple_beside_tensors(self):
        same(self, tenon.compile(ONE_TUPLE)(A, B), ([A, B], A))

    def test_tuples_of_nothing(self):
        x = np.array([1, 2], "float32")
        nothing = tenon.compile(b"@R.function\ndef main(e: R.Tuple()):\n    return e\n")
        self.assertEqual((nothing.inputs, nothing.outputs, nothing()), ((), (), ()))
        # Unknown element types and operators without a value: such models run on values that need be no tensors.
        for body in ("return R.tuple()", 'return R.print(x, format="{}")'):
            text = f"@R.function(pure=False)\ndef main(x: R.Tensor):\n    {body}\n"
            with self.subTest(body):
                self.assertEqual(tenon.compile(text.encode())(x), ())
        among = tenon.compile(f"""
@R.function
def main(x: {VECTOR}, p: R.Tuple(R.Tuple(), {VECTOR}), e: R.Tuple()):
    y = R.add(x, p[1])
    return (y, e, (p[0],))
""".encode())
        self.assertEqual([name for name, _, _ in among.inputs], ["x", "p_1"])
        y, none, nested = among(x, x)
        self.assertEqual((y.tolist(), none, nested), ([2, 4], [], [[]]))
        with tempfile.TemporaryDirectory() as folder:
            among.save(f"{folder}/model.so")
            self.assertEqual(tenon.load(f"{folder}/model.so")(x, x)[1:], ([], [[]]))

    def test_functions_of_any_tensor(self):
        """Each call of a function tells it the rank and the element type that its parameter leaves open."""
        ex = tenon.compile(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: {VECTOR}, n: R.Tensor((2, 2), "int32")):
        return (cls.squares(cls.squares(x)), cls.squares(n))

    @R.function(private=True)
    def squares(v: R.Tensor) -> R.Tensor:
        return R.multiply(v, v)
""".encode())
        self.assertEqual([(dtype, shape) for _, dtype, shape in ex.outputs], [("float32", (2,)), ("int32", (2, 2))])
        same(self, ex(A, np.array([[1, 2], [3, -4]], "int32")), (A**4, np.array([[1, 4], [9, 16]], "int32")))

    def test_sizes_of_32_bits(self):
        """Loops over them are split, fused and moved as others are."""
        ex = tenon.compile(b"""
@I.ir_module
class Module:
    @T.prim_func
    def product(x: T.handle, y: T.handle, z: T.handle):
        m, n, k = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(x, (m, n), "float32")
        B = T.match_buffer(y, (n, k), "float32")
        C = T.match_buffer(z, (m, k), "float32")
        for i, j, l in T.grid(m, k, n):
            with T.block("product"):
                vi, vj, vl = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vl] * B[vl, vj]

    @R.function
    def main(x: R.Tensor(("m", "n"), "float32"), w: R.Tensor(("n", "k"), "float32")):
        m, k = T.int64(), T.int64()
        return R.call_tir(Module.product, (x, w), R.Tensor((m, k), "float32"))
""")
        rng = np.random.default_rng(3)
        x, w = rng.integers(-4, 5, (5, 7)).astype("float32"), rng.integers(-4, 5, (7, 33)).astype("float32")
        same(self, ex(x, w), x @ w)

    def test_a_list_that_a_model_makes(self):
        ex = tenon.compile(LIST)
        same(self, ex(A, B), [A, A + B])
        first = ex(A, B)
        ex(B, B)
        same(self, first, [A, A + B])  # nothing is shared with later runs

    def test_any_value_reaches_a_function_of_python(self):
        ex, seen = None, []

        def see(value, y):
            seen.append(value)
            return {"y": y, "list": [y, 1, "text", None]}

        tenon.register_func("test.values.seen", see)
        ex = tenon.compile(ANY)
        for value in (None, "text", {"k": A}, [A, [B]], 7, A, True, 2.5):
            out = ex(value, A)
            same(self, out, {"y": np.maximum(A, 0), "list": [np.maximum(A, 0), 1, "text", None]})
        self.assertIsNone(seen[0])
        self.assertEqual((seen[1], seen[4], seen[6], seen[7]), ("text", 7, True, 2.5))
        self.assertIsInstance(seen[2], tenon.Map)
        same(self, np.asarray(seen[3][1][0]), B)
        same(self, np.asarray(seen[5]), A)

    def test_sequences_go_in_again(self):
        tenon.register_func("test.values.seen", lambda value, y: tenon.get_global_func("tenon.sequence.append")(value, y))
        append = tenon.compile(ANY)
        raw = tenon.get_global_func("tenon.sequence.append")(tenon.get_global_func("tenon.sequence.empty")(), B)
        same(self, append(raw, A), [B, np.maximum(A, 0)])

    def test_wrong_values(self):
        tenon.register_func("test.values.seen", lambda value, y: y)
        ex, s = tenon.compile(ANY), tenon.InferenceSession(ANY)
        for value, x in ((1, B.astype("d")), (1, np.zeros(3, "f"))):
            with self.assertRaises(tenon.UsageError):
                ex(value, x)
            with self.assertRaises(tenon.InvalidArgument):
                s.run(None, {"value": value, "x": x})
        for value, x, words in ((object(), A, "'value'"), ([A, {1, 2}], A, "'value'"), (1, None, "'x'"), (1, "t", "'x'")):
            with self.assertRaisesRegex(TypeError, words):
                ex(value, x)
        with self.assertRaisesRegex(ValueError, "value"):
            s.run(None, {"x": A})
        same(self, ex(1, A), np.maximum(A, 0))  # it stays usable

    def test_threads(self):
        ex, out = tenon.compile(PAIRS), [None] * 4

        def work(i):
            for _ in range(50):
                out[i] = ex(A + i, B, C)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        for i in range(4):
            same(self, out[i], (A + i + B, [(A + i + B) * C, A + i]))

    def test_an_exception_of_a_function_of_python(self):
        class Mine(Exception):
            pass

        def fail(value, y):
            raise Mine("x")
        tenon.register_func("test.values.seen", fail)
        with self.assertRaises(Mine):
            tenon.compile(ANY)(1, A)
        with self.assertRaises(Mine):
            tenon.InferenceSession(ANY).run(None, {"value": 1, "x": A})


class Shapes(unittest.TestCase):
    def test_a_shape_is_a_sequence_of_integers(self):
        shape = tenon.Shape((2, 3))
        self.assertEqual((len(shape), shape[0], list(shape), shape == (2, 3), repr(shape)), (2, 2, [2, 3], True,
                                                                                           "Shape((2, 3))"))
        self.assertEqual(shape, tenon.Shape([2, 3]))
        self.assertEqual(len(tenon.Shape(())), 0)
        self.assertEqual(tuple(tenon.convert_func(lambda s: s)(shape)), (2, 3))


class Machine(unittest.TestCase):
    def test_functions_by_name(self):
        vm = tenon.VirtualMachine(tenon.compile(FUNCTIONS))
        self.assertLessEqual({"main", "twice", "sizes"}, set(vm.functions))
        same(self, vm["main"](A, B), A - B)
        same(self, vm["main"](y=A, x=B), B - A)
        same(self, vm["twice"](A), [A + A, A])
        same(self, vm["sizes"](np.zeros((3, 7), "f")), np.array([3, 7]))
        with self.assertRaises(tenon.UsageError):
            vm["thrice"]
        with self.assertRaises(tenon.UsageError):
            vm["twice"](A, B)
        with self.assertRaises(TypeError):
            vm["twice"](x=A)
        with self.assertRaises(tenon.UsageError):
            tenon.VirtualMachine(tenon.compile(FUNCTIONS), "cuda")

    def test_inputs_that_stay(self):
        vm = tenon.VirtualMachine(tenon.compile(FUNCTIONS), "cpu")
        with self.assertRaises(tenon.UsageError):
            vm.invoke_stateful("main")
        vm.set_input("main", A, y=B)
        with self.assertRaises(tenon.UsageError):
            vm.get_outputs("main")
        vm.invoke_stateful("main")
        same(self, vm.get_outputs("main"), A - B)
        vm.save_function("twice", "twice_a", A)
        same(self, vm["twice_a"](), [A + A, A])
        with self.assertRaises(tenon.UsageError):
            vm.save_function("twice", "main", A)

    def test_times_and_profile(self):
        vm = tenon.VirtualMachine(tenon.compile(FUNCTIONS))
        times = vm.time_evaluator("main", number=3, repeat=4)(A, B)
        self.assertEqual((len(times), len(times.results)), (4, 4))
        self.assertTrue(0 < times.min <= times.median <= times.max and times.std >= 0)
        self.assertIn("ms", repr(times))
        rows = vm.profile("twice", A)
        kernels = [r for r in rows if r["flop"] is not None]
        self.assertTrue(kernels, rows)
        self.assertEqual((kernels[0]["calls"], kernels[0]["flop"]), (1, 2))

    def test_an_artifact_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/functions.so"
            tenon.compile(FUNCTIONS).save(path)
            same(self, tenon.VirtualMachine(path)["main"](A, B), A - B)
            same(self, tenon.GraphExecutor(path).get_input_info(), ({"x": (2,), "y": (2,)}, {"x": "float32", "y": "float32"}))


class Executor(unittest.TestCase):
    def test_inputs_stay_set(self):
        g = tenon.GraphExecutor(tenon.compile(FUNCTIONS))
        with self.assertRaises(tenon.UsageError):
            g.get_output(0)
        g.set_input("x", A)
        with self.assertRaises(TypeError):  # `y` is missing
            g.run()
        g.set_input(y=B)
        g.run()
        first = g.get_output(0)
        same(self, first, A - B)
        g.set_input(1, C)
        g.run()
        same(self, g.get_output(0), A - C)
        same(self, first, A - B)
        g.run(x=C)
        same(self, g.get_output(0), C - C)
        out = np.zeros(2, "f")
        self.assertIs(g.get_output(0, out), out)
        same(self, out, C - C)
        self.assertEqual((g.get_num_inputs(), g.get_num_outputs(), g.get_input_index("y"), g.get_input_index("z")),
                         (2, 1, 1, -1))
        self.assertIs(g.get_input("x"), C)
        for wrong in (lambda: g.set_input("z", A), lambda: g.set_input(7, A), lambda: g.get_output(4)):
            with self.assertRaises(tenon.UsageError):
                wrong()
        self.assertEqual(len(g.benchmark(repeat=2, number=2)), 2)
        self.assertTrue(any(r["limit"] in ("arithmetic", "memory") for r in g.debug_run()))


    def test_code_for_several_processors(self):
        with tempfile.TemporaryDirectory() as folder:
            ex = tenon.compile(FUNCTIONS, target="llvm -mcpu=x86-64,x86-64-v2")
            same(self, ex(A, B), A - B)
            ex.save(folder + "/several.so")
            loaded = tenon.load(folder + "/several.so")
            same(self, loaded(A, B), A - B)
            with open(folder + "/several.so", "rb") as file:
                self.assertEqual(file.read().count(b"\x7fELF"), 2)
            with self.assertRaisesRegex(tenon.UsageError, "T0924"):
                ex.save(folder + "/several.json", "json")

    def test_a_graph_of_operators(self):
        import json
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/functions.json"
            tenon.compile(FUNCTIONS).save(path, "json")
            g = tenon.GraphExecutor(path)
            g.run(x=A, y=B)
            same(self, g.get_output(0), A - B)
            self.assertTrue(any(r["limit"] in ("arithmetic", "memory") for r in g.debug_run()))
            same(self, tenon.load(path)(A, B), A - B)
            with open(path) as file:
                graph = json.load(file)
            graph["nodes"][-1]["attrs"]["func_name"] = "absent"
            with open(path, "w") as file:
                json.dump(graph, file)
            with self.assertRaisesRegex(tenon.ModelError, "T0617"):
                tenon.GraphExecutor(path)


class Freed(unittest.TestCase):
    def test_what_outlives_its_model(self):
        ex = tenon.compile(LIST)
        f, out = tenon.VirtualMachine(ex)["main"], ex(A, B)
        del ex
        gc.collect()
        same(self, out, [A, A + B])
        same(self, f(A, B), [A, A + B])


if __name__ == "__main__":
    unittest.main()
