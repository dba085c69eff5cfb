#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the digits model, classifies the held-out pictures, and shows some of them.

Uses nothing but the `tenon` command and Python's standard library. `make run` calls it."""
import argparse
import array
import ast
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHADES = " .:-=+*#%@"


def read_npy(path):
    """Shape and values of a .npy file of float32 or int64."""
    raw = path.read_bytes()
    if raw[:6] != b"\x93NUMPY":
        raise ValueError(f"{path} is no .npy file")
    (length,) = struct.unpack_from("<H", raw, 8)
    header = ast.literal_eval(raw[10:10 + length].decode())
    values = array.array({"<f4": "f", "<i8": "q"}[header["descr"]])
    values.frombytes(raw[10 + length:])
    return header["shape"], values


def picture(pixels):
    """An 8x8 picture as text, two characters a pixel."""
    return ["".join(SHADES[min(9, int(pixels[8 * y + x] * 9.99))] * 2 for x in range(8)) for y in range(8)]


def show(indices, pixels, labels, predicted, sure):
    for start in range(0, len(indices), 4):
        row = indices[start:start + 4]
        pictures = [picture(pixels[64 * i:64 * i + 64]) for i in row]
        for y in range(8):
            print("   ".join(p[y] for p in pictures).rstrip())
        notes = []
        for i in row:
            verdict = f"a {predicted[i]} ({sure[i]:.0%})"
            notes.append((verdict if predicted[i] == labels[i] else f"{verdict}, not {labels[i]}").ljust(16))
        print("   ".join(notes).rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", default="tenon", help="the tenon command")
    tenon = parser.parse_args().tenon

    def call(*arguments):
        done = subprocess.run([tenon, *map(str, arguments)], stdout=subprocess.PIPE, check=False)
        if done.returncode:
            sys.exit(f"digits: `{tenon} {arguments[0]}` ended with {done.returncode}")
        return json.loads(done.stdout)

    shape, pixels = read_npy(HERE / "test_images.npy")
    _, labels = read_npy(HERE / "test_labels.npy")
    count = shape[0]
    with tempfile.TemporaryDirectory() as folder:
        artifact = pathlib.Path(folder) / "digits.so"
        compiled = call("compile", HERE / "digits.onnx", "-o", artifact, "--json")
        ran = call("run", artifact, "-i", f"image=@{HERE / 'test_images.npy'}", "-o", folder, "--json")
        _, scores = read_npy(pathlib.Path(folder) / "output_0.npy")
        timed = call("bench", artifact, "--dim", "batch=1", "--seconds", "0.5", "--threads", "1", "--json")

    predicted = [max(range(10), key=lambda d: scores[10 * i + d]) for i in range(count)]
    sure = [scores[10 * i + predicted[i]] for i in range(count)]
    right = sum(p == l for p, l in zip(predicted, labels))
    wrong = [i for i in range(count) if predicted[i] != labels[i]]
    show(list(range(6)) + wrong[:2], pixels, labels, predicted, sure)
    print(f"accuracy      {right / count:.1%} of {count} held-out pictures")
    print(f"compile       {compiled['compile_ms']:.0f} ms to a {compiled['bytes'] / 1e3:.0f} KB artifact for any batch size")
    print(f"load          {ran['load_ms']:.1f} ms")
    print(f"latency       {timed['latency_ms']['median'] * 1e3:.1f} us for one picture on one thread; {ran['run_ms']:.2f} ms for all {count}")
    model = (HERE / "digits.onnx").relative_to(pathlib.Path.cwd()) if HERE.is_relative_to(pathlib.Path.cwd()) else HERE / "digits.onnx"
    print(f"""
What to try next:
  {tenon} inspect {model}                       what is in a model
  {tenon} compile {model} --emit tir -o -       the loops it became
  {tenon} bench {model} --kernels               where the time goes
  {tenon} run YOUR_MODEL.onnx                   your own model, with random inputs""")
    if right / count < 0.97:
        sys.exit("digits: the accuracy is below 97 %, which the trained model reaches")


if __name__ == "__main__":
    main()
