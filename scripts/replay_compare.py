# SPDX-License-Identifier: Apache-2.0
"""What two compilations of one model left behind, compared function by function: tensor programs, assembly, C text,
bytecode. Used by scripts/replay."""
import difflib
import re

# What says which build made a text, and nothing about the code.
STAMPS = [(re.compile(r"\btenon \d+\.\d+\.\d+[\w.+-]*"), "tenon VERSION")]
# Names that count functions of the whole file: one function more would show in all behind it.
COUNTED = [(re.compile(r"\.(LBB|LCPI|LJTI)\d+_"), r".\1_"), (re.compile(r"\.(Lfunc_begin|Lfunc_end|Ltmp)\d+"), r".\1")]

# The first line of a unit of each kind of text, and its name.
HEADS = {
    "programs": re.compile(r"^(?:    )?def (\w+)\("),
    "assembly": re.compile(r"^([A-Za-z_][\w.$]*):"),
    "C": re.compile(r"^(?:static |inline |_Noreturn |const )*\w[\w ]*[ *]+(\w+)\(.*\{$"),
    "bytecode": re.compile(r"^(\w[^:(]*)[(:]"),
}
DECORATOR = re.compile(r"^(?:    )?@[TRI]\.")
STAGE = re.compile(r"^# after (\w+)$")


def without_stamps(text):
    for pattern, instead in STAMPS:
        text = pattern.sub(instead, text)
    return text


def units(kind, text):
    """The text by function: name → lines. What stands before the first is "(head)"."""
    head = HEADS.get(kind)
    out, name, stage, waiting = {}, "(head)", "", []
    for line in text.splitlines():
        if kind == "assembly":
            for pattern, instead in COUNTED:
                line = pattern.sub(instead, line)
        if kind == "programs" and (found := STAGE.match(line)):
            stage, name = f" behind {found[1]}", "(head)"
        elif kind == "programs" and DECORATOR.match(line):
            waiting.append(line)
            continue
        elif head and (found := head.match(line)):
            name = found[1]
        out.setdefault(name + stage, []).extend(waiting + [line])
        waiting = []
    return out


def differences(kind, base, tree):
    """(unit, lines of BASE, lines of the tree) of every unit that differs. "(order)": only the order of units does."""
    base, tree = without_stamps(base), without_stamps(tree)
    if base == tree:
        return []
    a, b = units(kind, base), units(kind, tree)
    out = [(name, a.get(name, []), b.get(name, [])) for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
    return out or [("(order)", base.splitlines(), tree.splitlines())]


def diff(base, tree, limit=40):
    lines = list(difflib.unified_diff(base, tree, "BASE", "tree", lineterm="", n=2))
    return lines[:limit] + ([f"… {len(lines) - limit} more lines"] if len(lines) > limit else [])
