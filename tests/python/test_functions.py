# SPDX-License-Identifier: Apache-2.0
"""Functions, values and errors across the border."""
import gc
import json
import os
import subprocess
import sys
import threading
import traceback
import unittest
import weakref

import tenon


def identity():
    return tenon.convert_func(lambda x: x)


class Values(unittest.TestCase):
    def test_every_kind_comes_back(self):
        f = identity()
        for value in [None, True, False, 0, -1, 2**63 - 1, -2**63, 0.5, float("inf"), "", "text ä\0b", b"", b"\0\xff",
                      tenon.dtype("float32")]:
            back = f(value)
            self.assertEqual(back, value)
            self.assertIs(type(back), type(value))

    def test_what_does_not_fit_64_bits_is_refused(self):
        for value in [2**63, -2**63 - 1, 10**30]:
            with self.assertRaises(OverflowError):
                identity()(value)

    def test_a_data_type_that_is_none(self):
        with self.assertRaises(ValueError):
            identity()(tenon.dtype("float33"))

    def test_containers(self):
        array = identity()([1, "two", [3.0, None], (4,)])
        self.assertIsInstance(array, tenon.Array)
        self.assertEqual(list(array[2]), [3.0, None])
        self.assertEqual((len(array), array[0], array[-1][0], array[1:2]), (4, 1, 4, ["two"]))
        self.assertEqual((array.index("two"), array.count(1), "two" in array, 7 in array), (1, 1, True, False))
        self.assertEqual(list(reversed(identity()([1, 2]))), [2, 1])
        with self.assertRaises(IndexError):
            array[4]
        with self.assertRaises(TypeError):
            array["x"]
        table = identity()({"b": 1, "a": [2], 3: "c"})
        self.assertIsInstance(table, tenon.Map)
        self.assertEqual(list(table), ["b", "a", 3])
        self.assertEqual((len(table), table["b"], table.get("x", 9), "a" in table, "x" in table), (3, 1, 9, True, False))
        self.assertEqual(dict(table.items())[3], "c")
        self.assertEqual(list(table.values())[0], 1)
        with self.assertRaises(KeyError):
            table["x"]
        self.assertEqual(dict(tenon.Map({"k": 1})), {"k": 1})
        self.assertEqual(list(tenon.Array(range(3))), [0, 1, 2])

    def test_one_wrapper_for_one_object(self):
        array = identity()([[1], [2]])
        self.assertIs(array[0], array[0])
        self.assertIs(identity()(array), array)
        gone = weakref.ref(array[0])
        self.assertIsNone(gone())
        kept = array[1]
        self.assertIs(weakref.ref(kept)(), array[1])

    def test_what_is_foreign_stays_itself(self):
        thing = object()
        self.assertIs(identity()(thing), thing)
        self.assertIs(identity()(dict), dict)

    def test_bad_text_is_kept(self):
        text = b"\xff".decode("utf8", "surrogateescape")
        with self.assertRaises(UnicodeEncodeError):
            identity()(text)


