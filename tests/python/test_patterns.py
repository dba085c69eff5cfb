# SPDX-License-Identifier: Apache-2.0
"""Dataflow patterns and external code generators from Python."""
import contextlib
import os
import tempfile
import unittest

import tenon
from tenon import dpl, graph, op, transform
from tenon.dpl import (is_call_packed, is_call_tir, is_const, is_dfv, is_expr, is_gv, is_if, is_let, is_op, is_shape, is_tuple, is_tuple_get_item,
                       is_var, wildcard)

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not here") from None

# The dense of the post on partitioning: float16 operands, a float32 result.
DENSE = """
@R.function
def main(data: R.Tensor((96, 64), "float16"), weight: R.Tensor((64, 64), "float16")):
    lv = R.nn.dense(data, weight, out_dtype="float32")
    return lv
"""
COMPOSITE = """
@I.ir_module
class Module:
    @R.function
    def main(data: R.Tensor((96, 64), "float16"), weight: R.Tensor((64, 64), "float16")) -> R.Tensor((96, 64), "float32"):
        lv: R.Tensor((96, 64), "float32") = cls.cutlass_dense(data, weight)
        return lv

    @R.function
    def cutlass_dense(data: R.Tensor((96, 64), "float16"), weight: R.Tensor((64, 64), "float16")) -> R.Tensor((96, 64), "float32"):
        R.func_attr({"Composite": "cutlass.dense", "PartitionedFromPattern": "nn.dense_"})
        lv: R.Tensor((96, 64), "float32") = R.nn.dense(data, weight, out_dtype="float32")
        return lv
"""
CHAIN = """
@R.function
def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((3, 4), "float32")):
    d = R.nn.dense(x, w)
    r = R.nn.relu(d)
    k = R.add(r, R.const(1.0, "float32"))
    p = (k, d)
    g = p[1]
    l = R.nn.leaky_relu(g, alpha=0.25)
    return (k, l)
"""
OTHER_KINDS = """
@I.ir_module
class Module:
    @T.prim_func
    def double(x: T.Buffer((2, 3), "float32"), y: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            y[i, j] = x[i, j] * T.float32(2)
    @R.function
    def main(a: R.Tensor((2, 3), "float32"), b: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")):
        e = R.exp(a)
        t = R.tanh(a)
        s = R.add(e, t)
        w = R.add(b, e)
        u = R.tanh(s)
        d = R.call_tir(cls.double, (e,), R.Tensor((2, 3), "float32"))
        k = R.call_tir(cls.double, (t,), R.Tensor((2, 3), "float32"))
        q = R.call_packed("test.some", e, sinfo_args=R.Tensor((2, 3), "float32"))
        z = R.shape([3, 2])
        r = R.reshape(a, R.shape([3, 2]))
        n = R.reshape(a, R.shape([6]))
        p = (e, t)
        m = R.nn.relu(a)
        h = R.exp(m)
        if c:
            y = R.tanh(e)
            i = y
        else:
            i = R.exp(t)
        return (u, w, d, k, q, z, r, n, p, h, i)
"""


def dense():
    return is_op("nn.dense")(wildcard(), wildcard())


def inferred(text):
    return transform.infer_types(tenon.parse(text))


