# SPDX-License-Identifier: Apache-2.0
"""Stubs for editors and type checkers, from the same records that classes are made of: `python3 -m tenon.stubs FOLDER`
writes a .pyi for each namespace, with the source line where each function, operator and primitive is defined."""
import ast
import enum
import importlib
import inspect
import pathlib
import re
import sys

from . import _core, graph, ir, op, te, tir  # noqa: F401  (they add members to classes)
from .ffi import function_info, get_global_func, list_global_func_names, load_compiler
from .object import _EXTRA

NAMESPACES = ("attrs", "graph", "ir", "target", "te", "tir")
# What Python defines alone; their own annotations are kept.
MODULES = ("executable", "onnx", "ort_value", "session", "session_options", "timing", "transform", "virtual_machine")
OWN = ("Array", "Function", "Map", "NDArray", "Object", "dtype")
HEAD = "# Written by `python3 -m tenon.stubs`: do not edit.\nfrom collections.abc import Callable\nfrom contextlib import AbstractContextManager\nfrom typing import Any\n\nimport tenon\n" + "".join(
    f"import tenon.{name}\n" for name in NAMESPACES)


def split_signature(head):
    """"f(a: int, b: str = ...) -> int" as ([("a", "int", False), ("b", "str", True)], "int")."""
    inner, _, result = head.partition("(")[2].rpartition(") -> ")
    parts, depth, start = [], 0, 0
    for i, c in enumerate(inner + ","):
        depth += (c == "[") - (c == "]")
        if c == "," and not depth:
            name, _, type_ = inner[start:i].partition(":")
            if name.strip():
                parts.append((name.strip(), type_.removesuffix(" = ...").strip(), type_.endswith(" = ...")))
            start = i + 1
    return parts, result


def python_type(name):
    """A static type of C++ as an annotation: "Map[str, tir.Var]" is `tenon.Map[str, tenon.tir.Var]`. Types without a
    class of their own in a namespace are objects."""
    def qualified(match):
        word = match[0]
        if word in ("int", "float", "bool", "str", "Any", "None"):
            return word
        known = word in OWN or word.partition(".")[0] in NAMESPACES
        return "tenon." + (word if known else "Object")

    return re.sub(r"[\w.]+", qualified, name)


def accepted(name):
    """What may be given where a value of a type is kept."""
    if name == "tir.PrimExpr":
        return "tenon.tir.PrimExpr | int | float"
    if name == "dtype":
        return "tenon.dtype | str"
    if name in ("Block", "BlockOrLoop"):  # a handle, or the name of a block
        return "tenon.Object | str"
    if name == "tir.IndexMap":
        return "tenon.tir.IndexMap | Callable[..., Any]"
    if name == "Function":
        return "tenon.Function | Callable[..., Any]"
    if name.startswith("Array["):
        return f"{python_type(name)} | list[Any] | tuple[Any, ...]"
    return f"{python_type(name)} | dict[Any, Any]" if name.startswith("Map[") else python_type(name)


def source(file):
    """A source file of Tenon by its path in the repository."""
    return re.sub(r"^.*/(?=src/)", "", file)


def parameters(parts, own):
    """The parameters of a stub, from those of a signature."""
    out = [f"{name}: {accepted(type_)}" + (" = ..." if optional else "") for name, type_, optional in parts]
    return ", ".join(["self", *out[1:]] if own else out)


def function_stub(name, full, own=False, indent=""):
    """The stub of a registered function, with the line where it is registered."""
    file, line, head, words = function_info(full)
    parts, result = split_signature(head) if head else ([], "Any")
    given = parameters(parts, own) if head else ("self, *args: Any" if own else "*args: Any")
    return (f"{indent}def {name}({given}) -> {python_type(result)}:  # {source(file)}:{line}\n"
            f"{indent}    {words!r}\n{indent}    ...\n")


