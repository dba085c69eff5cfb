# SPDX-License-Identifier: Apache-2.0
"""How long calls take, and what runs in them."""
import statistics
from time import perf_counter

from .arguments import need
from .error import UsageError
from .ffi import get_global_func

_PROFILED_RUNS = 10  # as `tenon bench --kernels` does


class Times(tuple):
    """Seconds of one call, a mean for each repetition."""

    results = property(tuple)
    mean = property(statistics.fmean)
    median = property(statistics.median)
    min = property(lambda self: min(self), doc="Seconds of the fastest repetition.")
    max = property(lambda self: max(self), doc="Seconds of the slowest repetition.")
    std = property(lambda self: statistics.pstdev(self), doc="Standard deviation, in seconds.")

    def __repr__(self):
        return (f"<{self.mean * 1e3:.4g} ms in the mean of {len(self)} repetitions, {self.min * 1e3:.4g} to "
                f"{self.max * 1e3:.4g} ms>")


def time_calls(call, number=10, repeat=3, min_repeat_ms=0):
    """Times of `call()`: `repeat` means over `number` calls each, and more where those take less than `min_repeat_ms`,
    after one call that is not counted."""
    if need(number, int, "number", "an int") < 1 or need(repeat, int, "repeat", "an int") < 1:
        raise UsageError(f"at least one call and one repetition, not {number} and {repeat}")
    call()
    out = []
    while len(out) < repeat:
        start = perf_counter()
        for _ in range(number):
            call()
        seconds = perf_counter() - start
        if seconds * 1e3 < min_repeat_ms:  # again, with as many as should do
            number = max(number + 1, int(number * min(10, 1.2 * min_repeat_ms / max(seconds * 1e3, 1e-3))))
            continue
        out.append(seconds / number)
    return Times(out)


def kernels_of(session, call, threads):
    """What runs in one `call()`, in the mean of several, by falling time. `session` records its steps."""
    call()
    session._take_profile()
    for _ in range(_PROFILED_RUNS):
        call()
    rows = {}
    for name, _, duration, _ in session._take_profile():
        if name != "model_run":
            ms, calls = rows.get(name, (0.0, 0))
            rows[name] = ms + duration / 1e3 / _PROFILED_RUNS, calls + 1
    total = sum(ms for ms, _ in rows.values())
    return sorted((_row(session, name, ms, calls // _PROFILED_RUNS, total, threads) for name, (ms, calls) in rows.items()),
                  key=lambda row: -row["ms"])


def _row(session, name, ms, calls, total, threads):
    row = {"name": name, "ms": ms, "share": ms / total if total else 0.0, "calls": calls, "flop": None, "bytes": None,
           "gflops": None, "share_of_limit": None, "limit": None}
    work = session.metadata("work." + name)
    if work:
        flop, bytes_, dot_bytes, dot_bf16 = map(float, work.split())
        least, limit = get_global_func("tenon.machine.least_time")(flop, bytes_, dot_bytes, dot_bf16, threads)
        row.update(flop=flop * calls, bytes=bytes_ * calls, limit=limit)
        if ms > 0:
            row.update(gflops=flop * calls / ms * 1e-6, share_of_limit=least * calls / ms)
    return row
