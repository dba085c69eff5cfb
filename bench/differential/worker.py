# SPDX-License-Identifier: Apache-2.0
"""Processes that draw and judge models, so that a crash or a hang is a finding and loses nothing."""
import json
import os
import pathlib
import resource
import select
import subprocess
import sys
import time

MEMORY = 6 << 30  # bytes of addresses of one worker


class Worker:
    """A process that answers requests; it is started anew when it ended or did not answer in time."""

    def __init__(self, seconds):
        self.seconds, self.process, self.stage = seconds, None, ""

    def start(self):
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(self, request):
        if self.process is None or self.process.poll() is not None:
            self.start()
        self.stage, self.since, self.rest = "start", time.time(), b""
        self.process.stdin.write((json.dumps(request) + "\n").encode())
        self.process.stdin.flush()

    def receive(self):
        """The answer, None while there is none, or {"ended": words} of a process that crashed or took too long."""
        while select.select([self.process.stdout], [], [], 0)[0]:
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                return {"ended": f"crash: exit status {self.process.wait()}", "stage": self.stage}
            *lines, self.rest = (self.rest + more).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "stage" not in message:
                    return message
                self.stage, self.since = message["stage"], time.time()
        if time.time() - self.since > self.seconds:
            self.stop()
            return {"ended": f"hang: more than {self.seconds} s", "stage": self.stage}
        return None

    def ask(self, request):
        self.send(request)
        while (reply := self.receive()) is None:
            select.select([self.process.stdout], [], [], 0.5)
        return reply

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def main():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no reply

    def say(stage):
        replies.write(json.dumps({"stage": stage}) + "\n")

    import control, draw, elementwise, judge, networks, shaping  # noqa: E401, F401 (they register operators)
    for line in sys.stdin:
        request = json.loads(line)
        if "seed" in request:
            say("draw")
            case = draw.draw_case(request["seed"], request["nodes"])
            if case is not None:
                judge.save(pathlib.Path(request["folder"]), case.model, case.feeds, case.exact)
        found, operators = [], []
        if (pathlib.Path(request["folder"]) / "model.onnx").exists():
            found = judge.answer(request, say)
            operators = judge.operators_of(judge.load(pathlib.Path(request["folder"]))[0].graph)
        replies.write(json.dumps({"findings": found, "operators": operators}) + "\n")


if __name__ == "__main__":
    main()
