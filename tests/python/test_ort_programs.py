# SPDX-License-Identifier: Apache-2.0
"""`InferenceSession` beside ONNX Runtime: programs as its documentation teaches them. Each runs against both packages with nothing
changed but the module that it is given, and gives the same."""
import inspect
import os
import tempfile
import threading
import unittest
import warnings

import tenon
from models import A, B, X, info, model_of, np, of_any_kind, onnx, relu, session, sum_and_product, two_layers
from onnx import TensorProto, helper

try:
    import onnxruntime
except ImportError:
    onnxruntime = None


def run_all_outputs(ort):
    return session(ort, two_layers()).run(None, {"x": X})


def run_named_outputs(ort):
    return session(ort, two_layers()).run(["y"], {"x": X})


def run_outputs_in_another_order(ort):
    return session(ort, two_layers()).run(["y", "p"], {"x": X})


def run_from_a_file(ort):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(relu(), path)
        return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": X})


def names_types_and_shapes(ort):
    s = session(ort, two_layers())
    return [(v.name, v.type, v.shape) for v in s.get_inputs() + s.get_outputs()]


def feed_by_asked_names(ort):
    s = session(ort, sum_and_product())
    feed = {i.name: v for i, v in zip(s.get_inputs(), (A, B))}
    return s.run([o.name for o in s.get_outputs()], feed)


def several_sizes_of_one_session(ort):
    s = session(ort, relu())
    return [s.run(None, {"x": np.full((n, 4), n - 2, "f")})[0] for n in (1, 3, 2, 7)]


def an_empty_batch(ort):
    return session(ort, relu()).run(None, {"x": np.zeros((0, 4), "f")})


def strided_inputs(ort):
    s = session(ort, relu())
    return [s.run(None, {"x": v})[0] for v in (X[:, ::-1], X[::-1], np.asfortranarray(X), X.T.copy().T)]


def read_only_inputs(ort):
    x = X.copy()
    x.flags.writeable = False
    return session(ort, relu()).run(None, {"x": x})


def results_outlive_later_runs(ort):
    s = session(ort, relu())
    first = s.run(None, {"x": X})[0]
    s.run(None, {"x": X + 10})
    return first


def results_outlive_the_session(ort):
    s = session(ort, relu())
    result = s.run(None, {"x": X})[0]
    del s
    return result + 0


def results_can_be_written(ort):
    result = session(ort, relu((2, 4))).run(None, {"x": X})[0]
    result += 1
    return result


def lists_become_tensors(ort):
    return session(ort, relu()).run(None, {"x": X.tolist()})


def session_settings(ort):
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return session(ort, two_layers(), sess_options=o).run(None, {"x": X})


def no_optimisation(ort):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return session(ort, two_layers(), sess_options=o).run(None, {"x": X})


def a_size_for_a_symbolic_dimension(ort):
    o = ort.SessionOptions()
    o.add_free_dimension_override_by_name("n", 2)
    s = session(ort, relu(), sess_options=o)
    return s.get_inputs()[0].shape, s.run(None, {"x": X})


def run_settings(ort):
    return session(ort, relu()).run(None, {"x": X}, ort.RunOptions())


def values(ort):
    v = ort.OrtValue.ortvalue_from_numpy(X)
    return v.shape(), v.data_type(), v.is_tensor(), v.has_value(), v.device_name(), v.element_type(), v.numpy()


def values_of_a_run(ort):
    s = session(ort, relu())
    return [v.numpy() for v in s.run_with_ort_values(None, {"x": ort.OrtValue.ortvalue_from_numpy(X)})]


def values_change_in_place(ort):
    v = ort.OrtValue.ortvalue_from_numpy(X.copy())
    v.update_inplace(X + 1)
    return v.numpy()


def values_by_shape(ort):
    v = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64)
    return v.shape(), v.data_type(), v.element_type()


def binding_with_fresh_outputs(ort):
    s = session(ort, relu((2, 4)))
    b = s.io_binding()
    b.bind_cpu_input("x", X)
    b.bind_output("y")
    s.run_with_iobinding(b)
    return b.copy_outputs_to_cpu()


def binding_to_values(ort):
    s = session(ort, sum_and_product())
    b, out = s.io_binding(), ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), "f"))
    b.bind_ortvalue_input("a", ort.OrtValue.ortvalue_from_numpy(A))
    b.bind_ortvalue_input("b", ort.OrtValue.ortvalue_from_numpy(B))
    b.bind_ortvalue_output("p", out)
    s.run_with_iobinding(b)
    return out.numpy(), [v.shape() for v in b.get_outputs()]


def binding_by_address(ort):
    s, out = session(ort, relu((2, 4))), np.zeros((2, 4), "f")
    b = s.io_binding()
    b.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    b.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    s.run_with_iobinding(b)
    return out


