# SPDX-License-Identifier: Apache-2.0
"""Functions of Python that compilations and runs call: converters and operators of models, schedule rules, code generators,
instruments of runs. Passes and their instruments are in test_passes.py."""
import unittest

import tenon
from tenon import graph, op, tir

try:
    import numpy as np
    from onnx import TensorProto, helper
except ImportError:
    raise unittest.SkipTest("NumPy and onnx are not here") from None


def model_of(kind, outputs=1, **attributes):
    """One operator of the domain my.domain over a vector of four."""
    names = ["y", "z"][:outputs]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (4,)) for n in ("x", *names)]
    node = helper.make_node(kind, ["x"], names, domain="my.domain", **attributes)
    return helper.make_model(helper.make_graph([node], "g", info[:1], info[1:]), ir_version=9,
                             opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("my.domain", 1)])


X = np.array([-1, 0, 2, 3], "f")


class Converters(unittest.TestCase):
    def test_an_operator_said_with_others(self):
        with self.assertRaises(tenon.ModelError):
            tenon.compile(model_of("Swish"))

        @tenon.onnx.register_converter("my.domain::Swish")
        def swish(inputs, attributes):
            """x times sigmoid(beta x)."""
            return inputs[0] * op.sigmoid(inputs[0] * attributes["beta"])

        self.addCleanup(tenon.remove_global_func, "onnx.converter.my.domain::Swish")
        want = X / (1 + np.exp(-2 * X))
        np.testing.assert_allclose(tenon.compile(model_of("Swish", beta=2.0))(X), want, rtol=1e-5)
        np.testing.assert_allclose(tenon.InferenceSession(model_of("Swish", beta=2.0)).run(None, {"x": X})[0], want, rtol=1e-5)
        self.assertIn("test_extensions.py", tenon.function_info("onnx.converter.my.domain::Swish")[0])
        with self.assertRaises(tenon.UsageError) as taken:
            tenon.onnx.register_converter("my.domain::Swish", swish)
        self.assertEqual(taken.exception.code, "T0103")

    def test_several_outputs_and_what_is_refused(self):
        tenon.onnx.register_converter("my.domain::Both", lambda inputs, attributes: [inputs[0] + 1.0, op.nn.relu(inputs[0])])
        self.addCleanup(tenon.remove_global_func, "onnx.converter.my.domain::Both")
        y, z = tenon.compile(model_of("Both", 2))(X)
        np.testing.assert_array_equal(y, X + 1)
        np.testing.assert_array_equal(z, np.maximum(X, 0))
        for made in ("text", None, [], 5):
            tenon.onnx.register_converter("my.domain::Both", lambda inputs, attributes: made, override=True)
            with self.assertRaisesRegex(tenon.ModelError, "the converter of Both"):
                tenon.compile(model_of("Both", 2))

        def fails(inputs, attributes):
            raise KeyError("mine")

        tenon.onnx.register_converter("my.domain::Both", fails, override=True)
        with self.assertRaisesRegex(KeyError, "mine"):
            tenon.compile(model_of("Both", 2))

    def test_an_operator_by_its_type_and_a_kernel(self):
        def kernel(x, scale, y):
            np.asarray(y)[:] = np.asarray(x) * np.asarray(scale)

        tenon.register_func("onnx.type.my.domain::Scaled", lambda types, attributes: [[types[0]], [attributes["by"]]])
        tenon.register_func("onnx.kernel.my.domain::Scaled", kernel)
        for name in ("type", "kernel"):
            self.addCleanup(tenon.remove_global_func, f"onnx.{name}.my.domain::Scaled")
        np.testing.assert_array_equal(tenon.compile(model_of("Scaled", by=3.0))(X), 3 * X)


def program(rule):
    """B = A + 1, whose attribute names a schedule rule, called by a graph function."""
    return tenon.parse(f"""
@I.ir_module
class Module:
    @T.prim_func
    def add_one(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({{"tenon.schedule_rule": "{rule}"}})
        for i in range(64):
            with T.block("B"):
                v = T.axis.spatial(64, i)
                B[v] = A[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((64,), "float32")):
        y = R.call_tir(cls.add_one, (x,), out_sinfo=R.Tensor((64,), "float32"))
        return y
""")


class ScheduleRules(unittest.TestCase):
    def test_a_rule_by_its_name(self):
        seen = []

        @tir.schedule_rule("test.by_sixteen")
        def by_sixteen(sch, target):
            seen.append(type(target).__name__)
            i, = sch.get_loops("B")
            _, inner = sch.split(i, [None, 16])
            sch.vectorize(inner)

        self.addCleanup(tenon.remove_global_func, "schedule.rule.test.by_sixteen")
        ex = tenon.compile(program("test.by_sixteen"))
        self.assertEqual(seen, ["Target"])
        self.assertIn("T.vectorized(16)", ex.stage("default_schedule"))
        x = np.arange(64, dtype="f")
        np.testing.assert_array_equal(ex(x), x + 1)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(tenon.ModelError, "(?s)there is no schedule rule `defaul`.*did you mean `default`"):
            tenon.compile(program("defaul"))

        @tir.schedule_rule("test.wrong")
        def wrong(sch, target):
            sch.get_loops("no such block")

        self.addCleanup(tenon.remove_global_func, "schedule.rule.test.wrong")
        with self.assertRaisesRegex(tenon.Error, "no such block"):
            tenon.compile(program("test.wrong"))
        tenon.register_func("schedule.rule.test.wrong", lambda func, target: 5, override=True)
        with self.assertRaisesRegex(tenon.ModelError, "gives no PrimFunc"):
            tenon.compile(program("test.wrong"))


