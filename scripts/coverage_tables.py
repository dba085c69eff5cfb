# SPDX-License-Identifier: Apache-2.0
"""Reads docs/coverage.md and the test programs of a build, for scripts/check_coverage and scripts/mutate."""
import collections
import fnmatch
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"
# What the names of a list are: those of graph functions, nodes, requests on stages, passes, or of the VM.
KINDS = {"a": "graph", "b": "graph", "c": "node", "d": "te", "g": "pass", "h": "pass", "i": "vm"}
GOLDEN_SCHEDULE = "All/ScheduleGolden.DoesWhatIsWritten/"  # one test for each primitive of the registry

Row = collections.namedtuple("Row", "line list kind row ours name tests")


def rows():
    """All rows of all tables, in order. `name` is None where the row says that there is none."""
    out, section = [], None
    for number, line in enumerate(PAGE.read_text().splitlines(), 1):
        if heading := re.match(r"## \((\w)\)", line):
            section = heading.group(1)
        if not line.startswith("| ") or line.startswith("| row |"):
            continue
        cells = [c.strip() for c in line.strip().strip("|").split(" | ")]
        cells += [""] * (3 - len(cells))
        first = re.match(r"`(\w+(?:\.\w+)?)`", cells[1])
        name = first.group(1) if first and not cells[1].startswith("none") else None
        tests = [t for t in re.findall(r"`([^`]+)`", cells[2])]
        out.append(Row(number, section, KINDS.get(section), cells[0], cells[1], name, tests))
    return out


def primitives(programs):
    """A row for each schedule primitive: the registry has a golden test of each."""
    names = sorted(t.removeprefix(GOLDEN_SCHEDULE) for t in programs.tests if t.startswith(GOLDEN_SCHEDULE))
    return [Row(0, "e", "primitive", name, name, name, [GOLDEN_SCHEDULE + name]) for name in names]


class Programs:
    """Which test program has which tests."""

    def __init__(self, build):
        self.tests = {}
        for program in sorted((pathlib.Path(build) / "bin").glob("test_*")):
            listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True)
            suite = ""
            for line in listed.stdout.splitlines():
                name = line.split("#")[0].rstrip()
                if not name.startswith(" "):
                    suite = name
                else:
                    self.tests[suite + name.strip()] = program

    def of(self, pattern):
        """The program with tests that match, or None."""
        if pattern in self.tests:
            return self.tests[pattern]
        for name, program in self.tests.items():
            if fnmatch.fnmatchcase(name, pattern):
                return program
        return None
