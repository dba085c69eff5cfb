#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packed multiplications of bytes and bf16 as shares of the dot instructions' peak, measured in the same process.

    PYTHONPATH=build/release/python bench/narrow.py --tenon build/release/bin/tenon [--without-amx]

u8 · i8 (MatMulInteger) and bf16 (MatMul) with a constant matrix, 512³ to 2048³ and three of networks, on one thread. Runs and
measurements of the peak alternate. Times are those of the thread on a core, and both sides the best of all rounds,
because other work on the machine only adds."""
import argparse
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

from peaks import Peaks
from tenon_session import Session
from without_amx import refuse_matrix_registers

SHAPES = [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (128, 3072, 768), (49, 512, 4608), (3136, 64, 576)]  # rows, columns, sum


def model(kind, m, n, k, rng):
    if kind == "bytes":
        node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
        weight = onnx.numpy_helper.from_array(rng.integers(-128, 128, (k, n)).astype(np.int8), "b")
        a, y = TensorProto.UINT8, TensorProto.INT32
    else:
        node = helper.make_node("MatMul", ["a", "b"], ["y"])
        bits = (rng.standard_normal((k, n)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        weight = helper.make_tensor("b", TensorProto.BFLOAT16, [k, n], bits.tobytes(), raw=True)
        a = y = TensorProto.BFLOAT16
    graph = helper.make_graph([node], kind, [helper.make_tensor_value_info("a", a, [m, k])],
                              [helper.make_tensor_value_info("y", y, [m, n])], [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--without-amx", action="store_true", help="without matrix registers, by the dot instructions")
    options = parser.parse_args()
    if options.without_amx:
        refuse_matrix_registers()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        peaks = Peaks(folder)
        for kind in ["bytes", "bf16"]:
            if peaks.measure(kind) == 0:
                print(f"{kind}: this processor lacks the instruction")
                continue
            for m, n, k in SHAPES:
                onnx.save(model(kind, m, n, k, rng), folder / "m.onnx")
                subprocess.run([options.tenon, "compile", folder / "m.onnx", "-o", folder / "m.tenon"], check=True,
                               stdout=subprocess.DEVNULL)
                if kind == "bytes":
                    a = rng.integers(0, 256, (m, k)).astype(np.uint8)
                else:
                    a = (rng.standard_normal((m, k)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
                session = Session(folder / "m.tenon", [a], 1)
                session.run()
                best, peak = 1e9, 0.0
                for _ in range(options.rounds):
                    start = time.thread_time()
                    session.run()
                    best = min(best, time.thread_time() - start)
                    peak = peaks.measure(kind)
                session.close()
                rate = 2 * m * n * k / best / 1e9
                shape = f"{m} × {n} × {k}"
                print(f"{kind:6s} {shape:>18s}  {best * 1e3:8.3f} ms  {rate:7.0f} of {peak:5.0f} Gop/s  {rate / peak:4.0%}")


if __name__ == "__main__":
    main()
