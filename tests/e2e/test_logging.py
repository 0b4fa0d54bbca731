"""What is in the log, in which form, and what of it a settings file decides."""

import json
import re
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, write_model

CODE = """
import logging
from mlserver import MLModel
from mlserver.logging import logger
from mlserver.types import InferenceResponse

class Model(MLModel):
    async def predict(self, payload):
        logger.info("asked %s", payload.inputs[0].data[0])
        logging.getLogger("theirs").warning("theirs %s", payload.id)
        return InferenceResponse(model_name=self.name, outputs=[])
"""

EVIL = '"quoted" \r\n2026-01-01 forged record \x1b[31m'


def request(said: str, **more: str) -> dict:
    return {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": [said]}], **more}


def folder_with(root: Path, settings: dict) -> Path:
    folder = root / "models"
    write_model(folder, "m", "model.Model", CODE, parameters={"version": "7"})
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def records(running: Running) -> list[dict]:
    """Every line must be one JSON object."""
    lines = running.text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def test_structured_log_lines_are_always_json(tmp_path: Path, serve) -> None:
    running = serve(folder_with(tmp_path, {"use_structured_logging": True}))
    assert running.infer("m", request(EVIL)).status_code == 200
    eventually(lambda: "theirs" in running.text())
    said = next(record for record in records(running) if record["name"] == "mlserver")
    assert said["message"] == f"asked {EVIL}"
    assert (said["level"], said["model_name"], said["model_version"]) == ("INFO", "m", "7")
    assert "forged" not in "".join(line for line in running.text().splitlines() if line[0] != "{")


NOISY = """
import ctypes, subprocess, sys, threading, warnings
from mlserver import MLModel

class Model(MLModel):
    async def load(self):
        print("printed\\n\\nagain")
        print("to stderr", file=sys.stderr)
        warnings.warn("warned")
        ctypes.CDLL(None).puts(b"from C")
        ctypes.CDLL(None).fflush(None)
        subprocess.run(["sh", "-c", "echo child; echo its stderr >&2"])
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        return True

    async def predict(self, payload):
        raise ValueError("refused")
"""


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("way", ["flag", "variable", "settings"])
def test_every_line_is_json_from_start_to_stop(
    tmp_path: Path, serve, monkeypatch: pytest.MonkeyPatch, workers: int, way: str
) -> None:
    folder = tmp_path / "models"
    write_model(folder, "m", "model.Model", NOISY, parallel_workers=workers)
    monkeypatch.setenv("INFERSTREAM_SHUTDWN_GRACE", "1")
    settings = {"use_structured_logging": True} if way == "settings" else {}
    (folder / "settings.json").write_text(json.dumps(settings))
    if way == "variable":
        monkeypatch.setenv("MLSERVER_USE_STRUCTURED_LOGGING", "true")
    running = serve(folder, *(["--log-json"] if way == "flag" else []))
    assert running.infer("m", request("x")).status_code == 500
    running.stop()
    messages = {record["message"] for record in records(running)}
    assert {
        "printed",
        "again",
        "to stderr",
        "from C",
        "child",
        "its stderr",
        "uncaught exception",
    } <= messages
    assert any("SHUTDWN_GRACE" in message for message in messages)
    assert any("warned" in message for message in messages)


def test_lines_cannot_be_forged(tmp_path: Path, serve) -> None:
    running = serve(folder_with(tmp_path, {}))
    assert running.infer("m", request(EVIL)).status_code == 200
    eventually(lambda: "theirs" in running.text())
    (line,) = [line for line in running.text().splitlines() if "forged" in line]
    assert "[mlserver][m:7] INFO - asked" in line
    assert line.isprintable()
    assert "DEBUG" not in running.text()


CONFIGURATION = {
    "version": 1,
    "formatters": {"own": {"format": "OWN %(name)s %(levelname)s %(message)s"}},
    "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own", "stream": "ext://sys.stdout"}},
    "loggers": {
        "mlserver": {"handlers": ["own"], "level": "DEBUG", "propagate": False},
        "theirs": {"handlers": ["own"], "level": "ERROR"},
    },
}

