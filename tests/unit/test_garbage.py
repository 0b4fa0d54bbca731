"""Settings of the garbage collector, in a process of their own."""

import subprocess
import sys


def test_present_objects_are_left_out_of_later_collections() -> None:
    code = (
        "import gc\n"
        "from inferstream import garbage\n"
        "before = gc.get_freeze_count()\n"
        "garbage.settle()\n"
        "print(before, gc.get_freeze_count() > 1000, gc.get_threshold()[0] == garbage.YOUNG)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "0 True True\n"
