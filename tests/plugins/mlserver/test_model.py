"""Functions for runtimes under MLServer's names."""

import asyncio

from inferstream.ext.hosting import install_aliases

install_aliases()

import subprocess
import sys

install_aliases()


def test_coroutines_run_on_server_loop() -> None:
    from mlserver.utils import AsyncManager, schedule_with_callback

    ended = []

    async def main() -> int:
        async def one() -> int:
            return 1

        task = schedule_with_callback(one(), ended.append)
        await task
        await asyncio.sleep(0)
        return await task

    assert AsyncManager().run(main()) == 1
    assert len(ended) == 1


def test_program_can_use_uvloop() -> None:
    code = (
        "import asyncio\n"
        "from inferstream.ext.hosting import install_aliases; install_aliases()\n"
        "from mlserver.utils import install_uvloop_event_loop; install_uvloop_event_loop()\n"
        "print(type(asyncio.new_event_loop()).__module__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "uvloop\n"
