#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/replay finds what differs and nothing else: called with TENON SOURCE-DIR."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TENON, SOURCE = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "scripts"))
import replay_compare as compare  # noqa: E402

PROGRAMS = """# after scheduled
@I.ir_module
class Module:
    @T.prim_func
    def first(A: T.Buffer((4,), "float32")):
        A[0] = T.float32({value})
    @T.prim_func
    def second(A: T.Buffer((4,), "float32")):
        A[1] = T.float32(1)
# after lowered
@I.ir_module
class Module:
    @T.prim_func
    def first(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(1)
"""
ASSEMBLY = """	.text
first:
	vmovups	(%rdi), {register}
.LBB{index}_1:
	jne	.LBB{index}_1
second:
	ret
"""
BYTECODE = """function main(x: float32(4)) -> (y: float32(4)):  # 1 parameters, 2 registers, 0 heap slots
     0  kernel first(r0, {operand})
arena: 64 bytes
metadata:
  compiler = "tenon {version}"
"""
C = """#include <stdint.h>
static inline int32_t tenon_min(int32_t a, int32_t b) {{
  return a;
}}

int32_t first(const void* const* buffers, const int64_t* scalars) {{
  return {value};
}}
"""


class Compare(unittest.TestCase):
    def names(self, kind, base, tree):
        return [d[0] for d in compare.differences(kind, base, tree)]

    def test_a_changed_program_is_named_with_its_stage(self):
        same = PROGRAMS.format(value=1)
        self.assertEqual(self.names("programs", same, same), [])
        self.assertEqual(self.names("programs", same, PROGRAMS.format(value=2)), ["first behind scheduled"])

    def test_a_changed_instruction_names_its_kernel(self):
        base = ASSEMBLY.format(register="%zmm0", index=0)
        self.assertEqual(self.names("assembly", base, ASSEMBLY.format(register="%zmm1", index=0)), ["first"])

    def test_a_missing_function_does_not_blame_those_behind_it(self):
        base = "zeroth:\n\tret\n" + ASSEMBLY.format(register="%zmm0", index=1)
        self.assertEqual(self.names("assembly", base, ASSEMBLY.format(register="%zmm0", index=0)), ["zeroth", "(head)"])

    def test_another_order_is_a_difference(self):
        a, b = "first:\n\tret\n", "second:\n\tnop\n"
        self.assertEqual(self.names("assembly", a + b, b + a), ["(order)"])

    def test_stamps_do_not_count_and_bytecode_does(self):
        base = BYTECODE.format(operand="a0", version="0.1.0")
        self.assertEqual(self.names("bytecode", base, BYTECODE.format(operand="a0", version="0.2.1-g12ab")), [])
        self.assertEqual(self.names("bytecode", base, BYTECODE.format(operand="a1", version="0.1.0")), ["function main"])

    def test_a_changed_function_of_c(self):
        self.assertEqual(self.names("C", C.format(value=0), C.format(value=1)), ["first"])

    def test_the_diff_shows_both_lines(self):
        name, base, tree = compare.differences("C", C.format(value=0), C.format(value=1))[0]
        shown = compare.diff(base, tree)
        self.assertIn("-  return 0;", shown)
        self.assertIn("+  return 1;", shown)


class Command(unittest.TestCase):
    """The script itself, with a command that compiles for another processor than it was asked for."""
    CASE = r"^digits/classifier: compile --target 'llvm -mcpu=x86-64-v3' -O2$"

    def replay(self, base, tree, only=CASE):
        return subprocess.run([SOURCE / "scripts" / "replay", "HEAD", "--base-build", base, "--tree-build", tree, "--only", only],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)

    def build_with(self, folder, replaced):
        command = pathlib.Path(folder) / "bin" / "tenon"
        command.parent.mkdir()
        command.write_text(f'#!/bin/bash\nexec "{TENON}" "${{@/{replaced}}}"\n')
        command.chmod(0o755)
        return folder

    def test_a_build_equals_itself(self):
        done = self.replay(TENON.parent.parent, TENON.parent.parent)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^digits +1 +0 +0 +0$")

    def test_a_planted_difference_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.replay(TENON.parent.parent, self.build_with(folder, "x86-64-v3/x86-64-v2"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"programs: .*fused_conv2d.* behind scheduled")
        self.assertRegex(done.stdout, r"assembly: .*fused_conv2d")
        self.assertRegex(done.stdout, r"bytecode: .*metadata")
        self.assertIn("first difference, ", done.stdout)

    def test_a_case_that_base_has_no_option_for_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            command = pathlib.Path(self.build_with(folder, "a/a")) / "bin" / "tenon"
            command.write_text(command.read_text() + "\n")
            command.write_text(command.read_text().replace('exec "', '"').replace('\n\n', ' | sed s/--precision/--gone/\n'))
            done = self.replay(folder, TENON.parent.parent, only="^digits/.*--precision bf16")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("BASE has no --precision", done.stdout)


if __name__ == "__main__":
    unittest.main()
