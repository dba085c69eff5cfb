#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs model.onnx with the library of its operator, as a model and as an artifact, and checks the result.

Uses nothing but the `tenon` command and Python's standard library."""
import argparse
import pathlib
import struct
import subprocess
import tempfile

MODEL = pathlib.Path(__file__).resolve().parent / "model.onnx"


def write_npy(path, rows):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    values = [v for row in rows for v in row]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--library", required=True)
    args = parser.parse_args()
    custom = ["--custom", args.library]
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        write_npy(tmp / "a.npy", [[1, 2, 3], [4, 5, 6]])
        write_npy(tmp / "b.npy", [[0, 4, 3], [1, 5, 2]])
        inputs = ["--input", f"a=@{tmp / 'a.npy'}", "--input", f"b=@{tmp / 'b.npy'}", "-o", str(tmp / "out")]

        def tenon(*words):
            return subprocess.run([args.tenon, *map(str, words)], capture_output=True, text=True)

        def values():
            raw = (tmp / "out" / "output_0.npy").read_bytes()
            (length,) = struct.unpack_from("<H", raw, 8)
            return struct.unpack("<6f", raw[10 + length:])

        without = tenon("run", MODEL, *inputs)
        assert without.returncode != 0 and "T2101" in without.stderr and "example::SquareDifference" in without.stderr, without
        done = tenon("run", MODEL, *custom, *inputs)
        assert done.returncode == 0, done.stderr
        assert values() == (0.5, 2, 0, 4.5, 0, 8), values()
        done = tenon("compile", MODEL, *custom, "-o", tmp / "model.so")  # any n
        assert done.returncode == 0, done.stderr
        (tmp / "out" / "output_0.npy").unlink()
        done = tenon("run", tmp / "model.so", *custom, *inputs)
        assert done.returncode == 0, done.stderr
        assert values() == (0.5, 2, 0, 4.5, 0, 8), values()
        here = pathlib.Path(args.library).resolve()  # a name without a folder is a file here
        done = subprocess.run([pathlib.Path(args.tenon).resolve(), "inspect", MODEL, "--custom", here.name], cwd=here.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        missing = tenon("run", MODEL, "--custom", tmp / "absent.so", *inputs)
        assert missing.returncode != 0 and "T0615" in missing.stderr, missing


main()
