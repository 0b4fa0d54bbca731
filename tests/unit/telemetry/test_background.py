"""Writers in threads of their own, at the end of a process."""

import logging
import subprocess
import sys
import threading

from inferstream.telemetry.background import BackgroundWriter, finish


class Lines(BackgroundWriter[str]):
    name = "test"
    logger = logging.getLogger("inferstream.test")

    def __init__(self) -> None:
        self.written: list[str] = []
        self.go = threading.Event()
        super().__init__("nowhere")

    def write(self, batch: list[str]) -> None:
        self.go.wait(30)
        self.written += batch


def test_pending_records_are_flushed_without_waiting_for_a_stuck_target() -> None:
    written, stuck = Lines(), Lines()
    written.go.set()
    for each in (written, stuck):
        each.put("a")
    finish(0.5)
    assert (written.written, stuck.written) == (["a"], [])
    stuck.go.set()
    finish(30)
    assert stuck.written == ["a"]
    written.close()


def test_immediately_exiting_server_writes_its_last_records() -> None:
    code = (
        "from tests.unit.telemetry.test_background import Lines\n"
        "from inferstream.cli import start\n"
        "class Printed(Lines):\n"
        "    def write(self, batch): print(*batch, flush=True)\n"
        "Printed().put('last')\n"
        "start._end(3)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (3, "last\n"), ended.stderr
