#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times contractions and convolutions that no rule was written for against their own limits.

    bench/generated.py --tenon build/release/bin/tenon [--count 40] [--seed 1]

A seeded generator makes matrix products (constant and not), einsums and convolutions of odd sizes as one-operator
ONNX models. Each is timed on one thread; its limit is the larger of its arithmetic at the peak and its bytes at the
bandwidth of memory, both as `tenon doctor` measures them here, with 3 microseconds for the call. The shares of the
limit are printed as a distribution, the slowest by name. Nothing is tuned and nothing fails: the distribution shows
how the default schedule does on shapes it has not seen."""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CALL_SECONDS = 3e-6


def model(node, inputs, constants, output):
    graph = helper.make_graph([node], "generated",
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
                              [numpy_helper.from_array(a, n) for n, a in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def bytes_of(*shapes):
    return 4 * sum(int(np.prod(s, dtype=np.int64)) for s in shapes)


def product(rng, batch, m, k, n, constant_share=0.6):
    constant = batch == 1 and rng.random() < constant_share
    a, b, c = [batch, m, k], [batch, k, n], [batch, m, n]
    if batch == 1:
        a, b, c = a[1:], b[1:], c[1:]
    weight = rng.standard_normal(b).astype(np.float32) / np.sqrt(k)
    made = model(helper.make_node("MatMul", ["a", "b"], ["y"]), {"a": a} if constant else {"a": a, "b": b},
                 {"b": weight.astype(np.float32)} if constant else {}, c)
    return f"matmul {batch}x{m}x{k}x{n}{' constant' if constant else ''}", made, 2 * batch * m * k * n, bytes_of(a, b, c)


def matmul(rng):
    batch = int(rng.choice([1, 1, 1, 3, 8]))
    m, k, n = (int(x) for x in rng.integers([1, 8, 8], [400, 900, 900]))
    return product(rng, batch, m, k, n)


def thin(rng):
    """Few rows, or few columns."""
    few, many = int(rng.integers(1, 14)), int(rng.integers(64, 1500))
    m, n = (few, many) if rng.random() < 0.7 else (many, few)
    return product(rng, int(rng.choice([1, 1, 6])), m, int(rng.integers(32, 900)), n)


def deep(rng):
    """Sums that are long beside their results."""
    m, n = (int(x) for x in rng.integers([1, 8], [160, 200]))
    return product(rng, int(rng.choice([1, 1, 2])), m, int(rng.integers(1500, 7000)), n)


def einsum(rng):
    labels = "abcde"[: int(rng.integers(3, 6))]
    while True:
        size = {l: int(rng.choice([3, 7, 16, 33, 65, 130, 200])) for l in labels}
        terms = ["".join(rng.permutation([l for l in labels if rng.random() < 0.7])) for _ in range(2)]
        used = sorted(set("".join(terms)))
        kept = [l for l in used if rng.random() < 0.6]
        summed = [l for l in used if l not in kept]
        work = int(np.prod([size[l] for l in used]))
        if all(terms) and kept and summed and set(terms[0]) & set(terms[1]) and 1e5 < work < 2e8:
            break
    result = "".join(rng.permutation(kept))
    shapes = [[size[l] for l in t] for t in terms]
    out = [size[l] for l in result]
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation=f"{terms[0]},{terms[1]}->{result}")
    name = f"einsum {terms[0]},{terms[1]}->{result} " + " ".join(f"{l}={size[l]}" for l in used)
    return name, model(node, dict(zip("ab", shapes)), {}, out), 2 * work, bytes_of(*shapes, out)


def conv(rng):
    groups = int(rng.choice([1, 1, 1, 4]))
    channels, filters = (int(x) * groups for x in rng.integers([2, 3], [150, 150] if groups == 1 else [24, 24]))
    kernel, stride = int(rng.choice([1, 3, 3, 5])), int(rng.choice([1, 1, 2]))
    h, w = (int(x) for x in rng.integers(kernel + stride, 60, 2))
    pad = kernel // 2
    oh, ow = ((x + 2 * pad - kernel) // stride + 1 for x in (h, w))
    x, k, y = [1, channels, h, w], [filters, channels // groups, kernel, kernel], [1, filters, oh, ow]
    weight = (rng.standard_normal(k) / np.sqrt(k[1] * kernel**2)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "k"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                            group=groups)
    name = f"conv {channels}->{filters} {h}x{w} kernel {kernel} stride {stride} groups {groups}"
    return name, model(node, {"x": x}, {"k": weight}, y), 2 * filters * k[1] * kernel**2 * oh * ow, bytes_of(x, k, y)


def run_json(*words):
    done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="per model")
    parser.add_argument("--json", type=pathlib.Path, help="write all results to this file")
    options = parser.parse_args()
    limits = run_json(options.tenon, "doctor", "--json")["limits"]
    peak, bandwidth = limits["fma_gflops_one_thread"] * 1e9, limits["memory_read_gbytes_one_thread"] * 1e9
    rng = np.random.default_rng(options.seed)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "generated.onnx"
        for i in range(options.count):
            name, made, flop, size = (matmul, einsum, conv)[i % 3](rng)
            onnx.save(made, path)
            try:
                timed = run_json(options.tenon, "bench", path, "--threads", 1, "--seconds", options.seconds, "--json")
            except subprocess.CalledProcessError as error:
                print(f"failed: {name}\n{error.stderr}")
                continue
            seconds = timed["latency_ms"]["min"] * 1e-3
            limit = max(flop / peak, size / bandwidth) + CALL_SECONDS
            results.append({"name": name, "ms": seconds * 1e3, "limit_ms": limit * 1e3, "share": limit / seconds})
    results.sort(key=lambda r: r["share"])
    shares = np.array([r["share"] for r in results])
    print(f"{len(shares)} generated programs on one thread; limits: {peak / 1e9:.0f} GFLOP/s, {bandwidth / 1e9:.0f} GB/s")
    print("share of the limit   " + "   ".join(f"{p}th {np.percentile(shares, p):.0%}" for p in (5, 25, 50, 75, 95)))
    counts, _ = np.histogram(np.minimum(shares, 0.999), bins=10, range=(0, 1))
    for i, count in enumerate(counts):
        print(f"{i * 10:3d} to {i * 10 + 10:3d} %  {'#' * int(count)}")
    print("slowest:")
    for r in results[:8]:
        print(f"  {r['share']:5.0%}  {r['ms']:9.3f} ms  {r['name']}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
