# SPDX-License-Identifier: Apache-2.0
"""What editors find: "go to definition" leads to a line of a stub that names the line of the source."""
import importlib.util
import os
import pathlib
import re
import unittest

import tenon

ROOT = pathlib.Path(os.environ.get("TENON_SOURCE_DIR") or pathlib.Path(__file__).parents[2])
STUBS = pathlib.Path(tenon.__file__).parent
# What is asked for, and what stands where it leads to.
QUESTIONS = {
    "from tenon import op; op.nn.relu": "register",
    "from tenon import op; op.nn.dense": "register_op(\"nn.dense\"",
    "from tenon import graph; graph.BlockBuilder().emit_te": "def emit_te(",
    "from tenon import te; te.compute": "def compute(",
    "from tenon import tir; tir.Schedule(None).split": "}};",  # the end of the primitive's record
}


@unittest.skipUnless((STUBS / "op.pyi").exists(), "the stubs are not built")
class Editor(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("jedi"), "jedi is not here")
    def test_go_to_definition(self):
        import jedi
        for question, wanted in QUESTIONS.items():
            with self.subTest(question):
                found = jedi.Script(question).goto(follow_imports=True, prefer_stubs=True)
                self.assertEqual([d.module_path.suffix for d in found], [".pyi"])
                line = found[0].module_path.read_text().splitlines()[found[0].line - 1]
                file, number = re.search(r"# ((?:src|python)/\S+):(\d+)$", line).groups()
                self.assertIn(wanted, (ROOT / file).read_text().splitlines()[int(number) - 1])


if __name__ == "__main__":
    unittest.main()
