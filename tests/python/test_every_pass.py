# SPDX-License-Identifier: Apache-2.0
"""Every pass called from Python: on the programs of its golden test (tests/golden), with the same result, or the same refusal."""
import array
import glob
import json
import os
import re
import unittest

import tenon
from tenon import transform
from tenon.script.source import verify
from tenon.script import tir as T

ROOT = os.environ.get("TENON_SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "../..")
HEAD = re.compile(r"^# (RUN|OPTION|TARGET): ?(.*)\n", re.M)


def golden():
    """(name, passes, options, target, text, how it ends, what is expected) of each test of passes."""
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/golden/**/*.tir"), recursive=True)):
        with open(path) as f:
            text = f.read()
        heads = HEAD.findall(text)
        parts = re.split(r"^# (EXPECT|ERROR \w+.*)\n?", text, flags=re.M)
        if len(parts) != 3:
            continue
        values = {kind: [v.strip() for k, v in heads if k == kind] for kind in ("RUN", "OPTION", "TARGET")}
        name, ending = os.path.relpath(path, os.path.join(ROOT, "tests/golden")), parts[1]
        wrong = ending.startswith("ERROR")
        yield (name, " ".join(values["RUN"]).split(), dict(o.split("=", 1) for o in values["OPTION"]),
               "".join(values["TARGET"]), parts[2] if wrong else parts[0], ending.split()[1] if wrong else "", parts[2])


def option(name, text):
    """A value of an option as Python has it, from the words of the command."""
    pass_, _, key = name.partition(".")
    type_ = next(o["type"] for o in transform.get(pass_).options if o["name"].rpartition(".")[2] == key)
    of_one = {"true or false": "true".__eq__, "integer": int, "integers": int, "integers by name": int, "tensors by name": _floats}.get(type_, str)
    if type_.endswith("by name"):
        return {key: of_one(value) for key, _, value in (item.partition("=") for item in [text])}
    return [of_one(item) for item in text.split(",")] if type_ in ("integers", "texts") else of_one(text)


def _floats(text):
    return tenon.NDArray(array.array("f", json.loads(text)))


@T.prim_func
def program(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + T.float32(1)


GRAPH = """
@R.function
def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    y = R.nn.relu(x)
    return y
"""


class Passes(unittest.TestCase):
    called = set()

    def run_one(self, name, passes, options, target, text, error, expected):
        if "lower_vscale" in passes:  # the length of the target's vectors; without a target it is 128 bits
            target = "llvm -mcpu=x86-64"
        context = transform.PassContext(opt_level=3, required_pass=passes, target=target, verify=True,
                                        config={key: option(key, value) for key, value in options.items()})
        if error:
            with self.assertRaises(tenon.Error) as refused, context:
                module = tenon.parse(text, name)
                verify(module)
                transform.Sequential(["infer_types", *passes])(module)
            return self.assertIn(error, str(refused.exception))
        with context:
            module = transform.Sequential(["infer_types", *passes])(tenon.parse(text, name))
        self.assertEqual(module.script(), tenon.parse(expected, name).script())

    def test_golden(self):
        ran = 0
        for name, passes, *rest in golden():
            if not passes:
                continue
            with self.subTest(name):
                self.run_one(name, passes, *rest)
                self.called.update(passes)
                ran += 1
        self.assertGreater(ran, 100)

    def test_every_pass_runs(self):
        """On a graph function and on a tensor program, as a function of `transform`."""
        tensor = transform.pipeline("tensor").passes
        for name in transform.names():
            made = getattr(transform, name)
            self.assertEqual((made.name, bool(made.info.summary)), (name, True))
            outcomes = []
            for module in (tenon.parse(GRAPH), tenon.ir.IRModule({"main": program})):
                with self.subTest(name):
                    try:
                        with transform.PassContext(opt_level=3, required_pass=[name]):
                            outcomes.append(type(made(module)).__name__)
                    except tenon.UsageError:  # an option that it cannot do without
                        outcomes.append("refused")
                    except tenon.ModelError:
                        outcomes.append("refused")
            self.assertEqual(len(outcomes), 2, name)
            self.assertIn("IRModule", outcomes, name)
        self.assertGreater(len(tensor), 20)


if __name__ == "__main__":
    unittest.main()
