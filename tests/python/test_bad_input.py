# SPDX-License-Identifier: Apache-2.0
"""What is wrong is an exception that says so, and everything stays usable."""
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import tenon
from tenon import graph, ir, op, te, tir, transform

try:
    import numpy as np
except ImportError:
    np = None

ADD = b"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.add(x, x)
        return y
"""
CALLS_PYTHON = b"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.call_packed("test.bad.again", x, sinfo_args=R.Tensor((2,), "float32"))
        z = R.add(y, y)
        return z
"""


# ---------------------------------------------------------------- one line each: what is called, and words of the refusal
NODES = """
tir.IntImm("int8", 300)                                            | tir.IntImm `value` 300 int8
tir.IntImm("uint8", -1)                                            | tir.IntImm `value` -1 uint8
tir.IntImm("bool", 7)                                              | `value` 7 bool
tir.IntImm("float32", 3)                                           | `dtype` float32
tir.IntImm("int32x4", 3)                                           | `dtype` int32x4
tir.IntImm()                                                       | `dtype` void
tir.IntImm("int32", 3.5)                                           | tir.IntImm `value` int float
tir.IntImm("int32", None)                                          | `value` none
tir.IntImm("int32", 2**70)                                         | 64 bits
tir.FloatImm("int32", 1.5)                                         | tir.FloatImm `dtype` int32
tir.FloatImm("float32x4", 3.0)                                     | `dtype` float32x4
tir.Var(name="x")                                                  | tir.Var `dtype` missing
tir.Cast("void", 3)                                                | tir.Cast `dtype` missing
tir.Select(None, 1, 2)                                             | tir.Select `condition` missing
tir.Ramp(0, 1, 0)                                                  | tir.Ramp `lanes` 0
tir.Ramp(0, 1, 2**40)                                              | `lanes` 1099511627776
tir.Broadcast(0, 70000)                                            | tir.Broadcast `lanes` 70000
tir.Broadcast(tir.Ramp(0, 1, 4), 4)                                | tir.Broadcast
tir.Shuffle([], [0])                                               | tir.Shuffle vector
tir.Shuffle([1], [5])                                              | `indices` 5
tir.Shuffle([1, 2.0], [0, 1])                                      | `vectors` int64 float32
tir.Range(0, None)                                                 | tir.Range `extent` missing
tir.Range(0.5, 4)                                                  | `min` float32
tir.Buffer()                                                       | tir.Buffer `data` missing
tir.Buffer(data=pointer, dtype="float32", shape=[-4])              | tir.Buffer `shape` -4
tir.Buffer(data=pointer, dtype="float32", shape=[None])            | `shape` missing
tir.Buffer(data=pointer, dtype="float32", shape=[1.5])             | `shape` float32
tir.Buffer(data=pointer, dtype="float32", shape=[4], align=3)      | `align` 3
tir.Buffer(data=pointer, dtype="float32", shape=[4], strides=[1, 2]) | `strides` 2
tir.Buffer(data=n, dtype="float32", shape=[4])                     | `data` int64
tir.Buffer(data=pointer, shape=[4])                                | `dtype` missing
tir.BufferLoad(buffer, [0, 0])                                     | tir.BufferLoad `indices` 2
tir.BufferLoad(buffer, [0.5])                                      | `indices` float32
tir.BufferLoad(None, [0])                                          | `buffer` missing
tir.BufferStore(None, 1.0, [0])                                    | tir.BufferStore `buffer` missing
tir.BufferStore(buffer, None, [0])                                 | `value` missing
tir.BufferStore(buffer, 1.0, [None])                               | `indices` missing
buffer[0, 0]                                                       | tir.Buffer.__getitem__ `indices` 2
buffer[0.5]                                                        | `indices` float32
buffer[None]                                                       | index none
tir.IterVar(tir.Range(0, 4), None, 0, "")                          | tir.IterVar `var` missing
tir.IterVar(tir.Range(0, 4), n, 77, "")                            | `kind` 77
tir.For(loop_var=None, min=0, extent=4, kind=0, body=nothing)      | tir.For `loop_var` missing
tir.For(loop_var=n, min=0, extent=4, kind=9, body=nothing)         | `kind` 9
tir.For(loop_var=n, min=0, extent=4, kind=0)                       | `body` missing
tir.For(loop_var=n, min=0, extent=4, kind=0, body=5)               | `body` tir.Stmt int
tir.LetStmt(1, None, nothing)                                      | tir.LetStmt `var` missing
tir.SeqStmt([nothing, None])                                       | tir.SeqStmt `seq` missing
tir.Evaluate(None)                                                 | tir.Evaluate `value` missing
tir.Block(name="b", body=nothing, reads=[None])                    | tir.Block `reads` missing
tir.BlockRealize([], None, None)                                   | tir.BlockRealize `predicate` missing
tir.BufferRegion(None, [])                                         | tir.BufferRegion `buffer` missing
tir.Allocate(buffer=None, annotations={}, body=nothing)            | tir.Allocate `buffer` missing
tir.DeclBuffer(None, nothing)                                      | tir.DeclBuffer `buffer` missing
tir.PrimFunc()                                                     | tir.PrimFunc `body` missing
tir.PrimFunc(params=[None], body=nothing)                          | `params` missing
tir.PrimFunc(params=[n], buffer_map={n: None}, body=nothing)       | `buffer_map` missing
function.replace(body=None)                                        | tir.PrimFunc `body` missing
tir.index_map(lambda i: None)                                      | tir.IndexMap `outputs` missing
graph.Tensor((-4,), "float32")                                     | dimension -4
graph.Tensor((4,), "float32", ndim=3)                              | ndim 3
graph.Tensor(5, "float32")                                         | shape int
ir.TensorType(shape=None, ndim=-7, dtype="float32", device="")     | ir.TensorType `ndim` -7
ir.TensorType(shape=graph.ShapeExpr([-3]), ndim=1, dtype="float32", device="") | `shape` -3
ir.ShapeType(values=[1], ndim=3, known=True)                       | ir.ShapeType `ndim` 3
graph.ShapeExpr([None])                                            | graph.ShapeExpr `values` missing
ir.TupleType([None])                                               | ir.TupleType `items` missing
graph.TupleGetItem(x, -1)                                          | graph.TupleGetItem `index` -1
graph.TupleGetItem(None, 0)                                        | `tuple` missing
graph.Call(None, [])                                               | graph.Call `op` missing
graph.Function(params=[None], body=x)                              | graph.Function `params` missing
graph.SeqExpr([None], x)                                           | graph.SeqExpr `blocks` missing
graph.VarBinding(None, x)                                          | graph.VarBinding `value` missing
ir.IRModule({"main": None})                                        | ir.IRModule `functions` main none
ir.IRModule({"main": 5})                                           | ir.IRModule `functions` main int
tenon.from_json('{"root": {"n": 0}, "nodes": [{"@": "tir.IntImm", "dtype": "int8", "value": 300}]}') | 300 int8
tenon.rewrite(function, {tir.BufferStore: lambda s: tir.Add(1, 2)}) | tir.Add tir.BufferStore
tenon.rewrite(function, {tir.Var: lambda v: tir.IntImm("int64", 1)}) | tir.IntImm tir.Var defined
tenon.rewrite(function, {tir.BufferLoad: lambda e: tir.Evaluate(0)}) | tir.Evaluate tir.BufferLoad
tenon.rewrite(function, {tir.BufferStore: lambda s: 5})            | BufferStore 5
tenon.rewrite(function, None)                                      | functions dict NoneType
tenon.visit(None, print)                                           | ir.visit `node` none
tenon.visit(function, {5: print})                                  | classes 5
tenon.structural_equal(None, function)                             | ir.structural_equal `a` none
tenon.parse("@T.prim_func\\ndef f(A: T.Buffer((-4,), 'float32')):\\n    T.evaluate(0)\\n") | negative
tenon.parse("@R.function\\ndef f(x: R.Tensor((-4,), 'float32')):\\n    return x\\n")      | dimension -4
"""
BUILDERS = """
te.placeholder((-4,), name="A")                                    | te.placeholder 'A' -4
te.placeholder(None)                                               | te.placeholder `shape` none
te.placeholder((3, None))                                          | `shape` item 1 none
te.placeholder((1.5,))                                             | float32 integer
te.placeholder(("n",))                                             | `shape` item 0 String
te.placeholder((4,), "nothing")                                    | te.placeholder `dtype`
te.placeholder((4,), "void")                                       | data type
te.compute((-4,), lambda i: i, name="B")                           | te.compute 'B' -4
te.compute((4,), 5)                                                | te.compute fcompute int
te.compute((4,), lambda i, j: i)                                   | fcompute 1
te.compute((4,), lambda i: None)                                   | none
te.compute((4,), lambda i: A[i + 0.5])                             | int64 float32
te.compute((4,), lambda i: A[0.5])                                 | 'A' float32
te.compute((4,), lambda i: A[i, i])                                | 'A' 2
te.reduce_axis((0, -4), name="k")                                  | te.reduce_axis 'k' -4
te.reduce_axis((5, 2))                                             | -3
te.reduce_axis(5)                                                  | te.reduce_axis dom 5
te.reduce_axis((0.5, 2))                                           | float32
te.thread_axis(-3, "threadIdx.x")                                  | te.thread_axis extent -3
te.thread_axis(5)                                                  | te.thread_axis `tag`
te.sum(A[0], axis=None)                                            | `axis` none
te.sum(A[0], axis=te.reduce_axis((0, 4)), where=3.5)               | `where` float32
te.comm_reducer(5, 6)                                              | te.comm_reducer fcombine int
te.extern((4,), [None], "f")                                       | te.external_packed `inputs` item 0 none
te.extern((4,), None, "f")                                         | te.extern inputs NoneType
te.extern((-4,), [A], "f")                                         | te.extern -4
te.extern([(4,), (4,)], [A], "f", dtype=["float32"])               | te.extern 2 1
te.create_prim_func([None])                                        | te.create_prim_func `args` item 0 none
te.create_prim_func(None)                                          | te.create_prim_func ops NoneType
te.create_schedule(None)                                           | te.create_schedule none
te.lower(None, [A])                                                | te.lower `schedule` none
te.lower(te.create_schedule(B.op), [None])                         | te.lower `args` item 0 none
te.create_schedule(B.op)[B].compute_at(None, None)                 | te.Stage.compute_at none
te.create_schedule(B.op)[B].split(B.op.axis[0], factor="a")        | te.Stage.split factor String
te.create_schedule(B.op)[None]                                     | te.Schedule stage none
te.create_schedule(B.op).cache_read(A, "local", [5])               | te.Schedule.cache_read reader int
te.var(None)                                                       | tir.Var `name` str none
tir.const("a")                                                     | const value str
tir.const(300, "int8")                                             | `value` 300 int8
tir.const(3, "nothing")                                            | const 'nothing'
tir.all()                                                          | all condition
tir.any(1, 2)                                                      | any condition int
tir.Schedule(None)                                                 | tir.Schedule.new `mod` none
tir.Schedule(function).split(loops_of(function)[0], [2, 2])        | split `loop` another schedule
tir.Schedule(function).fuse(*loops_of(function))                   | fuse `loops` another schedule
tir.Schedule(function).get(loops_of(function)[0])                  | Schedule.get another schedule
tir.schedule_rule("a", 5)                                          | schedule_rule function int
tir.schedule_rule(None, print)                                     | schedule_rule name NoneType
graph.var(None)                                                    | graph.var `name` str none
graph.var("x", 5)                                                  | graph.var `type` int
graph.const("a")                                                   | graph.const value str
graph.const(None)                                                  | graph.const value NoneType
graph.Constant(np.array(["a"]))                                    | <U1 tensor
graph.BlockBuilder(5)                                              | BlockBuilder mod int
graph.BlockBuilder().add_func(None, "f")                           | update_func func NoneType
graph.BlockBuilder().add_func(function, 5)                         | add_func name int
graph.BlockBuilder().emit(x)                                       | bb.function
building(lambda bb: bb.emit(None))                                 | graph value none
building(lambda bb: bb.match_cast(x, None))                        | graph.Bindings.match_cast `type` none
building(lambda bb: bb.emit_te(lambda a: None, x))                 | te.create_prim_func none
building(lambda bb: bb.emit_func_output(None))                     | graph value none
op.add(x, None)                                                    | `add` missing
op.concat([x, None])                                               | graph value none
op.nn.softmax(x, axis="a")                                         | nn.softmax `axis`
op.call_tir("f", [x], None)                                        | graph.call_tir `outputs` item 0 none
op.call_tir("f", [None], graph.Tensor((4,), "float32"))            | graph.call_tir `args` item 0 none
op.add(x, "a")                                                     | add 'b' tensor
op.nn.relu(tenon.graph.StringImm("a"))                             | nn.relu 'x' tensor
x + None                                                           | none
tenon.get_global_func("ir.interpret")(function, [None, None])      | ir.interpret `inputs` item 0 none
"""
CALLS = """
tenon.get_global_func(5)                                           | get_global_func name str int
tenon.remove_global_func(None)                                     | remove_global_func name NoneType
tenon.list_global_func_names(5)                                    | list_global_func_names prefix int
tenon.function_info(5)                                             | function_info name int
tenon.register_func("test.bad.no", 5)                              | register_func func int
tenon.register_func("", print)                                     | register_func name empty
tenon.convert_func(None)                                           | convert_func f NoneType
tenon.init_api("a", "no.such.module")                              | init_api no.such.module
tenon.Shape((1.5,))                                                | float
tenon.compile(None)                                                | model NoneType
tenon.compile(MODULE, target=5)                                    | compile target int
tenon.compile(MODULE, opt_level=None)                              | compile opt_level NoneType
tenon.compile(MODULE, opt_level=9)                                 | 9
tenon.compile(MODULE, precision=None)                              | compile precision NoneType
tenon.compile(MODULE, cache=5)                                     | compile cache int
tenon.compile(MODULE, dims=5)                                      | compile dims int
tenon.compile(MODULE, dims={"n": "a"})                             | compile dims 'n' str
tenon.compile(MODULE, dim_bounds={5: 4})                           | compile dim_bounds int
tenon.compile(MODULE, require_passes="fuse_ops")                   | compile require_passes str
tenon.compile(MODULE, progress=5)                                  | compile progress int
tenon.compile(MODULE, note=5)                                      | compile note int
tenon.compile(MODULE, name=5)                                      | compile name int
tenon.onnx.register_converter("noname", print)                     | register_converter DOMAIN::NAME
tenon.onnx.register_converter("my::A", 5)                          | register_converter function int
tenon.target.register_code_generator("z z", print)                 | register_code_generator kind 'z z'
tenon.target.register_code_generator("zz", None)                   | register_code_generator make NoneType
tenon.target.register_code_generator("zz", print, 5)               | register_code_generator load int
transform.Sequential(None)                                         | Sequential passes NoneType
transform.Sequential("fold_constant")                              | Sequential passes str
transform.Sequential([None])                                       | pass.get `name` none
transform.fold_constant(None)                                      | pass.run `module` none
transform.PassContext(opt_level="a")                               | PassContext opt_level str
transform.PassContext(required_pass="fuse_ops")                    | PassContext required_pass str
transform.PassContext(config=5)                                    | PassContext config int
transform.PassContext(instruments=[5])                             | PassContext instrument 5
transform.module_pass(required=["nothing"])(lambda m, c: m)        | nothing
transform.module_pass(required=5)(lambda m, c: m)                  | required int
transform.module_pass(5)                                           | pass 5
transform.pass_instrument(5)                                       | pass_instrument class int
"""
RUNS = """
executable.time(X, number="a")                                     | number int str
executable.save(None)                                              | NoneType
tenon.VirtualMachine(executable)["main"](None)                     | none
tenon.VirtualMachine(executable).save_function("main", None, X)    | save_function saved_name NoneType
tenon.VirtualMachine(executable).set_instrument("a")               | instrument str
filled.get_output("a")                                             | get_output index str
filled.get_output(0, out=5)                                        | get_output out int
filled.set_input(None, X)                                          | set_input key
tenon.InferenceSession(MODEL, 5)                                   | sess_options int
tenon.InferenceSession(MODEL, providers="CPUExecutionProvider")    | providers list str
tenon.InferenceSession(MODEL, providers=5)                         | providers int
tenon.InferenceSession(MODEL, providers=["CPUExecutionProvider"], provider_options=5) | provider_options int
tenon.InferenceSession(MODEL, options("add_session_config_entry", "tenon.memory_limit", "much")) | tenon.memory_limit 'much'
options("add_free_dimension_override_by_name", "n", "much")        | add_free_dimension_override_by_name size str
tenon.set_default_logger_severity(9)                               | set_default_logger_severity 9
session.run(None, {"x": object.__new__(tenon.NDArray)})            | 'x'
session.run_with_ort_values(None, {"x": X})                        | run_with_ort_values 'x' OrtValue ndarray
session.run_async(None, {"x": X}, 5, None)                         | run_async callback int
tenon.IOBinding(executable)                                        | IOBinding session Executable
session.io_binding().bind_cpu_input("x", np.array(["a"]))          | 'x'
session.io_binding().bind_ortvalue_input("x", X)                   | bind_ortvalue_input OrtValue ndarray
session.io_binding().bind_ortvalue_input("x", tenon.OrtValue([X])) | 'x' seq
session.io_binding().bind_input("x", "cuda", 0, "f", (2,), 64)     | device 'cuda'
session.io_binding().bind_input("x", "cpu", 0, "f", (2,), 0)       | bind_input buffer_ptr 0
session.io_binding().bind_input("x", "cpu", 0, "f", (2,), None)    | bind_input buffer_ptr NoneType
session.io_binding().bind_input("x", "cpu", 0, "f", (-2,), 64)     | bind_input -2
session.io_binding().bind_input("x", "cpu", 0, None, (2,), 64)     | element_type None
session.io_binding().bind_output("y", "cpu", 0, "f", None, 64)     | bind_output shape NoneType
session.io_binding().bind_ortvalue_output("y", tenon.OrtValue([X])) | 'y' tensor
tenon.OrtValue.ortvalue_from_numpy([1])                            | ortvalue_from_numpy list
tenon.OrtValue.ortvalue_from_numpy_with_onnx_type(X, 11)           | widths
tenon.OrtValue.ortvalue_from_shape_and_type(None)                  | ortvalue_from_shape_and_type shape NoneType
tenon.OrtValue.ortvalue_from_shape_and_type((2**62, 2**62))        | big
tenon.OrtValue.from_dlpack(5)                                      | from_dlpack int
tenon.OrtValue.from_dlpack(X, is_bool_tensor=True)                 | float32
tenon.OrtValue(X).update_inplace(None)                             | update_inplace NoneType
tenon.OrtValue([X]).shape()                                        | seq tensor
tenon.OrtValue([X]).data_ptr()                                     | seq tensor
"""


