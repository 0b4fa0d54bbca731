"""Loading, unloading and starting workers while something goes wrong."""

import json
import os
import signal
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.serving import Running, eventually, text, write_model

HEAD = """
import asyncio, os, signal, subprocess, time
import multiprocessing
from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceResponse

def note(what):
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(what + "\\n")

class Base(MLModel):
    async def predict(self, payload):
        said = StringCodec.encode_output("said", [str(await asyncio.to_thread(self.say))])
        return InferenceResponse(model_name=self.name, outputs=[said])

    def say(self):
        return "fine"
"""

CRASHING = HEAD + "class Model(Base):\n    async def load(self):\n        os._exit(7)\n"

FAILS_IN_THE_SECOND = """
class Model(Base):
    async def load(self):
        for turn in range(1, 4):
            try:
                os.close(os.open(f"{os.environ['TEST_LOG']}.{turn}", os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                pass
        if turn == 2:
            raise ValueError("not here")
        if turn == 3:
            await asyncio.sleep(0.5)
        note("loaded")
        return True

    async def unload(self):
        note("unloaded")
        return True
"""

CHILDREN = """
class Model(Base):
    def say(self):
        ends = []
        child = subprocess.Popen(["sleep", "600"])
        child.terminate()
        ends.append(child.wait(5))
        context = multiprocessing.get_context("fork")
        child = context.Process(target=time.sleep, args=(600,))
        child.start()
        child.terminate()
        child.join(5)
        ends.append(child.exitcode)
        return ends
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, implementation in {"echo": "Echo", "deadly": "Deadly"}.items():
        write_model(tmp_path / "models", name, f"faulty_models.{implementation}", name=name)
    return tmp_path / "models"


@pytest.fixture
def started(folder: Path) -> Iterator[object]:
    running: list[Running] = []

    def start(workers: int = 2, **settings) -> Running:
        (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers, **settings}))
        running.append(Running(folder))
        return running[-1]

    yield start
    for server in running:
        server.stop()


def change(server: Running, model: str, action: str, timeout: float = 20) -> httpx.Response:
    return httpx.post(f"{server.url}/v2/repository/models/{model}/{action}", timeout=timeout)


def reason(server: Running, model: str) -> str:
    index = httpx.post(f"{server.url}/v2/repository/index").json()
    return next(entry["reason"] for entry in index if entry["name"] == model)


def test_crash_during_parallel_load_is_isolated(started, folder) -> None:
    write_model(folder, "crashing", "crashing.Model", CRASHING)
    server = started()
    for other in ("echo", "deadly"):  # each may have been in the worker that crashed, and is loaded again
        eventually(
            lambda other=other: httpx.get(f"{server.url}/v2/models/{other}/ready").status_code == 200, 20
        )
    server.probe()
    assert "exited with status 7" in reason(server, "crashing")
    assert server.infer("deadly", text(parameters={"mode": "none"})).status_code == 200
    eventually(lambda: len(server.workers()) == 2)


def test_failed_load_leaves_no_workers(started, folder) -> None:
    server = started(workers=0)
    write_model(folder, "broken", "broken.Model", "import nothing_like_it", parallel_workers=2)
    for _ in range(3):
        assert change(server, "broken", "load").status_code == 500
    eventually(lambda: server.workers() == [])
    assert server.metric("inferstream_workers") == 0


def test_failure_in_one_worker_unloads_all(started, folder) -> None:
    server = started(workers=3)
    write_model(folder, "half", "half.Model", HEAD + FAILS_IN_THE_SECOND)
    assert change(server, "half", "load").status_code == 500
    eventually(lambda: server.log.read_text().count("unloaded\n") == 3)
    assert server.log.read_text().count("\nloaded\n") == 1
    server.probe()


def test_missing_python_executable_fails_load_at_once(started, folder, tmp_path) -> None:
    server = started(workers=0)
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("nothing that runs")
    write_model(
        folder, "odd", "odd.Model", HEAD, parameters={"environment_path": str(tmp_path / "environment")}
    )
    for mode in (0o644, 0o755):
        python.chmod(mode)
        answer = change(server, "odd", "load")
        assert answer.status_code == 500
        assert "Model odd did not load: " in answer.json()["error"]
    eventually(lambda: server.workers() == [])


@pytest.mark.parametrize("damage", ["cut", "flipped", "text"])
def test_damaged_environment_fails_only_its_model(started, folder, tmp_path, damage: str) -> None:
    model = write_model(
        folder, "odd", "odd.Model", HEAD, parameters={"environment_tarball": "environment.tar.gz"}
    )
    content = tmp_path / "content"
    content.write_bytes(os.urandom(100_000))
    tarball = model / "environment.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(content, "bin/python")
    data = bytearray(tarball.read_bytes())
    if damage == "cut":
        data = data[:50_000]
    elif damage == "flipped":
        data[100:50_000] = bytes(byte ^ 0x55 for byte in data[100:50_000])
    else:
        data = bytearray(b"no archive")
    tarball.write_bytes(data)
    server = started(workers=0, environments_dir=str(tmp_path / "unpacked"))
    assert reason(server, "odd") == "Model odd did not load: environment.tar.gz cannot be unpacked."
    server.probe()
    assert list((tmp_path / "unpacked").iterdir()) == []


def test_environment_with_path_traversal_fails_its_model(started, folder, tmp_path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("untouched")
    secret.chmod(0o600)
    parameters = {"environment_tarball": "environment.tar.gz"}
    model = write_model(folder, "odd", "odd.Model", HEAD, parameters=parameters)
    with tarfile.open(model / "environment.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("bin/python")
        link.type, link.linkname, link.mode = tarfile.LNKTYPE, f"../../{secret.name}", 0o777
        archive.addfile(link)
    server = started(workers=0, environments_dir=str(tmp_path / "unpacked"))
    assert reason(server, "odd") == (
        "Model odd did not load: environment.tar.gz cannot be unpacked: its member "
        '"bin/python" is a hard link to "../../secret", which is no file of the archive before it.'
    )
    server.probe()
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("untouched", 0o600)
    assert list((tmp_path / "unpacked").iterdir()) == []


def test_unload_does_not_wait_for_blocked_worker(started, folder) -> None:
    write_model(folder, "other", "faulty_models.Echo", name="other")
    server = started(workers=1, parallel_workers_timeout=1)
    with ThreadPoolExecutor(1) as pool:
        blocking = pool.submit(
            httpx.post,
            f"{server.url}/v2/models/deadly/infer",
            json=text(parameters={"mode": "block"}),
            timeout=15,
        )
        eventually(lambda: server.log.read_text().count("start") == 1)
        assert change(server, "other", "unload", timeout=10).status_code == 200
        os.kill(server.workers()[0], signal.SIGKILL)
        assert blocking.result().status_code == 503


def test_child_processes_of_model_can_be_terminated(started, folder) -> None:
    write_model(folder, "children", "children.Model", HEAD + CHILDREN)
    server = started(workers=1)
    assert server.infer("children", text()).json()["outputs"][0]["data"] == ["[-15, -15]"]