class Functions(unittest.TestCase):
    def tearDown(self):
        for name in tenon.list_global_func_names("test."):
            tenon.remove_global_func(name)

    def test_registry(self):
        @tenon.register_func("test.add")
        def add(a, b):
            "adds"
            return a + b

        found = tenon.get_global_func("test.add")
        self.assertEqual(found(1, 2), 3)
        self.assertEqual(found.name, "test.add")
        file, line, _, words = tenon.function_info("test.add")
        self.assertEqual((os.path.basename(file), words), ("test_functions.py", "adds"))
        self.assertEqual(line, add.__code__.co_firstlineno)
        with self.assertRaises(tenon.UsageError) as refused:
            tenon.register_func("test.add", add)
        self.assertEqual(refused.exception.code, "T0103")
        tenon.register_func("test.add", lambda a, b: a * b, override=True)
        self.assertEqual(tenon.get_global_func("test.add")(3, 4), 12)
        self.assertEqual(found(3, 4), 7)
        self.assertIn("test.add", tenon.list_global_func_names("test."))
        tenon.remove_global_func("test.add")
        self.assertIsNone(tenon.get_global_func("test.add", allow_missing=True))
        with self.assertRaises(ValueError):
            tenon.get_global_func("test.add")

    def test_a_namespace_is_filled(self):
        import types
        tenon.register_func("test.space.one", lambda: 1)
        module = types.ModuleType("test_space")
        sys.modules["test_space"] = module
        tenon.init_api("test.space", "test_space")
        self.assertEqual(module.one(), 1)

    def test_functions_are_values(self):
        make = tenon.convert_func(lambda n: tenon.convert_func(lambda x: x + n))
        self.assertEqual(make(3)(4), 7)
        apply = tenon.convert_func(lambda f, x: f(f(x)))
        self.assertEqual(apply(lambda x: 2 * x, 5), 20)

    def test_many_arguments(self):
        self.assertEqual(tenon.convert_func(lambda *a: sum(a))(*range(100)), 4950)

    def test_wrong_arguments_say_what_is_wrong(self):
        f = tenon.get_global_func("ir.first_difference")
        for arguments in [(), (1,), (1, 2, 3, 4), (1, 2)]:
            with self.assertRaises(tenon.ArgumentError) as refused:
                f(*arguments)
            self.assertIsInstance(refused.exception, TypeError)
            self.assertIn("ir.first_difference", str(refused.exception))
        self.assertEqual(f(b=tenon.tir.IntImm("int8", 1), a=tenon.tir.IntImm("int8", 1)), "")
        with self.assertRaises(TypeError):
            f(x=1)

    def test_threads_call_side_by_side(self):
        f, results = identity(), []

        def work(k):
            results.append(sum(f(i) for i in range(k, k + 1000)))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(sorted(results), [sum(range(k, k + 1000)) for k in range(8)])

    def test_a_callable_lives_as_long_as_it_is_needed(self):
        class Callable:
            def __call__(self):
                return 1

        c = Callable()
        gone = weakref.ref(c)
        f = tenon.convert_func(c)
        del c
        gc.collect()
        self.assertEqual(f(), 1)
        self.assertIsNotNone(gone())
        del f
        self.assertIsNone(gone())

    def test_a_last_reference_in_another_thread(self):
        class Callable:
            def __call__(self):
                return 1

        holder = [tenon.convert_func(Callable())]
        gone = weakref.ref(holder[0])
        t = threading.Thread(target=holder.clear)
        t.start()
        t.join()
        self.assertIsNone(gone())


class Errors(unittest.TestCase):
    def test_an_exception_passes_as_itself(self):
        class Own(Exception):
            pass

        own = Own("words")

        def fail():
            raise own

        try:
            tenon.convert_func(lambda: tenon.convert_func(fail)())()
            self.fail("nothing was raised")
        except Own as caught:
            self.assertIs(caught, own)
            names = [frame.name for frame in traceback.extract_tb(caught.__traceback__)]
        self.assertEqual(names.count("fail"), 1)

    def test_kinds_have_classes(self):
        with self.assertRaises(tenon.UsageError) as e:
            tenon.register_func("tenon.refuse", print)
        self.assertIsInstance(e.exception, ValueError)
        self.assertIsInstance(e.exception, tenon.Error)
        self.assertTrue(e.exception.hint and e.exception.message and e.exception.location)

    def test_errors_leave_nothing_behind(self):
        class Payload:
            pass

        def fail():
            payload = Payload()
            seen.append(weakref.ref(payload))
            raise ValueError("x")

        seen, f = [], tenon.convert_func(fail)
        for _ in range(3):
            try:
                f()
            except ValueError:
                pass
        self.assertEqual([r() for r in seen], [None] * 3)

    def test_error_pickles(self):
        import pickle
        try:
            tenon.register_func("tenon.refuse", print)
        except tenon.UsageError as error:
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((again.code, str(again)), (error.code, str(error)))


class Process(unittest.TestCase):
    """What needs a process of its own."""

    def run_script(self, script):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_import_loads_neither_numpy_nor_llvm(self):
        out = self.run_script("import sys, tenon; print('numpy' in sys.modules, 'LLVM' in open('/proc/self/maps').read(),"
                              " 'tenon_compiler' in open('/proc/self/maps').read())")
        self.assertEqual(out.split(), ["False"] * 3)

    def test_the_end_of_the_interpreter_with_callables_in_the_registry(self):
        self.run_script("import tenon, threading\n"
                        "class C:\n def __call__(self): return 1\n"
                        "tenon.register_func('test.c', C())\n"
                        "keep = tenon.convert_func(C()); a = tenon.Array([keep, object()])\n"
                        "import builtins; builtins.keep = keep")

    @unittest.skipIf("asan" in os.environ.get("LD_PRELOAD", ""), "the address sanitizer keeps what is freed")
    def test_no_growth(self):
        """10⁶ calls and objects, 10⁵ errors of each side: an object of 16 bytes that stays each time is seen."""
        out = self.run_script(f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
                              "import growth; print(growth.grown(10**6, 10**5))")
        for what, kilobytes in json.loads(out).items():
            self.assertLess(kilobytes, 1024, what)


if __name__ == "__main__":
    unittest.main()
