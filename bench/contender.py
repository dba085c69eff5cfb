#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One contender of the benchmark in a process of its own: commands and answers are lines of JSON.

A process each, so that one's thread pool, pinning, memory or crash is not another's, and two builds of Tenon can
stand side by side. `bench.py` starts these and lets only one work at a time.

    bench/contender.py tenon FOLDER_OF_THE_PACKAGE | onnxruntime spin|sleep | openvino f32|bf16"""
import ctypes
import gc
import json
import os
import sys
import threading
import time

import numpy as np


class Tenon:
    def __init__(self, package):
        sys.path.insert(0, package)
        import tenon

        self.version = tenon.__version__

    def create(self, c):
        from tenon_session import Session

        feed = np.load(c["inputs"])
        session = Session(c["artifact"], [feed[n] for n in feed.files], c["threads"])
        return Bound(session.run, session, session.outputs)


class OnnxRuntime:
    def __init__(self, mode):
        import onnxruntime

        self.ort, self.spin, self.version = onnxruntime, mode == "spin", onnxruntime.__version__

    def create(self, c):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = c["threads"]
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if self.spin else "0")
        session = self.ort.InferenceSession(c["model"], options, providers=["CPUExecutionProvider"])
        feed = dict(np.load(c["inputs"]))
        return Bound(lambda: session.run(None, feed))


class OpenVino:
    def __init__(self, precision):
        import openvino

        self.ov, self.precision, self.version = openvino, precision, openvino.__version__.split("-")[0]
        self.core = openvino.Core()

    def create(self, c):
        # Its own default for the precision is bf16 where the machine has it; f32 must be asked for.
        options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": c["threads"], "ENABLE_CPU_PINNING": False}
        options |= {"INFERENCE_PRECISION_HINT": "f32"} if self.precision == "f32" else {}
        model = self.core.compile_model(c["model"], "CPU", options)
        self.used = str(model.get_property("INFERENCE_PRECISION_HINT"))
        request = model.create_infer_request()
        feed = dict(np.load(c["inputs"]))
        for name, value in feed.items():
            request.set_tensor(name, self.ov.Tensor(value, shared_memory=True))
        outputs = [request.get_output_tensor(i) for i in range(len(model.outputs))]

        def run():
            request.infer()
            return [o.data for o in outputs]

        return Bound(run, (model, request, feed))


class Bound:
    """A call with its inputs; keeps what the call needs alive. `outputs` gives the results of the last run, where `run`
    itself does not."""

    def __init__(self, run, keep=None, outputs=None):
        self.run, self.keep, self.outputs = run, keep, outputs

    def results(self):
        made = self.run()
        return self.outputs() if self.outputs else made

    def close(self):
        self.run = self.keep = self.outputs = None


def peak_gflops(library, threads):
    """Sum over `threads` threads that multiply at the same time."""
    function = ctypes.CDLL(library).tenon_bench_fma_gflops
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_int, ctypes.c_int64]
    rates = [0.0] * threads

    def work(i):
        rates[i] = function(5, 300_000)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    return sum(rates)


def slot(run, seconds, wake):
    """Median and minimum, in ms, of the runs that fit into `seconds`, one at least."""
    if wake:
        run()  # a short run after a pause would time the machine's waking
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return [float(np.median(times)) * 1e3, min(times) * 1e3]


def main():
    kinds = {"tenon": Tenon, "onnxruntime": OnnxRuntime, "openvino": OpenVino}
    answers = os.fdopen(os.dup(1), "w")  # nothing that a library prints may look like an answer
    os.dup2(2, 1)
    contender = kinds[sys.argv[1]](sys.argv[2])
    session = None
    print(json.dumps({"version": contender.version}), file=answers, flush=True)
    for line in sys.stdin:
        c = json.loads(line)
        out = {}
        try:
            if c["do"] == "create":
                start = time.perf_counter()
                session = contender.create(c)
                out["create_s"] = time.perf_counter() - start
                out["precision"] = getattr(contender, "used", "f32")
            elif c["do"] == "check":
                np.savez(c["outputs"], *[np.array(v) for v in session.results()])
            elif c["do"] == "typical":
                for _ in range(2):
                    session.run()
                out["ms"] = slot(session.run, c["seconds"], False)[1]
            elif c["do"] == "slot":
                out["slot"] = slot(session.run, c["seconds"], c["wake"])
            elif c["do"] == "peak":
                out["gflops"] = peak_gflops(c["library"], c["threads"])
            elif c["do"] == "close":
                if session is not None:
                    session.close()
                session = None
                gc.collect()
        except Exception as error:  # reported by bench.py, which goes on with the others
            out = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(out), file=answers, flush=True)


if __name__ == "__main__":
    main()
