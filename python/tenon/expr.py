# SPDX-License-Identifier: Apache-2.0
"""Functions that make expressions, from the words of script text."""
import functools
import re

from .ffi import get_global_func
from .object import dtype

_DTYPE = re.compile(r"(bool|u?int\d+|b?float\d+\w*)(x\w+)?$")
_WORDS = frozenset("""And Broadcast Div Not Or Ramp Shuffle add call call_extern call_prim_func cast ceildiv floordiv floormod
    if_then_else infinity max max_value min min_value multiply reinterpret subtract truncdiv truncmod""".split())


class ScriptFunction(dtype):
    """A word such as `T.exp` or `T.float32`: called, it makes an expression; `T.float32` is a data type, too."""

    __slots__ = ("path",)

    def __new__(cls, path):
        self = super().__new__(cls, path.partition(".")[2])
        self.path = path
        return self

    def __call__(self, *args, **keywords):
        """ScriptError (T02xx) for what the script's parser refuses."""
        values = {f"_{i}": value for i, value in enumerate([*args, *keywords.values()])}
        words = [f"_{i}" for i in range(len(args))] + [f"{k}=_{len(args) + i}" for i, k in enumerate(keywords)]
        return get_global_func("script.value")(f"{self.path}({', '.join(words)})", values)

    def __repr__(self):
        return self.path



@functools.cache
def _intrinsics():
    return frozenset(get_global_func("script.intrinsics")())


def is_word(name):
    """Whether script text has a function `T.name`."""
    return name in _WORDS or bool(_DTYPE.match(name)) or name in _intrinsics()
