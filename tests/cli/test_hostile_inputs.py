#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inputs that lie: files and texts given to `run -i` that are cut, announce more than they hold, or are something else.
Each ends with a coded error that names the file or the input, and little memory is taken. Standard library only.

Run by ctest: test_hostile_inputs.py TENON SOURCE-DIR"""
import os
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from support import Command, SANITIZED, TENON  # noqa: E402

FLOAT, INT64, STRING = 1, 7, 8
HUGE = 1 << 40
KILOBYTES_ALLOWED = 256 * 1024  # above what a run of a good input takes


def varint(v):
    v &= (1 << 64) - 1
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def number(field, v):
    return varint(field << 3) + varint(v)


def part(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def text(field, s):
    return part(field, s if isinstance(s, bytes) else s.encode())


def tensor(dims, elements=FLOAT, raw=None, name="x", more=b""):
    return b"".join(number(1, d) for d in dims) + number(2, elements) + text(8, name) + (part(9, raw) if raw is not None else b"") + more


def tensor_type(elements, dims=None):
    shape = b"" if dims is None else part(2, b"".join(part(1, text(2, d) if isinstance(d, str) else number(1, d)) for d in dims))
    return part(1, number(1, elements) + shape)


def sequence_type(item):
    return part(4, part(1, item))


def optional_type(item):
    return part(9, part(1, item))


def model(kind, made=None):
    """x → Identity → y"""
    node = text(1, "x") + text(2, "y") + text(4, "Identity")
    graph = part(1, node) + text(2, "g") + part(11, text(1, "x") + part(2, kind)) + part(12, text(1, "y") + part(2, made or kind))
    return number(1, 8) + part(7, graph) + part(8, number(2, 20))


FLOATS = tensor_type(FLOAT, [2])
MODELS = {"tensor": model(FLOATS), "free": model(tensor_type(FLOAT, ["n"])), "text": model(tensor_type(STRING, ["n"])),
          "sequence": model(sequence_type(tensor_type(FLOAT))), "optional": model(optional_type(tensor_type(FLOAT))),
          "nested": model(sequence_type(sequence_type(tensor_type(FLOAT)))),
          "maybe": model(optional_type(sequence_type(tensor_type(FLOAT)))), "texts": model(sequence_type(tensor_type(STRING)))}
ONES = struct.pack("<2f", 1, 1)
GOOD = tensor([2], raw=ONES)


def npy(header, data=ONES, version=1, length=None):
    header = header.encode("latin1")
    size = len(header) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + header + data


def described(descr="'<f4'", shape="(2,)", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def deep(field, levels, content):
    for _ in range(levels):
        content = part(field, content)
    return content


TENSOR_FILES = {
    "empty": b"", "words": b"hello, this is no tensor\n", "noise": bytes(range(255, 200, -1)), "zeros": bytes(64),
    "model": MODELS["tensor"], "sequence": part(3, GOOD), "optional_sequence": number(2, 2) + part(5, part(3, GOOD)), "negative": tensor([-2], raw=ONES), "overflow": tensor([HUGE, HUGE], raw=ONES),
    "huge": tensor([HUGE], raw=ONES), "wraps": tensor([1 << 62, 4], raw=ONES), "short": tensor([2], raw=ONES[:7]),
    "long": tensor([2], raw=ONES * 3), "none": tensor([2]), "untyped": number(1, 2) + part(9, ONES),
    "unknown": tensor([2], 99, ONES), "complex": tensor([1], 14, ONES), "strings": tensor([2], STRING, more=text(6, "a") * 2),
    "strings_cut": tensor([3], STRING, more=text(6, "a")), "strings_huge": tensor([HUGE], STRING, more=text(6, "a")),
    "strings_raw": tensor([2], STRING, ONES), "dimensions": tensor([1] * 65, raw=ONES[:4]), "two_payloads": tensor([2], raw=ONES, more=part(4, ONES)),
    "integers": tensor([1], INT64, ONES), "rows": tensor([2, 1], raw=ONES), "three": tensor([3], raw=ONES + ONES[:4]),
    "outside": tensor([2], more=part(13, text(1, "location") + text(2, "/etc/passwd")) + number(14, 1)),
    "beyond": tensor([2])[:-3] + varint(9 << 3 | 2) + varint(1 << 62) + ONES, "lengths": part(9, ONES)[:1] + b"\xff" * 9 + b"\x01" + ONES,
    "endless": b"\x08" + b"\xff" * 12, "field_zero": GOOD + b"\x00\x00", "encoding": GOOD + b"\x3f\x01", "place": tensor([2], raw=ONES, more=number(14, 9)),
}
SEQUENCE_FILES = {
    "tensor": GOOD, "words": b"hello", "of_integers": part(3, tensor([1], INT64, ONES)), "of_strings": part(3, tensor([1], STRING, more=text(6, "a"))),
    "of_sequences": part(5, part(3, GOOD)), "huge": part(3, tensor([HUGE], raw=ONES)),
    "model": MODELS["sequence"], "second_cut": part(3, GOOD) + part(3, tensor([2], raw=ONES[:5])), "cut": part(3, GOOD)[:-2], "deep": deep(5, 3000, part(3, GOOD)),
    "deep_within_limits": deep(5, 60, part(3, GOOD)), "negative": part(3, tensor([-1], raw=ONES)), "untyped": part(3, part(9, ONES)),
    "lengths": b"\x1a" + varint(1 << 63) + GOOD, "tiny": part(3, b"") * 400_000,
}
NESTED_FILES = {"flat": part(3, GOOD), "deeper": part(5, part(5, part(3, GOOD))), "mixed": part(5, part(3, GOOD)) + part(3, GOOD)}
OPTIONAL_FILES = {"tensor": GOOD, "of_a_sequence": part(5, part(3, GOOD)), "of_an_optional": part(7, part(7, part(5, part(3, GOOD)))), "deep": deep(7, 3000, part(3, GOOD)), "cut": part(3, GOOD)[:-1],
                  "of_integers": part(3, tensor([1], INT64, ONES)), "huge": part(3, tensor([HUGE, HUGE], raw=ONES))}
NPY_FILES = {
    "empty": b"", "magic": b"\x93NUMPX\x01\x00" + bytes(100), "cut": b"\x93NUMPY\x01\x00", "version": npy(described(), version=9),
    "header_cut": npy(described(), length=60000)[:100], "header_huge": npy(described(), version=2, length=(1 << 32) - 1),
    "no_header": npy(""), "no_shape": npy("{'descr': '<f4', 'fortran_order': False}"), "no_descr": npy("{'fortran_order': False, 'shape': (2,)}"),
    "objects": npy(described("'|O'")), "records": npy(described("[('a', '<f4')]")), "texts": npy(described("'<U4'")), "complex": npy(described("'<c8'")),
    "wide": npy(described("'<f16'")), "unquoted": npy(described("<f4")), "negative": npy(described(shape="(-2,)")), "open": npy(described(shape="(2,")),
    "nested": npy(described(shape="((2,),)")), "letters": npy(described(shape="(two,)")), "floats": npy(described(shape="(2.0,)")),
    "overflow": npy(described(shape=f"({1 << 62}, {1 << 62})")), "digits": npy(described(shape="(" + "9" * 400 + ",)")), "huge": npy(described(shape=f"({HUGE},)")),
    "wraps": npy(described("'<f8'", shape=f"({1 << 61},)")), "short": npy(described(shape="(3,)")), "no_data": npy(described(), b""),
    "other_shape": npy(described(shape="(1, 2)")), "other_type": npy(described("'<i8'", "(1,)")), "fortran": npy(described(shape=f"({HUGE}, 3)", order="True")),
}
TEXTS = ["", "[", "[1", "[1,2]]", "[[1,2],[3]]", "[1,[2]]", "[" * 100_000, "[" * 9 + "]" * 9, "[nan,x]", "[1,,2]", "2xf32=", "2xf32=abc", "2xf99=1", "xf32=1", "-2xf32=1",
         "99999999999999999999xf32=1", f"{1 << 59}xf64=1", "999999999999999999x999999999999999999xf32=1", f"{HUGE}xf32", "2xf32=@absent.bin", "@absent.npy", "@absent.pb",
         "@/", "@/dev/null", "@/dev/zero", "2xf32=@/dev/zero", "2xf32=@/dev/null", "2xf32x4=1", "3xf32=1", "1x2xf32=1", "2xi64=1"]
STRINGS = ["[", "a", '["a"', '["a", 1]', '[["a"], "b"]', '[["a"], ["b", "c"]]', '["\\ud800"]', '["\\x"]', "[" * 100_000, "[" * 9 + "]" * 9, "{}", "null", b'["\xff"]', '[["a"]]']


class HostileInputs(Command):
    def run_with(self, kind, given):
        """What came of `run -i x=GIVEN`, and the memory that it took."""
        path = self.tmp / f"{kind}.onnx"
        path.write_bytes(MODELS[kind])
        value = b"x=" + (given if isinstance(given, bytes) else os.fsencode(str(given)))
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen([TENON, "run", path, "-i", value], stdout=out, stderr=errors, stdin=subprocess.DEVNULL, cwd=self.tmp)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            return process.returncode, errors.read().decode(errors="replace"), usage.ru_maxrss

    def refuses(self, kind, given, names=()):
        status, said, kilobytes = self.run_with(kind, given)
        self.assertIn(status, (2, 3, 4, 5), f"{status}: {said[:600]}")
        self.assertRegex(said, r"error\[T\d{4}\]: ")
        self.assertTrue(not names or any(n in said for n in names), said[:600])
        if not SANITIZED:
            self.assertLess(kilobytes, self.usual + KILOBYTES_ALLOWED)

    def setUp(self):
        super().setUp()
        (self.tmp / "good.pb").write_bytes(GOOD)
        status, said, self.usual = self.run_with("tensor", "@good.pb")
        self.assertEqual(status, 0, said)

    def refuses_files(self, kind, files, suffix="pb"):
        for name, content in files.items():
            with self.subTest(f"{kind} {name}"):
                file = f"{name}_bad.{suffix}"
                (self.tmp / file).write_bytes(content)
                self.refuses(kind, "@" + file, [file, "'x'", "`x`", "`main`"])

    def test_what_is_good_is_taken(self):
        for kind, content in (("sequence", part(3, GOOD) * 2), ("sequence", b""), ("optional", b""), ("optional", part(3, GOOD)), ("nested", part(5, part(3, GOOD))),
                              ("maybe", part(5, part(3, GOOD))), ("text", tensor([1], STRING, more=text(6, b"\xff\0a"))), ("texts", part(3, tensor([0], STRING)))):
            (self.tmp / "x.pb").write_bytes(content)
            status, said, _ = self.run_with(kind, "@x.pb")
            self.assertEqual(status, 0, f"{kind}: {said}")
        for value in ("[1,2]", "2xf32=0.5", "2xf32"):
            self.assertEqual(self.run_with("tensor", value)[0], 0, value)
        (self.tmp / "x.npy").write_bytes(npy(described()))
        self.assertEqual(self.run_with("tensor", "@x.npy")[0], 0)
        self.assertEqual(self.run_with("text", '["a", "\\u00e4"]')[0], 0)

    def test_tensor_files(self):
        self.refuses_files("tensor", TENSOR_FILES)

    def test_every_cut_of_a_tensor_file(self):
        self.refuses_files("tensor", {f"cut_{n}": GOOD[:n] for n in range(len(GOOD))})

    def test_sequence_files(self):
        self.refuses_files("sequence", SEQUENCE_FILES)
        self.refuses_files("nested", NESTED_FILES)

    def test_optional_files(self):
        self.refuses_files("optional", {k: v for k, v in OPTIONAL_FILES.items()})
        self.refuses_files("maybe", {"tensor": part(3, GOOD), "deeper": part(5, part(5, part(3, GOOD)))})

    def test_npy_files(self):
        self.refuses_files("tensor", NPY_FILES, "npy")

    def test_texts(self):
        for value in TEXTS:
            with self.subTest(value[:60]):
                self.refuses("tensor", value)
        for value in STRINGS:
            with self.subTest(str(value[:60])):
                self.refuses("text", value)

    def test_another_kind_of_value(self):
        for kind in ("sequence", "optional", "nested", "maybe", "texts", "text"):
            with self.subTest(kind):
                (self.tmp / "x.npy").write_bytes(npy(described("'<i8'", "(1,)")))
                self.refuses(kind, "@x.npy")
        for kind in ("sequence", "nested", "texts", "text"):
            with self.subTest(kind):
                self.refuses(kind, "2xf32=1")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
