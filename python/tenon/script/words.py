# SPDX-License-Identifier: Apache-2.0
"""Words of script text as Python sees them where it runs a signature; the parser gives them their meaning."""


class Word:
    """A word that Python only hands on: `T.Buffer((n,), "float32")` in a signature."""

    def __init__(self, path):
        self._path = path

    def __call__(self, *args, **keywords):
        return self

    def __getitem__(self, key):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Word(f"{self._path}.{name}")

    def __repr__(self):
        return self._path
