"""Processes, signals, threads and logging as model code uses them, in the server and in a worker, in apps and folders."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.serving import Running, eventually

HEAD = """
import asyncio, atexit, concurrent.futures, logging, logging.config, multiprocessing, os, pathlib, signal, sys
import subprocess, threading, time, warnings
HERE = pathlib.Path(__file__).parent
def sleep(): time.sleep(60)
def square(x): return x * x
{top}
"""
APP = HEAD + "from inferstream import App\napp = App()\n@app.model\n{kind} f(x: int) -> str:\n    {body}\n"
CLASS = (
    HEAD
    + "from inferstream import MLModel, decode_args\nclass M(MLModel):\n"
    + "    {kind} load(self):\n        {load}\n"
    + "    @decode_args\n    {kind} predict(self, x: int) -> str:\n        {body}\n"
)


@pytest.fixture(params=["0", "1"], ids=["server", "worker"])
def processes(request: pytest.FixtureRequest) -> str:
    return request.param


class Served:
    """One model, as a function of an app or as a class in a folder."""

    def __init__(
        self, start: Callable[..., Running], root: Path, workers: str, form: str, **parts: str
    ) -> None:
        parts = {"top": "", "load": "pass", "kind": "def", "body": "return str(x)", **parts}
        self.root = root / "models" / "f"
        self.root.mkdir(parents=True, exist_ok=True)
        self.form = form
        if form == "app":
            (self.root / "app.py").write_text(APP.format(**parts))
        else:
            (self.root / "model.py").write_text(CLASS.format(**parts))
            (self.root / "model-settings.json").write_text(
                '{"name": "f", "implementation": "model.M", "threads": 1}'
            )
        self.server = start(self.root, "--workers", workers)

    def call(self, x: int = 1) -> str:
        answer = httpx.post(f"{self.server.url}/v2/models/f/generate", json={"x": x}, timeout=20)
        body = answer.json()
        return body.get("output", body.get("output-0", str(body)))


@pytest.fixture
def serve(start: Callable[..., Running], tmp_path: Path) -> Callable[..., Served]:
    return lambda workers, form="app", **parts: Served(start, tmp_path, workers, form, **parts)


FORMS = pytest.mark.parametrize("form", ["app", "folder"])
TERMINATED = (
    "p.start(); time.sleep(.2); p.terminate(); p.join(8); code = p.exitcode; p.kill(); return str(code)"
)
CHILDREN = {
    "fork": (f"p = multiprocessing.get_context('fork').Process(target=sleep); {TERMINATED}", "-15"),
    "spawn": (f"p = multiprocessing.get_context('spawn').Process(target=sleep); {TERMINATED}", "-15"),
    "forkserver": (
        f"p = multiprocessing.get_context('forkserver').Process(target=sleep); {TERMINATED}",
        "-15",
    ),
    "subprocess": (
        "p = subprocess.Popen(['sleep', '60']); p.send_signal(signal.SIGHUP); return str(p.wait(8))",
        "-1",
    ),
    "os.fork": (
        "pid = os.fork(); (pid or sleep()); os.kill(pid, 15); return str(os.waitpid(pid, 0)[1])",
        "15",
    ),
    "pool": ("with multiprocessing.Pool(2) as pool: return str(pool.map(square, [2, 3]))", "[4, 9]"),
    "executor": (
        "with concurrent.futures.ProcessPoolExecutor(2) as pool: return str([*pool.map(square, [2, 3])])",
        "[4, 9]",
    ),
}


@FORMS
@pytest.mark.parametrize("child", CHILDREN)
def test_child_processes_of_models_are_separate(serve, processes: str, form: str, child: str) -> None:
    body, right = CHILDREN[child]
    served = serve(processes, form, body=body)
    assert served.call() == right
    assert served.server.stop() == 0


def test_fork_that_outlives_server_releases_ports(serve, processes: str) -> None:
    served = serve(processes, body="pid = os.fork(); (pid or (os.setsid(), sleep())); return str(pid)")
    pid = int(served.call())
    try:
        assert served.server.stop() == 0
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", served.server.http_port))
            again.listen()
    finally:
        os.kill(pid, signal.SIGKILL)


REGISTERED = "atexit.register(lambda: (HERE / f'flushed-{os.getpid()}').write_text('x'))"


@FORMS
@pytest.mark.parametrize("place", ["top", "load", "body"])
def test_exit_functions_run_on_stop(serve, processes: str, form: str, place: str) -> None:
    if (form, place) == ("app", "load"):
        pytest.skip("functions have no load")
    parts = {"body": "return str(os.getpid())"}
    parts[place] = f"{REGISTERED}; {parts['body']}" if place == "body" else REGISTERED
    served = serve(processes, form, **parts)
    pid = served.call()
    assert served.server.stop() == 0
    assert (served.root / f"flushed-{pid}").exists()


def test_hanging_exit_function_does_not_block_stop(serve, processes: str) -> None:
    served = serve(processes, top="atexit.register(sleep)")
    served.call()
    assert served.server.stop() == 0
    assert "atexit" in served.server.text()


HANDLED = "signal.signal(signal.{name}, lambda *_: (HERE / 'handled').write_text('x'))"


@FORMS
@pytest.mark.parametrize("place", ["top", "load", "body"])
@pytest.mark.parametrize("name", ["SIGUSR1", "SIGTERM", "SIGINT"])
def test_signal_handlers_of_model_code(serve, processes: str, form: str, place: str, name: str) -> None:
    if (form, place) == ("app", "load"):
        pytest.skip("functions have no load")
    handled = HANDLED.format(name=name)
    parts = {"body": "return str(os.getpid())"}
    parts[place] = f"{handled}; {parts['body']}" if place == "body" else handled
    served = serve(processes, form, **parts)
    pid = int(served.call())
    if name == "SIGUSR1":
        os.kill(pid, signal.SIGUSR1)
        eventually((served.root / "handled").exists)
    else:
        assert f"handler for {name} ignored" in served.server.text()
    assert served.call() == str(pid)
    assert served.server.stop() == 0


THREAD = "str(threading.get_ident())"
STEPS = """
import threading
from inferstream import MLModel, decode_args
class M(MLModel):
    {load} load(self):
        self.seen = [threading.get_ident()]
    def note(self): self.seen.append(threading.get_ident())
    {predict}
    def unload(self):
        self.note()
        open(__import__("os").environ["TEST_LOG"], "a").write(f"threads {{len(set(self.seen))}} of {{len(self.seen)}}\\n")