def names_of_the_lines():
    """What the lines name."""
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    function = te.create_prim_func([A, B])
    x = graph.var("x", graph.Tensor((4,), "float32"))

    def building(f):
        bb = graph.BlockBuilder()
        with bb.function("main", [x]):
            f(bb)

    def loops_of(program):
        schedule = tir.Schedule(program)
        return schedule.get_loops(schedule.get_block("B"))

    def options(name, *args):
        made = tenon.SessionOptions()
        getattr(made, name)(*args)
        return made

    return {"tenon": tenon, "graph": graph, "ir": ir, "op": op, "te": te, "tir": tir, "transform": transform, "np": np, "A": A, "B": B,
            "function": function, "x": x, "building": building, "loops_of": loops_of, "options": options, "n": te.var("n"), "nothing": tir.Evaluate(0),
            "pointer": tir.Var(dtype="handle", name="p"), "buffer": function.buffer_map[function.params[0]],
            "MODEL": ADD, "MODULE": tenon.parse(ADD.decode())}


class Lines(unittest.TestCase):
    """Every one is a TypeError, ValueError or error of Tenon, never of its own bugs, that says where and why."""

    def refused(self, table, **more):
        names = {**names_of_the_lines(), **more}
        for line in table.strip().splitlines():
            code, _, words = line.rpartition(" | ")
            if np is None and ("np." in code or "graph.const(" in code):
                continue
            with self.subTest(code.strip()):
                with self.assertRaises((TypeError, ValueError, OverflowError, tenon.Error)) as caught:
                    eval(code.strip(), names)
                self.assertNotIsInstance(caught.exception, tenon.InternalError)
                for word in words.split():
                    self.assertIn(word, str(caught.exception))

    def test_nodes(self):
        self.refused(NODES)

    def test_builders(self):
        self.refused(BUILDERS)

    def test_calls(self):
        self.refused(CALLS)

    @unittest.skipIf(np is None, "NumPy is not here")
    def test_runs(self):
        X = np.array([1, 2], "f")
        executable, session = tenon.compile(ADD), tenon.InferenceSession(ADD)
        filled = tenon.GraphExecutor(executable)
        filled.run(x=X)
        table = RUNS.replace('"y"', repr(session.get_outputs()[0].name)).replace("'y'", repr(session.get_outputs()[0].name))
        self.refused(table, X=X, executable=executable, session=session, filled=filled)
        np.testing.assert_array_equal(executable(X), 2 * X)  # all of them stay usable
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], 2 * X)
        np.testing.assert_array_equal(filled.get_output(0), 2 * X)

    def test_constants_are_kept_as_their_type_has_them(self):
        for dtype, value, kept in (("float32", 0.1, 0.10000000149011612), ("float16", 1e30, float("inf")), ("float64", 0.1, 0.1)):
            node = tir.FloatImm(dtype, value)
            self.assertEqual(node.value, kept)
            self.assertEqual(tenon.from_json(node.to_json()), node)
        for dtype, value in (("int8", -128), ("uint8", 255), ("uint64", -1), ("bool", 1), ("int32", True)):
            self.assertEqual(tir.IntImm(dtype, value).value, value)


