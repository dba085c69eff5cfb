#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks on bytes and 16-bit floats, interleaved with ONNX Runtime and OpenVINO at the same precision.

    bench/precision.py --tenon TENON --models build/bench/models [--rounds N] [--slot SECONDS] [--threads N] [--forms qdq bf16 --] [NAME…]

Of each float model NAME.onnx a QDQ model (static, per channel, from ONNX Runtime's quantiser) and a float16 model are
written beside it, once. Rows: f32; QDQ; bf16 (Tenon: --precision bf16, OpenVINO: its precision hint, ONNX Runtime has
none); f16 (a float16 model; OpenVINO computes it in its own choice). A time is the smallest of all rounds, on
one thread or N; the error is the root mean square of the difference from ONNX Runtime's f32 outputs, relative to them."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.version_converter
from onnx import TensorProto, numpy_helper

from bench import Contender, Failure, arrays, package_of
from inputs import dims_arguments, inputs_of

DEFAULT = ["resnet50", "mobilenet_v2"]
ROUNDS, SLOT_SECONDS, CALIBRATION_SAMPLES = 12, 0.3, 2
FORMS = ["f32", "qdq", "bf16", "f16"]
QDQ_OPSET = 13  # before 13, DequantizeLinear has no axis


def qdq_model(source, target):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(CalibrationDataReader):
        def __init__(self):
            self.left = [inputs_of(source, seed) for seed in range(1, CALIBRATION_SAMPLES + 1)]

        def get_next(self):
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        recent, folded = pathlib.Path(folder) / "recent.onnx", pathlib.Path(folder) / "folded.onnx"
        model = onnx.load(source)
        if max(o.version for o in model.opset_import if not o.domain) < QDQ_OPSET:
            model = onnx.version_converter.convert_version(model, QDQ_OPSET)
        onnx.save(model, recent)
        quant_pre_process(str(recent), str(folded), skip_symbolic_shape=True)
        quantize_static(str(folded), str(target), Samples(), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


def f16_model(source, target):
    """Every float32 of the model, inputs and outputs too, as float16."""
    model = onnx.load(source)

    def narrow(tensor):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))

    for tensor in model.graph.initializer:
        narrow(tensor)
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for node in model.graph.node:
        for a in node.attribute:
            if a.HasField("t"):
                narrow(a.t)
            if node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = TensorProto.FLOAT16
    onnx.save(model, target)


def forms_of(path):
    """Precision → model file, words for `tenon compile`, modes of the peers (None: it has no such precision)."""
    qdq, f16 = path.with_name(path.stem + "_qdq.onnx"), path.with_name(path.stem + "_f16.onnx")
    for file, write in ((qdq, qdq_model), (f16, f16_model)):
        if not file.exists():
            write(path, file)
    return {"f32": (path, [], "spin", "f32"), "qdq": (qdq, [], "spin", "f32"),
            "bf16": (path, ["--precision", "bf16"], None, "bf16"), "f16": (f16, [], "spin", "f32")}


def error_of(got, want):
    """Relative root mean square of the difference over all outputs."""
    difference = sum(float(np.sum((np.float64(g).ravel() - np.float64(w).ravel()) ** 2)) for g, w in zip(got, want))
    return (difference / max(sum(float(np.sum(np.float64(w) ** 2)) for w in want), 1e-300)) ** 0.5


def time_form(o, rounds, path, words, modes, scratch, reference, contenders):
    """Label → smallest time in ms and error of each contender that takes the model."""
    feed = inputs_of(path)
    inputs, artifact = scratch / "inputs.npz", scratch / "model.so"
    np.savez(inputs, **feed)
    subprocess.run([o.tenon, "compile", path, "-o", artifact, "-q", *words, *dims_arguments(path, feed)], check=True)
    rows, running = {}, []
    for label, mode in {"tenon": package_of(o.tenon), "onnxruntime": modes[0], "openvino": modes[1]}.items():
        if mode is None:
            continue
        if (label, mode) not in contenders:
            contenders[label, mode] = Contender(label, label, mode)
        contender = contenders[label, mode]
        try:
            contender.ask("create", artifact=str(artifact), model=str(path), inputs=str(inputs), threads=o.threads)
            contender.ask("check", outputs=str(scratch / "outputs.npz"))
        except Failure as failure:
            print(f"  {failure}", file=sys.stderr)
            continue
        got = arrays(scratch / "outputs.npz")
        reference = got if reference is None and label == "onnxruntime" else reference
        rows[label] = [float("inf"), got]
        running.append((label, contender))
    for i in range(rounds):
        for label, contender in running[i % len(running):] + running[: i % len(running)]:
            rows[label][0] = min(rows[label][0], contender.ask("slot", seconds=o.slot, wake=True)["slot"][1])
    for _, contender in running:
        contender.ask("close")
    return {label: (ms, error_of(got, reference)) for label, (ms, got) in rows.items()}, reference


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--slot", type=float, default=SLOT_SECONDS, help="seconds of a contender's turn")
    parser.add_argument("--threads", type=int, default=1, help="of each contender")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("names", nargs="*", default=DEFAULT)
    o = parser.parse_args()
    contenders = {}
    print(f"{'network':<16} {'':<5} {'tenon':>9} {'error':>7} {'ORT':>9} {'error':>7} {'OpenVINO':>9} {'error':>7} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name in o.names:
            reference = None
            for precision, (path, words, *modes) in forms_of(o.models / f"{name}.onnx").items():
                if precision not in o.forms and precision != "f32":  # which the errors are relative to
                    continue
                rounds = o.rounds if precision in o.forms else 0
                try:
                    rows, reference = time_form(o, rounds, path, words, modes, pathlib.Path(folder), reference, contenders)
                except subprocess.CalledProcessError:  # Tenon has said why
                    print(f"{name:<16} {precision:<5} is not compiled", flush=True)
                    continue
                if not rounds:
                    continue
                cells = "".join(f"{rows[k][0]:9.2f} {rows[k][1]:7.2%} " if k in rows else f"{'–':>9} {'–':>7} " for k in ("tenon", "onnxruntime", "openvino"))
                peers = [ms for label, (ms, _) in rows.items() if label != "tenon"]
                print(f"{name:<16} {precision:<5} {cells}{rows['tenon'][0] / min(peers):6.2f}" if peers else f"{name:<16} {precision:<5} {cells}", flush=True)
    for contender in contenders.values():
        contender.stop()


if __name__ == "__main__":
    main()
