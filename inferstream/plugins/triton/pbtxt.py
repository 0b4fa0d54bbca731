"""Parses Triton `config.pbtxt` files into model settings."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.json_format import MessageToDict

from inferstream.errors import InvalidSettings
from inferstream.ext.telemetry import get_logger
from inferstream.types import MetadataTensor

from .messages import ModelConfig

ONNX = "inferstream.plugins.frameworks.onnx.OnnxModel"
TORCH = "inferstream.plugins.frameworks.torch.TorchModel"
PYTHON = "inferstream.plugins.triton.model.PythonModel"

MAX_BYTES = 2**20
"""Maximum size of a configuration in bytes."""

RESHAPED = {
    ONNX: "inferstream.plugins.triton.reshape.ReshapedOnnx",
    TORCH: "inferstream.plugins.triton.reshape.ReshapedTorch",
}
"""Implementations for configurations with `reshape`, by runtime."""

INVALID = "TYPE_INVALID"
"""The datatype of a tensor that does not declare one."""

BACKENDS = {
    "onnxruntime": (ONNX, "model.onnx"),
    "pytorch": (TORCH, "model.pt"),
    "python": (PYTHON, "model.py"),
}
"""The runtime and the default artefact of each backend."""

PLATFORMS = {"onnxruntime_onnx": "onnxruntime", "pytorch_libtorch": "pytorch"}

BEHIND = 1.0
"""The maximum batch delay in seconds if the configuration has none.

Triton does not delay by default: a batch consists of the requests that arrived during the previous batch.
"""

BESIDE = 0.001
"""The same for a model with several instances, because another instance may be idle."""

IDLE = 1_000_000
"""Default idle timeout of sequences in microseconds."""

NUMBERS = ("dims", "shape", "versions", "max_queue_delay_microseconds", "max_sequence_idle_microseconds")
"""Fields with 64-bit integers, which protobuf's JSON writes as strings."""

UNKNOWN_FIELD = re.compile(r'^(\d+):\d+ : .*has no field named "(\w+)"')

