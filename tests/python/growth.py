# SPDX-License-Identifier: Apache-2.0
"""How much a process grows by many calls, objects and errors in both directions (tests/python, bench/python.py)."""
import gc
import json
import resource

import tenon
from tenon import tir

SELF, CALLBACK = tenon.convert_func(lambda *a: a[0]), tenon.convert_func(lambda f: f(1))
APPEND = tenon.get_global_func("tenon.sequence.append")
X = tir.Var(dtype="int64", name="x")


def _fails(*_):
    raise ValueError("x")


FAILS = tenon.convert_func(_fails)


def calls(n):
    """From Python into C++ and from there into Python."""
    for i in range(n):
        SELF(i, "x")


def values(n):
    """Containers, texts, bytes and values that C++ only hands on."""
    for i in range(n // 4):
        SELF([i, "x"], {"k": i})
        SELF(b"x")
        SELF(object())
        CALLBACK(lambda x: x)


def nodes(n):
    for i in range(n // 10):
        tir.Add(X, 1).a


def errors_of_python(n):
    for _ in range(n):
        try:
            FAILS()
        except ValueError:
            pass


def errors_of_cpp(n):
    for _ in range(n):
        try:
            APPEND(1)
        except tenon.Error:
            pass


def grown(times, errors):
    """JSON of kilobytes by which the process grew, for each kind."""
    out = {}
    for work, n in ((calls, times), (values, times), (nodes, times), (errors_of_python, errors), (errors_of_cpp, errors)):
        work(max(1000, n // 20))
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work(n)
        gc.collect()
        out[work.__name__] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return json.dumps(out)
