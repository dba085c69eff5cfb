# SPDX-License-Identifier: Apache-2.0
"""Every group of examples that five posts about such compilers show, by post and line: here as printed where text can be read as
it stands, else in the tests that the table names. What is not yet said here has its reason in the table."""
from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import unittest

import tenon
from tenon import dpl, te, transform

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not here") from None

from test_examples import conv_reference

RNG = np.random.default_rng(11)

MM_RELU = '''
@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(A: T.Buffer[(128, 128), "float32"],
                B: T.Buffer[(128, 128), "float32"],
                C: T.Buffer[(128, 128), "float32"]):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                vk = T.axis.reduce(128, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))
'''

MIXED = '''
import tvm.script
from tvm.script import tir as T, relax as R

@tvm.script.ir_module
class MyIRModule:
    @T.prim_func
    def tir_exp_func(x: T.handle, y: T.handle): ## <= D2
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        with T.grid(n) as i:
            Y[i] = T.exp(X[i])

    @R.function
    def relax_func(x: R.Tensor[(n, k), "f32"], w: R.Tensor[_, "f32"]):
        # n, k above are implicitly defined by the signature
        # so we will be able to refer to n, k in the later part of the program
        with R.dataflow(): ### <= D0
            lv0 = R.match_shape(w, (k, m)) ## <= D1
            lv1: R.Tensor[(n, m), "f32"] = R.dot(x, lv0)
            lv2: R.Tensor[(n * m,), "f32"] = R.flatten(lv1) ## <= D1
            lv3: R.Shape = (n * m,)  ## <= D1
            gv0: R.Tensor[lv2, "f32"] = R.call_tir(lv2, tir_exp_func, [lv3])   ## <= D2
            R.outputs(gv0)

        R.call_packed("custom_inplace_update", gv0)  ## <= D0, D2
        return gv0
'''

SHAPE_EXAMPLE = '''
from tvm.script import relax as R

@R.function
def shape_example(x: R.Tensor[(n, 2, 2), "f32"]):
    with R.dataflow():
        # symbolic and static shape deduction
        lv0: R.Tensor[(n, 4), "f32"] = R.reshape(x, (n, 4))
        lv1: R.Tensor[(n * 4,), "f32"] = R.flatten(lv0)
        lv2: R.Shape = (n * 4,)
        # external opaque shape function
        lv3: R.Shape = R.call_packed("myshape_func", lv2)
        lv4: R.Tensor[lv3, "f32"] = R.call_tir(lv3, "custom_func", [lv1])
        # data dependent case
        lv5: R.Tensor[_, "f32"] = R.unique(lv4)
        # re-match shape
        lv6: R.Tensor[(m,), "f32"] = R.match_shape(lv5, (m,))
        gv0: R.Tensor[(m,), "f32"] = R.exp(lv6)
        R.outputs(gv0)
    return gv0
'''

MATCH_SHAPE = '''
from tvm.script import relax as R

@R.function
def shape_example(x: R.Tensor[_, "f32"], y: R.Tensor[_, "f32"]):
    with R.dataflow():
        # the match shape defines n, m because it appears for the first time
        lv0: R.Tensor[(n, m)] = R.match_shape(x, (n, m))
        # the second occurance of n, m will translate into an assertion
        # that y's shape equals (n, m)
        lv1: R.Tensor[(n, m)] = R.match_shape(y, (n, m))
        # we can also call match_shape on shape expressions
        lv2: Shape = R.match_shape(R.shape_of(y), (n, m))
'''

VECTOR_ADD = '''
@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        # We exchange data between function by handles, which are similar to pointer.
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        # Create buffer from handles.
        A = T.match_buffer(a, (8,), dtype="float32")
        B = T.match_buffer(b, (8,), dtype="float32")
        for i in range(8):
            # A block is an abstraction for computation.
            with T.block("B"):
                # Define a spatial block iterator and bind it to value i.
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1.0
'''
# As the post prints it, and the tensor expression of the same sum.
VECTOR_ADD_PRINTED = '''# from tvm.script import tir as T
@tvm.script.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer[8, "float32"], B: T.Buffer[8, "float32"]) -> None:
        # function attr dict
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        # body
        # with T.block("root")
        for i in T.serial(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = A[vi] + T.float32(1)
'''
VECTOR_ADD_OF_TE = VECTOR_ADD_PRINTED.replace("vi", "i0_1").replace("for i ", "for i0 ").replace("(8, i)", "(8, i0)")