INI = """
[loggers]
keys=root,mlserver,theirs
[handlers]
keys=own
[formatters]
keys=own
[logger_root]
level=WARNING
handlers=own
[logger_mlserver]
level=DEBUG
handlers=own
propagate=0
qualname=mlserver
[logger_theirs]
level=ERROR
handlers=own
qualname=theirs
[handler_own]
class=StreamHandler
formatter=own
args=(sys.stdout,)
[formatter_own]
format=OWN %(name)s %(levelname)s %(message)s
"""


@pytest.mark.parametrize(("form", "count"), [("dict", "0"), ("json", "2"), ("ini", "0")])
def test_mlserver_logging_configuration_applies_to_all_loggers(
    tmp_path: Path, start, form: str, count: str
) -> None:
    (tmp_path / "logging.json").write_text(json.dumps(CONFIGURATION))
    (tmp_path / "logging.ini").write_text(INI)
    given = CONFIGURATION if form == "dict" else f"logging.{form}"
    folder = folder_with(tmp_path, {"logging_settings": given})
    running = start(folder, INFERSTREAM_PARALLEL_WORKERS=count)
    assert running.infer("m", request("hi", id="1")).status_code == 200
    httpx.get(f"{running.url}/v2/models/m")
    httpx.get(f"{running.url}/v2/health/ready")
    with grpc.insecure_channel(running.grpc) as channel:
        GRPCInferenceServiceStub(channel).ServerReady(messages.ServerReadyRequest(), timeout=10)
        GRPCInferenceServiceStub(channel).ServerMetadata(messages.ServerMetadataRequest(), timeout=10)
    eventually(lambda: "ServerMetadata OK" in running.text())
    text = running.text()
    assert "OWN mlserver INFO asked hi" in text
    assert "OWN inferstream.rest DEBUG POST /v2/models/{model_name}/infer of m 200" in text
    assert "OWN inferstream.rest DEBUG GET /v2/models/m 200" in text
    assert "OWN inferstream.grpc DEBUG inference.GRPCInferenceService/ServerMetadata OK" in text
    assert "health" not in text
    assert "ServerReady" not in text
    assert "theirs 1" not in text


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("gone.json", "No such file"),
        ("gone.ini", "gone.ini"),
        ({"version": 7}, "version"),
        ({"version": 1, "handlers": {"a": {"class": "no.such.Class"}}}, "no"),
        ("broken.ini", "is missing"),
        ("list.json", "JSON object"),
    ],
)
def test_invalid_configuration_aborts_startup_with_one_line(
    tmp_path: Path, given: object, reason: str
) -> None:
    (tmp_path / "broken.ini").write_text("[nothing]\nlike=it")
    (tmp_path / "list.json").write_text("[]")
    running = Running(folder_with(tmp_path, {"logging_settings": given}), wait=False)
    assert running.process.wait(20) == 1
    (line,) = running.text().splitlines()
    assert line.startswith('error: settings: field "logging_settings": ')
    assert re.search(reason, line), line


def test_load_failure_is_one_record(tmp_path: Path, start) -> None:
    folder = tmp_path / "models"
    code = CODE.replace(
        "    async def predict",
        "    async def load(self):\n        raise ValueError('no weights')\n\n    async def predict",
    )
    assert code != CODE
    write_model(folder, "m", "model.Model", code)
    (folder / "settings.json").write_text(json.dumps({"use_structured_logging": True}))
    running = start(folder)

    def errors() -> list[dict]:
        return [record for record in records(running) if record["level"] == "ERROR"]

    eventually(lambda: len(errors()) == 2)
    said, summary = errors()
    assert summary["message"].startswith("1 of 1 model failed to load: m: ValueError: no weights; hint: ")
    assert "exception" not in summary
    assert said["message"] == "Model m did not load: ValueError: no weights"
    assert "raise ValueError" in said["exception"]
    assert said["model_name"] == "m"
