#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many of the reference compiler's own Relay texts does `tenon opt` read?

usage: bench/reference_relay.py CHECKOUT TAG --tenon TENON [--show REASON] [--keep FOLDER]

CHECKOUT is a git repository of the reference compiler, TAG a commit of it. A program is a text in quotes below
tests/python and python/tvm/relay that defines a function or has a version, or that stands first in a call of the
parser (or of a test's function around it), and every file .rly. Texts that need values of Python are left out: those that are
formatted, and those whose constants stand in a table beside them. `tenon opt` reads each and prints it as script
text, and reads what it printed: a program counts as read when the second text equals the first. It is refused by
name when the first error says which operator, attribute or object is not read. A text that its test means to be wrong
(inside `pytest.raises`) counts as read when it is refused. Texts are taken from the checkout each time; none is kept here."""
import argparse
import ast
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from reference_scripts import opt, reason_class

PROGRAM = re.compile(r"#\[version|^\s*def @\w", re.M)
READERS = {"parse_text", "parses_as", "assert_parses_as", "parse_module", "assert_parse_module_as", "parse_expr", "fromtext"}
BY_NAME = re.compile(r"\[T02(22|26|27|28|45)\]")
VERSION = '#[version = "0.0.5"]\n'


def called(node):
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def texts_of(path, source):
    """(path:line, text, meant to be wrong) of each program of a file."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    found = {}

    def add(node, wrong):
        found[node.lineno, node.col_offset] = (f"{path}:{node.lineno}", node.value, wrong)

    def walk(node, wrong):
        for child in ast.iter_child_nodes(node):
            inside = wrong
            if isinstance(child, ast.With):
                inside = inside or any("raises" in ast.unparse(i.context_expr) for i in child.items)
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue  # a comment
            if isinstance(child, (ast.JoinedStr, ast.Compare)):
                continue  # parts of a text
            if isinstance(child, ast.BinOp) and (isinstance(child.op, ast.Mod) or isinstance(child.left, (ast.Constant, ast.JoinedStr))):
                continue  # formatted, or the beginning of a text
            if isinstance(child, ast.Call):
                if called(child) == "format":
                    continue
                first = child.args[0] if child.args else None
                if called(child) in READERS and isinstance(first, ast.Constant) and isinstance(first.value, str):
                    add(first, inside)
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and PROGRAM.search(child.value):
                add(child, inside)
            walk(child, inside)

    walk(tree, False)
    yield from (found[key] for key in sorted(found))


def checkout_texts(checkout, tag):
    git = ["git", "-C", str(checkout)]
    listed = subprocess.run(git + ["ls-tree", "-r", "--name-only", tag, "tests/python", "python/tvm/relay"], capture_output=True, text=True, check=True)
    for path in listed.stdout.split("\n"):
        if not path.endswith((".py", ".rly")):
            continue
        source = subprocess.run(git + ["show", f"{tag}:{path}"], capture_output=True, text=True, check=True).stdout
        if path.endswith(".rly"):
            yield path, source, False
        else:
            yield from texts_of(path, source)


def needs_a_table(text):
    return "meta[" in text and "#[metadata]" not in text


def judge(tenon, folder, number, text, wrong):
    """'' when the text is read to a fixed point (or refused, if it is meant to be), else why not."""
    path = folder / f"{number:05}.relay"
    path.write_text(text if "#[version" in text else VERSION + text)
    first, why = opt(tenon, path)
    if wrong:
        return "" if first is None else "meant to be wrong, and accepted"
    if first is None:
        return why
    again = folder / f"{number:05}.tir"
    again.write_text(first)
    second, why = opt(tenon, again)
    if second is None:
        return "printed text is refused: " + why
    return "" if second == first else "the second text is another one"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("tag")
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--show", help="list the programs whose reason contains this")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the programs' texts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    tenon = os.path.realpath(arguments.tenon)
    every = list(checkout_texts(arguments.checkout, arguments.tag))
    texts = [t for t in every if not needs_a_table(t[1])]
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = list(pool.map(lambda t: judge(tenon, folder, t[0], t[1][1], t[1][2]), enumerate(texts)))
    by_name = [bool(BY_NAME.search(why)) for why in results]
    print(f"{arguments.tag}: {sum(not why for why in results)} of {len(texts)} texts are read ({sum(t[2] for t in texts)} of them meant to be wrong), "
          f"{sum(by_name)} refused by name, {sum(bool(why) and not named for why, named in zip(results, by_name))} fail; "
          f"{len(every) - len(texts)} more need a table of constants\n")
    for reason, count in collections.Counter(reason_class(why) for why in results if why).most_common(60):
        print(f"{count:5}  {reason}")
    if arguments.show:
        for number, ((place, _, _), why) in enumerate(zip(texts, results)):
            if why and arguments.show in why:
                print(f"{number:05} {place}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