class Arguments(unittest.TestCase):
    def test_a_wrong_type_names_function_argument_expectation_and_what_came(self):
        for call, words in ((lambda: tenon.get_global_func("ir.first_difference")(tir.IntImm("int8", 1), 2),
                             ("ir.first_difference", "`b`", "Object", "int")),
                            (lambda: tenon.parse(3), ("ir.parse", "`text`", "str", "int")),
                            (lambda: tir.Add(1, "x"), ("tir.Add", "b", "tir.PrimExpr")),
                            (lambda: tenon.compile(ADD, opt_level="two"), ("opt_level",))):
            with self.assertRaises(TypeError) as refused:
                call()
            for word in words:
                self.assertIn(word, str(refused.exception))

    def test_an_error_of_cpp_has_class_code_hint_and_both_tracebacks(self):
        def outer():
            return tenon.get_global_func("pass.get")("fold_constants")

        try:
            tenon.convert_func(outer)()
            self.fail("nothing was raised")
        except tenon.UsageError as caught:
            e = caught
        self.assertEqual(e.code, "T0919")
        self.assertIn("fold_constant", e.hint)
        self.assertRegex(e.passed, r"pass_functions\.cpp:\d+, in pass\.get")
        names, t = [], e.__traceback__
        while t:
            names.append(t.tb_frame.f_code.co_name)
            t = t.tb_next
        self.assertIn("outer", names)


