# SPDX-License-Identifier: Apache-2.0
"""Parameters that are inputs of the model."""
import numpy as np

from sample_cases.case import f32, floats, i64, one, seed

# Parameters that are inputs.
seed("run time")


def at_run_time(op, *arrays, name="", **keywords):
    one(op, *arrays, name=f"{op}{name} at run time", **keywords)


at_run_time("Squeeze", floats(1, 3, 1, 2), i64(-2, 0))
at_run_time("Unsqueeze", floats(3, 2), i64(3, 0))
at_run_time("Reshape", floats(2, 3, 4), i64(0, -1, 2), name=" with rests")
at_run_time("Slice", floats(4, 6), i64(-1, 5), i64(-9, 1), i64(0, -1), i64(-2, -3), name=" backwards over axes")
at_run_time("Split", floats(2, 6), i64(1, 3, 2), axis=1, results=3)
at_run_time("Expand", floats(3, 1), i64(2, 1, 4))
at_run_time("Pad", floats(2, 3), i64(1, 2), f32(1.5).reshape(()), i64(-1), name=" along an axis")
for mode in ("reflect", "edge", "wrap"):
    at_run_time("Pad", floats(3, 4), i64(1, 2, 1, 1), mode=mode, name=f" ({mode})")
at_run_time("Trilu", floats(3, 4), np.array(1, np.int64), upper=0)
at_run_time("CumSum", floats(2, 4), np.array(0, np.int64), reverse=1)
at_run_time("CumProd", floats(2, 4), np.array(-1, np.int64), exclusive=1)
for op in ("ReduceMax", "ReduceMean", "ReduceLogSumExp"):
    at_run_time(op, floats(2, 3, 4), i64(2, 0), keepdims=0)
at_run_time("CenterCropPad", floats(5, 3), i64(3, 4))
at_run_time("Col2Im", floats(1, 4, 4), i64(3, 3), i64(2, 2))
at_run_time("Resize", floats(1, 1, 2, 3), None, f32(1, 1, 2, 2), mode="nearest", name=" by scales")
at_run_time("Resize", floats(1, 1, 4, 5), None, None, i64(1, 1, 3, 7), mode="cubic", exclude_outside=1, name=" to sizes")
one("Resize", floats(1, 1, 4, 5), None, None, i64(1, 1, 2, 3), mode="linear", antialias=1, constants=(3,), name="Resize without aliasing")
at_run_time("HannWindow", np.array(7, np.int64))
at_run_time("DFT", floats(2, 4, 2), None, np.array(0, np.int64))
at_run_time("STFT", floats(1, 10, 1), np.array(3, np.int64), floats(4, low=0.2))
at_run_time("Dropout", floats(2, 3), f32(0.5).reshape(()), np.array(False), results=2)
