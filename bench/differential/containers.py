# SPDX-License-Identifier: Apache-2.0
"""Sequences, optionals, strings, and the operators of ai.onnx.ml: chains that begin and end with tensors."""
import numpy as np

from draw import FLOATS, INTEGERS, Refused, operator

ML = "ai.onnx.ml"
ANY = FLOATS + INTEGERS + ("bool",)
WORDS = ("a", "bb", "Stop", "the end", "x-ray", "", "ab a")


@operator("SequenceConstruct", "SequenceEmpty", "SplitToSequence", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength", "ConcatFromSequence", "SequenceMap", weight=0.15)
def sequences(d, op):
    """A sequence is made, changed, and read; `op` is one of the steps."""
    a = d.pick(("float32", "int64", "int32"), low=1, high=3)
    held, steps = d.name("q"), []
    if op == "SequenceEmpty":
        steps.append(("SequenceEmpty", [], [held], {"dtype": {"float32": 1, "int64": 7, "int32": 6}[a.dtype]}))
    elif op == "SplitToSequence":
        axis = d.axis(a)
        sizes = [d.param(np.array(d.rng.choice((1, 2))))] if d.chance(0.5) else []
        steps.append(("SplitToSequence", [a, *sizes], [held], {"axis": axis, "keepdims": None if sizes else d.rng.choice((None, 0))}))
    else:
        steps.append(("SequenceConstruct", [a, *([d.pick(a.dtype, low=a.rank, high=a.rank)] if d.chance(0.6) else [a])], [held], {}))
    if op in ("SequenceInsert", "SequenceEmpty") or d.chance(0.3):
        more = d.name("q")
        steps.append(("SequenceInsert", [held, a, *([d.param(d.rng.choice((0, -1)))] if op != "SequenceEmpty" and d.chance(0.5) else [])], [more], {}))
        held = more
    if op == "SequenceErase":
        more = d.name("q")
        steps.append((op, [held, *([d.param(d.rng.choice((0, -1)))] if d.chance(0.6) else [])], [more], {}))
        held = more
    end = op if op in ("SequenceAt", "SequenceLength", "ConcatFromSequence") else d.rng.choice(("SequenceAt", "SequenceLength", "ConcatFromSequence"))
    result = d.name()
    if end == "SequenceAt":
        steps.append((end, [held, d.param(d.rng.choice((0, -1)))], [result], {}))
    elif end == "SequenceLength":
        steps.append((end, [held], [result], {}))
    else:
        stack = d.rng.choice((None, 1))
        steps.append((end, [held], [result], {"axis": d.axis(a, 1 if stack else 0), "new_axis": stack}))
    d.chain(steps, [result], exact=True)


@operator("Optional", "OptionalHasElement", "OptionalGetElement", weight=0.1)
def optionals(d, op):
    a = d.pick(("float32", "int64"), high=3)
    held, result = d.name("o"), d.name()
    end = op if op != "Optional" else d.rng.choice(("OptionalHasElement", "OptionalGetElement"))
    d.chain([("Optional", [a], [held], {}), (end, [held], [result], {})], [result], exact=True)


def texts(d, shape=None):
    return d.const(np.array([d.rng.choice(WORDS) for _ in range(int(np.prod(shape)))], object).reshape(shape))


@operator("StringConcat", "StringSplit", "RegexFullMatch", "StringNormalizer", "TfIdfVectorizer", weight=0.1)
def strings(d, op):
    if op == "TfIdfVectorizer":
        a = d.pick(("int64", "int32"), low=1, high=2)
        d.emit(op, [a], mode=d.rng.choice(("TF", "IDF", "TFIDF")), min_gram_length=1, max_gram_length=d.rng.choice((1, 2)), max_skip_count=d.rng.choice((0, 1)),
               ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4], pool_int64s=[0, 1, 2, 1, 2, 0, 1], weights=d.rng.choice((None, [1.0, 0.5, 2.0, 1.0, 0.25])))
        return
    shape = (d.rng.choice((1, 3)),) if op == "StringNormalizer" else d.shape(0, 2)
    a = texts(d, shape)
    if op == "StringConcat":
        numbers = d.emit("Cast", [d.input("int64", shape)], exact=True, to=8)[0]
        d.emit(op, [a, numbers], exact=True)
    elif op == "StringSplit":
        d.emit(op, [a], 2, exact=True, delimiter=d.rng.choice((None, " ", "a", "-")), maxsplit=d.rng.choice((None, 1)))
    elif op == "RegexFullMatch":
        d.emit(op, [a], exact=True, pattern=d.rng.choice(("[ab]+", ".*", "S.{3}", "")))
    else:
        d.emit(op, [a], exact=True, case_change_action=d.rng.choice((None, "LOWER", "UPPER")), locale="C", stopwords=d.rng.choice((None, ["a", "stop"])), is_case_sensitive=d.rng.choice((None, 0, 1)))


