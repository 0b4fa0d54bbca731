"""Functions for runtimes under MLServer's names."""

import asyncio

from inferstream import compat

compat.install()

import subprocess
import sys

from inferstream import compat

compat.install()


def test_coroutines_run_on_the_servers_loop() -> None:
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


def test_a_program_may_choose_uvloop_for_its_own_loops() -> None:
    code = (
        "import asyncio\n"
        "from inferstream import compat; compat.install()\n"
        "from mlserver.utils import install_uvloop_event_loop; install_uvloop_event_loop()\n"
        "print(type(asyncio.new_event_loop()).__module__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "uvloop\n"
