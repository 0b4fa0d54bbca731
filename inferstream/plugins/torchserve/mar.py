"""TorchServe model archives (`.mar`): converts a manifest to settings."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from inferstream.errors import InvalidSettings, MissingExtra

MANIFEST = "MAR-INF/MANIFEST.json"

MAX_TEXT_SIZE = 1_000_000
"""Maximum size in bytes of a manifest, its YAML settings, or the part of a code file that is searched."""

STREAMS = b"send_intermediate_predict_response"
"""The function that handlers call to send partial responses."""

MODEL = "inferstream.plugins.torchserve.model.ArchiveModel"
STREAMING_MODEL = "inferstream.plugins.torchserve.model.StreamingArchiveModel"

DELAY = 100
"""The default batch delay of TorchServe in milliseconds."""


class Manifest(NamedTuple):
    """The manifest of an archive."""

    document: Mapping[str, Any]
    config: Mapping[str, Any]
    """The settings in the YAML file that the manifest names."""
    streams: bool
    """Whether the code sends partial responses."""

    @property
    def model(self) -> Mapping[str, Any]:
        model: Mapping[str, Any] = self.document["model"]
        return model

    def text(self, name: str) -> str:
        """Return a field of the model, or an empty string if it is missing."""
        return str(self.model.get(name) or "")


def read_manifest(archive: Path) -> Manifest:
    """Read the manifest of an archive. Raises InvalidSettings, or MissingExtra if it needs PyYAML."""
    try:
        with zipfile.ZipFile(archive) as opened:
            document = json.loads(_read_member(opened, MANIFEST))
            if not (isinstance(document, dict) and isinstance(document.get("model"), dict)):
                raise InvalidSettings(f'{archive.name}: {MANIFEST} has no object "model"')
            name = document["model"].get("configFile")
            config = _parse_yaml(archive, _read_member(opened, str(name))) if name else {}
            streams = any(_sends_parts(opened, member) for member in opened.infolist())
    except KeyError as error:
        raise InvalidSettings(f"{archive.name}: {error.args[0]}") from None
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise InvalidSettings(f"{archive.name} is no archive of TorchServe: {error}") from None
    return Manifest(document, config, streams)


def read_settings(archive: Path) -> dict[str, Any]:
    """Return the model settings for an archive. Raises InvalidSettings."""
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


def _read_member(opened: zipfile.ZipFile, name: str) -> bytes:
    """Read a small member. Raises KeyError if it is missing."""
    with opened.open(name) as member:
        text = member.read(MAX_TEXT_SIZE + 1)
    if len(text) > MAX_TEXT_SIZE:
        raise ValueError(f"{name} is longer than {MAX_TEXT_SIZE} bytes")
    return text


def _sends_parts(opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    """Whether a member is code that sends partial responses."""
    if not member.filename.endswith(".py"):
        return False
    with opened.open(member) as code:
        return STREAMS in code.read(MAX_TEXT_SIZE)


def _parse_yaml(archive: Path, text: bytes) -> Mapping[str, Any]:
    try:
        import yaml  # Imported lazily: few archives have a YAML file.
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