def binding_for_many_runs(ort):
    s, x, seen = session(ort, relu((2, 4))), X.copy(), []
    b = s.io_binding()
    b.bind_cpu_input("x", x)
    b.bind_output("y")
    for _ in range(3):
        s.run_with_iobinding(b)
        seen.append(b.copy_outputs_to_cpu()[0].copy())
    return seen


def several_threads(ort):
    s, out = session(ort, two_layers()), [None] * 8

    def work(i):
        for _ in range(20):
            out[i] = s.run(None, {"x": X + i})[0]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


def a_run_of_its_own_thread(ort):
    s, done, got = session(ort, relu()), threading.Event(), []

    def callback(results, user, message):
        got.extend([results[0], user, message])
        done.set()
    s.run_async(None, {"x": X}, callback, "user")
    done.wait(60)
    return got


def a_missing_input(ort):
    try:
        session(ort, sum_and_product()).run(None, {"a": A})
    except ValueError as e:
        return "['b']" in str(e)
    return None


def what_is_refused(ort):
    s, seen = session(ort, relu((2, 4))), []
    for feed, outputs in (({"x": X.astype("d")}, None), ({"x": X[:1]}, None), ({"x": X[0]}, None),
                          ({"x": X, "z": X}, None), ({"x": X}, ["z"])):
        try:
            s.run(outputs, feed)
            seen.append("taken")
        except Exception as e:
            seen.append("refused" if isinstance(e, Exception) else e)
    return seen, s.run(None, {"x": X})  # the session stays usable


def providers(ort):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        s = ort.InferenceSession(relu().SerializeToString(), providers=["NoSuchProvider", "CPUExecutionProvider"])
    return s.get_providers(), any("NoSuchProvider" in str(w.message) for w in seen)


def kinds(s):
    return [(v.name, v.type) for v in s.get_inputs() + s.get_outputs()]


def sequences_come_out_as_lists(ort):
    s = session(ort, of_any_kind([helper.make_node("SplitToSequence", ["x"], ["s"], axis=0, keepdims=1)], [info("x", (2, 4))],
                                 [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)]))
    out = s.run(None, {"x": X})
    return isinstance(out[0], list), out[0], kinds(s)


def lists_go_in_as_sequences(ort):
    s = session(ort, of_any_kind([helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
                                  helper.make_node("SequenceLength", ["s"], ["n"])],
                                 [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)],
                                 [info("y", None), info("n", (), TensorProto.INT64)]))
    return s.run(None, {"s": [X, X + 1, X[:1]]}), s.run(["n"], {"s": [X]}), kinds(s)


def sequences_are_bound(ort):
    kind = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    made = session(ort, model_of([helper.make_node("SequenceConstruct", ["x", "x"], ["s"])], [info("x", ("n", 4))], [kind]))
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("s")
    made.run_with_iobinding(binding)
    value = binding.get_outputs()[0]
    taken = session(ort, model_of([helper.make_node("SequenceAt", ["s", "i"], ["y"])], [kind, info("i", (), TensorProto.INT64)],
                                  [info("y", None)]))
    second = taken.io_binding()
    second.bind_ortvalue_input("s", value)
    second.bind_cpu_input("i", np.array(1))
    second.bind_output("y")
    taken.run_with_iobinding(second)
    return (value.is_tensor(), value.is_tensor_sequence(), value.has_value(), value.data_type(), value.element_type(),
            binding.copy_outputs_to_cpu(), second.copy_outputs_to_cpu())


def strings_are_arrays_of_objects(ort):
    s = session(ort, of_any_kind([helper.make_node("StringConcat", ["a", "b"], ["y"])],
                                 [info("a", (None,), TensorProto.STRING), info("b", (None,), TensorProto.STRING)],
                                 [info("y", (None,), TensorProto.STRING)]))
    out = s.run(None, {"a": np.array(["x", "ü"]), "b": np.array(["1", "2"], object)})[0]
    return out.dtype == object, out.shape, out.tolist(), kinds(s)


