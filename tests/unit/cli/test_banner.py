"""What is said when the server is up."""

import io
from types import SimpleNamespace

import pytest

from inferstream.cli.banner import show
from inferstream.settings import Settings


def banner(settings: Settings, ports: dict[str, int], *models: tuple[str, str, str, str]) -> list[str]:
    server = SimpleNamespace(
        settings=settings,
        ports=ports,
        application=SimpleNamespace(
            registry=SimpleNamespace(summary=lambda: list(models)),
            access=SimpleNamespace(repository_open=True),
        ),
        scheme=lambda name: "" if name == "gRPC" else "http://",
    )
    file = io.StringIO()
    show(server, file)
    return file.getvalue().splitlines()[1:]


def test_models_are_a_table_and_every_port_has_a_line() -> None:
    ports = {"REST": 8080, "metrics": 8082, "gRPC": 8081}
    assert banner(
        Settings(), ports, ("iris", "v1", "predict", "ready"), ("m", "", "stream", "failed: x")
    ) == [
        "model  version  answers  state",
        "iris   v1       predict  ready",
        "m               stream   failed: x",
        "REST     http://127.0.0.1:8080/docs",
        "metrics  http://127.0.0.1:8082/metrics",
        "gRPC     127.0.0.1:8081",
    ]


@pytest.mark.parametrize(("endpoint", "shown"), [("/metrics", True), ("/other", True), (None, False)])
def test_metrics_on_the_rest_port_have_a_line_too(endpoint: str | None, shown: bool) -> None:
    settings = Settings(metrics_endpoint=endpoint, metrics_port=8080)
    lines = banner(settings, {"REST": 8080, "gRPC": 8081})
    assert (f"metrics  http://127.0.0.1:8080{endpoint}" in lines) is shown
    assert lines[0] == "no model was found"
    assert lines[-1] == "gRPC     127.0.0.1:8081"
