# SPDX-License-Identifier: Apache-2.0
"""Counts of references: work that is done again leaves none behind. All references of the process are counted under a debug
build of Python (python3-dbg, --with-pydebug) with an extension that is built with -DPy_DEBUG; NumPy's own are not, so that runs are
judged by the counts of what they touch."""
import gc
import pathlib
import sys
import unittest

import growth
import tenon

try:
    import numpy as np
except ImportError:
    np = None

RELU = b"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 2), "float32"), y: R.Tensor((2, 2), "float32")):
        z = R.nn.relu(x)
        w = R.add(y, y)
        return (z, w)
"""


def left_behind(work, times):
    """References that `times` further repetitions leave."""
    work(times)
    gc.collect()
    before = sys.gettotalrefcount()
    work(times)
    gc.collect()
    return sys.gettotalrefcount() - before


def counted():
    """Whether Python and the extension count all references."""
    return hasattr(sys, "gettotalrefcount") and b"_Py_IncRef" in pathlib.Path(tenon._core.__file__).read_bytes()


@unittest.skipUnless(counted(), "this Python does not count references")
class References(unittest.TestCase):
    def test_calls_objects_and_errors(self):
        for work in (growth.calls, growth.values, growth.nodes, growth.errors_of_python, growth.errors_of_cpp):
            with self.subTest(work.__name__):
                self.assertLess(left_behind(work, 400), 40)

    def test_text_and_builders(self):
        def work(times):
            for _ in range(times // 20):
                module = tenon.parse(RELU.decode())
                self.assertEqual(tenon.from_json(module.to_json()), module)
                tenon.visit(module, {tenon.graph.Call: lambda c: c.args})
                tenon.transform.infer_types(module)

        self.assertLess(left_behind(work, 400), 20)


@unittest.skipIf(np is None, "NumPy is not here")
class Runs(unittest.TestCase):
    def test_what_runs_touch(self):
        ex, session = tenon.compile(RELU), tenon.InferenceSession(RELU)
        x, y = np.ones((3, 2), "f"), np.ones((2, 2), "f")
        names = [o.name for o in session.get_outputs()]
        binding = session.io_binding()

        def work(times):
            for _ in range(times):
                ex(x, y)
                ex(x, y=y.tolist())
                session.run(None, {"x": x[::2], "y": y})
                session.run(names[::-1], {"x": x, "y": y})
                for feed in ({"x": x}, {"x": x, "y": x}, {"x": x, "y": None}, {"x": x, "y": y, "z": y}):
                    try:
                        session.run(None, feed)
                    except (ValueError, TypeError):
                        continue
                    self.fail("it was taken")
                binding.bind_cpu_input("x", x)
                binding.bind_cpu_input("y", y)
                binding.bind_output(names[0])
                session.run_with_iobinding(binding)
                binding.copy_outputs_to_cpu()

        work(20)
        touched = {"None": None, "True": True, "x": x, "y": y, "dtype": x.dtype, "array": np.ndarray, "name": names[0], "ex": ex,
                   "session": session, "binding": binding, "OrtValue": tenon.OrtValue, "NDArray": tenon.NDArray, "empty": np.empty,
                   "InvalidArgument": tenon.InvalidArgument, "list": list, "tuple": tuple, "dict": dict}
        if sys.version_info >= (3, 12):  # immortal: their counts say nothing
            del touched["None"], touched["True"]
        gc.collect()
        before = {name: sys.getrefcount(o) for name, o in touched.items()}
        work(200)
        gc.collect()
        grown = {name: sys.getrefcount(o) - before[name] for name, o in touched.items()}
        self.assertEqual({name: n for name, n in grown.items() if abs(n) > 100}, {})  # a lost one at each would be 200


if __name__ == "__main__":
    unittest.main()
