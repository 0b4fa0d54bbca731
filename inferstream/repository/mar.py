"""TorchServe's archives: what the manifest of a `.mar` says, as settings."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InvalidSettings, MissingExtra

MANIFEST = "MAR-INF/MANIFEST.json"

LARGEST_TEXT = 1_000_000
"""Bytes of a manifest, of its settings in YAML, or of the code that is searched in one file."""

STREAMS = b"send_intermediate_predict_response"
"""What the code of a handler calls that answers in pieces."""

MODEL = "inferstream.compat.torchserve.model.ArchiveModel"
STREAMING_MODEL = "inferstream.compat.torchserve.model.StreamingArchiveModel"

DELAY = 100
"""Milliseconds that TorchServe waits for a batch to fill, where `maxBatchDelay` says nothing."""


class Manifest(NamedTuple):
    """What an archive says of itself."""

    document: Mapping[str, Any]
    config: Mapping[str, Any]
    """The file of YAML that the manifest names."""
    streams: bool
    """Whether code in it answers in pieces."""

    @property
    def model(self) -> Mapping[str, Any]:
        model: Mapping[str, Any] = self.document["model"]
        return model

    def text(self, name: str) -> str:
        """A field of the model; empty where the manifest has none."""
        return str(self.model.get(name) or "")


def read_manifest(archive: Path) -> Manifest:
    """Read what an archive says of itself. Raises InvalidSettings, and MissingExtra where it needs PyYAML."""
    try:
        with zipfile.ZipFile(archive) as opened:
            document = json.loads(_text(opened, MANIFEST))
            if not (isinstance(document, dict) and isinstance(document.get("model"), dict)):
                raise InvalidSettings(f'{archive.name}: {MANIFEST} has no object "model"')
            name = document["model"].get("configFile")
            config = _yaml(archive, _text(opened, str(name))) if name else {}
            streams = any(_mentions(opened, member) for member in opened.infolist())
    except KeyError as error:
        raise InvalidSettings(f"{archive.name}: {error.args[0]}") from None
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise InvalidSettings(f"{archive.name} is no archive of TorchServe: {error}") from None
    return Manifest(document, config, streams)


def settings_of(archive: Path) -> dict[str, Any]:
    """The settings that an archive stands for. Raises InvalidSettings."""
    manifest = read_manifest(archive)
    settings: dict[str, Any] = {
        "name": manifest.text("modelName") or archive.stem,
        "implementation": STREAMING_MODEL if manifest.streams else MODEL,
        "parameters": {"uri": str(archive), "version": manifest.text("modelVersion") or None},
    }
    size = _number(archive, manifest.config, "batchSize", 1)
    if size > 1:
        settings["max_batch_size"] = size
        settings["max_batch_time"] = _number(archive, manifest.config, "maxBatchDelay", DELAY) / 1000
    return settings


def _text(opened: zipfile.ZipFile, name: str) -> bytes:
    """The content of a small member. Raises KeyError for one that is not there."""
    with opened.open(name) as member:
        text = member.read(LARGEST_TEXT + 1)
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"{name} is longer than {LARGEST_TEXT} bytes")
    return text


def _mentions(opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    """Whether a member is code that answers in pieces."""
    if not member.filename.endswith(".py"):
        return False
    with opened.open(member) as code:
        return STREAMS in code.read(LARGEST_TEXT)


def _yaml(archive: Path, text: bytes) -> Mapping[str, Any]:
    try:
        import yaml  # late: few models have such a file
    except ModuleNotFoundError as missing:
        raise MissingExtra(f"{archive.name}, which has settings in YAML,", "torchserve", missing) from None
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"its settings are no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict):
        raise ValueError("its settings in YAML are no mapping")
    return config


def _number(archive: Path, config: Mapping[str, Any], name: str, default: int) -> int:
    value = config.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidSettings(f'{archive.name}: "{name}" must be a whole number, not {value!r}')
    return value
