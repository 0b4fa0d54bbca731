"""`server demo` serves the packaged model, and the lines that it prints call this model."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferstream.cli import demo
from inferstream.cli.flags import Flags
from inferstream.server.server import Server
from inferstream.settings import Settings


def test_packaged_model_is_served_with_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []

    def start(folder: Path, flags: Flags, watch: bool, say: object) -> int:
        served.extend((sorted(path.name for path in folder.iterdir() if path.is_dir()), flags, watch))
        return 7

    monkeypatch.setattr(demo, "start", start)
    assert demo.run({"http_port": 5, "host": None}) == 7
    models, flags, watch = served
    assert [name for name in models if not name.startswith("__")] == ["storyteller"]
    assert (flags.settings, watch) == ({"http_port": 5, "host": None}, False)


def test_printed_lines_name_the_model_at_a_reachable_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "show", lambda server, pasted: None)
    server = SimpleNamespace(
        settings=Settings(host="0.0.0.0"), ports={"REST": 8080}, scheme=lambda name: "http://"
    )
    demo._show_commands(cast(Server, server))
    said = capsys.readouterr().err
    bodies = re.findall(r"curl -N http://127\.0\.0\.1:8080/\S+ -d '(.*?)'", said, re.S)
    assert len(bodies) == 3
    assert json.loads(bodies[0]) == {"prompt": "the old man", "stream": True}
    assert json.loads(bodies[2])["model"] == "storyteller"
    assert "/v2/models/storyteller/generate_stream" in said
    compile(
        said.partition("then in Python:")[2].partition("Ctrl+C")[0].replace("\n  ", "\n"), "lines", "exec"
    )