def ml(*names):
    return operator(*(f"{ML}::{n}" for n in names), weight=0.12)


def emit(d, op, inputs, outputs=1, **attributes):
    return d.emit(op.split("::")[-1], inputs, outputs, domain=ML, **attributes)


def numbers(d, count, step=4):
    return (d.generator.integers(-8, 9, count) / step).astype("float32").tolist()


def features(d, width=3, types=("float32", "float32", "int64")):
    return d.input(d.rng.choice(types), (d.rng.choice((1, 2, *d.root().sizes.values())), width), fixed=1)


@ml("ArrayFeatureExtractor", "Binarizer", "Scaler", "Normalizer", "Imputer", "OneHotEncoder", "LabelEncoder", "FeatureVectorizer", "CategoryMapper")
def prepared(d, op):
    name = op.split("::")[-1]
    if name == "ArrayFeatureExtractor":
        a = d.pick(("float32", "int64"), low=2, high=2, fits=lambda v: v.array.size)
        emit(d, op, [a, d.const(d.generator.integers(0, a.shape[-1], d.rng.choice((1, 2))))], exact=True)
    elif name == "Binarizer":
        emit(d, op, [d.pick("float32", exact=True)], exact=True, threshold=d.rng.choice((None, 0.5)))
    elif name == "Scaler":
        emit(d, op, [features(d)], offset=numbers(d, 3), scale=d.rng.choice((numbers(d, 3), numbers(d, 1) * 3)))
    elif name == "Normalizer":
        emit(d, op, [features(d)], norm=d.rng.choice(("MAX", "L1", "L2")))
    elif name == "Imputer":
        whole = d.chance(0.4)
        a = features(d, types=("int64",) if whole else ("float32",))
        given = {"imputed_value_int64s": [1, 2, 3], "replaced_value_int64": 2} if whole else {"imputed_value_floats": [0.5, 1.0, 2.0], "replaced_value_float": 0.25}
        emit(d, op, [a], exact=True, **given)
    elif name == "OneHotEncoder":
        emit(d, op, [d.pick("int64", low=1, high=3)], exact=True, cats_int64s=[-1, 0, 2, 3], zeros=1)
    elif name == "FeatureVectorizer":
        a, b = features(d, types=("float32",)), None
        b = d.input("float32", (a.shape[0], 2), fixed=1)
        emit(d, op, [a, b], exact=True, inputdimensions=[3, 2])
    elif name == "CategoryMapper":
        text = emit(d, op, [d.pick("int64", low=1, high=2)], exact=True, cats_int64s=[0, 1, 2], cats_strings=["zero", "one", "two"], default_string="other")[0]
        if d.chance(0.5):
            emit(d, op, [text], exact=True, cats_int64s=[5, 6, 7], cats_strings=["zero", "one", "four"], default_int64=-3)
    else:
        to = d.rng.choice(({"values_int64s": [5, 6, 7]}, {"values_floats": [0.5, 1.0, 2.0]}, {"values_strings": ["p", "q", "r"]}))
        emit(d, op, [d.pick("int64", high=3)], exact=True, keys_int64s=[0, 1, 3], **to)


