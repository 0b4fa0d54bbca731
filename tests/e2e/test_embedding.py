"""Programs that start a server of their own, stop it, and live on."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import write_model

HELLO = """
from inferstream import MLModel
class Hello(MLModel):
    async def predict(self, payload):
        return self.encode_response(["hello"])
"""

PROGRAM = """
import asyncio, gc, os, signal, socket, sys, threading, time
import grpc, httpx
from inferstream.protos.dataplane_pb2 import ServerReadyRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.server import stopping
from inferstream.server.server import Server
from inferstream.settings import Settings

def make(http_port=0, grpc_port=0, **more):
    ports = {"http_port": http_port, "grpc_port": grpc_port, "metrics_port": 0}
    return Server(Settings(**ports, model_repository_root=sys.argv[1], parallel_workers=int(sys.argv[2]), **more))

def check(server):
    body = {"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}
    url = f"http://127.0.0.1:{server.ports['REST']}/v2/models/hello/infer"
    assert httpx.post(url, json=body, timeout=30).json()["outputs"][0]["data"] == ["hello"]
    with grpc.insecure_channel(f"127.0.0.1:{server.ports['gRPC']}") as channel:
        assert GRPCInferenceServiceStub(channel).ServerReady(ServerReadyRequest(), timeout=30).ready

async def started(server):
    up = asyncio.Event()
    running = asyncio.create_task(server.run(lambda _: up.set()))
    waiting = asyncio.create_task(up.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), running.exception()
    return running

async def stopped(server, running):
    server.stop()
    await running
    assert not server.killed
"""


@pytest.fixture(params=[0, 2], ids=["in-process", "workers"])
def ran(request: pytest.FixtureRequest, tmp_path: Path):
    """Run a program to its end and return what it has printed."""
    folder = tmp_path / "models"
    write_model(folder, "hello", "hello.Hello", HELLO)

    def run(code: str) -> list[str]:
        program = tmp_path / "program.py"
        program.write_text(PROGRAM + code)
        command = [sys.executable, str(program), str(folder), str(request.param)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout.splitlines()

    return run


LIVES_ON = """
got = []
own = lambda number, _: got.append(signal.Signals(number).name)
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
for number in NUMBERS:
    signal.signal(number, own)
before = gc.get_threshold(), gc.get_freeze_count()
stopping.AFTERWARDS = 3.0  # what a watchdog would wait for beyond the grace period, which is none

async def main():
    server = make(shutdown_grace=0)
    running = await started(server)
    for number in NUMBERS:
        os.kill(os.getpid(), number)
        assert signal.getsignal(number) is own
    await asyncio.to_thread(check, server)
    await stopped(server, running)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    return server.longest_stop

limit = asyncio.run(main())
assert [number for number in NUMBERS if signal.getsignal(number) is not own] == []
os.kill(os.getpid(), signal.SIGTERM)
assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
assert (gc.get_threshold(), gc.get_freeze_count()) == before
time.sleep(limit + 1)
print("lives on", *got)
"""


def test_program_continues_after_stop_and_keeps_its_signals(ran) -> None:
    assert ran(LIVES_ON) == ["lives on SIGINT SIGTERM SIGHUP SIGTERM"]


AGAIN = """
async def main():
    ports = ()
    for turn in range(3):
        server = make(*ports)
        running = await started(server)
        await asyncio.to_thread(check, server)
        await stopped(server, running)
        try:
            await server.run(lambda _: None)
        except RuntimeError as error:
            print(error)
        ports = server.ports["REST"], server.ports["gRPC"]

asyncio.run(main())
asyncio.run(main())
"""


def test_servers_reuse_ports_one_after_another(ran) -> None:
    assert ran(AGAIN) == ["a Server runs once; make another one to serve again"] * 6


THREADS = """
def in_thread(server):
    up = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(server.run(lambda _: up.set()), debug=True))
    thread.start()
    assert up.wait(60)
    return thread

one, other = make(), make()
threads = in_thread(one), in_thread(other)
check(one), check(other)
one.stop()
threads[0].join()
check(other)
other.stop()
threads[1].join()
other.stop()  # of a server whose event loop has closed
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
print(one.killed, other.killed, threading.active_count())
"""


def test_two_servers_run_in_threads(ran) -> None:
    assert ran(THREADS) == ["False False 1"]


ONE_LOOP = """
async def main():
    one, other = make(), make()
    running = await started(one), await started(other)
    await asyncio.to_thread(check, one)
    await asyncio.to_thread(check, other)
    await stopped(one, running[0])
    await asyncio.to_thread(check, other)
    await stopped(other, running[1])
    print("ended")

asyncio.run(main())
"""


def test_two_servers_share_an_event_loop(ran) -> None:
    assert ran(ONE_LOOP) == ["ended"]


CANCELLED = """
async def main():
    server = make()
    running = await started(server)
    running.cancel()
    await asyncio.wait([running])
    print(running.cancelled(), server.killed, len(asyncio.all_tasks()))

asyncio.run(main())
"""


def test_cancelled_server_task_stops_gracefully(ran) -> None:
    assert ran(CANCELLED) == ["True False 1"]


REFUSED = """
async def main():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = make(grpc_port=taken.getsockname()[1])
        try:
            await server.run(lambda _: None)
        except Exception as error:
            kept = error  # and its traceback, which refers to whatever run had
    with socket.socket() as free:
        free.bind(("127.0.0.1", server.ports["REST"]))
    print(type(kept).__name__)

asyncio.run(main())
"""


def test_failed_start_releases_ports(ran) -> None:
    assert ran(REFUSED) == ["InvalidSettings"]


MLSERVER = """
import inferstream.compat
inferstream.compat.install()
from mlserver import MLServer

async def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"http_port": port, "grpc_port": 0, "metrics_port": 0}
    server = MLServer(Settings(**settings, model_repository_root=sys.argv[1], parallel_workers=int(sys.argv[2])))
    for turn in range(2):
        running = asyncio.create_task(server.start())
        async with httpx.AsyncClient() as client:
            while True:
                try:
                    if (await client.get(f"http://127.0.0.1:{port}/v2/health/ready")).status_code == 200:
                        break
                except httpx.HTTPError:
                    assert not running.done()
                await asyncio.sleep(0.02)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        await server.stop()
        await running

asyncio.run(main())
print("ended")
"""


def test_mlserver_restarts_and_installs_no_signal_handlers(ran) -> None:
    assert ran(MLSERVER) == ["ended"]
