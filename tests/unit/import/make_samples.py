#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes samples.json: a small model, its inputs and its expected outputs for each ONNX operator with a converter.

    python3 -m venv env && env/bin/pip install onnx==1.23.2 onnxruntime==1.31.1 numpy && env/bin/python make_samples.py

The outputs are those of ONNX's reference evaluator, and of ONNX Runtime for the operators of its own domain
com.microsoft, so the importer is judged by an independent definition. A case
gives inputs at run time unless they are listed as constants. `refused` is the code with which a model is refused
today: samples_test.cpp fails when it is not refused any more, or otherwise. A case with `runs` has symbolic sizes:
one compiled model runs with several inputs, of which some may be refused. One case is one line of the file. The cases
stand by subject in sample_cases."""
import importlib
import json
import pathlib
import sys

sys.dont_write_bytecode = True
from sample_cases.case import cases  # noqa: E402

SUBJECTS = ("elementwise", "shapes", "networks", "sizes", "microsoft", "parameters", "sequences", "learned", "by_onnxruntime", "found",
            "attention", "operator_sets", "late_values")  # in the order of the file
PAGE = pathlib.Path(__file__).resolve().parent / "samples.json"

for subject in SUBJECTS:
    importlib.import_module(f"sample_cases.{subject}")
PAGE.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(f"{len(cases)} cases, {PAGE.stat().st_size} bytes")
