"""The client for code without asyncio."""

import subprocess
import sys
import threading

import pytest

from inferstream import Client
from tests.unit.clients.scripted import Scripted, number


def blocking(transport: Scripted) -> Client:
    found = Client("http://127.0.0.1:1")
    found._client._transport = transport
    return found


def test_blocking_client_behaves_the_same() -> None:
    transport = Scripted(number(1), number(2), number(3), None)
    with blocking(transport) as asking:
        assert asking.predict("m", a=1) == 1
        assert list(asking.stream("m", a=iter([1, 2, 3]))) == [2, 3]
        assert asking.models() == ["a", "b"]
        assert asking.ready("a")
        assert asking.metadata("m").name == "m"
    assert transport.closed == 2  # the stream and the client


def test_closing_a_blocking_stream_closes_the_call() -> None:
    transport = Scripted(number(1), "wait")
    for item in blocking(transport).stream("m", a=1):
        assert item == 1
        break
    assert transport.closed == 1


def test_threads_can_share_a_blocking_client() -> None:
    transport = Scripted(*map(number, range(200)))
    asking = blocking(transport)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.extend(asking.predict("m", a=1) for _ in range(25)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(found) == list(range(200))
    assert len(transport.fetched) == 1


def test_failing_blocking_iterator_ends_the_call_with_its_error() -> None:
    def values():
        yield 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(blocking(Scripted(number(1), number(2), number(3))).stream("m", a=values()))


def test_forked_process_creates_its_own_clients() -> None:
    """A fork has no thread with an event loop, and would wait for it forever."""
    code = (
        "import os\n"
        "from tests.unit.clients.scripted import Scripted, number\n"
        "from tests.unit.clients.test_blocking import blocking\n"
        "assert blocking(Scripted(number(1))).predict('m', a=1) == 1\n"
        "if os.fork() == 0:\n"
        "    os._exit(blocking(Scripted(number(7))).predict('m', a=1))\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "7\n", ran.stderr
