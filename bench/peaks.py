# SPDX-License-Identifier: Apache-2.0
"""Arithmetic peaks of a thread, measured in this process: multiply-adds of float32, dot instructions of bytes and of bf16."""
import ctypes
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
TRIES, STEPS = 2, 30_000  # of one measurement: a few milliseconds


class Peaks:
    """The most that each kind has shown so far, in giga operations (a multiplication or an addition) a second."""

    def __init__(self, folder):
        self.most = {}
        file = pathlib.Path(folder) / "peaks.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", HERE / "peaks.c", "-o", file], check=True)
        library = ctypes.CDLL(str(file))
        self.dot, self.fma = library.tenon_bench_dot_gops, library.tenon_bench_fma_gflops
        self.dot.restype = self.fma.restype = ctypes.c_double
        self.fma.argtypes = [ctypes.c_int, ctypes.c_int64]
        self.dot.argtypes = [ctypes.c_int, *self.fma.argtypes]

    def measure(self, kind):
        """The peak of "bytes", "bf16" or "f32", with one more measurement; 0 where the processor lacks the instruction."""
        now = self.fma(TRIES, STEPS) if kind == "f32" else self.dot(("bytes", "bf16").index(kind), TRIES, STEPS)
        self.most[kind] = max(self.most.get(kind, 0.0), now)
        return self.most[kind]
