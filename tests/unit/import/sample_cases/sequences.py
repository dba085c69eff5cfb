# SPDX-License-Identifier: Apache-2.0
"""Sequences, optionals, strings."""
import numpy as np

from sample_cases.case import case, contrib, floats, Graph, i64, ints, LATEST, Node, one, seed, texts

# Sequences, optionals.
seed("sequences")
x, y = floats(2, 3), floats(1, 3)


def sequences(name, nodes, inputs, constants=(), opset=LATEST, **keywords):
    case(name, nodes, inputs, constants, opset=opset, **keywords)


sequences("SequenceInsert, SequenceErase, ConcatFromSequence",
          [Node("SequenceEmpty", [], ["none"]), Node("SequenceInsert", ["none", "a"], ["s1"]), Node("SequenceInsert", ["s1", "b", "zero"], ["s2"]),
           Node("SequenceConstruct", ["a", "b", "a"], ["s3"]), Node("SequenceErase", ["s3", "last"], ["s4"]),
           Node("ConcatFromSequence", ["s2"], ["c2"], axis=0), Node("ConcatFromSequence", ["s4"], ["c4"], axis=0),
           Node("Concat", ["c2", "c4"], ["y"], axis=0)],
          {"a": x, "b": y}, {"zero": np.array(0, np.int64), "last": np.array(-1, np.int64)})
sequences("SplitToSequence, SequenceAt, SequenceLength",
          [Node("SplitToSequence", ["a", "sizes"], ["s"], axis=1), Node("SequenceAt", ["s", "at"], ["y"]), Node("SequenceLength", ["s"], ["y1"])],
          {"a": floats(2, 6), "sizes": i64(1, 3, 2), "at": np.array(-2, np.int64)}, outputs=("y", "y1"))
sequences("SplitToSequence without axis, stacked",
          [Node("SplitToSequence", ["a"], ["s"], axis=0, keepdims=0), Node("ConcatFromSequence", ["s"], ["y"], axis=-1, new_axis=1)], {"a": floats(3, 2)})
sequences("SequenceMap", [Node("SplitToSequence", ["a"], ["s"], axis=0),
                          Node("SequenceMap", ["s", "b"], ["m"], body=Graph([Node("Mul", ["u", "v"], ["w"])], [("u", y), ("v", y)], [("w", y)])),
                          Node("ConcatFromSequence", ["m"], ["y"], axis=0)], {"a": x, "b": y})
sequences("Optional", [Node("Optional", ["a"], ["o"]), Node("OptionalHasElement", ["o"], ["y"]), Node("OptionalGetElement", ["o"], ["y1"])], {"a": x}, outputs=("y", "y1"),
          expected=[np.array(True), x])
at = np.array(0, np.int64)
sequences("Sequence at a position outside", [Node("SequenceConstruct", ["a"], ["s"]), Node("SequenceAt", ["s", "at"], ["y"])], {"a": x, "at": at + 1}, refused="T0521", expected=[x])

# Strings.
seed("strings")

one("StringConcat", texts("ab", "c", ""), texts("x"))
one("StringSplit", texts("a-b-c", "d", ""), delimiter="-", maxsplit=1, results=2)
one("StringNormalizer", texts("Monday", "tuesday", "ÄRA"), opset=10, case_change_action="LOWER", is_case_sensitive=0, stopwords=["monday"], expected=[texts("tuesday", "ära")])
one("RegexFullMatch", texts("abc12", "abc", "xabc1"), pattern="[a-c]+\\d*", expected=[np.array([True, True, False])])
for name, given, how in (
        ("at separators", texts("a,b  c", "", "d e;f", "ä ö"), {"separators": ["[,;]", " "]}),
        ("at separators in order", texts("aXYbX", "XYX"), {"separators": ["XY", "X"], "mark": 1}),
        ("by an expression", texts("ab aab", "12 abab", "it's b"), {"tokenexp": "(a|ab)+|[[:digit:]]", "mark": 1}),
        ("of words", texts("Hello, world 42", "it's so").reshape(1, 2), {"tokenexp": "\\b\\w\\w+\\b", "mincharnum": 2}),
        ("of characters", texts("äb\nc", "x"), {"separators": [""], "mark": 1}),
        ("of nothing", texts("--", ""), {"separators": ["-"], "mark": 1})):
    contrib("Tokenizer", given, constants=[], name=f"Tokenizer {name}", **{"pad_value": "#", "mincharnum": 1, "mark": 0, **how})
one("Equal", texts("a", "b"), texts("a"), name="Equal of strings")
one("Gather", texts("a", "b", "c"), i64(2, 0), name="Gather of strings")
case("Strings that move", [Node("Concat", ["a", "c"], ["j"], axis=0), Node("Reshape", ["j", "shape"], ["m"]), Node("Transpose", ["m"], ["y"]), Node("Shape", ["m"], ["y1"])],
     {"a": texts("p", "q")}, {"c": texts("r", "s"), "shape": i64(2, 2)}, outputs=("y", "y1"))
one("TfIdfVectorizer", i64(1, 2, 1, 2, 3).reshape(1, 5), min_gram_length=1, max_gram_length=2, max_skip_count=1, mode="TFIDF", ngram_counts=[0, 2], ngram_indexes=[0, 1, 2, 3],
    pool_int64s=[1, 2, 1, 2, 2, 3], weights=[0.5, 1.0, 2.0, 3.0])
pixels = ints(2, 3, 3, low=0, high=256, dtype=np.uint8)
rows = b"".join(row[:, ::-1].tobytes() + bytes(3) for row in pixels[::-1])
bitmap = b"BM" + (54 + len(rows)).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little") + (3).to_bytes(4, "little") + \
    (2).to_bytes(4, "little") + (1).to_bytes(2, "little") + (24).to_bytes(2, "little") + bytes(24) + rows
one("ImageDecoder", np.frombuffer(bitmap, np.uint8), pixel_format="BGR", expected=[pixels[:, :, ::-1]])
