"""Settings of the garbage collector, in a process of their own."""

import subprocess
import sys


def test_existing_objects_are_frozen_out_of_later_collections() -> None:
    code = (
        "import gc\n"
        "from inferstream import garbage\n"
        "before = gc.get_freeze_count()\n"
        "garbage.freeze_objects()\n"
        "print(gc.get_freeze_count() - before > 1000, gc.get_threshold()[0] == garbage.YOUNG)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "True True\n"


LATE = """
import asyncio, gc, weakref
from inferstream import garbage

class Model:
    pass

async def main():
    garbage.SOON = 0.01
    garbage.freeze_objects()
    gc.disable()
    model = Model()
    model.itself = model
    gone = weakref.ref(model)
    first = asyncio.Event()
    settle = garbage.freeze_objects
    garbage.freeze_objects = lambda: (settle(), first.set())
    garbage.schedule_collection()
    garbage.schedule_collection()  # of another model, to which something refers at the first collection
    await first.wait()
    assert gone() is not None
    del model
    async with asyncio.timeout(20):
        while gone() is not None:
            await asyncio.sleep(0.01)

asyncio.run(main())
"""


def test_collection_is_repeated_after_a_recent_unload() -> None:
    subprocess.run([sys.executable, "-c", LATE], timeout=60, check=True)