@ml("LinearRegressor", "LinearClassifier", "SVMRegressor", "SVMClassifier")
def lines(d, op):
    a, name = features(d), op.split("::")[-1]
    classes = d.rng.choice((2, 3))
    if name == "LinearRegressor":
        emit(d, op, [a], coefficients=numbers(d, 3 * classes), intercepts=numbers(d, classes), targets=classes)
    elif name == "LinearClassifier":
        emit(d, op, [a], 2, coefficients=numbers(d, 3 * classes, 5), intercepts=numbers(d, classes, 7), classlabels_ints=list(range(4, 4 + classes)),
             post_transform=d.rng.choice((None, "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")))
    else:
        machine = dict(kernel_type=d.rng.choice(("LINEAR", "POLY", "RBF", "SIGMOID")), kernel_params=[0.25, 0.5, 2.0])
        if name == "SVMRegressor":
            emit(d, op, [a], coefficients=numbers(d, 4, 5), support_vectors=numbers(d, 12), n_supports=4, rho=[0.3], one_class=d.rng.choice((None, 1)), **machine)
            return
        pairs = classes * (classes - 1) // 2
        given = {"prob_a": [-1.5] * pairs, "prob_b": [0.1] * pairs} if d.chance(0.4) else {}
        emit(d, op, [a], 2, coefficients=numbers(d, (classes - 1) * 2 * classes, 5), support_vectors=numbers(d, 6 * classes), vectors_per_class=[2] * classes, rho=numbers(d, pairs, 7),
             classlabels_ints=list(range(4, 4 + classes)), post_transform=d.rng.choice((None, None, "SOFTMAX", "LOGISTIC", "PROBIT", "SOFTMAX_ZERO")), **machine, **given)


def tree(d, prefix, classes):
    """Two trees: one node with two leaves, and one with three leaves."""
    modes = [d.rng.choice(("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ", "BRANCH_NEQ")) for _ in range(3)]
    leaf = "LEAF"
    nodes = dict(nodes_treeids=[0, 0, 0, 1, 1, 1, 1, 1], nodes_nodeids=[0, 1, 2, 0, 1, 2, 3, 4], nodes_featureids=[d.rng.randrange(3) for _ in range(8)],
                 nodes_modes=[modes[0], leaf, leaf, modes[1], modes[2], leaf, leaf, leaf], nodes_values=numbers(d, 8), nodes_truenodeids=[1, 0, 0, 1, 3, 0, 0, 0],
                 nodes_falsenodeids=[2, 0, 0, 2, 4, 0, 0, 0], nodes_missing_value_tracks_true=d.rng.choice((None, [1] * 8)))
    leaves = [(0, 1), (0, 2), (1, 2), (1, 3), (1, 4)]
    ends = {f"{prefix}_treeids": [t for t, _ in leaves], f"{prefix}_nodeids": [n for _, n in leaves], f"{prefix}_ids": [d.rng.randrange(classes) for _ in leaves],
            f"{prefix}_weights": numbers(d, len(leaves), 5)}
    return {k: v for k, v in {**nodes, **ends}.items() if v is not None}


@ml("TreeEnsembleRegressor", "TreeEnsembleClassifier")
def trees(d, op):
    a, classes = features(d), d.rng.choice((2, 3))
    if op.endswith("Regressor"):
        emit(d, op, [a], **tree(d, "target", classes), n_targets=classes, aggregate_function=d.rng.choice((None, "SUM", "AVERAGE", "MIN", "MAX")))
    else:
        emit(d, op, [a], 2, **tree(d, "class", classes), classlabels_int64s=list(range(4, 4 + classes)), post_transform=d.rng.choice((None, "SOFTMAX", "LOGISTIC")))