def learned(nodes, inputs, outputs):
    """A model of ai.onnx.ml."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)],
                             ir_version=8)


def map_info(name, key):
    """A map of floats, and the list of such maps that ZipMap gives."""
    return helper.make_value_info(name, helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))


def classifier(labels, **more):
    """Scores of a linear classifier, with the map that converters of scikit-learn put behind them."""
    names = "strings" if isinstance(labels[0], str) else "ints"
    nodes = [helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", post_transform="SOFTMAX",
                              coefficients=[0.5, -1.0, 0.25, 1.0, 1.0, 0.5, -0.5, 0.0, 0.0, 0.1, 0.2, 0.3],
                              intercepts=[0.1, 0.2, -0.3], **{"classlabels_" + names: labels}, **more),
             helper.make_node("ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml",
                              **{"classlabels_" + ("int64s" if names == "ints" else names): labels})]
    kind = TensorProto.STRING if names == "strings" else TensorProto.INT64
    maps = helper.make_sequence_type_proto(map_info("m", kind).type)
    return learned(nodes, [info("x", (None, 4))], [info("label", (None,), kind), helper.make_value_info("probabilities", maps)])


def rounded(maps):
    return [{k: round(v, 4) for k, v in m.items()} for m in maps]


def a_classifier_gives_dicts(ort):
    seen = []
    for labels in ([3, 1, 2], ["a", "ü", "c"]):
        s = session(ort, classifier(labels))
        label, maps = s.run(None, {"x": X})
        seen += [label.tolist(), rounded(maps), isinstance(maps, list), [type(k).__name__ for m in maps for k in m],
                 rounded(s.run(["probabilities"], {"x": X[:1]})[0]),
                 [(v.name, v.type, v.shape) for v in s.get_inputs() + s.get_outputs()]]
    return seen


def trees_that_vote(ort):
    """Binary with one kind of leaf, positive and not, and three classes."""
    seen = []
    for labels, ids, weights, transform in (([0, 1], [0, 0, 0, 0], [0.1, 0.3, 0.2, 0.6], "NONE"),
                                            ([0, 1], [0, 0, 0, 0], [-0.4, 0.3, 0.2, -0.6], "LOGISTIC"),
                                            ([5, 6, 7], [0, 1, 2, 1], [0.5, 0.25, 1.0, 0.5], "SOFTMAX")):
        node = helper.make_node(
            "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", nodes_treeids=[0, 0, 0, 1, 1, 1],
            nodes_nodeids=[0, 1, 2, 0, 1, 2], nodes_featureids=[0, 0, 0, 1, 0, 0], nodes_values=[-1.0, 0.0, 0.0, 0.6, 0.0, 0.0],
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 2, nodes_truenodeids=[1, 0, 0] * 2, nodes_falsenodeids=[2, 0, 0] * 2,
            class_treeids=[0, 0, 1, 1], class_nodeids=[1, 2, 1, 2], class_ids=ids, class_weights=weights,
            classlabels_int64s=labels, post_transform=transform)
        s = session(ort, learned([node], [info("x", (None, 4))], [info("label", (None,), TensorProto.INT64), info("scores", None)]))
        seen.append(s.run(None, {"x": X}))
    return seen


def a_classifier_with_one_score(ort):
    node = helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", coefficients=[0.5, -1.0, 0.25, 1.0],
                            intercepts=[0.1], classlabels_ints=[4, 9])
    s = session(ort, learned([node], [info("x", (None, 4))], [info("label", (None,), TensorProto.INT64), info("scores", None)]))
    return s.run(None, {"x": X})


def dicts_go_in(ort):
    seen = []
    for key, words, feed in ((TensorProto.STRING, {"string_vocabulary": ["a", "b", "c"]}, {"c": 3.0, "a": 1.0, "z": 9.0}),
                             (TensorProto.INT64, {"int64_vocabulary": [4, 2]}, {2: 0.5, 7: 1.0})):
        s = session(ort, learned([helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", **words)],
                                 [map_info("m", key)], [info("y", (1, None))]))
        seen.append((s.run(None, {"m": feed}), s.get_inputs()[0].type))
    return seen


def initializers_that_runs_override(ort):
    w = onnx.numpy_helper.from_array(np.full((4,), 2, "f"), "w")
    s = session(ort, model_of([helper.make_node("Mul", ["x", "w"], ["y"])], [info("x", ("n", 4)), info("w", (4,))],
                              [info("y", ("n", 4))], [w]))
    return ([(v.name, v.type, v.shape) for v in s.get_overridable_initializers()], [v.name for v in s.get_inputs()],
            s.run(None, {"x": X}), s.run(None, {"x": X, "w": np.array([1, 0, -1, 3], "f")}), s.run(["y"], {"x": X}))


def what_a_model_says_about_itself(ort):
    model = relu()
    model.producer_name, model.producer_version, model.domain, model.model_version = "maker", "2", "org.example", 7
    model.doc_string, model.graph.doc_string = "words", "words of the graph"
    helper.set_model_props(model, {"key": "value"})
    m = session(ort, model).get_modelmeta()
    return (m.producer_name, m.domain, m.version, m.graph_name, m.description, m.graph_description, dict(m.custom_metadata_map))


PROGRAMS = [f for f in list(globals().values()) if inspect.isfunction(f) and list(inspect.signature(f).parameters) == ["ort"]]


class BesideOnnxRuntime(unittest.TestCase):
    def same(self, a, b):
        if isinstance(a, (list, tuple)):
            self.assertEqual(len(a), len(b))
            for x, y in zip(a, b):
                self.same(x, y)
        elif isinstance(a, np.ndarray):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            self.assertEqual(a, b)

    @unittest.skipIf(onnxruntime is None, "ONNX Runtime is not here")
    def test_programs(self):
        self.assertGreater(len(PROGRAMS), 25)
        for program in PROGRAMS:
            with self.subTest(program.__name__):
                self.same(program(tenon), program(onnxruntime))


if __name__ == "__main__":
    unittest.main()
