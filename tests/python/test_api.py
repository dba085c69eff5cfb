# SPDX-License-Identifier: Apache-2.0
"""What the package offers has words, and docs/python_api.md has all of them."""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import unittest

try:
    import onnx  # noqa: F401  (tenon.onnx_backend stands on it)
except ImportError:
    raise unittest.SkipTest("onnx is not here") from None

import tenon

ROOT = pathlib.Path(os.environ.get("TENON_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])


def generator():
    loader = importlib.machinery.SourceFileLoader("python_api_page", str(ROOT / "scripts" / "python_api_page"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Api(unittest.TestCase):
    def test_every_public_name_has_words(self):
        page, without = generator(), []
        for name in page.MODULES:
            module = importlib.import_module(name)
            described = [(name, module), *((f"{name}.{key}", value) for key, value in page.public(module))]
            for key, value in list(described):
                if isinstance(value, type):
                    described += [(f"{key}.{m}", f) for m, f in page.members(value)]
            without += [key for key, value in described if not (value.__doc__ or "").strip()]
        self.assertEqual(without, [])

    def test_registered_functions_have_words(self):
        tenon.get_global_func("ir.make")  # loads the compiler
        self.assertEqual([name for name in tenon.list_global_func_names()
                          if tenon.function_info(name)[0].endswith(".cpp") and not tenon.function_info(name)[3].strip()], [])

    @unittest.skipUnless(sys.version_info[:2] == (3, 11), "Python 3.11 writes the page; others write signatures of C otherwise")
    def test_the_page_is_of_today(self):
        self.assertEqual(generator().page(), (ROOT / "docs" / "python_api.md").read_text(),
                         "scripts/python_api_page writes it anew")


if __name__ == "__main__":
    unittest.main()