def class_stub(key, parent, fields):
    """The stub of a class: its fields, how it is made, its methods."""
    name = key.rpartition(".")[2]
    lines = [f"class {name}({python_type(parent)}):\n"]
    members = {full[len(key) + 1:]: full for full in list_global_func_names(key + ".")}
    for member, value in _EXTRA.get(key, {}).items():  # what Python gives the class
        if not re.fullmatch(r"_[a-z]\w*", member):
            members.pop(member, None)
            lines.append(extra_stub(member, value))
    for field, doc, type_, _ in fields:
        lines += ["    @property\n", f"    def {field}(self) -> {python_type(type_)}: ...\n"]
    if fields and "new" not in members:
        given = ", ".join(f"{field}: {accepted(type_)} = ..." for field, _, type_, _ in fields)
        lines.append(f"    def __init__(self, {given}) -> None: ...\n")
    for member, full in members.items():
        if member == "new":
            parts = split_signature(function_info(full)[2])[0]
            lines.append(f"    def __init__(self, {parameters(parts, False)}) -> None: ...\n")
        elif member.startswith("property."):
            lines += ["    @property\n", function_stub(member[9:], full, True, "    ")]
        elif "." not in member:
            lines.append(function_stub(member, full, True, "    "))
    return "".join(lines if len(lines) > 1 else [lines[0][:-1] + " ...\n"])


def extra_stub(name, value):
    """A member of a class that Python adds."""
    if isinstance(value, property):
        return f"    @property\n    def {name}(self) -> Any: ...\n"
    return f"    def {name}(self, *args: Any, **keywords: Any) -> Any:\n        {inspect.getdoc(value) or ''!r}\n        ...\n"


def operator_stub(record, indent):
    """An operator as a function: operands, then attributes."""
    given = [f"{a['name']}: Any" + (" = ..." if a["optional"] else "") for a in record["arguments"]]
    if record.get("variadic"):
        given[-1] = f"*{record['arguments'][-1]['name']}: Any"
    for a in record["attributes"]:
        one = {"Array[int]": " | int", "Array[float]": " | float"}.get(a["type"], "")  # [x] may be given as x
        given.append(f"{a['name']}: {accepted(a['type'])}{one} = ...")
    decorated = f"{indent}@staticmethod\n" if indent else ""
    return (f"{decorated}{indent}def {record['name'].rpartition('.')[2]}({', '.join(given)}) -> tenon.graph.Expr:"
            f"  # {record['file']}:{record['line']}\n{indent}    {record['doc']!r}\n{indent}    ...\n")


def operators_stub():
    """The text of tenon/op.pyi: "nn.relu" is a function of the class that stands for the namespace `nn`."""
    text, namespace = [HEAD], ""
    for record in sorted(op._records().values(), key=lambda r: (r["name"].rpartition(".")[0], r["name"])):
        if record["name"].rpartition(".")[0] != namespace:
            namespace = record["name"].rpartition(".")[0]
            text.append(f"class {namespace}:\n    {'Operators ' + namespace + '.*'!r}\n")
        text.append(operator_stub(record, "    " if namespace else ""))
    return "\n".join(text)


def own_stub(node, file, indent="", given="Any"):
    """What the module defines in Python, as its stub: a function or class, with its line; `given`: the type of what a
    function without an annotation gives."""
    if isinstance(node, ast.ClassDef):
        members = [own_stub(n, file, "    ") for n in node.body
                   if isinstance(n, ast.FunctionDef) and n.name != "__setattr__"
                   and (n.name.startswith("__") or not n.name.startswith("_"))]
        bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
        known = settings(file, node.name)
        attributes = [f"    {ast.unparse(n)}\n" for n in node.body if isinstance(n, ast.AnnAssign) and n.target.id[0] != "_"]
        attributes += [f"    {name}: Any\n" for name in assigned(node.body) if not known]
        return (f"class {node.name}{bases}:  # {file}:{node.lineno}\n    {ast.get_docstring(node) or ''!r}\n"
                + "".join([*attributes, *known, *members]))
    for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg):
        if a is not None and a.annotation is None and not (indent and a.arg in ("self", "cls")):
            a.annotation = ast.Name("Any")
    decorators = [ast.unparse(d) for d in node.decorator_list]
    kept = "".join(f"{indent}@{d}\n" for d in decorators if d in ("classmethod", "overload", "property", "staticmethod"))
    scope = "contextlib.contextmanager" in decorators
    result = ("AbstractContextManager[Any]" if scope else "None" if node.name == "__init__"
              else ast.unparse(node.returns) if node.returns else given)
    return (f"{kept}{indent}def {node.name}({ast.unparse(node.args)}) -> {result}:  # {file}:{node.lineno}\n"
            f"{indent}    {ast.get_docstring(node) or ''!r}\n{indent}    ...\n")