class Patterns(unittest.TestCase):
    def setUp(self):
        self.main = inferred(CHAIN)["main"]
        self.values = {b.var.name: b.var for block in self.main.body.blocks for b in block.bindings}

    def found(self, pattern, name):
        return pattern.match(self.values[name], self.main)

    def test_kinds(self):
        one = wildcard()
        for pattern, yes, no in [
                (dense(), "d", "r"), (is_op("nn.relu")(), "r", "d"), (dense() | is_op("nn.relu")(dense()), "r", "k"),
                (dense().optional(lambda y: is_op("nn.relu")(y)), "r", "k"),
                (is_op("add")(wildcard(), is_const()), "k", "d"), (is_op("nn.dense")(one, one) | is_op("nn.relu")(one), "r", "d"),
                (is_op("nn.leaky_relu")(wildcard()).has_attr({"alpha": 0.25}), "l", "d"),
                (wildcard().has_shape((2, 3)) & ~is_op("add")(), "d", "k"),
                (wildcard().has_dtype("float32") & dense(), "d", "k"), (wildcard().has_type(graph.Tensor((2, 3), "float32")), "d", "p"),
                (is_tuple([wildcard(), dense()]), "p", "g"), (is_tuple_get_item(is_tuple(), 1), "g", "p"),
                (dense() ^ is_op("nn.relu")(), "r", "k"), (is_op("nn.relu")() ^ is_op("add")(), "k", "r"),
                (is_op("nn.relu")() >> is_op("add")(), "k", "r"),
                (is_op("nn.relu")().dominates(is_op("add")()), "k", "r"), (is_expr(self.values["d"]), "d", "r")]:
            self.assertIsNotNone(self.found(pattern, yes), pattern)
            self.assertIsNone(self.found(pattern, no), pattern)

    def test_kinds_by_name_and_structure(self):
        main = inferred(OTHER_KINDS)["main"]
        values = {b.var.name: b.var for block in main.body.blocks for b in block.bindings}
        x, v = wildcard(), is_var()
        exp, copy = is_op("exp")(x), wildcard()
        for pattern, yes, no in [
                (is_op("exp")(is_var("a")), "e", "t"), (is_op("add")(is_dfv("e"), wildcard()), "s", "h"), (is_op("exp")(is_dfv()), "h", "e"),
                (is_call_tir("double", [is_op("exp")()]), "d", "k"), (is_call_tir("", wildcard()), "k", "e"),
                (is_call_packed("test.some"), "q", "d"), (is_call_packed("test.some", [is_op("exp")()]), "q", "d"),
                (is_op("call_tir")(is_gv("double"), varg_default_wildcard=True), "k", "q"),
                (is_op("reshape")(wildcard(), is_shape([3, 2])), "r", "n"), (is_shape((3, 2)), "z", "e"),
                (is_tuple([is_op("tanh")(), is_op("exp")()], unordered=True), "p", "s"),
                (is_if(wildcard(), is_op("tanh")(is_op("exp")()), is_op("exp")()), "i", "e"),
                (is_let(v, is_op("exp")(), is_op("add")(v, wildcard())), "s", "h"),
                (is_op("add")(exp, wildcard().same_shape_as(exp)), "s", "w"), (is_op("add")(wildcard().same_shape_as(copy), copy), "s", "w"),
                (is_op("exp")(x).used_by(is_op("add")(), 0), "s", "h"), (is_op("exp")().used_by(is_op("add")(), 1), "w", "s"),
                (is_op("nn.relu")().only_used_by(is_op("exp")(), 0), "h", "e"), (is_op("exp")(x.dup()) ^ (is_op("add")() ^ is_op("tanh")()), "u", "t")]:
            self.assertIsNotNone(pattern.match(values[yes], main), pattern)
            self.assertIsNone(pattern.match(values[no], main), pattern)
        self.assertIsNot(x.dup(), x)

    def test_what_is_found(self):
        x, w = wildcard(), wildcard()
        found = self.found(is_op("nn.dense")(x, w), "d")
        self.assertIs(found[x], self.main.params[0])
        self.assertIs(found[w], self.main.params[1])
        self.assertNotIn(wildcard(), found)

    def test_rewrite(self):
        x = wildcard()
        f = is_op("nn.relu")(x).rewrite(lambda root, found: op.maximum(found[x], graph.const(np.float32(0))), self.main)
        module = tenon.parse(CHAIN).replace(functions={"main": f})
        self.assertIn("R.maximum", module.script())
        self.assertNotIn("R.nn.relu", module.script())
        self.assertIs(is_op("nn.relu")(x).rewrite(lambda root, found: None, self.main), self.main)

    def test_bad_input(self):
        for make, code in [(lambda: is_op("nn.dens"), "T0108"), (lambda: self.found(is_op("nn.relu")(wildcard(), wildcard()), "r"), "T1150"),
                           (lambda: self.found(~wildcard(), "r"), "T1150"),
                           (lambda: self.found(is_op("nn.softmax")(wildcard()).has_attr({"axis": "last"}), "r"), "T1150"),
                           (lambda: transform.MergeComposite([("x", 1)])(inferred(CHAIN)), "T1152"),
                           (lambda: transform.MergeComposite([("x", dense(), lambda f: "yes")])(inferred(CHAIN)), "T1152")]:
            with self.assertRaises(tenon.UsageError) as refused:
                make()
            self.assertIn(code, str(refused.exception))


