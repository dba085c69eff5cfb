# SPDX-License-Identifier: Apache-2.0
"""include/tenon/ffi.h: what it declares is listed with the version in which it came."""
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(os.environ.get("TENON_SOURCE_DIR") or pathlib.Path(__file__).parents[2])


class Versions(unittest.TestCase):
    def test_every_function_has_its_version(self):
        header = (ROOT / "include/tenon/ffi.h").read_text()
        code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        declared = set(re.findall(r"^TENON_API [^;]*?\b(tenon_ffi_\w+)\(", code, flags=re.M))
        lines = [line.split() for line in (ROOT / "tests/ffi/versions.txt").read_text().splitlines() if line[0] != "#"]
        self.assertEqual(declared, {name for _, name in lines}, "a function that is added has a line in tests/ffi/versions.txt, "
                         "and raises TENON_FFI_VERSION")
        used = (ROOT / "tests/ffi/test_ffi.c").read_text()
        self.assertEqual([name for name in sorted(declared) if name + "(" not in used], [], "tests/ffi/test_ffi.c uses every function")
        versions = [int(v) for v, _ in lines]
        self.assertEqual(versions, sorted(versions))
        self.assertEqual(int(re.search(r"#define TENON_FFI_VERSION (\d+)", header)[1]), versions[-1])


if __name__ == "__main__":
    unittest.main()
