# SPDX-License-Identifier: Apache-2.0
"""The programs of the pages and notebooks run as they stand."""
import contextlib
import importlib.util
import io
import json
import linecache
import os
import pathlib
import re
import shutil
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TENON_SOURCE_DIR") or pathlib.Path(__file__).parents[2])
NOTEBOOKS = ROOT / "examples" / "notebooks"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def run(cells, name):
    """Cells one after the other in one namespace, in a folder with the digits as model.onnx. Gives what they print."""
    names, out = {"__name__": "__main__"}, io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(out):
        shutil.copy(ROOT / "examples" / "digits" / "digits.onnx", "model.onnx")
        for number, cell in enumerate(cells):
            file = f"<{name}, block {number + 1}>"  # decorators read the source of functions
            linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
            exec(compile(cell, file, "exec"), names)
    return out.getvalue()


@unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not here")
class Pages(unittest.TestCase):
    def test_readme(self):
        self.assertIn("float32", run(blocks("README.md"), "README.md"))

    def test_external_codegen(self):
        self.assertIn("my.dense_relu", run(blocks("docs/external_codegen.md"), "external_codegen.md"))

    def test_tutorial(self):
        self.assertIn("T.vectorized(32)", run(blocks("docs/python_tutorial.md"), "python_tutorial.md"))

    def test_cells_of_notebooks(self):
        self.assertGreaterEqual(len(list(NOTEBOOKS.glob("*.ipynb"))), 3)
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            with self.subTest(path.name):
                cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
                run(["".join(c["source"]) for c in cells], path.name)

    @unittest.skipUnless(importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"), "nbclient is not here")
    def test_notebooks_in_a_kernel(self):
        import nbclient
        import nbformat
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            with self.subTest(path.name), tempfile.TemporaryDirectory() as folder:
                shutil.copy(ROOT / "examples" / "digits" / "digits.onnx", pathlib.Path(folder) / "model.onnx")
                notebook = nbformat.read(path, as_version=4)
                nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
                shown = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
                self.assertTrue(shown)


if __name__ == "__main__":
    unittest.main()