def assigned(body):
    """Public names that a body gives a value without saying its type."""
    return [n.targets[0].id for n in body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
            and not n.targets[0].id.startswith("_") and n.targets[0].id != "TYPE_CHECKING"]


def settings(file, name):
    """Members of an enumeration, and attributes that a table of defaults names."""
    cls = getattr(importlib.import_module("tenon." + pathlib.Path(file).stem), name, None)
    if isinstance(cls, enum.EnumMeta):
        return [f"    {member.name} = {member.value!r}\n" for member in cls]
    return [f"    {key}: {type(value).__name__}\n" for key, value in getattr(cls, "_DEFAULTS", {}).items()]


def module_stub(name):
    """The text of tenon/NAME.pyi of a module that Python defines alone: its imports, functions, classes and other names."""
    file = f"python/tenon/{name}.py"
    body = ast.parse((pathlib.Path(__file__).parent / f"{name}.py").read_text()).body
    checked = [n for node in body if isinstance(node, ast.If) for n in node.body]  # for checkers of types alone
    imports = [n for n in (*body, *checked) if isinstance(n, ast.Import | ast.ImportFrom) and getattr(n, "module", "") != "__future__"]
    text = [HEAD, *(ast.unparse(n) + "\n" for n in imports), *(ast.unparse(n) + "\n" for n in checked if isinstance(n, ast.Assign))]
    body += checked
    text += [own_stub(n, file) for n in body if isinstance(n, ast.ClassDef) or (
        isinstance(n, ast.FunctionDef) and (n.name == "__getattr__" or not n.name.startswith("_")))]
    text += [ast.unparse(n.target) + ": " + ast.unparse(n.annotation) + "\n" for n in body if isinstance(n, ast.AnnAssign)]
    text += [f"{name}: Any\n" for name in assigned(body)]
    return "\n".join(text)


def own_definitions(namespace):
    """The public functions and classes of tenon/NAMESPACE.py, by name; and `__getattr__`, which finds further words. A
    function that calls one of C++ with its name gives what that gives."""
    def given(name):
        full = f"{namespace}.{name}"
        head = function_info(full)[2] if full in list_global_func_names(full) else ""
        return python_type(split_signature(head)[1]) if head else "Any"

    path = pathlib.Path(__file__).parent / f"{namespace}.py"
    return {n.name: own_stub(n, f"python/tenon/{namespace}.py", "", given(n.name)) for n in ast.parse(path.read_text()).body
            if isinstance(n, ast.FunctionDef | ast.ClassDef) and (n.name == "__getattr__" or not n.name.startswith("_"))}


def stub_of(namespace):
    """The text of tenon/NAMESPACE.pyi; what Python defines comes before what C++ registers under the same name."""
    load_compiler()
    get_global_func("tir.load_schedule")()
    own = own_definitions(namespace)
    text = [HEAD, *own.values()]
    for index in _core.type_indices():
        key, parent, fields = _core.type_info(index)
        if key.rpartition(".")[0] == namespace and key.rpartition(".")[2] not in own:
            text.append(class_stub(key, _core.type_info(parent)[0], fields))
    for full in list_global_func_names(namespace + "."):
        name = full[len(namespace) + 1:]
        if name.isidentifier() and name not in own:
            text.append(function_stub(name, full))
    return "\n".join(text)


def main(folder):
    """Writes the stub of every namespace into a folder."""
    for namespace in NAMESPACES:
        (pathlib.Path(folder) / f"{namespace}.pyi").write_text(stub_of(namespace))
    for name in MODULES:
        (pathlib.Path(folder) / f"{name}.pyi").write_text(module_stub(name))
    (pathlib.Path(folder) / "op.pyi").write_text(operators_stub())


if __name__ == "__main__":
    main(sys.argv[1])
