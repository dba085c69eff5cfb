# SPDX-License-Identifier: Apache-2.0
"""`tenon.extract` and `tenon.compile(override=…)`: a kernel taken out, changed and put back."""
import array
import importlib.util
import os
import pathlib
import tempfile
import unittest

import tenon

MODEL = """
@R.function
def main(x: R.Tensor((8, 20), "float32"), w: R.Tensor((24, 20), "float32")) -> R.Tensor((8, 24), "float32"):
    d = R.nn.dense(x, w)
    y = R.nn.relu(d)
    return y
"""

BYTES = """
@R.function
def main(x: R.Tensor((4, 300), "uint8")) -> R.Tensor((4, 300), "uint8"):
    a = R.qnn.dequantize(x, R.const(0.05, "float32"), R.const(128, "uint8"))
    b = R.sigmoid(a)
    y = R.qnn.quantize(b, R.const(0.00390625, "float32"), R.const(0, "uint8"), out_dtype="uint8")
    return y
"""


def tensor(rows, columns):
    return memoryview(array.array("f", [((7 * k) % 11 - 5) / 4 for k in range(rows * columns)])).cast("B").cast("f", (rows, columns))


@unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not here")
class Extract(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.folder / "model.tir"
        self.model.write_text(MODEL)
        self.inputs = [tensor(8, 20), tensor(24, 20)]
        self.own = tenon.compile(self.model)
        self.kernel = self.own.kernels(*self.inputs)[0]["name"]

    def result(self, executable):
        return memoryview(executable(*self.inputs)).tobytes()

    def test_a_kernel_by_itself_and_back(self):
        into = self.folder / "kernel"
        made = tenon.extract(self.model, self.kernel, into, inputs=self.inputs)
        self.assertTrue(made.from_run)
        self.assertEqual((made.name, len(made.inputs), len(made.outputs)), (self.kernel, 2, 1))
        self.assertEqual(memoryview(made.outputs[0]).tobytes(), self.result(self.own))
        self.assertEqual((into / f"{self.kernel}.tir").read_text(), made.program)
        back = tenon.compile(self.model, override=into)
        self.assertIn("proved by its schedule", back.overrides[self.kernel])
        self.assertEqual(self.result(back), self.result(self.own))
        # The same by a list, and from a module in memory.
        back = tenon.compile(tenon.parse(MODEL), override=[str(into)])
        self.assertEqual(self.result(back), self.result(self.own))
        self.assertEqual(self.own.overrides, {})

    def test_a_table_of_bytes(self):
        """A function between bytes is a table of constants in its kernel, which reads back."""
        self.model.write_text(BYTES)
        data = memoryview(bytes(k % 256 for k in range(4 * 300))).cast("B", (4, 300))
        own, into = tenon.compile(self.model), self.folder / "kernel"
        kernel = own.kernels(data)[0]["name"]
        made = tenon.extract(self.model, kernel, into, inputs=[data])
        self.assertIn("T.lookup(", made.program)
        back = tenon.compile(self.model, override=into)
        self.assertIn("proved by its schedule", back.overrides[kernel])
        self.assertEqual(memoryview(back(data)).tobytes(), memoryview(own(data)).tobytes())

    def laid_out(self, made, free=""):
        """The kernel whose weights lie in panels of 8 columns (the last of padding, in part), in a folder."""
        text = made.unscheduled.replace("T.func_attr({", "T.func_attr({" + free)
        program = tenon.parse(text)[made.name]
        sch = tenon.tir.Schedule(program)
        block = sch.get_block("dense")
        sch.transform_layout(block, ("read", 1), lambda o, k: (o // 7, k, o % 7))
        done = sch.func.with_attr("tenon.trace", sch.trace.json)
        into = self.folder / "panels"
        into.mkdir(exist_ok=True)
        (into / f"{made.name}.tir").write_text(str(tenon.IRModule({made.name: done})))
        return into

    def test_a_schedule_says_how_weights_lie(self):
        bound = {"w": self.inputs[1]}
        own = tenon.compile(self.model, bind=bound, opt_level=1)
        kernel = own.kernels(self.inputs[0])[0]["name"]
        made = tenon.extract(self.model, kernel, bind=bound, opt_level=1)
        self.assertIn('"layout_free_buffers": [1]', made.unscheduled)
        back = tenon.compile(self.model, bind=bound, opt_level=1, override=self.laid_out(made))
        self.assertIn("proved by its schedule", back.overrides[kernel])
        # The constant was laid out when the model was compiled: the same kernels run.
        self.assertEqual([k["name"] for k in back.kernels(self.inputs[0])], [k["name"] for k in own.kernels(self.inputs[0])])
        self.assertEqual(memoryview(back(self.inputs[0])).tobytes(), memoryview(own(self.inputs[0])).tobytes())

    def test_what_is_no_constant_is_laid_out_for_each_call(self):
        made = tenon.extract(self.model, self.kernel)
        self.assertNotIn("layout_free_buffers", made.unscheduled)
        back = tenon.compile(self.model, override=self.laid_out(made, '"layout_free_buffers": [1], '))
        self.assertEqual(self.result(back), self.result(self.own))
        self.assertIn(self.kernel + "_layout", [k["name"] for k in back.kernels(*self.inputs)])
        # Without the trace that made the parameters lie so it is another kernel.
        file = self.folder / "panels" / f"{self.kernel}.tir"
        file.write_text(file.read_text().replace("tenon.trace", "no.trace"))
        with self.assertRaises(tenon.Error) as caught:
            tenon.compile(self.model, override=file.parent)
        self.assertEqual(caught.exception.code, "T1036")

    def test_what_differs_is_refused(self):
        made = tenon.extract(self.model, self.kernel)
        self.assertFalse(made.from_run)
        self.assertIn("T.max(", made.unscheduled)
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "mine.tir").write_text(made.unscheduled.replace("T.max(", "T.min("))
        with self.assertRaises(tenon.Error) as caught:
            tenon.compile(self.model, override=self.folder / "mine")
        self.assertEqual(caught.exception.code, "T1037")
        self.assertIn("whole numbers", str(caught.exception))

    def test_debug_information(self):
        plain, file = self.folder / "plain.so", self.folder / "m.so"
        self.own.save(plain)
        self.assertEqual(self.own.save(file, debug_info=True), file.stat().st_size)
        self.assertNotIn(b".debug_line", plain.read_bytes())
        self.assertIn(b".debug_line", file.read_bytes())
        self.assertIn(f"def {self.kernel}(", (self.folder / "m.kernels.tir").read_text())
        self.assertEqual(memoryview(tenon.load(file)(*self.inputs)).tobytes(), self.result(self.own))
        with self.assertRaises(tenon.UsageError) as caught:
            self.own.save(self.folder / "m.json", "json", debug_info=True)
        self.assertEqual(caught.exception.code, "T0921")

    def test_bad_input(self):
        with self.assertRaises(tenon.UsageError) as caught:
            tenon.extract(self.model, self.kernel + "s")
        self.assertEqual(caught.exception.code, "T0923")
        for wrong in (5, {"a": 1}.items):
            with self.assertRaises(TypeError):
                tenon.compile(self.model, override=wrong)
        with self.assertRaises(TypeError):
            tenon.extract(self.model, 5)
        with self.assertRaises(tenon.FileError):
            tenon.compile(self.model, override=os.path.join(self.folder, "absent"))


if __name__ == "__main__":
    unittest.main()