# What `print(func)` shows of the network that Python builds: variables without types have none.
SIMPLENET = '''#[version = "0.0.5"]
fn (%data: Tensor[(1, 3, 224, 224), float32], %graph_conv_weight, %graph_bn_gamma, %graph_bn_beta, %graph_bn_moving_mean,
    %graph_bn_moving_var) {
  %0 = nn.conv2d(%data, %graph_conv_weight, strides=[2, 2], padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]);
  %1 = nn.batch_norm(%0, %graph_bn_gamma, %graph_bn_beta, %graph_bn_moving_mean, %graph_bn_moving_var, epsilon=1e-05f);
  %2 = %1.0;
  nn.relu(%2)
}
'''


def normal(*shape):
    return RNG.standard_normal(shape).astype("f")


@contextlib.contextmanager
def registered(**functions):
    for name, f in functions.items():
        tenon.register_func(name, f)
    try:
        yield
    finally:
        for name in functions:
            tenon.remove_global_func(name)


class AsPrinted(unittest.TestCase):
    """The text of the post, character for character up to spaces at ends of lines, and values beside NumPy."""

    def assert_round_trip(self, module):
        self.assertEqual(tenon.parse(module.script()), module)

    def test_mm_relu(self):
        module = tenon.parse(MM_RELU)
        self.assert_round_trip(module)
        a, b = normal(128, 128), normal(128, 128)
        c = np.zeros((128, 128), "f")
        c = tenon.build(module)(a, b)
        np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)

    def test_vector_add(self):
        module = tenon.parse(VECTOR_ADD)
        self.assert_round_trip(module)
        self.assertEqual(tenon.parse(VECTOR_ADD_PRINTED), module)
        A = te.placeholder((8,), dtype="float32", name="A")
        B = te.compute((8,), lambda *i: A(*i) + 1.0, name="B")
        func = te.create_prim_func([A, B])
        of_te = tenon.parse(VECTOR_ADD_OF_TE)["main"]
        self.assertEqual(func, of_te.replace(attrs=func.attrs))  # the post's version notes its origin in other attributes
        self.assertEqual(of_te, module["main"])                   # names apart
        x = normal(8)
        np.testing.assert_array_equal(tenon.compile(module)(x), x + 1)

    def test_mixed_module(self):
        """As printed a tensor stands where a shape belongs, and a shape where a tensor does; the corrected twin runs."""
        with self.assertRaises(tenon.ScriptError) as refused:
            tenon.parse(MIXED)
        self.assertRegex(str(refused.exception), r"(?s)T0232.*output shape of call_tir is a R\.Tensor.*:23:52")
        module = tenon.parse(MIXED.replace("R.Tensor[lv2,", "R.Tensor[lv3,").replace("(lv2, tir_exp_func, [lv3])",
                                                                                    "(lv3, tir_exp_func, [lv2])"))
        self.assert_round_trip(module)
        seen = []
        with registered(custom_inplace_update=lambda t: seen.append(np.asarray(t).copy())):
            ex = tenon.compile(module)
            for n, k, m in ((2, 3, 4), (5, 1, 2)):
                x, w = normal(n, k), normal(k, m)
                np.testing.assert_allclose(ex(x, w), np.exp(x @ w).ravel(), rtol=1e-5)
                np.testing.assert_allclose(seen[-1], np.exp(x @ w).ravel(), rtol=1e-5)
            with self.assertRaises(tenon.ModelError):
                ex(normal(2, 3), normal(4, 3))

    def test_shape_example(self):
        module = tenon.parse(SHAPE_EXAMPLE)
        self.assert_round_trip(module)

        def custom(x, out):
            np.asarray(out)[...] = 2 * np.asarray(x).reshape(out.shape)

        for shape_of in (lambda shape: tenon.Shape(tuple(shape)), lambda shape: tenon.Shape((2, shape[0] // 2))):
            with registered(myshape_func=shape_of, custom_func=custom):
                ex = tenon.compile(module)
                for n in (1, 3, 5):
                    x = RNG.integers(0, 4, (n, 2, 2)).astype("f") / 2
                    np.testing.assert_allclose(ex(x), np.exp(np.unique(2 * x)), rtol=1e-5)

    def test_match_shape(self):
        with self.assertRaisesRegex(tenon.ScriptError, "T0241.*no return"):
            tenon.parse(MATCH_SHAPE)
        module = tenon.parse(MATCH_SHAPE + "        R.output(lv0, lv1, lv2)\n    return (lv0, lv1)\n")
        self.assert_round_trip(module)
        ex = tenon.compile(module)
        x, y = normal(2, 3), normal(2, 3)
        for got, want in zip(ex(x, y), (x, y)):
            np.testing.assert_array_equal(got, want)
        for shape in ((2, 4), (6,)):
            with self.assertRaisesRegex(tenon.ModelError, r"(?s)T0501"):
                ex(x, normal(*shape))

    def test_simplenet(self):
        module = transform.infer_types(tenon.parse(SIMPLENET))
        self.assert_round_trip(module)
        params = {"graph_conv_weight": RNG.uniform(-1, 1, (32, 3, 3, 3)).astype("f"),
                  **{"graph_bn_" + k: RNG.uniform(0.1, 1, (32,)).astype("f") for k in ("gamma", "beta", "moving_mean", "moving_var")}}
        main = module["main"]
        self.assertEqual({p.name: tuple(d.value for d in p.type.shape.values) for p in main.params[1:]},
                         {k: v.shape for k, v in params.items()})
        with transform.PassContext(opt_level=3, required_pass=["bind_params"], config={"bind_params.values": params}):
            module = transform.bind_params(module)
        executor = tenon.GraphExecutor(tenon.compile(module, opt_level=3))
        data = RNG.uniform(-1, 1, (1, 3, 224, 224)).astype("f")
        executor.set_input("data", data)
        executor.run()
        scale = params["graph_bn_gamma"] / np.sqrt(params["graph_bn_moving_var"] + 1e-5)
        shift = params["graph_bn_beta"] - params["graph_bn_moving_mean"] * scale
        y = conv_reference(data, params["graph_conv_weight"], 2, 1)
        self.assertEqual(executor.get_output(0).shape, (1, 32, 112, 112))
        np.testing.assert_allclose(executor.get_output(0), np.maximum(y * scale[:, None, None] + shift[:, None, None], 0),
                                   rtol=1e-3, atol=1e-3)
        for target, start in (("c", "#include"), ("llvm", "define ")):
            self.assertIn(start, tenon.compile(module, target=target).source(target))
        with self.assertRaisesRegex(tenon.UsageError, "T0901.*`cuda`"):
            tenon.compile(module, target="cuda")

    def test_types_of_parameters(self):
        """bias_add says what its bias is; an axis that x does not have is refused at its place."""
        text = 'def @main(%x: Tensor[(2, 3, 4), float32], %b) {\n  nn.bias_add(%x, %b, axis=AXIS)\n}\n'
        module = transform.infer_types(tenon.parse(text.replace("AXIS", "-2")))
        self.assertEqual([d.value for d in module["main"].params[1].type.shape.values], [3])
        x, b = normal(2, 3, 4), normal(3)
        np.testing.assert_allclose(tenon.compile(module)(x, b), x + b[:, None], rtol=1e-6)
        with self.assertRaisesRegex(tenon.ModelError, r"(?s)axis 7.*:2:3"):
            transform.infer_types(tenon.parse(text.replace("AXIS", "7")))


# The kinds of fusion of the third post.
KINDS = {
    "element_wise": """log log2 log10 tan cos cosh sin sinh acos acosh asin asinh atan atanh exp fast_exp erf fast_erf sqrt rsqrt
        zeros_like ones_like sigmoid floor ceil trunc round sign abs tanh fast_tanh negative logical_not bitwise_not isnan
        isfinite isinf full""",
    "broadcast": """add subtract right_shift left_shift maximum minimum divide floor_divide multiply power mod floor_mod
        logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor equal not_equal less less_equal greater
        greater_equal broadcast_to""",
    "injective": "shape_of image.resize2d pad nn.upsampling tile strided_slice expand_dims squeeze einsum",
    "comm_reduce": "argmax argmin max min sum all any prod mean variance",
    "out_element_wise_fusable": "one_hot",
    "opaque": "to_device",
}
# Where ours is another one; docs/coverage.md says why.
OTHER_KINDS = {"zeros_like": "injective", "ones_like": "injective", "full": "injective", "one_hot": "injective",
               "shape_of": "opaque", "einsum": "out_element_wise_fusable"}


class Tables(unittest.TestCase):
    def test_kinds_of_fusion(self):
        kinds = {o["name"]: o["fusion"] for o in json.loads(tenon.get_global_func("compiler.operators")({})["json"])["operators"]}
        post = {name: kind for kind, names in KINDS.items() for name in names.split()}
        self.assertEqual({name: kinds[name] for name in post}, post | OTHER_KINDS)

    def test_pattern_of_products(self):
        """`make_gemm_pattern` of the second post, with bias and relu."""
        gemm = dpl.is_op("nn.dense")(dpl.wildcard(), dpl.wildcard())
        pattern = dpl.is_op("nn.relu")((dpl.is_op("add") | dpl.is_op("nn.bias_add"))(gemm, dpl.wildcard()))
        for op, matches in (("add", True), ("nn.bias_add", True), ("multiply", False)):
            module = transform.infer_types(tenon.parse(f"""
@R.function
def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((3,), "float32")):
    y = R.nn.dense(x, w)
    z = R.{op}(y, b)
    return R.nn.relu(z)
"""))
            merged = transform.MergeComposite([("cutlass.dense_bias_relu", pattern)])(module)
            self.assertEqual(len(merged.functions), 2 if matches else 1)
            x, w, b = normal(2, 4), normal(3, 4), normal(3)
            y = x @ w.T
            np.testing.assert_allclose(tenon.compile(merged)(x, w, b), np.maximum(y * b if op == "multiply" else y + b, 0), rtol=1e-5)


P, E, C = "test_posts.", "test_examples.", "test_patterns."
NOT_YET = {
    "gpu": "no target for GPUs",
    "front end": "no reader of TorchScript, Jaxpr or HLO; tracing belongs to those front ends",
}
# Post, lines, what they show, and the tests; or the key of NOT_YET of a part that is not here.
GROUPS = [
    (0, "31, 57", "mm_relu and its NumPy twin", ["AsPrinted.test_mm_relu", P + "Programs.test_matrix_product"]),
    (0, "464", "the relation of bias_add", ["AsPrinted.test_types_of_parameters", E + "Unity.test_bias_add"]),
    (0, "645", "softmax by target: generic, cuda, a library before both",
     ["gpu", "pass_graph/strategy_test.cpp: ALibraryTakesCallsButNoTensorProgram"]),
    (0, "716, 760", "graph functions beside tensor programs and registered functions",
     ["AsPrinted.test_mixed_module", "AsPrinted.test_shape_example", E + "Unity.test_both_levels_in_one_module",
      E + "Unity.test_a_tensor_is_no_shape", E + "Unity.test_shapes_and_registered_functions"]),
    (0, "799", "match_shape", ["AsPrinted.test_match_shape", E + "Unity.test_match_shape_binds_then_asserts"]),
    (0, "833, 849, 891, 903", "destination passing, call_tir, functions from outside",
     ["AsPrinted.test_shape_example", E + "Unity.test_shapes_and_registered_functions"]),
    (0, "929, 956, 977, 988", "vector add as text and as a tensor expression",
     ["AsPrinted.test_vector_add", P + "Programs.test_vector_add_is_its_tensor_expression"]),
    (0, "1190", "an instrument vetoes a pass", ["test_passes.Instruments.test_calls_and_vetoes"]),
    (0, "1686-1735", "simplenet on the graph executor", ["AsPrinted.test_simplenet", E + "Unity.test_simplenet"]),
    (0, "1794", "its source for c and llvm, cuda refused", ["AsPrinted.test_simplenet", P + "Refused.test_targets"]),
    (0, "2132", "its picture", ["test_show.Show.test_a_module_is_drawn_in_pixels"]),
    (1, "173, 220", "dense for an external generator", [C + "Partition.test_the_dense_of_the_post", C + "Partition.test_a_generator_in_python"]),
    (1, "275", "the pattern of a product, add or bias_add, relu", ["Tables.test_pattern_of_products"]),
    (1, "306-355", "InferType, MergeComposite, AnnotateTarget, PartitionGraph", [C + "Partition.test_the_dense_of_the_post"]),
    (2, "71, 85", "loops of one iteration", [P + "Programs.test_two_stages", P + "Refused.test_texts"]),
    (2, "403, 412", "add, exp, squeeze", [E + "Fusion.test_add_exp_squeeze"]),
    (2, "500-615", "kinds of fusion", ["Tables.test_kinds_of_fusion"]),
    (2, "640", "prelu by Select", [E + "Fusion.test_prelu"]),
    (2, "695", "two convolutions and their concatenation", [E + "Fusion.test_two_convolutions_and_their_concatenation"]),
    (2, "790", "dead values", [E + "Fusion.test_dead_values_go", E + "Fusion.test_values_bound_once"]),
    (2, "840", "layouts of weights", [E + "Fusion.test_layouts_of_weights_are_folded"]),
    (2, "880-990", "parallel convolutions", [E + "Fusion.test_parallel_convolutions"]),
    (2, "1850", "concatenation as conditions", [E + "Schedules.test_concatenation_as_conditions"]),
    (2, "2020", "recorded steps", [P + "RecordedSteps.test_all_on_one_schedule", P + "RecordedSteps.test_rfactor"]),
    (2, "2219", "the order of passes", [E + "Fusion.test_order_of_passes_and_of_a_pipeline"]),
    (3, "62, 104", "foo(len) as syntax tree and SSA", ["front end"]),
    (3, "304, 325, 348, 370-400", "traced programs, user primitives, HLO", ["front end"]),
    (3, "534, 540, 550", "dense and sigmoid in one program", [E + "Fusion.test_dense_sigmoid_is_one_program"]),
    (3, "600-625", "implementations by priority", ["pass_graph/strategy_test.cpp: PanelsBeatThePlainSum"]),
    (4, "12", "Conv and auto_pad", [E + "Onnx.test_convolutions_and_their_padding"]),
    (4, "68", "operators by name", [E + "Onnx.test_operators_are_found_by_name"]),
    (4, "275", "Resize of opset 10", [E + "Onnx.test_resize_of_opset_10"]),
    (4, "310", "sizes of the model and of the run", [E + "Onnx.test_resize_to_sizes_of_the_model_and_of_the_run"]),
    (4, "496", "the injective schedule", [E + "Schedules.test_injective"]),
]


class Groups(unittest.TestCase):
    def assert_in_cpp(self, path, name):
        with open(os.path.join(os.environ["TENON_SOURCE_DIR"], "tests/unit", path)) as f:
            self.assertRegex(f.read(), rf"TEST(_F)?\(\w+, {name}\)")

    def test_every_group_has_its_tests(self):
        for post, lines, what, tests in GROUPS:
            with self.subTest(f"post {post}: {lines}: {what}"):
                for name in tests:
                    if name in NOT_YET:
                        continue
                    if ".cpp: " in name:
                        self.assert_in_cpp(*name.split(": "))
                        continue
                    module, dot, case = name.rpartition(".")[0].rpartition(".")
                    owner = getattr(importlib.import_module(module) if dot else sys.modules[__name__], case)
                    self.assertTrue(callable(getattr(owner, name.rpartition(".")[2])))


if __name__ == "__main__":
    unittest.main()