NAME_OF_LIST = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*|(\b[A-Za-z_]\w*)(?=\s*\[)""")
"""A field name before a list without a colon, or a string or comment, which can contain anything."""

logger = get_logger("repository")


def read_settings(path: Path) -> dict[str, Any]:
    """Convert a configuration to model settings, for the newest version that its policy allows.

    Raises InvalidSettings. Unknown fields are logged.
    """
    config = _parse_file(path)
    name = config.name or path.parent.name
    document = _document(config, name)
    version = _version(path, config)
    implementation, artefact = _runtime(path, config)
    if any(tensor.HasField("reshape") for tensor in (*config.input, *config.output)):
        implementation = RESHAPED.get(implementation, implementation)
    parameters: dict[str, Any] = {
        "uri": str(path.parent / version / artefact),
        "version": version,
        "extra": {name: value.string_value for name, value in config.parameters.items()},
        "model_configuration": document,
    }
    batched = config.max_batch_size > 0
    # Python code may add missing datatypes.
    known = {
        kind: [
            each
            for each in document.get(kind, ())
            if each["data_type"] != INVALID or implementation != PYTHON
        ]
        for kind in ("input", "output")
    }
    settings: dict[str, Any] = {
        "name": name,
        "platform": config.platform,
        "versions": [version],
        "implementation": implementation,
        "inputs": [*read_tensors(path, known, "input", batched)],
        "outputs": [*read_tensors(path, known, "output", batched)],
        "cache_enabled": config.response_cache.enable,
        "parameters": parameters,
    }
    groups = config.instance_group
    if (count := sum(group.count or 1 for group in groups)) > 1:
        settings["parallel_workers"] = count
    if config.HasField("dynamic_batching"):
        delay = config.dynamic_batching.max_queue_delay_microseconds / 1e6
        settings["max_batch_size"] = config.max_batch_size
        settings["max_batch_time"] = delay or (BESIDE if count > 1 else BEHIND)
    if config.HasField("sequence_batching"):
        settings["sequence_idle"] = (config.sequence_batching.max_sequence_idle_microseconds or IDLE) / 1e6
    if gpus := [str(gpu) for group in groups for gpu in group.gpus]:
        settings["devices"] = gpus
    return settings


def _parse_file(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidSettings(f"{path}: larger than {MAX_BYTES} bytes")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{path}: {getattr(error, 'strerror', None) or 'not a text'}") from None
    try:
        return text_format.Parse(text, ModelConfig())
    except text_format.ParseError as error:
        unknown = UNKNOWN_FIELD.match(str(error))
        if unknown is None:
            raise InvalidSettings(f"{path}: line {' '.join(str(error).split())}") from None
        logger.warning('%s: line %s: field "%s" is unknown and ignored', path, unknown[1], unknown[2])
    # protobuf skips unknown list fields only if they have a colon. Both forms are equivalent.
    text = NAME_OF_LIST.sub(lambda part: f"{part[0]}:" if part[1] else part[0], text)
    try:
        return text_format.Parse(text, ModelConfig(), allow_unknown_field=True)
    except text_format.ParseError as error:
        raise InvalidSettings(f"{path}: line {' '.join(str(error).split())}") from None


def _version(path: Path, config: Any) -> str:
    folder = path.parent
    versions = sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit() and each.is_dir())
    if wanted := config.version_policy.specific.versions:
        versions = [version for version in versions if version in wanted]
    if not versions:
        raise InvalidSettings(f"{folder}: no folder of a version, such as 1, is beside {path.name}")
    if len(versions) > 1 and config.version_policy.WhichOneof("policy_choice") in ("all", "specific"):
        logger.warning("%s: only version %s is served", folder, versions[-1])
    return str(versions[-1])


def _runtime(path: Path, config: Any) -> tuple[str, str]:
    """Return the implementation, and the artefact in the version folder."""
    backend = config.backend or PLATFORMS.get(config.platform, config.platform)
    if backend == "ensemble":
        raise InvalidSettings(
            f"{path}: an ensemble is here a function that calls models, with the setting calls"
        )
    if backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise InvalidSettings(f'{path}: the backend "{backend}" is not here; these are: {known}')
    implementation, artefact = BACKENDS[backend]
    artefact = config.default_model_filename or artefact
    if Path(artefact).name != artefact:
        raise InvalidSettings(f'{path}: default_model_filename "{artefact}" is not the name of a file')
    return implementation, artefact


def read_tensors(
    path: Path, document: Mapping[str, Any], kind: str, batched: bool
) -> tuple[MetadataTensor, ...]:
    """Return the declared tensors. `kind` is `input` or `output`. Raises InvalidSettings."""
    return tuple(_tensor(path, tensor, batched) for tensor in document.get(kind, ()))


def _tensor(path: Path, tensor: Mapping[str, Any], batched: bool) -> MetadataTensor:
    name = str(tensor["data_type"]).removeprefix("TYPE_")
    if tensor["data_type"] == INVALID:
        raise InvalidSettings(f'{path}: "{tensor.get("name", "")}" has no data_type')
    return MetadataTensor(
        name=tensor.get("name", ""),
        datatype="BYTES" if name == "STRING" else name,
        shape=[-1, *tensor["dims"]] if batched else [*tensor["dims"]],
        parameters={key: tensor[key] for key in ("optional", "label_filename") if tensor.get(key)} or None,
    )


def _document(config: Any, name: str) -> dict[str, Any]:
    """Return the configuration as JSON, with defaults, and with integers where protobuf's JSON has strings."""
    document: dict[str, Any] = _restore_integers(
        MessageToDict(config, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    )
    document["name"] = name
    document["backend"] = config.backend or PLATFORMS.get(config.platform, config.platform)
    for index, group in enumerate(document["instance_group"]):
        group["name"] = group["name"] or f"{name}_{index}"
        group["count"] = group["count"] or 1
        if group["kind"] == "KIND_AUTO":
            group["kind"] = "KIND_GPU" if group["gpus"] else "KIND_CPU"
    # Fields that Triton fills in are omitted, not empty.
    return {field: value for field, value in document.items() if value not in ("", [])}


def _restore_integers(value: Any) -> Any:
    """Replace the strings that protobuf's JSON uses for 64-bit integers."""
    if isinstance(value, list):
        return [_restore_integers(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _parse_integers(each)
        if name in NUMBERS and not isinstance(each, dict)
        else _restore_integers(each)
        for name, each in value.items()
    }


def _parse_integers(value: str | list[str]) -> int | list[int]:
    return [*map(int, value)] if isinstance(value, list) else int(value)
