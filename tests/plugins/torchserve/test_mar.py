"""What an archive of TorchServe says."""

import zipfile
from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.plugins.torchserve import mar
from tests.torchserve import STREAMING, archive


def test_archive_replaces_settings(tmp_path: Path) -> None:
    path = archive(tmp_path / "plain.mar", "handler.py", {"handler.py": "", "data.bin": b"\x00"})
    assert mar.read_settings(path) == {
        "name": "plain",
        "implementation": mar.MODEL,
        "parameters": {"uri": str(path), "version": "1.0"},
    }


def test_batches_and_streams(tmp_path: Path) -> None:
    config = "batchSize: 8\nhandler: {a: 1}\n"
    path = archive(
        tmp_path / "m.mar",
        "handler.py",
        {"handler.py": STREAMING},
        config,
        modelName="other",
        modelVersion="",
    )
    settings = mar.read_settings(path)
    assert settings["name"] == "other"
    assert settings["parameters"]["version"] is None
    assert settings["implementation"] == mar.STREAMING_MODEL
    assert (settings["max_batch_size"], settings["max_batch_time"]) == (8, 0.1)
    assert mar.read_manifest(path).config["handler"] == {"a": 1}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("batchSize: many\n", "\"batchSize\" must be a whole number, not 'many'"),
        ("batchSize: 2\nmaxBatchDelay: -1\n", '"maxBatchDelay" must be a whole number, not -1'),
        ("batchSize: true\n", '"batchSize" must be a whole number, not True'),
        ("- 1\n", "its settings in YAML are no mapping"),
        ("a: [\n", "its settings are no YAML"),
        ("!!python/object/apply:os.system ['true']\n", "its settings are no YAML"),
    ],
)
def test_wrong_settings_in_yaml(tmp_path: Path, config: str, expected: str) -> None:
    path = archive(tmp_path / "m.mar", "handler.py", {"handler.py": ""}, config)
    with pytest.raises(InvalidSettings) as refused:
        mar.read_settings(path)
    assert expected in refused.value.message


@pytest.mark.parametrize("document", ["{", "[]", '{"model": 1}', "x" * (mar.MAX_TEXT_SIZE + 1)])
def test_wrong_manifests(tmp_path: Path, document: str) -> None:
    with zipfile.ZipFile(tmp_path / "m.mar", "w") as opened:
        opened.writestr(mar.MANIFEST, document)
    with pytest.raises(InvalidSettings, match=r"m\.mar"):
        mar.read_settings(tmp_path / "m.mar")


def test_invalid_archives(tmp_path: Path) -> None:
    (tmp_path / "m.mar").write_bytes(b"nothing")
    with pytest.raises(InvalidSettings, match=r"m\.mar is no archive of TorchServe"):
        mar.read_settings(tmp_path / "m.mar")
    with zipfile.ZipFile(tmp_path / "n.mar", "w") as opened:
        opened.writestr("file", "")
    with pytest.raises(InvalidSettings, match=r"There is no item named 'MAR-INF/MANIFEST\.json'"):
        mar.read_settings(tmp_path / "n.mar")
    path = archive(tmp_path / "o.mar", "handler.py", {}, configFile="absent.yaml")
    with pytest.raises(InvalidSettings, match=r"absent\.yaml"):
        mar.read_settings(path)
