#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The compile cache: what it knows again, what it survives, who shares it. Standard library only.

Run by ctest: test_cache.py TENON SOURCE-DIR"""
import json
import os
import resource
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
from support import Command, DIGITS, MODULE, TENON, tenon  # noqa: E402


class Cache(Command):
    def test_standard_input_is_cached(self):
        for cached in (False, True):
            done = json.loads(self.ok("run", "-", "--cache", self.tmp / "own", "--json", stdin=MODULE))
            self.assertEqual(done["cached"], cached)
        done = json.loads(self.ok("run", "-", "--cache", self.tmp / "own", "--json", stdin=MODULE.replace("nn.relu", "tanh")))
        self.assertFalse(done["cached"])

    def test_compile_cache(self):
        folder = self.tmp / "cache"
        first = self.cached(DIGITS, "--cache", folder)
        self.assertFalse(first[0])
        self.assertEqual(self.cached(DIGITS, "--cache", folder), (True, first[1]))
        self.assertEqual(self.cached(DIGITS, "--cache", folder, "--no-cache"), first)
        self.assertEqual(self.cached(DIGITS, "--cache", folder, "-O", 1)[0], False)
        self.assertEqual(self.cached(DIGITS, "--cache", folder, "--dim", "batch=2")[0], False)
        self.assertTrue(json.loads(self.ok("bench", DIGITS, "--cache", folder, "--json", "--repeat", 2))["cached"])
        self.ok("compare", DIGITS, "--cache", folder, "--against", "interpreter", "--rtol", 1e-4, "--atol", 1e-6)
        self.assertIn("from the compile cache", tenon("run", DIGITS, "--cache", folder, "-v").stderr)
        self.assertEqual(tenon("run", DIGITS, "--cache", folder).stderr, "")
        self.assertEqual(len(list(folder.iterdir())), 3)

    def test_compile_cache_survives_damage(self):
        folder = self.tmp / "cache"
        time.sleep(0.2)  # what was written a moment ago is not kept
        _, outputs = self.cached(self.module, "--cache", folder)
        (entry,) = folder.iterdir()
        whole = entry.read_bytes()
        for bad in (b"", whole[:-1], whole[:4000], b"\x7fELF" + bytes(3000), whole[:3000] + b"\xff" * 64 + whole[3064:]):
            entry.unlink()
            entry.write_bytes(bad)
            done = tenon("run", self.module, "--cache", folder, "--json", "-v")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("removed a bad entry", done.stderr)
            self.assertEqual(json.loads(done.stdout)["outputs"], outputs)
            self.assertEqual(self.cached(self.module, "--cache", folder), (True, outputs))

    def test_processes_share_a_compile_cache(self):
        folder = self.tmp / "cache"
        line = [TENON, "run", DIGITS, "--cache", folder, "--json"]
        running = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        results = []
        for process in running:
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
            results.append(json.loads(out)["outputs"])
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0], results[2])
        self.assertEqual(len(list(folder.iterdir())), 1)
        self.assertTrue(self.cached(DIGITS, "--cache", folder)[0])

    def test_no_room_for_the_compile_cache(self):
        expected = self.cached(self.module, "--no-cache")

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

        folder = self.tmp / "cache"
        done = tenon("run", self.module, "--cache", folder, "--json", "-v", preexec_fn=small_files, restore_signals=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not stored in the compile cache", done.stderr)
        self.assertEqual(json.loads(done.stdout)["outputs"], expected[1])
        self.assertEqual(list(folder.iterdir()), [])
        if os.geteuid() != 0:  # whom permissions do not bind
            folder.chmod(0o500)
            self.assertEqual(self.cached(self.module, "--cache", folder), expected)
        self.assertEqual(self.cached(self.module, "--cache", self.module / "below"), expected)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
