#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many of the reference compiler's own script programs does `tenon opt` read?

usage: bench/reference_scripts.py CHECKOUT TAG --tenon TENON [--show REASON] [--keep FOLDER] [--run N]

CHECKOUT is a git repository of the reference compiler, TAG a commit of it. Every function or class below tests/python
whose decorator is one of the script's (`T.prim_func`, `R.function`, `I.ir_module` and their longer names) is a program,
if its text needs no value of Python: every name in it is bound in it, or is a dialect's. `tenon opt` reads and prints
each of them, and reads what it printed: a program counts when it is accepted and the second text equals the first. A
program that its test means to be wrong (inside `pytest.raises`, or handed to a function that checks an error) counts
when it is refused, one whose decorator switches the reference's own check off (`check_well_formed=False`) either way.
Programs of a dialect that Tenon refuses by name are counted apart; how many go outside of a buffer, of a block's
domain, which Tenon refuses and the reference does not look at, is said beside.

--run N: the graph functions of every N-th program that is read, by the interpreter and compiled, on random inputs, which
needs NumPy. Programs are taken from the checkout each time; none is kept here. TENON is the command in a build with the
Python package: bench/reference_runs.py reads and runs many programs in one process."""
import argparse
import ast
import builtins
import collections
import concurrent.futures
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap

DECORATORS = {"prim_func", "function", "ir_module", "rewriter"}
DIALECTS = {"T", "R", "I", "tir", "relax", "ir", "tvm", "TL"}
SCRIPT = ("T", "R", "I", "tir", "relax", "ir", "script")
EITHER = "either"  # accepted or refused: both are right
EXPECTS_ERROR = re.compile(r"check_error|check_unsafe|_error\b|raises|xfail|should_fail|check_fail")


def decorator_name(node):
    """The last word of a script decorator and how it is written, or None."""
    call = node.func if isinstance(node, ast.Call) else node
    text = ast.unparse(call)
    words = text.split(".")
    if words[-1] not in DECORATORS or words[-1] == "rewriter":
        return None
    if len(words) == 1:
        return text if words[0] in ("ir_module", "prim_func") else None
    return text if words[-2] in SCRIPT else None


def is_program(node):
    return isinstance(node, (ast.FunctionDef, ast.ClassDef)) and any(decorator_name(d) for d in node.decorator_list)


class Names(ast.NodeVisitor):
    """Names that a program binds and names that it reads."""

    def __init__(self):
        self.bound, self.read = set(), set()

    def visit_Name(self, node):
        (self.read if isinstance(node.ctx, ast.Load) else self.bound).add(node.id)

    def visit_arg(self, node):
        self.bound.add(node.arg)
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        self.bound.add(node.name)
        self.generic_visit(node)

    def visit_ClassDef(self, node):
        self.bound.add(node.name)
        self.generic_visit(node)

    def visit_Constant(self, node):
        # Symbolic sizes are written as text in annotations.
        if isinstance(node.value, str) and node.value.isidentifier():
            self.bound.add(node.value)


def self_contained(node):
    names = Names()
    names.visit(node)
    return not (names.read - names.bound - DIALECTS - set(dir(builtins)))


def programs_of(path, text):
    """(path:line, source, meant to be wrong) of each program of a file."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    lines = text.splitlines()
    of_passes = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and any(
        isinstance(a, ast.Attribute) and a.attr == "transform" for a in ast.walk(n))}

    def walk(node, inside_error):
        for child in ast.iter_child_nodes(node):
            wrong = inside_error
            if isinstance(child, ast.With):
                wrong = wrong or any(EXPECTS_ERROR.search(ast.unparse(i.context_expr)) for i in child.items)
            if is_program(child):
                if self_contained(child):
                    first = min(d.lineno for d in child.decorator_list)
                    source = textwrap.dedent("\n".join(lines[first - 1:child.end_lineno]))
                    wrong = wrong or used_by_check(node, child.name)
                    if not wrong and any("check_well_formed=False" in ast.unparse(d) for d in child.decorator_list):
                        wrong = EITHER
                    yield f"{path}:{first}", source, wrong
                continue
            # Of a rewriter's functions the text is right: what is wrong is that one lacks, or that they do not fit.
            rewrites = isinstance(child, ast.ClassDef) and any(ast.unparse(d).endswith("rewriter") for d in child.decorator_list)
            yield from walk(child, None if wrong and rewrites else wrong)

    checks = {}  # of each scope: calls and with statements that expect an error

    def checks_in(scope):
        body = getattr(scope, "body", [])
        for n in (n for statement in (body if isinstance(body, list) else []) for n in ast.walk(statement)):
            if isinstance(n, ast.Call) and EXPECTS_ERROR.search(ast.unparse(n.func)):
                yield n
            if isinstance(n, ast.With) and any(EXPECTS_ERROR.search(ast.unparse(i.context_expr)) for i in n.items):
                yield n

    def used_by_check(scope, name):
        if scope not in checks:
            checks[scope] = list(checks_in(scope))
        for n in checks[scope]:
            if isinstance(n, ast.With):
                if any(isinstance(a, ast.Name) and a.id == name for a in ast.walk(n)):
                    return None  # the error is of a pass: the text itself is right
            elif any(isinstance(a, ast.Name) and a.id == name for a in n.args):
                # A helper that runs a pass checks the error of that pass: the text itself is right.
                return None if isinstance(n.func, ast.Name) and n.func.id in of_passes else True
        return False

    yield from walk(tree, False)


