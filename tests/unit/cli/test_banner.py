"""What is said when the server is up."""

import io
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from inferstream.cli.banner import show
from inferstream.repository.folder import FolderRepository
from inferstream.settings import ModelSettings, Settings
from inferstream.telemetry.logs import JSONFormatter


def banner(
    settings: Settings,
    ports: dict[str, int],
    *models: tuple[str, str, str, str, str],
    keys: object = None,
    served: Sequence[ModelSettings] = (),
) -> list[str]:
    server = SimpleNamespace(
        settings=settings,
        ports=ports,
        backend=SimpleNamespace(
            registry=SimpleNamespace(
                summary=lambda: list(models),
                items=lambda: [
                    ((each.name, None), SimpleNamespace(execution=SimpleNamespace(settings=each)))
                    for each in served
                ],
            ),
            access=SimpleNamespace(repository_open=True, requires_credentials=keys is not None),
        ),
        scheme=lambda name: "" if name == "gRPC" else "http://",
    )
    file = io.StringIO()
    show(server, file)
    return file.getvalue().splitlines()[1:]


def test_banner_has_a_model_table_and_a_line_per_port() -> None:
    ports = {"REST": 8080, "metrics": 8082, "gRPC": 8081}
    assert banner(
        Settings(), ports, ("iris", "v1", "predict", "2.5 s", "ready"), ("m", "", "stream", "", "failed: x")
    ) == [
        "model  version  type     load   state",
        "iris   v1       predict  2.5 s  ready",
        "m               stream          failed: x",
        "page     http://127.0.0.1:8080/",
        "REST     http://127.0.0.1:8080/docs",
        "metrics  http://127.0.0.1:8082/metrics",
        "gRPC     127.0.0.1:8081",
    ]


def test_model_without_settings_shows_its_file_and_runtime(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    known = FolderRepository(tmp_path, "iris").without_settings(tmp_path)
    assert known is not None
    other = ModelSettings(name="other", implementation="a.B")
    rows = [("iris", "", "predict", "1.0 s", "ready"), ("other", "", "predict", "1.0 s", "ready")]
    lines = banner(Settings(), {"REST": 1, "gRPC": 2, "metrics": 3}, *rows, served=[known, other])
    assert [line for line in lines if "has no settings" in line] == [
        "iris has no settings: model.onnx says that inferstream.plugins.frameworks.onnx.OnnxModel reads it"
    ]


@pytest.mark.parametrize(("endpoint", "shown"), [("/metrics", True), ("/other", True), (None, False)])
def test_metrics_on_the_rest_port_have_a_line(endpoint: str | None, shown: bool) -> None:
    settings = Settings(metrics_endpoint=endpoint, metrics_port=8080)
    lines = banner(settings, {"REST": 8080, "gRPC": 8081})
    assert (f"metrics  http://127.0.0.1:8080{endpoint}" in lines) is shown
    assert lines[0] == "no model was found: no folder in . has a model-settings.json"
    assert "server init my-model" in lines[1]
    assert lines[-1] == "gRPC     127.0.0.1:8081"


def test_unconfigured_code_folder_shows_both_next_steps(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    lines = banner(Settings(model_repository_root=str(tmp_path)), {"REST": 8080, "gRPC": 8081})
    assert f"server start {tmp_path}/model.py" in lines[1]
    assert f"server init {tmp_path}/my-model" in lines[2]


def test_page_address_opens_in_a_local_browser() -> None:
    lines = banner(Settings(host="0.0.0.0"), {"REST": 8080, "gRPC": 8081})
    assert "page     http://127.0.0.1:8080/" in lines
    assert "REST     http://0.0.0.0:8080/docs" in lines


@pytest.mark.parametrize(
    ("host", "keys", "said"), [("0.0.0.0", None, True), ("0.0.0.0", 1, False), ("::1", None, False)]
)
def test_public_server_without_keys_lists_open_operations(host: str, keys: object, said: bool) -> None:
    lines = banner(Settings(host=host), {"REST": 1, "gRPC": 2, "metrics": 3}, keys=keys)
    assert any(line.startswith("no keys: ") for line in lines) is said


def test_models_that_failed_are_named_at_the_end_with_the_next_step() -> None:
    ports = {"REST": 1, "gRPC": 2, "metrics": 3}
    good = ("good", "", "predict", "1.0 s", "ready")
    bad = ("bad", "2", "", "", "UNAVAILABLE: no module modell; hint: name the file")
    lines = banner(Settings(), ports, good, bad)
    assert "bad    2                        UNAVAILABLE" in lines
    assert lines[-3:] == [
        "error: 1 of 2 models failed to load: bad:2: no module modell",
        "hint: name the file",
        "hint: correct the code and start again; `--reload` loads saved files, `--strict` exits on a failure",
    ]
    settings = Settings()
    settings._reloads = True
    lines = banner(settings, ports, ("a", "", "", "", "UNAVAILABLE: x"), ("b", "", "", "", "UNAVAILABLE: y"))
    assert lines[-4:] == [
        "error: 2 of 2 models failed to load:",
        "  a: x",
        "  b: y",
        "hint: correct the code and save the file; the server loads the model again",
    ]
    assert not any("failed to load" in line for line in banner(settings, ports, good))


def test_a_failure_is_a_record_if_logs_are_json(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handler = logging.NullHandler()
    handler.setFormatter(JSONFormatter())
    monkeypatch.setattr(logging.getLogger(), "handlers", [*logging.getLogger().handlers, handler])
    with caplog.at_level("ERROR", "inferstream.server"):
        banner(Settings(), {"REST": 1, "gRPC": 2, "metrics": 3}, ("a", "", "", "", "UNAVAILABLE: x"))
    assert caplog.messages[0].startswith("1 of 1 model failed to load: a: x; hint: correct the code")
