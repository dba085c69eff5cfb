# SPDX-License-Identifier: Apache-2.0
"""The text of decorated functions and classes, and the values around them."""
import linecache
import sys
import types

from ..ffi import get_global_func
from ..object import dtype


class Surroundings:
    """The names that the text of `functions`, defined in `frame`, sees: those of its closures, of the functions around
    it that run now, and of its file. Names that stand in annotations alone are in no closure, so the frames count."""

    def __init__(self, functions, frame):
        self.names = names = dict(frame.f_globals)
        inside = functions[0].__qualname__.split(".<locals>.") if functions else []
        around = {".<locals>.".join(inside[:n]) for n in range(1, len(inside))}
        frames, f = [frame], frame.f_back
        while f:
            if f.f_globals is frame.f_globals and f.f_code.co_qualname in around:
                frames.append(f)
            f = f.f_back
        for f in reversed(frames):
            names.update(f.f_locals)
        for function in functions:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
                try:
                    names[name] = cell.cell_contents
                except ValueError:  # not bound yet
                    pass

    def has(self, name):
        return name in self.names

    def evaluate(self, expression, place):
        try:
            value = self.names.get(expression, self)
            return plain(eval(f"({expression}\n)", self.names) if value is self else value)
        except Exception as e:
            e.add_note(f"in `{expression}` at {place}")
            raise

    @property
    def aliases(self):
        from . import ir, relax, tir
        modules = {id(ir): "I", id(relax): "R", id(tir): "T"}
        return {name: modules[id(value)] for name, value in self.names.items() if id(value) in modules}


def plain(value):
    """A value as script text takes it: data types and numbers of NumPy become ours."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, type) and any(c.__module__ == "numpy" and c.__name__ == "generic" for c in value.__mro__):
        return dtype(value.__name__)
    if isinstance(value, type):
        return lambda *args: plain(value(*args))
    if type(value).__module__.startswith("numpy") and not isinstance(value, type):
        if hasattr(value, "kind"):
            return dtype(value.name)
        if getattr(value, "shape", None) == ():
            return value.item()
    return value


def in_class(frame):
    """Whether a decorator runs in the body of a class that becomes a module: the class reads it then."""
    if "__qualname__" not in frame.f_locals or "__module__" not in frame.f_locals:
        return False
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    for i in range(frame.f_code.co_firstlineno - 1, len(lines)):
        if lines[i].lstrip().startswith("class "):
            return False
        if "ir_module" in lines[i]:
            return True
    return False


def last_line(code):
    last = max((p[1] or 0 for p in code.co_positions()), default=0) or \
        max(line or 0 for _, _, line in code.co_lines())
    return max([last] + [last_line(c) for c in code.co_consts if hasattr(c, "co_positions")])


def indentation(line):
    return len(line) - len(line.lstrip())


def source_of(name, filename, module_globals, first, last):
    """The text from line `first` to the end of the block that holds line `last`, behind as many empty lines as it has
    before it, so that places in it are those of the file."""
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, module_globals)
    if not lines:
        raise OSError(f"the source text of `{name}` is not there ({filename}): define it in a file or a notebook, or give "
                      "the text to tenon.parse")
    base = indentation(lines[first - 1])
    if not last:  # a class without functions
        last = next(i for i in range(first, len(lines) + 1) if lines[i - 1].lstrip().startswith("class "))
    for line in lines[last:]:
        inner = line.lstrip()
        if inner and indentation(line) <= base and inner[0] not in "#)]}":
            break
        last += 1
    return "\n" * (first - 1) + "".join(lines[first - 1:last])


def read(name, text, filename, around):
    return get_global_func("script.parse")(text, filename, around.has, around.evaluate, around.aliases)


def function_text(f):
    """The text of a function. TypeError for what is none, or has no name."""
    if not isinstance(f, types.FunctionType) or f.__name__ == "<lambda>":
        raise TypeError(f"script text is the body of a function (`def`), not of {f!r}")
    code = f.__code__
    return source_of(f.__name__, code.co_filename, f.__globals__, code.co_firstlineno, last_line(code))


def read_function(f, frame, check):
    """The one function of a program that a decorated function stands for."""
    text = function_text(f)
    module = read(f.__name__, text, f.__code__.co_filename, Surroundings([f], frame))
    if len(module.functions) > 1:
        raise ValueError(f"`{f.__name__}` calls other functions of programs ({', '.join(list(module.functions)[1:])}): "
                         "put it into a class with @I.ir_module, which holds them all")
    if check:
        verify(module)
    return module.functions[next(iter(module.functions))]


def read_module(cls, frame, check):
    if not isinstance(cls, type):
        raise TypeError(f"ir_module stands before a class, not before {cls!r}")
    functions = [f for f in vars(cls).values() if hasattr(f, "__code__")]
    lowest = max(functions, key=lambda f: f.__code__.co_firstlineno, default=None)
    last = last_line(lowest.__code__) if lowest else 0
    text = source_of(cls.__name__, frame.f_code.co_filename, frame.f_globals, frame.f_lineno, last)
    module = read(cls.__name__, text, frame.f_code.co_filename, Surroundings(functions, frame))
    if check:
        verify(module)
    return module


def read_macro(f, frame, hygienic):
    text, around = function_text(f), Surroundings([f], frame)
    return get_global_func("script.macro")(text, f.__code__.co_filename, around.has, around.evaluate,
                                           around.aliases, hygienic)


def verify(module):
    get_global_func("ir.verify")(module)


def parse(text, name="<text>"):
    """The module of script text. ScriptError (T02xx) with every mistake; `name` stands for the file in messages."""
    return get_global_func("ir.parse")(text, name)


def caller():
    """The frame that called the public function which called this."""
    return sys._getframe(2)