def checkout_programs(checkout, tag):
    archive = subprocess.run(["git", "-C", str(checkout), "archive", "--format=tar", tag, "tests/python"], stdout=subprocess.PIPE, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        for member in sorted((m for m in files if m.isfile() and m.name.endswith(".py")), key=lambda m: m.name):
            yield from programs_of(member.name, files.extractfile(member).read().decode())


def package_of(tenon):
    """The folder of the Python package that was built with a command."""
    folder = pathlib.Path(tenon).resolve().parent.parent / "python"
    if not (folder / "tenon").is_dir():
        sys.exit(f"reference_scripts: there is no Python package in {folder}: build the target tenon_python (Debian: python3-dev)")
    return folder


class Workers:
    """Processes of reference_runs.py: [file, function, outcome] of everything that is done with the files."""

    BATCH = 50

    def __init__(self, tenon, jobs):
        self.jobs, self.record = jobs, None
        self.environment = dict(os.environ, PYTHONPATH=str(package_of(tenon)))

    def ask(self, do, files):
        shares = [files[i::self.jobs] for i in range(self.jobs)]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return [said for share in pool.map(lambda share: self.ask_one(do, share), shares) for said in share]

    def ask_one(self, do, left):
        """One after another; what ends a process is the outcome of what it was at, and the rest of that file is not done."""
        said = []
        while left:
            batch = left[:self.BATCH]
            worker = [sys.executable, str(pathlib.Path(__file__).with_name("reference_runs.py")), do, *batch]
            run = subprocess.run(worker, capture_output=True, text=True, env=self.environment)
            lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]
            if run.returncode and not lines:
                sys.exit(f"reference_scripts: the worker ends with {run.returncode}: {run.stderr.strip()[-500:]}")
            done = len(said)
            said += [line for line in lines if line[2] != "began"]
            if run.returncode:
                if lines[-1][2] == "began":
                    said.append([*lines[-1][:2], ended(run.returncode)])
                batch = batch[:batch.index(lines[-1][0]) + 1]
            if self.record:
                self.record.write("".join(json.dumps(line) + "\n" for line in said[done:]))
                self.record.flush()
            left = left[len(batch):]
        return said


def ended(code):
    return "the limit of processor time" if code == -signal.SIGPROF else f"the process ends with {code}"


def judge(read, wrong):
    """'' when a program is read to a fixed point (or refused, if it is meant to be), else why not."""
    refused = read.startswith("refused: ")
    if refused and wrong in (True, EITHER) or read == "equal" and wrong is not True:
        return ""
    return "meant to be wrong, and accepted" if read == "equal" else read.removeprefix("refused: ")


def of_dialect(why):
    """Refused because of a dialect that is not read."""
    return " dialect, which is not read" in why


def goes_outside(why):
    """Refused because an access or an iterator certainly leaves what it belongs to (T0319, T0336, T0337)."""
    return any(code in why for code in ("T0319", "T0336", "T0337"))


def print_runs(runs):
    outcomes = collections.Counter(reason_class(outcome) for _, _, outcome in runs)
    called = sum(n for o, n in outcomes.items() if not o.startswith("not "))
    print(f"\ncompiled and interpreted: {outcomes['equal']} of {called} functions equal\n")
    for outcome, count in outcomes.most_common():
        print(f"{count:5}  {outcome}")
    for file, function, outcome in runs:
        if not outcome.startswith(("equal", "not ", "both refuse")):
            print(f"{pathlib.Path(file).stem} {function}: {outcome}")


def reason_class(why):
    return re.sub(r"\d+", "N", re.sub(r"`[^`]*`", "`…`", why))[:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("tag")
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--show", help="list the programs whose reason contains this")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the programs' texts and what their functions gave (runs.json)")
    parser.add_argument("--run", type=int, default=0, metavar="N", help="call graph functions of every N-th program, interpreted and compiled")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    workers = Workers(arguments.tenon, arguments.jobs)
    programs = list(checkout_programs(arguments.checkout, arguments.tag))
    runs = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        files = [str(folder / f"{number:05}.py") for number in range(len(programs))]
        for file, (_, source, _) in zip(files, programs):
            pathlib.Path(file).write_text(source + "\n")
        read = {file: outcome for file, _, outcome in workers.ask("read", files)}
        results = [judge(read[file], wrong) for file, (_, _, wrong) in zip(files, programs)]
        if arguments.run:
            right = [file for file, why, (_, _, wrong) in zip(files, results, programs) if not why and not wrong]
            with open(folder / "runs.json", "w") as workers.record:
                runs = workers.ask("run", right[::arguments.run])
    reasons = collections.Counter(reason_class(why) for why in results if why)
    good = sum(not why for why in results)
    apart = sum(of_dialect(why) for why in results)
    outside = sum(goes_outside(why) for why in results)
    print(f"{arguments.tag}: {good} of {len(programs) - apart} programs ({sum(p[2] is True for p in programs)} of them meant to "
          f"be wrong); {apart} more are of dialects that are not read; {outside} of those refused go outside of a buffer, of a domain or of what a block declares\n")
    for reason, count in reasons.most_common(60):
        print(f"{count:5}  {reason}")
    if arguments.run:
        print_runs(sorted(runs))
    if arguments.show:
        for number, ((place, _, _), why) in enumerate(zip(programs, results)):
            if why and arguments.show in why:
                print(f"{number:05} {place}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
