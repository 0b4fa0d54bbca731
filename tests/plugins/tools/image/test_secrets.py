"""Keys in a model folder stay outside its image."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inferstream.ext.hosting import command_line as app
from inferstream.plugins.tools.image.secrets import (
    find_secrets,
    find_uncovered_secrets,
    generate_ignore_lines,
)

KEY = "-----BEGIN RSA PRIVATE KEY-----\nx\n-----END RSA PRIVATE KEY-----\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model-settings.json").write_text('{"implementation": "model.Model"}')
    return tmp_path


def dockerfile(folder: Path, *flags: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["dockerfile", *flags, str(folder)])
    return ran.exit_code, ran.output


def test_secrets_are_found_by_settings_and_by_content(folder: Path) -> None:
    settings = {
        "keys_file": "keys.json",
        "_custom_rest_server_settings": {"ssl_keyfile": "der.key"},
        "state_key_file": "/outside",
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "below").mkdir()
    for name, text in {
        "keys.json": "{}",
        "der.key": "x",
        "below/pem": f"certificate\n{KEY}",
        "store.p12": "",
        "tls.crt": "-----BEGIN CERTIFICATE-----",
        "code.py": KEY,
    }.items():
        (folder / name).write_text(text)
    assert find_secrets(folder) == ["below/pem", "der.key", "keys.json", "store.p12"]


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        ("", ["a/tls.key"]),
        ("# a/tls.key", ["a/tls.key"]),
        ("*.key", ["a/tls.key"]),
        ("a/tls.key", []),
        ("/a/tls.key", []),
        ("a", []),
        ("a/", []),
        ("**/*.key", []),
        ("**/*.key\n!a/tls.key", ["a/tls.key"]),
        (generate_ignore_lines(["a/tls.key"]), []),
    ],
)
def test_last_matching_line_wins(ignored: str, left: list[str]) -> None:
    assert find_uncovered_secrets(["a/tls.key"], ignored) == left


@pytest.mark.parametrize("flags", [(), ("--include-dockerignore",)])
def test_ignore_file_excludes_key(folder: Path, flags: tuple[str, ...]) -> None:
    (folder / "tls.key").write_text(KEY)
    code, said = dockerfile(folder, *flags)
    assert code == 0
    assert "tls.key stays outside the image" in said
    assert "tls.key" in (folder / ".dockerignore").read_text().splitlines()


def test_custom_ignore_file_must_exclude_key(folder: Path) -> None:
    (folder / "tls.key").write_text(KEY)
    (folder / ".dockerignore").write_text(".git\n")
    code, said = dockerfile(folder)
    assert code == 1
    assert "tls.key" in said
    assert not (folder / "Dockerfile").exists()
    (folder / ".dockerignore").write_text(".git\ntls.key\n")
    assert dockerfile(folder)[0] == 0