"""
PREDICT = "@decode_args\n    def predict(self, x: int) -> int:\n        self.note(); return x"
STREAM = (
    "from collections.abc import Iterator\n    @decode_args\n"
    "    def predict_stream(self, x: int) -> Iterator[int]:\n        self.note(); yield x; self.note(); yield x"
)


@pytest.mark.parametrize("predict", [PREDICT, STREAM], ids=["predict", "generator"])
@pytest.mark.parametrize("load", ["def", "async def"])
def test_load_predict_and_unload_share_a_thread(
    start: Callable[..., Running], tmp_path: Path, processes: str, load: str, predict: str
) -> None:
    root = tmp_path / "models"
    root.mkdir()
    (root / "model.py").write_text(STEPS.format(load=load, predict=predict))
    (root / "model-settings.json").write_text('{"name": "f", "implementation": "model.M", "threads": 1}')
    server = start(root, "--workers", processes)
    for _ in range(3):
        path = "generate_stream" if predict == STREAM else "generate"
        assert httpx.post(f"{server.url}/v2/models/f/{path}", json={"x": 1}).status_code == 200
    assert server.stop() == 0
    assert "threads 1 of " in server.log.read_text()


CONFIGURED = {
    "level": "logging.basicConfig(level=logging.INFO)",
    "format": "logging.basicConfig(level=logging.INFO, format='MINE %(message)s')",
    "force": "logging.basicConfig(level=logging.INFO, force=True)",
    "root": "logging.getLogger().setLevel(logging.INFO)",
    "handlers": "logging.getLogger().handlers[:] = [logging.StreamHandler()]; logging.getLogger().setLevel(20)",
    "dictConfig": "logging.config.dictConfig({'version': 1, 'handlers': {'h': {'class': 'logging.StreamHandler'}},"
    " 'root': {'level': 'INFO', 'handlers': ['h']}})",
}


@FORMS
@pytest.mark.parametrize("config", CONFIGURED)
def test_model_and_server_logging_are_independent(serve, processes: str, form: str, config: str) -> None:
    served = serve(
        processes,
        form,
        top=CONFIGURED[config],
        body="logging.getLogger('mine').info('MY-INFO'); return str(x)",
    )
    assert served.call() == "1"
    eventually(lambda: "MY-INFO" in served.server.text())
    assert ("MINE MY-INFO" in served.server.text()) is (config == "format")
    assert served.server.stop() == 0
    assert "stopping: no longer ready" in served.server.text()


LOOPS = {
    "asyncio.run": "return str(asyncio.run(asyncio.sleep(0, 5)))",
    "new loop": "loop = asyncio.new_event_loop(); return str(loop.run_until_complete(asyncio.sleep(0, 5)))",
}


@FORMS
@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
def test_event_loops_in_blocking_code(serve, processes: str, form: str, body: str) -> None:
    assert serve(processes, form, body=body).call() == "5"


NESTED = "nest_asyncio.apply(); return str(asyncio.get_event_loop().run_until_complete(asyncio.sleep(0, 5)))"


@pytest.mark.parametrize(
    ("top", "choice"), [("import nest_asyncio", "auto"), ("", "asyncio")], ids=["top", "late"]
)
@FORMS
def test_nested_event_loops(
    start: Callable[..., Running],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: str,
    form: str,
    top: str,
    choice: str,
) -> None:
    pytest.importorskip("nest_asyncio")
    monkeypatch.setenv("INFERSTREAM_EVENT_LOOP", choice)
    body = NESTED if top else f"import nest_asyncio; {NESTED}"
    served = Served(start, tmp_path, processes, form, kind="async def", top=top, body=body)
    assert served.call() == "5"


HELD = "open({mark!r}, 'w').close(); import time; time.sleep(60)"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "under", [(), ("unshare", "--pid", "--fork", "--kill-child")], ids=["child", "process 1"]
)
def test_signal_during_app_import_ends_server(
    start: Callable[..., Running], tmp_path: Path, number: signal.Signals, under: tuple[str, ...]
) -> None:
    if under and subprocess.run([*under, "true"], capture_output=True).returncode:
        pytest.skip("this machine makes no namespace of processes")
    root, mark = tmp_path / "models", tmp_path / "imports"
    root.mkdir()
    (root / "app.py").write_text(HELD.format(mark=str(mark)))
    server = start(root, wait=False, under=under)
    eventually(mark.exists)
    pid = server.workers()[0] if under else server.process.pid
    os.kill(pid, number)
    assert server.process.wait(30) == 0


def test_chdir_output_and_warnings_in_model_code(serve, processes: str) -> None:
    body = "os.chdir('/'); print('SAID'); warnings.simplefilter('error'); return str(x)"
    served = serve(processes, body=body)
    assert [served.call(), served.call()] == ["1", "1"]
    eventually(lambda: served.server.text().count("SAID") == 2)
    assert served.server.stop() == 0