@unittest.skipIf(np is None, "NumPy is not here")
class Sessions(unittest.TestCase):
    def setUp(self):
        self.x = np.array([1, 2], "f")

    def tearDown(self):
        tenon.remove_global_func("test.bad.again")

    def test_a_freed_artifact(self):
        ex = tenon.compile(ADD)
        call, vm = ex.__call__, tenon.VirtualMachine(ex)
        session = tenon.InferenceSession(ADD)
        binding = session.io_binding()
        binding.bind_cpu_input("x", self.x)
        del ex, session
        gc.collect()
        np.testing.assert_array_equal(call(self.x), 2 * self.x)
        np.testing.assert_array_equal(vm["main"](self.x), 2 * self.x)
        binding._session.run_with_iobinding(binding)
        bare = object.__new__(tenon.Executable)
        with self.assertRaises(RuntimeError):
            bare._call(self.x)

    def test_a_binding_of_two_threads(self):
        inside, errors = [], []

        def again(x):
            def other():
                try:
                    session.run_with_iobinding(binding)
                except RuntimeError as e:
                    errors.append(str(e))
            t = threading.Thread(target=other)
            t.start()
            t.join()
            inside.append(session.run(None, {"x": self.x})[0] if len(inside) < 1 else None)
            return x

        tenon.register_func("test.bad.again", again)
        session = tenon.InferenceSession(CALLS_PYTHON)
        binding = session.io_binding()
        binding.bind_cpu_input("x", self.x)
        binding.bind_output(session.get_outputs()[0].name)
        inside.append(None)  # no further session inside
        session.run_with_iobinding(binding)
        self.assertIn("one call at a time", errors[0])
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 2 * self.x)

    def test_an_array_of_another_device_or_type(self):
        class Elsewhere:
            def __dlpack__(self, **keywords):
                raise AssertionError("its memory is read")

            def __dlpack_device__(self):
                return 2, 0

        ex, session = tenon.compile(ADD), tenon.InferenceSession(ADD)
        for run in (lambda v: ex(v), lambda v: session.run(None, {"x": v})):
            with self.assertRaisesRegex(ValueError, "'x' is not in CPU memory"):
                run(Elsewhere())
            for wrong in (self.x.astype("d"), self.x.astype("c8"), np.array(["a", "b"]), np.array([object(), None])):
                with self.assertRaises((tenon.UsageError, TypeError)) as refused:
                    run(wrong)
                self.assertIn("x", str(refused.exception))
            np.testing.assert_array_equal(np.asarray(run(self.x)).reshape(2), 2 * self.x)

    def test_a_file_that_is_no_model(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (("empty", b""), ("text", b"hello"), ("bytes", bytes(range(256)) * 9), ("elf", b"\x7fELF" + bytes(400)),
                                  ("cut.tir", ADD[:90])):
                path = os.path.join(folder, name)
                with open(path, "wb") as file:
                    file.write(content)
                with self.subTest(name):
                    for make in (tenon.compile, tenon.load, tenon.VirtualMachine):
                        with self.assertRaises(tenon.ModelError):
                            make(path)
                    with self.assertRaises((tenon.InvalidProtobuf, tenon.InvalidGraph, tenon.RuntimeException, tenon.Fail)):
                        tenon.InferenceSession(path)
            for make in (tenon.compile, tenon.load):
                with self.assertRaises(tenon.FileError):
                    make(os.path.join(folder, "nowhere"))
            with self.assertRaises(tenon.Error):
                tenon.compile(folder)


class Versions(unittest.TestCase):
    def test_a_library_of_another_version(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            self.skipTest("no C compiler is here")
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/old.c", "w") as file:
                file.write("int tenon_ffi_version(void) { return 0; }\n")
            subprocess.run([compiler, "-shared", "-fPIC", "-o", folder + "/old.so", folder + "/old.c"], check=True)
            before = os.environ.get("LD_PRELOAD", "")
            done = subprocess.run([sys.executable, "-c", "import tenon"], capture_output=True, text=True,
                                  env={**os.environ, "LD_PRELOAD": f"{before} {folder}/old.so".strip()})
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"ImportError: .*version 0, the package needs \d+")


if __name__ == "__main__":
    unittest.main()
