# SPDX-License-Identifier: Apache-2.0
"""The fixed set that scripts/replay compiles. Everything is standard library, and the same for the same tree."""
import ast
import array
import dataclasses
import json
import os
import pathlib
import random
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def shared_folder():
    """Beside the repository; of a linked work tree beside the one that it belongs to."""
    if named := os.environ.get("TENON_SHARED"):
        return pathlib.Path(named)
    if (ROOT.parent / "shared").is_dir():
        return ROOT.parent / "shared"
    done = subprocess.run(["git", "rev-parse", "--git-common-dir"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return (ROOT / done.stdout.strip()).resolve().parent.parent / "shared"


SHARED = shared_folder()

V3, ZNVER4 = ["--target", "llvm -mcpu=x86-64-v3"], ["--target", "llvm -mcpu=znver4"]
CORTEX = {"kind": "llvm", "triple": "aarch64-unknown-linux-gnu", "cpu": "cortex-a72", "features": ["asimd"], "vector_bits": 128,
          "vector_registers": 32, "fma": True, "l1d_bytes": 32768, "l2_bytes": 1048576, "l3_bytes": 0, "cores": 4}


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of the command. `verb` "compile" writes `emit`; "opt" prints programs beside their assembly."""
    group: str
    name: str
    file: pathlib.Path
    verb: str = "compile"
    emit: str = "artifact"
    flags: tuple = ()

    def __str__(self):
        kind = "" if self.emit == "artifact" else f"--emit {self.emit} "
        return f"{self.group}/{self.name}: {self.verb} {kind}{' '.join(f if ' ' not in f else repr(f) for f in self.flags)}".rstrip()


class Cases:
    """Collects cases; texts that no file of the tree holds are written below `folder`."""

    def __init__(self, folder):
        self.folder, self.all = folder, []
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, name, text):
        path = self.folder / name
        if not path.exists() or path.read_text() != text:
            partial = self.folder / f"{name}.{os.getpid()}"  # another run may read the file
            partial.write_text(text)
            partial.rename(path)
        return path

    def add(self, group, name, file, *flags, verb="compile", emit="artifact"):
        self.all.append(Case(group, name, file, verb, emit, tuple(str(f) for f in flags)))

    def c(self, group, name, file, *flags):
        self.add(group, name, file, "--target", "c", *flags, emit="c")

    def arm(self, group, name, file, *flags):
        record = self.write("cortex-a72.json", json.dumps(CORTEX))
        self.add(group, name, file, "--target", f"@{record}", *flags, emit="asm")


# Sizes that each model is compiled with, too.
MODELS = {
    "mnist.onnx": {},
    "silero_vad.onnx": {"input_d0": 1, "input_d1": 576, "state_d1": 1},
    "silero_vad_half.onnx": {"batch": 1, "sequence": 576},
    "ppocr_v2_cls.onnx": {"x_d0": 1, "x_d2": 48, "x_d3": 192},
    "ppocr_v4_det.onnx": {"p2o.DynamicDimension.0": 1, "p2o.DynamicDimension.1": 160, "p2o.DynamicDimension.2": 160},
    "ppocr_v4_rec.onnx": {"p2o.DynamicDimension.0": 1, "x_d2": 48, "p2o.DynamicDimension.1": 320},
    "basic_pitch.onnx": {"unk__749": 1},
}


def models(cases):
    for name, sizes in MODELS.items():
        file = SHARED / "models" / name
        if not file.is_file():
            continue
        dims = [word for dim, n in sizes.items() for word in ("--dim", f"{dim}={n}")]
        cases.add("models", name, file, *ZNVER4)
        if dims:
            cases.add("models", name, file, *V3, "-O3", *dims)
            if file.stat().st_size < 3 << 20:  # C holds the weights as text
                cases.c("models", name, file, *dims)


def digits(cases):
    file, dims = ROOT / "examples" / "digits" / "digits.onnx", ["--dim", "batch=3"]
    for target in (V3, ZNVER4):
        for level in ("-O2", "-O3"):
            cases.add("digits", "classifier", file, *target, level)
            cases.add("digits", "classifier", file, *target, level, *dims)
    cases.add("digits", "classifier", file, *ZNVER4, "--precision", "bf16", *dims)
    cases.add("digits", "classifier", file, *V3, "--precision", "f16", *dims)
    cases.add("digits", "classifier", file, *V3, "--dim-max", "batch=8")
    cases.add("digits", "classifier", file, *V3, "-O0")
    cases.c("digits", "classifier", file, *dims)
    cases.c("digits", "classifier", file)
    cases.arm("digits", "classifier", file, *dims)


def tensor(shape):
    return f'R.Tensor(({", ".join(map(str, shape))}{"," if len(shape) == 1 else ""}), "float32")'


def weights(rng, shape):
    count = 1
    for d in shape:
        count *= d
    data = array.array("f", (rng.uniform(-1, 1) for _ in range(count))).tobytes().hex()
    return f'R.const_bytes("{data}", ({", ".join(map(str, shape))}{"," if len(shape) == 1 else ""}), "float32")'


def graph(inputs, value):
    parameters = ", ".join(f"{name}: {tensor(shape)}" for name, shape in inputs.items())
    return f"@R.function\ndef main({parameters}):\n    return {value}\n"


def generated_matmul(rng):
    batch, m, k, n = rng.choice([1, 1, 1, 3, 8]), rng.randint(1, 400), rng.randint(8, 300), rng.randint(8, 300)
    a, b = ([m, k], [k, n]) if batch == 1 else ([batch, m, k], [batch, k, n])
    if batch == 1 and rng.random() < 0.6:
        return f"matmul_{m}x{k}x{n}_constant", graph({"a": a}, f"R.matmul(a, {weights(rng, b)})")
    return f"matmul_{batch}x{m}x{k}x{n}", graph({"a": a, "b": b}, "R.matmul(a, b)")


def generated_einsum(rng):
    while True:
        labels = "abcde"[: rng.randint(3, 5)]
        size = {label: rng.choice([3, 7, 16, 33, 65, 130, 200]) for label in labels}
        terms = ["".join(rng.sample(kept, len(kept))) for kept in ([x for x in labels if rng.random() < 0.7] for _ in range(2))]
        used = sorted(set("".join(terms)))
        kept = [x for x in used if rng.random() < 0.6]
        work = 1
        for x in used:
            work *= size[x]
        if all(terms) and 0 < len(kept) < len(used) and set(terms[0]) & set(terms[1]) and 1e5 < work < 2e8:
            break
    result = "".join(rng.sample(kept, len(kept)))
    inputs = {name: [size[x] for x in term] for name, term in zip("ab", terms)}
    return f"einsum_{terms[0]}_{terms[1]}_{result}", graph(inputs, f'R.einsum((a, b), subscripts="{terms[0]},{terms[1]}->{result}")')


def generated_conv(rng):
    groups = rng.choice([1, 1, 1, 4])
    channels, filters = (groups * rng.randint(2, 100 if groups == 1 else 24) for _ in range(2))
    kernel, stride = rng.choice([1, 3, 3, 5]), rng.choice([1, 1, 2])
    h, w = (rng.randint(kernel + stride, 60) for _ in range(2))
    value = (f"R.nn.conv2d(x, {weights(rng, [filters, channels // groups, kernel, kernel])}, strides=[{stride}, {stride}], "
             f"padding=[{kernel // 2}, {kernel // 2}, {kernel // 2}, {kernel // 2}], groups={groups})")
    return f"conv_{channels}_{filters}_{h}x{w}_k{kernel}_s{stride}_g{groups}", graph({"x": [1, channels, h, w]}, value)


def generated(cases, count=24, seed=1):
    """The kinds of programs that bench/generated.py draws, as text: no package is needed."""
    rng = random.Random(seed)
    for i in range(count):
        name, text = (generated_matmul, generated_einsum, generated_conv)[i % 3](rng)
        file = cases.write(f"generated_{i}_{name}.tir", text)
        cases.add("generated", name, file, *(ZNVER4 if i % 2 else V3), "-O3" if i % 4 == 1 else "-O2")
        cases.c("generated", name, file)
        if i < 3:
            cases.arm("generated", name, file)
            cases.add("generated", name, file, *ZNVER4, "--precision", "bf16")


def golden(cases):
    """The inputs of golden tests, and the scheduled programs, through both ways to machine code."""
    root = ROOT / "tests" / "golden"
    for file in sorted(root.glob("*/*.tir")):
        text = file.read_text()
        if "# ERROR" in text:
            continue
        name = f"{file.parent.name}/{file.stem}"
        copy = cases.write(f"golden_{file.parent.name}_{file.name}", text.split("# EXPECT")[0])
        cases.add("golden", name, copy, *V3)
        cases.c("golden", name, copy)
    for file in sorted((root / "schedule").glob("*.txt")):
        text = file.read_text()
        if "@I.ir_module" in text:
            copy = cases.write(f"golden_schedule_{file.stem}.tir", text[text.index("@I.ir_module"):])
            cases.add("golden", f"schedule/{file.stem}", copy, *V3)
            cases.c("golden", f"schedule/{file.stem}", copy)


def matmul_steps(cases):
    folder = ROOT / "examples" / "matmul"
    for trace in sorted(folder.glob("*.json")):
        program = folder / ("product.tir" if int(trace.name.split("_")[0]) <= 4 else "packed.tir")
        cases.add("matmul", trace.stem, program, "--schedule", trace, "--explain", *ZNVER4, verb="opt", emit="tir")


CONSTANT = re.compile(r'R\.const\((\[[^()]*\]|[^\[\](),]+), "(float\d*|bfloat16|u?int8|u?int16)"\)')


def shape_of(value):
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def operators(cases):
    """The smallest call of each operator, its data as parameters: constants would be folded away."""
    text = (ROOT / "tests" / "unit" / "trust" / "operators.tir").read_text()
    for function in re.findall(r"    @R\.function\n(    def call_\w+\(\).*\n(?:        .*\n)+)", text):
        name = re.match(r"    def call_(\w+)", function)[1]
        parameters = []

        def parameter(found):
            shape = shape_of(ast.literal_eval(re.sub(r"\b(nan|inf)\b", "0", found[1])))
            parameters.append(f'p{len(parameters)}: R.Tensor(({", ".join(map(str, shape))}{"," if len(shape) == 1 else ""}), "{found[2]}")')
            return f"p{len(parameters) - 1}"

        body = CONSTANT.sub(parameter, function.split("\n", 1)[1])
        file = cases.write(f"operator_{name}.tir", f"@R.function\ndef main({', '.join(parameters)}):\n{body}")
        cases.add("operators", name, file, *V3)


def all_cases(folder):
    cases = Cases(folder)
    for part in (models, digits, generated, golden, matmul_steps, operators):
        part(cases)
    return cases.all
