# SPDX-License-Identifier: Apache-2.0
"""What the benchmark ran on, for the record."""
import json
import os
import pathlib
import platform
import subprocess


def text_of(*command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
    except OSError:
        return ""


def facts(tenon):
    names = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    doctor = json.loads(text_of(tenon, "doctor", "--json", "-q") or "{}")
    return {"cpu": names[0] if names else platform.machine(), "cores": len(os.sched_getaffinity(0)), "memory_bytes": pages,
            "kernel": f"{platform.system()} {platform.release().split('-')[0]}", "python": platform.python_version(),
            "virtual": "hypervisor" in pathlib.Path("/proc/cpuinfo").read_text(), "load_before": os.getloadavg()[0],
            "target": doctor.get("cpu"), "limits": doctor.get("limits"),
            "commit": text_of("git", "rev-parse", "--short", "HEAD"), "tenon": text_of(tenon, "--version")}
