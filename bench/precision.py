#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks on bytes and 16-bit floats, interleaved with ONNX Runtime and OpenVINO at the same precision.

    bench/precision.py --tenon TENON --models build/bench/models [--threads N] [--rounds N] [--slot SECONDS] [--forms qdq bf16 --]
                       [--keep FOLDER [--prepare]] [--without-amx] [NAME…]

Of each float model NAME.onnx a QDQ model (static, per channel, from ONNX Runtime's quantiser), a dynamically quantised
one and a float16 model are written beside it, once. Rows: f32; QDQ; dynamic; bf16 (Tenon: --precision bf16, OpenVINO:
its precision hint, ONNX Runtime has none); f16 (a float16 model; OpenVINO computes it in its own choice). A time is the
smallest of all rounds; the error is the root mean square of the difference from ONNX Runtime's f32 outputs, relative to them;
the share is that of the arithmetic peak of the precision, measured between the rounds: the multiply-adds of the float model's
convolutions and products over Tenon's time.

`--keep FOLDER` holds what one build of Tenon compiled, the inputs and the errors; `--prepare` makes that and times
nothing, so that a later call with the same words only runs, on a machine that may be idle for a short while.
`--without-amx` keeps all of them, Tenon too, from matrix registers: they use the dot instructions."""
import argparse
import json
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
from peaks import Peaks
from without_amx import refuse_matrix_registers

DEFAULT = ["resnet50", "mobilenet_v2"]
ROUNDS, SLOT_SECONDS, CALIBRATION_SAMPLES = 12, 0.3, 2
FORMS = ["f32", "qdq", "dynamic", "bf16", "f16"]
DEFAULT_FORMS = ["f32", "qdq", "bf16", "f16"]
PEAK_OF = {"f32": "f32", "qdq": "bytes", "dynamic": "bytes", "bf16": "bf16", "f16": "f32"}
CONTRACTIONS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
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


def dynamic_model(source, target):
    """Products and convolutions on bytes whose scales the run finds."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(source)
    del model.graph.value_info[:]  # an exporter writes shapes of weights there, which the quantiser turns
    quantize_dynamic(model, str(target), per_channel=True, weight_type=QuantType.QInt8)


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


def forms_of(path, wanted):
    """Precision → model file, words for `tenon compile`, modes of the peers (None: it has no such precision)."""
    made = {"qdq": qdq_model, "dynamic": dynamic_model, "f16": f16_model}
    forms = {}
    for form in wanted:
        file = path.with_name(f"{path.stem}_{form}.onnx") if form in made else path
        if not file.exists():
            made[form](path, file)
        forms[form] = (file, ["--precision", "bf16"], None, "bf16") if form == "bf16" else (file, [], "spin", "f32")
    return forms


def error_of(got, want):
    """Relative root mean square of the difference over all outputs."""
    difference = sum(float(np.sum((np.float64(g).ravel() - np.float64(w).ravel()) ** 2)) for g, w in zip(got, want))
    return (difference / max(sum(float(np.sum(np.float64(w) ** 2)) for w in want), 1e-300)) ** 0.5


class Bench:
    def __init__(self, options, folder):
        self.o, self.folder, self.contenders, self.work = options, folder, {}, {}
        self.peaks = Peaks(folder)

    def contender(self, label, mode):
        if (label, mode) not in self.contenders:
            self.contenders[label, mode] = Contender(label, label, mode)
        return self.contenders[label, mode]

    def outputs(self, contender, artifact, model, inputs):
        contender.ask("create", artifact=str(artifact), model=str(model), inputs=str(inputs), threads=self.o.threads)
        contender.ask("check", outputs=str(self.folder / "outputs.npz"))
        contender.ask("close")
        return arrays(self.folder / "outputs.npz")

    def prepared(self, name, form, path, words, modes):
        """Artifact, inputs, and label → error, made once a folder. The error is null where a contender refuses the model."""
        artifact, inputs, errors = (self.folder / f"{name}_{form}.{kind}" for kind in ("so", "npz", "json"))
        if not errors.exists():
            feed = inputs_of(path)
            np.savez(inputs, **feed)
            subprocess.run([self.o.tenon, "compile", path, "-o", artifact, "-q", *words, *dims_arguments(path, feed)], check=True)
            found = {}
            for label, mode in modes.items():
                try:
                    found[label] = error_of(self.outputs(self.contender(label, mode), artifact, path, inputs), self.reference(name))
                except Failure as failure:
                    print(f"  {failure}", file=sys.stderr)
            errors.write_text(json.dumps(found))
        return artifact, inputs, json.loads(errors.read_text())

    def reference(self, name):
        """ONNX Runtime's f32 outputs."""
        kept = self.folder / f"{name}.reference.npz"
        if not kept.exists():
            model, inputs = self.o.models / f"{name}.onnx", self.folder / "inputs.npz"
            np.savez(inputs, **inputs_of(model))
            np.savez(kept, *self.outputs(self.contender("onnxruntime", "spin"), None, model, inputs))
        return arrays(kept)

    def operations(self, name):
        """Multiplications and additions of the float model's convolutions and products."""
        if name not in self.work:
            path = self.o.models / f"{name}.onnx"
            words = [self.o.tenon, "inspect", path, "--json", "-q", *dims_arguments(path, inputs_of(path))]
            nodes = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["nodes"]
            self.work[name] = sum(node.get("flop") or 0 for node in nodes if node["op"] in CONTRACTIONS)
        return self.work[name]

    def times(self, form, artifact, path, inputs, modes):
        """Label → smallest time in ms; the contenders take turns, and the peak has one of its own."""
        running = [(label, self.contender(label, mode)) for label, mode in modes.items()]
        best = {}
        for label, contender in running:
            contender.ask("create", artifact=str(artifact), model=str(path), inputs=str(inputs), threads=self.o.threads)
            best[label] = float("inf")
        for i in range(self.o.rounds):
            self.peaks.measure(PEAK_OF[form])
            for label, contender in running[i % len(running):] + running[: i % len(running)]:
                best[label] = min(best[label], contender.ask("slot", seconds=self.o.slot, wake=True)["slot"][1])
        for _, contender in running:
            contender.ask("close")
        return best

    def row(self, name, form, path, words, orts, openvinos):
        modes = {"tenon": package_of(self.o.tenon), "onnxruntime": orts, "openvino": openvinos}
        modes = {label: mode for label, mode in modes.items() if mode is not None}
        try:
            artifact, inputs, errors = self.prepared(name, form, path, words, modes)
        except subprocess.CalledProcessError:  # Tenon has said why
            print(f"{name:<16} {form:<7} is not compiled", flush=True)
            return
        if self.o.prepare:
            return
        best = self.times(form, artifact, path, inputs, {label: modes[label] for label in errors})
        cells = "".join(f"{best[k]:9.2f} {errors[k]:7.2%} " if k in best else f"{'–':>9} {'–':>7} " for k in ("tenon", "onnxruntime", "openvino"))
        peers = [ms for label, ms in best.items() if label != "tenon"]
        ratio = f"{best['tenon'] / min(peers):6.2f}" if peers else f"{'–':>6}"
        peak = self.peaks.most[PEAK_OF[form]] * self.o.threads
        share = f"{self.operations(name) / best['tenon'] / 1e6 / peak:6.1%}" if peak else f"{'–':>6}"
        print(f"{name:<16} {form:<7} {cells}{ratio} {share}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=1, help="of each contender")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--slot", type=float, default=SLOT_SECONDS, help="seconds of a contender's turn")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=DEFAULT_FORMS)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for artifacts, inputs and errors of this build")
    parser.add_argument("--prepare", action="store_true", help="fill that folder and time nothing")
    parser.add_argument("--without-amx", action="store_true", help="all without matrix registers")
    parser.add_argument("names", nargs="*", default=DEFAULT)
    o = parser.parse_args()
    if o.without_amx:
        refuse_matrix_registers()
    print(f"{'network':<16} {'':<7} {'tenon':>9} {'error':>7} {'ORT':>9} {'error':>7} {'OpenVINO':>9} {'error':>7} {'ratio':>6} {'share':>6}")
    with tempfile.TemporaryDirectory() as scratch:
        if o.keep:
            o.keep.mkdir(parents=True, exist_ok=True)
        bench = Bench(o, o.keep or pathlib.Path(scratch))
        for name in o.names:
            for form, of_form in forms_of(o.models / f"{name}.onnx", o.forms).items():
                bench.row(name, form, *of_form)
        for contender in bench.contenders.values():
            contender.stop()


if __name__ == "__main__":
    main()