class Partition(unittest.TestCase):
    def partitioned(self, text, patterns, name):
        return transform.Sequential(["infer_types", transform.MergeComposite(patterns), transform.AnnotateTarget([name]),
                                     transform.MergeCompilerRegions(), transform.PartitionGraph()])(tenon.parse(text))

    def test_the_dense_of_the_post(self):
        seen = []

        def check(f):
            seen.append(f.attrs["Composite"])
            return f.params[0].type.dtype == "float16"

        merge = transform.MergeComposite([("cutlass.dense", dense(), check)])
        self.assertEqual(merge(inferred(DENSE)), tenon.parse(COMPOSITE))
        self.assertEqual(seen, ["cutlass.dense"])
        self.assertEqual(merge(inferred(CHAIN)), inferred(CHAIN))  # its operands are float32

    def test_a_generator_in_python(self):
        def generate(regions, options):
            self.assertEqual(options["fast"], "1")
            return {name: "test.patterns.dense" for name in regions.functions if name.startswith("tenon_mine")}

        def compute(x, w, out):
            np.from_dlpack(out)[...] = np.from_dlpack(x) @ np.from_dlpack(w).T

        tenon.register_func("tenon.ext.mine", generate, override=True)
        tenon.register_func("test.patterns.dense", compute, override=True)
        try:
            module = self.partitioned(CHAIN, [("mine.dense", dense())], "mine")
            self.assertEqual(module, tenon.parse(module.script()))
            module = transform.RunCodegen({"fast": 1})(module)
            self.assertIn('R.call_dps_packed("test.patterns.dense"', module.script())
            rng = np.random.default_rng(3)
            x, w = rng.standard_normal((2, 4)).astype("f"), rng.standard_normal((3, 4)).astype("f")
            want, got = tenon.compile(tenon.parse(CHAIN))(x, w), tenon.compile(module)(x, w)
            for a, b in zip(want, got):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)
        finally:
            tenon.remove_global_func("tenon.ext.mine")
            tenon.remove_global_func("test.patterns.dense")

    def test_a_generator_of_c_text(self):
        text = """
            #include <stdint.h>
            int32_t product(const float* x, const float* w, float* out, int64_t n) {
              for (int64_t i = 0; i < n; ++i)
                for (int j = 0; j < 3; ++j) {
                  out[i * 3 + j] = 0;
                  for (int k = 0; k < 4; ++k) out[i * 3 + j] += x[i * 4 + k] * w[j * 4 + k];
                }
              return n > 9;
            }"""
        chain = CHAIN.replace("(2, 4)", '("n", 4)')
        self.assertNotEqual(chain, CHAIN)
        given = ["c", "product", text]

        def generate(regions, options):
            return {name: tenon.tir.ImportedFunction(*given) for name in regions.functions if name.startswith("tenon_mine")}

        tenon.register_func("tenon.ext.mine", generate, override=True)
        try:
            module = self.partitioned(chain, [("mine.dense", dense())], "mine")
            done = transform.RunCodegen()(module)
            self.assertEqual(done, tenon.parse(done.script()))
            rng = np.random.default_rng(3)
            x, w = rng.standard_normal((2, 4)).astype("f"), rng.standard_normal((3, 4)).astype("f")
            for target in ("llvm", "c"):
                run = tenon.compile(done, target=target)
                for a, b in zip(tenon.compile(tenon.parse(chain))(x, w), run(x, w)):
                    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)
                with self.assertRaisesRegex(tenon.Error, "T0509.*product gave an error"):
                    run(np.zeros((10, 4), "f"), w)
            given[0] = "fortran"
            with self.assertRaisesRegex(tenon.UsageError, "T1154.*fortran"):
                transform.RunCodegen()(module)
        finally:
            tenon.remove_global_func("tenon.ext.mine")

    def test_a_table_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.json")
            for text, code in ((dpl.PatternTable({"cutlass.dense": dense()}).to_json(), None), (wildcard().to_json(), "T1152"),
                               ("{", "T0291"), (None, "T3001")):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
                if text is not None:
                    with open(path, "w") as f:
                        f.write(text)
                context = transform.PassContext(required_pass=["fuse_ops_by_pattern"], config={"fuse_ops_by_pattern.file": path})
                with self.subTest(code), context:
                    if code is None:
                        self.assertEqual(transform.fuse_ops_by_pattern(inferred(DENSE)), tenon.parse(COMPOSITE))
                    else:
                        with self.assertRaisesRegex(tenon.Error, code):
                            transform.fuse_ops_by_pattern(inferred(DENSE))

    def test_a_table_as_text(self):
        x = wildcard()
        text = dpl.to_text([("lib.dense", is_op("nn.dense")(x, wildcard())), ("lib.double", is_op("add")(x, x))])
        self.assertEqual(text, 'p0 = wildcard()\n[\n  ("lib.dense", is_op("nn.dense")(p0, wildcard())),\n'
                               '  ("lib.double", is_op("add")(p0, p0)),\n]\n')
        table = dpl.parse_patterns(text)
        self.assertEqual([name for name, _ in table], ["lib.dense", "lib.double"])
        self.assertEqual(dpl.to_text(table), text)
        mod = transform.Sequential(["infer_types", transform.MergeComposite(table)])(tenon.parse(DENSE))
        self.assertIn('"Composite": "lib.dense"', str(mod))
        with self.assertRaisesRegex(tenon.Error, r"(?s)T1155.*my.patterns:1:16"):
            dpl.parse_patterns('[("lib.dense", is_oq("nn.dense")())]', "my.patterns")
        with self.assertRaisesRegex(tenon.Error, "T1155"):
            dpl.to_text([("lib.x", is_expr(tenon.parse(DENSE)["main"].params[0]))])

    def test_generators_that_are_missing_or_fail(self):
        module = self.partitioned(CHAIN, [("mine.dense", dense())], "mine")
        with self.assertRaisesRegex(tenon.UsageError, r"(?s)T1153.*tenon_mine_main_0.*nn\.dense"):
            transform.RunCodegen()(module)

        def generate(regions, options):
            raise ValueError("no licence")

        tenon.register_func("tenon.ext.mine", generate)
        try:
            with self.assertRaisesRegex(Exception, "no licence"):
                transform.RunCodegen()(module)
        finally:
            tenon.remove_global_func("tenon.ext.mine")


if __name__ == "__main__":
    unittest.main()
