#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times models whose operators run side by side (`parallelize_branches`) against the same models without.

    bench/branches.py --tenon build/release/bin/tenon --models FOLDER [--export] [--only REGEX] [--rounds 6] [--seconds 0.3]

--export writes the models into the folder first (PyTorch, torchvision: build/zoo/env has them). Each model is compiled
with and without both passes; runs of the two alternate, on two threads and on one. A ratio is the median over the
rounds, behind it the middle half of them."""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

OFF = ["--disable-pass", "parallelize_branches", "--disable-pass", "fuse_parallel_loops"]


def export(folder, only):
    import torch
    import torchvision.models as vision
    from torch import nn

    def conv(inputs, outputs, size):
        return nn.Sequential(nn.Conv2d(inputs, outputs, size, padding=size // 2), nn.ReLU())

    class Inception(nn.Module):
        def __init__(self, inputs, one, three, five, pooled):
            super().__init__()
            self.one, self.pooled = conv(inputs, one, 1), nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, pooled, 1))
            self.three = nn.Sequential(conv(inputs, one, 1), conv(one, three, 3))
            self.five = nn.Sequential(conv(inputs, pooled // 2, 1), conv(pooled // 2, five, 5))

        def forward(self, x):
            return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], 1)

    class Inceptions(nn.Module):
        def __init__(self, w):
            super().__init__()
            blocks = [Inception(16 * w, 16 * w, 24 * w, 8 * w, 8 * w)] + [Inception(n * w, 32 * w, 48 * w, 16 * w, 16 * w) for n in (56, 112, 112)]
            self.body = nn.Sequential(conv(3, 16 * w, 3), nn.MaxPool2d(2), *blocks)
            self.head = nn.Linear(112 * w, 10)

        def forward(self, x):
            return self.head(self.body(x).mean((2, 3)))

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.before, self.behind = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
            self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            n, length, width = x.shape
            y = self.before(x)
            q, k, v = (f(y).view(n, length, self.heads, width // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
            a = torch.softmax(q @ k.transpose(2, 3) / (width // self.heads) ** 0.5, -1) @ v
            x = x + self.out(a.transpose(1, 2).reshape(n, length, width))
            return x + self.wide(self.behind(x))

    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64)) for _ in range(3))

        def forward(self, x):
            return self.a(x) * torch.sigmoid(self.b(x)) + self.c(x)

    models = {f"inception blocks ×{w}, {s}×{s}": (lambda w=w: Inceptions(w), (1, 3, s, s)) for w, s in ((1, 16), (1, 32), (2, 32))}
    models |= {f"transformer {d}, {t} tokens": (lambda d=d, h=h: nn.Sequential(*[Layer(d, h) for _ in range(4)]), (1, t, d)) for d, h, t in ((64, 4, 16), (128, 4, 32), (256, 4, 16), (256, 8, 64), (384, 6, 128))}
    models |= {f"three towers, {n} rows": (Towers, (n, 128)) for n in (8, 64)}
    for s in (64, 224):
        models |= {f"GoogLeNet {s}×{s}": (lambda: vision.googlenet(weights=None, init_weights=False, aux_logits=False), (1, 3, s, s)),
                   f"SqueezeNet 1.1 {s}×{s}": (lambda: vision.squeezenet1_1(weights=None), (1, 3, s, s))}
    models |= {"Inception v3 299×299": (lambda: vision.inception_v3(weights=None, init_weights=False, aux_logits=False), (1, 3, 299, 299)),
               "ShuffleNet v2 224×224": (lambda: vision.shufflenet_v2_x1_0(weights=None), (1, 3, 224, 224)),
               "MobileNet v3 224×224": (lambda: vision.mobilenet_v3_large(weights=None), (1, 3, 224, 224))}
    for name, (make, shape) in models.items():
        path = folder / f"{name}.onnx"
        if not re.search(only, name) or path.exists():
            continue
        torch.manual_seed(0)
        with torch.no_grad():
            torch.onnx.export(make().eval(), torch.randn(shape), str(path), dynamo=False, opset_version=17, input_names=["x"])


def timed(tenon, artifact, threads, seconds):
    out = subprocess.run([tenon, "bench", artifact, "--threads", str(threads), "--seconds", str(seconds), "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(out)["latency_ms"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.3)
    args = parser.parse_args()
    args.models.mkdir(parents=True, exist_ok=True)
    if args.export:
        export(args.models, args.only)
    print("| model | groups | apart, ms | side by side, ms | ratio | one thread |\n|---|--:|--:|--:|--:|--:|")
    for path in sorted(args.models.glob("*.onnx")):
        if not re.search(args.only, path.stem):
            continue
        with tempfile.TemporaryDirectory() as folder:
            on, off = f"{folder}/on.so", f"{folder}/off.so"
            subprocess.run([args.tenon, "compile", path, "-o", on, "-q"], check=True, capture_output=True)
            subprocess.run([args.tenon, "compile", path, "-o", off, "-q", *OFF], check=True, capture_output=True)
            text = subprocess.run([args.tenon, "inspect", on, "--bytecode"], check=True, capture_output=True, text=True).stdout
            groups = sum("_beside_" in line and " kernel " in line for line in text.splitlines())
            cells = []
            for threads in (2, 1):
                times = {on: [], off: []}
                for r in range(args.rounds):
                    for which in (on, off) if r % 2 else (off, on):
                        times[which].append(timed(args.tenon, which, threads, args.seconds))
                ratios = sorted(a / b for a, b in zip(times[on], times[off]))
                quarter = len(ratios) // 4
                if threads == 2:
                    cells += [f"{statistics.median(times[w]):.3f}" for w in (off, on)]
                cells.append(f"{statistics.median(ratios):.2f} ({ratios[quarter]:.2f}…{ratios[-1 - quarter]:.2f})")
            print(f"| {path.stem} | {groups} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