class NumPy:
    """Lines of NumPy for lowered programs that are stores to whole vectors."""
    BINARY = {tir.Add: "({} + {})", tir.Mul: "({} * {})", tir.Max: "np.maximum({}, {})", tir.Min: "np.minimum({}, {})"}

    def __init__(self, func):
        self.arguments, self.lines = {}, []  # variables of data → which argument
        tenon.visit(func, {tir.LetStmt: self.bind})
        tenon.visit(func, {tir.BufferStore: self.store})

    def bind(self, let):
        if isinstance(let.value, tir.Call) and let.value.op == "tir.kernel_buffer":
            self.arguments[let.var] = f"a{let.value.args[1].value}"

    def store(self, s):
        self.lines.append(f"{self.arguments[s.buffer.data]}[{self.expr(s.indices[0])}] = {self.expr(s.value)}")

    def expr(self, e):
        if type(e) in self.BINARY:
            return self.BINARY[type(e)].format(self.expr(e.a), self.expr(e.b))
        if isinstance(e, tir.BufferLoad):
            return f"{self.arguments[e.buffer.data]}[{self.expr(e.indices[0])}]"
        if isinstance(e, tir.Ramp):
            return f"{self.expr(e.base)} + {self.expr(e.stride)} * np.arange({e.lanes})"
        return self.expr(e.value) if isinstance(e, tir.Broadcast) else repr(e.value)


class CodeGenerators(unittest.TestCase):
    def test_a_target_that_writes_numpy(self):
        levels = []

        def make(module, target, opt_level):
            """NumPy."""
            levels.append((target.kind, opt_level))
            return "\n".join(f"def {name}(*args):\n    a0, a1 = map(np.asarray, args)\n    " + "\n    ".join(NumPy(f).lines)
                             for name, f in module.functions.items())

        def load(code):
            made = {"np": np}
            exec(code, made)
            return made.get

        tenon.target.register_code_generator("test.numpy", make, load)
        ex = tenon.compile(model_of_relu(), target="test.numpy", opt_level=1)
        np.testing.assert_array_equal(ex(X), np.maximum(X, 0))
        self.assertIn("np.maximum", ex.source("test.numpy"))
        self.assertEqual(set(levels), {("test.numpy", 1)})
        with self.assertRaises(tenon.UsageError) as taken:
            tenon.target.register_code_generator("test.numpy", make)
        self.assertEqual(taken.exception.code, "T0940")
        with self.assertRaisesRegex(tenon.UsageError, "did you mean `test.numpy`"):
            tenon.compile(model_of_relu(), target="test.numpi")

    def test_what_a_code_generator_may_not_give(self):
        made = [5]
        tenon.target.register_code_generator("test.wrong", lambda module, target, opt_level: made[0])
        with self.assertRaisesRegex(tenon.UsageError, "gives no text"):
            tenon.compile(model_of_relu(), target="test.wrong")
        made[0] = "code"
        with self.assertRaisesRegex(tenon.Error, "no loader `test.wrong`"):
            tenon.compile(model_of_relu(), target="test.wrong")(X)


def model_of_relu():
    bb = graph.BlockBuilder()
    x = graph.var("x", graph.Tensor((4,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(op.nn.relu(x))
    return bb.finalize()


class Instruments(unittest.TestCase):
    def setUp(self):
        self.vm = tenon.VirtualMachine(tenon.compile(model_of_relu()))

    def test_every_kernel_is_seen(self):
        seen = []

        def watch(func, name, before_run, ret_val, *args):
            seen.append((before_run, name, [np.array(a) for a in args if isinstance(a, np.ndarray)]))

        self.vm.set_instrument(watch)
        np.testing.assert_array_equal(self.vm["main"](X), np.maximum(X, 0))
        kernels = [s for s in seen if "relu" in s[1]]
        self.assertEqual([before for before, _, _ in kernels], [True, False])
        np.testing.assert_array_equal(kernels[0][2][0], X)
        np.testing.assert_array_equal(kernels[1][2][-1], np.maximum(X, 0))
        count = len(seen)
        self.vm.set_instrument(None)
        self.vm["main"](X)
        self.assertEqual(len(seen), count)

    def test_a_kernel_is_left_out(self):
        skip = tenon.VMInstrumentReturnKind.SKIP_RUN

        def watch(func, name, before_run, ret_val, *args):
            if before_run and "relu" in name:
                args[-1][:] = 7
                return skip
            return tenon.VMInstrumentReturnKind.NO_OP

        self.vm.set_instrument(watch)
        np.testing.assert_array_equal(self.vm["main"](X), np.full(4, 7, "f"))

    def test_an_exception_ends_the_run(self):
        def watch(func, name, before_run, ret_val, *args):
            raise KeyError("mine")

        self.vm.set_instrument(watch)
        with self.assertRaisesRegex(KeyError, "mine"):
            self.vm["main"](X)
        with self.assertRaises(TypeError):
            self.vm.set_instrument(5)
        self.vm.set_instrument(lambda *args: 9)
        with self.assertRaises(ValueError):
            self.vm["main"](X)
        self.vm.set_instrument(None)
        np.testing.assert_array_equal(self.vm["main"](X), np.maximum(X, 0))


if __name__ == "__main__":
    unittest.main()
