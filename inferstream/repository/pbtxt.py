"""Triton's `config.pbtxt`: what it says of a model, as settings."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.json_format import MessageToDict

from inferstream.ext.telemetry import get_logger
from inferstream.plugins.triton.messages import ModelConfig

from ..errors import InvalidSettings
from ..types import MetadataTensor

ONNX = "inferstream.runtimes.onnx.OnnxModel"
TORCH = "inferstream.runtimes.torch.TorchModel"
PYTHON = "inferstream.compat.triton.model.PythonModel"

MOST_BYTES = 2**20
"""Bytes of a configuration."""

RESHAPED = {
    ONNX: "inferstream.compat.triton.reshape.ReshapedOnnx",
    TORCH: "inferstream.compat.triton.reshape.ReshapedTorch",
}
"""The implementation of a runtime for a configuration with `reshape`."""

INVALID = "TYPE_INVALID"
"""The datatype of a tensor without one."""

BACKENDS = {
    "onnxruntime": (ONNX, "model.onnx"),
    "pytorch": (TORCH, "model.pt"),
    "python": (PYTHON, "model.py"),
}
"""By the name of a backend: the runtime that stands for it, and the file that it reads."""

PLATFORMS = {"onnxruntime_onnx": "onnxruntime", "pytorch_libtorch": "pytorch"}

BEHIND = 1.0
"""Seconds that requests gather behind a batch at most, without a delay. Triton takes what has come meanwhile."""

BESIDE = 0.001
"""The same where another instance may be free."""

IDLE = 1_000_000
"""Microseconds without a request after which a sequence ends, where the configuration does not say it."""

NUMBERS = ("dims", "shape", "versions", "max_queue_delay_microseconds", "max_sequence_idle_microseconds")
"""Fields of 64 bits."""

UNKNOWN_FIELD = re.compile(r'^(\d+):\d+ : .*has no field named "(\w+)"')

NAME_OF_LIST = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*|(\b[A-Za-z_]\w*)(?=\s*\[)""")
"""The name of a field that is given as a list without a colon; or a text or comment, which may hold anything."""

logger = get_logger("repository")


def settings_of(path: Path) -> dict[str, Any]:
    """The settings that a configuration stands for: those of the newest version that its policy allows.

    Raises InvalidSettings. A field that is not read here is a line in the log.
    """
    config = _parsed(path)
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
    batches = config.max_batch_size > 0
    # Code of Python may complete what the file leaves open.
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
        "inputs": [*tensors_of(path, known, "input", batches)],
        "outputs": [*tensors_of(path, known, "output", batches)],
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


def _parsed(path: Path) -> Any:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InvalidSettings(f"{path}: larger than {MOST_BYTES} bytes")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{path}: {getattr(error, 'strerror', None) or 'not a text'}") from None
    try:
        return text_format.Parse(text, ModelConfig())
    except text_format.ParseError as error:
        unknown = UNKNOWN_FIELD.match(str(error))
        if unknown is None:
            raise InvalidSettings(f"{path}: line {' '.join(str(error).split())}") from None
        logger.warning('%s: line %s: the field "%s" is not read', path, unknown[1], unknown[2])
    # protobuf passes over an unknown field that is a list with a colon only; both mean the same.
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
        logger.warning("%s: version %s is served, the others are not", folder, versions[-1])
    return str(versions[-1])


def _runtime(path: Path, config: Any) -> tuple[str, str]:
    """The implementation, and the artefact in the folder of the version."""
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


def tensors_of(
    path: Path, document: Mapping[str, Any], kind: str, batches: bool
) -> tuple[MetadataTensor, ...]:
    """The declarations of inputs or outputs, as `kind` says. Raises InvalidSettings."""
    return tuple(_tensor(path, tensor, batches) for tensor in document.get(kind, ()))


def _tensor(path: Path, tensor: Mapping[str, Any], batches: bool) -> MetadataTensor:
    name = str(tensor["data_type"]).removeprefix("TYPE_")
    if tensor["data_type"] == INVALID:
        raise InvalidSettings(f'{path}: "{tensor.get("name", "")}" has no data_type')
    return MetadataTensor(
        name=tensor.get("name", ""),
        datatype="BYTES" if name == "STRING" else name,
        shape=[-1, *tensor["dims"]] if batches else [*tensor["dims"]],
        parameters={key: tensor[key] for key in ("optional", "label_filename") if tensor.get(key)} or None,
    )


def _document(config: Any, name: str) -> dict[str, Any]:
    """The configuration as JSON has it, defaults included, with whole numbers where protobuf's JSON writes texts."""
    document: dict[str, Any] = _with_numbers(
        MessageToDict(config, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    )
    document["name"] = name
    document["backend"] = config.backend or PLATFORMS.get(config.platform, config.platform)
    for index, group in enumerate(document["instance_group"]):
        group["name"] = group["name"] or f"{name}_{index}"
        group["count"] = group["count"] or 1
        if group["kind"] == "KIND_AUTO":
            group["kind"] = "KIND_GPU" if group["gpus"] else "KIND_CPU"
    # What Triton fills in itself is absent, not empty.
    return {field: value for field, value in document.items() if value not in ("", [])}


def _with_numbers(value: Any) -> Any:
    """A part of a configuration with integers for the texts that protobuf's JSON has for 64 bits."""
    if isinstance(value, list):
        return [_with_numbers(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _integers(each) if name in NUMBERS and not isinstance(each, dict) else _with_numbers(each)
        for name, each in value.items()
    }


def _integers(value: str | list[str]) -> int | list[int]:
    return [*map(int, value)] if isinstance(value, list) else int(value)
