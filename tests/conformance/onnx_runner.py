#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""onnx_runner.py DATA [--report FILE] [--only TEXT]: ONNX's own test runner (onnx.backend.test) over the stored cases of its suite
with `tenon.onnx_backend`. DATA: the archive that `make conformance` reads, or a folder of its parts (node, simple, …). `--report`:
the file that `make conformance` wrote; the same compiled cases must pass, but for those of OTHERWISE."""
import argparse
import contextlib
import json
import pathlib
import sys
import tarfile
import tempfile
import unittest
import warnings
from unittest import mock

import tenon.onnx_backend
from onnx.backend.test import runner
from onnx.backend.test.case.test_case import TestCase

# What the runner counts otherwise than the command, and why.
OTHERWISE = {
    "node/test_loop16_seq_none": "the runner cannot compare sequences of scalars, whatever gave them"}
PARTS = {"node": "Node", "simple": "Simple", "pytorch-operator": "PyTorchOperator", "pytorch-converted": "PyTorchConverted"}


def stored_cases(folder, kind, only=""):
    """The cases of a part, as the runner keeps them."""
    for case in sorted((folder / kind).glob("*")):
        if not (case / "model.onnx").exists() or only not in case.name:
            continue
        given = json.loads((case / "data.json").read_text()) if (case / "data.json").exists() else {}
        yield TestCase(name=case.name, model_name=case.name, url=None, model_dir=str(case), model=None, data_sets=None, kind=kind,
                       rtol=given.get("rtol", 1e-3), atol=given.get("atol", 1e-7))


@contextlib.contextmanager
def unpacked(data, only=""):
    """The folder of the parts, in an archive or as it is; `only`: cases with this in their names."""
    with tempfile.TemporaryDirectory() as folder:
        if data.is_file():
            with tarfile.open(data) as archive:
                safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # before Python 3.11.4 there is none
                archive.extractall(folder, [m for m in archive if only in m.name], **safe)
            data = next(pathlib.Path(folder).rglob("node")).parent
        yield data


class Outcomes(unittest.TestResult):
    """What became of each case: "passed", or why it did not."""

    def __init__(self):
        super().__init__()
        self.of = {}

    def addSuccess(self, test):
        self.of[test.id().rpartition(".")[2]] = "passed"

    def addError(self, test, error):
        self.of[test.id().rpartition(".")[2]] = f"{error[0].__name__}: {error[1]}".partition("\n")[0]

    def addSkip(self, test, reason):
        self.of[test.id().rpartition(".")[2]] = reason

    addFailure = addError


def run(folder, only=""):
    """{"node/test_abs": "passed", …} of ONNX's runner on the CPU."""
    found = {}
    for kind, category in PARTS.items():
        cases = list(stored_cases(folder, kind, only))
        with warnings.catch_warnings(), mock.patch.object(runner, "load_model_tests", lambda kind: []):
            warnings.simplefilter("ignore")
            made = runner.Runner(tenon.onnx_backend, __name__)
            for case in cases:
                made._add_model_test(case, category)
            outcomes = Outcomes()
            made.test_suite.run(outcomes)
        found.update({f"{kind}/{name.removesuffix('_cpu')}": why for name, why in outcomes.of.items() if name.endswith("_cpu")})
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=pathlib.Path)
    options.add_argument("--report", type=pathlib.Path)
    options.add_argument("--only", default="")
    given = options.parse_args()
    with unpacked(given.data, given.only) as folder:
        found = run(folder, given.only)
    passed = {name for name, why in found.items() if why == "passed"}
    print(f"ONNX's runner: {len(passed)} of {len(found)} pass")
    for name in sorted(found.keys() - passed):
        print(f"  {name}: {found[name][:150]}")
    if not given.report:
        return 0
    ours = {r["name"]: r["compiled"]["outcome"] for r in json.loads(given.report.read_text()) if r["name"] in found}
    good = {name for name, outcome in ours.items() if outcome == "passed"}
    print(f"make conformance: {len(good)} of {len(ours)} pass")
    for name in sorted(good ^ passed):
        print(f"  differs: {name}: {OTHERWISE.get(name) or found[name][:150] + '; ' + ours.get(name, 'not run')}")
    return int(good ^ passed != OTHERWISE.keys() & found.keys())


if __name__ == "__main__":
    sys.exit(main())
