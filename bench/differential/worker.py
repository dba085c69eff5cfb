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


PATIENCE = 30  # times the limit on processor time that a step may take on a busy machine


class Worker:
    """A process that answers requests; it is started anew when it ended, or spent `seconds` of processor time on one step."""

    def __init__(self, seconds):
        self.seconds, self.process, self.stage = seconds, None, ""

    def start(self):
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(self, request):
        if self.process is None or self.process.poll() is not None:
            self.start()
        self.rest = b""
        self.enter("start")
        self.process.stdin.write((json.dumps(request) + "\n").encode())
        self.process.stdin.flush()

    def enter(self, stage):
        self.stage, self.since, self.spent = stage, time.time(), self.processor_time()

    def processor_time(self):
        """Seconds that the process has computed for so far."""
        try:
            fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def too_long(self):
        waited = time.time() - self.since
        return waited > self.seconds and (self.processor_time() - self.spent > self.seconds or waited > PATIENCE * self.seconds)

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
                self.enter(message["stage"])
        if self.too_long():
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

    import blocks, containers, contrib, control, draw, elementwise, judge, layers, networks, sampling, shaping  # noqa: E401, F401 (they register operators)
    for line in sys.stdin:
        request = json.loads(line)
        if "seed" in request:
            say("draw")
            drawn = {"layers": layers.draw_network, "blocks": blocks.draw_blocks}.get(request["networks"], draw.draw_case)
            case = drawn(request["seed"], request["nodes"])
            if case is not None:
                judge.save(pathlib.Path(request["folder"]), case.model, case.feeds, case.exact)
        found, operators = [], []
        if (pathlib.Path(request["folder"]) / "model.onnx").exists():
            found = judge.answer(request, say)
            operators = judge.operators_of(judge.load(pathlib.Path(request["folder"]))[0].graph)
        replies.write(json.dumps({"findings": found, "operators": operators}) + "\n")


if __name__ == "__main__":
    main()
