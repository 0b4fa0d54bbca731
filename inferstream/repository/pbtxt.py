"""Triton's `config.pbtxt`: what it says of a model, as settings."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.json_format import MessageToDict

from ..errors import InvalidSettings
from ..protos import dataplane_pb2 as pb
from ..settings.sources import MAX_FILE_BYTES
from ..types import MetadataTensor
from .artefacts import ONNX, TORCH

PYTHON = "inferstream.compat.triton.model.PythonModel"
DECOUPLED = "inferstream.compat.triton.model.DecoupledPythonModel"

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

DECOUPLES = re.compile(r"set_model_transaction_policy\((?:\s*dict)?[({ ]*[\"']?decoupled[\"']?\s*[:=]\s*True")
"""What completes a configuration with many responses to a request."""

UNKNOWN_FIELD = re.compile(r'^(\d+):\d+ : .*has no field named "(\w+)"')

NAME_OF_LIST = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*|(\b[A-Za-z_]\w*)(?=\s*\[)""")
"""The name of a field that is given as a list without a colon; or a text or comment, which may hold anything."""

logger = logging.getLogger("inferstream.repository")


def settings_of(path: Path) -> dict[str, Any]:
    """The settings that a configuration stands for: those of the newest version that its policy allows.

    Raises InvalidSettings. A field that is not read here is a line in the log.
    """
    config = _parsed(path)
    document = _document(config)
    version = _version(path, config)
    implementation, artefact = _runtime(path, config)
    if implementation == PYTHON and _is_decoupled(path.parent / version / artefact, config):
        implementation = DECOUPLED
    parameters: dict[str, Any] = {
        "uri": str(path.parent / version / artefact),
        "version": version,
        "extra": {name: value.string_value for name, value in config.parameters.items()},
        "triton_config": document,
    }
    batches = config.max_batch_size > 0
    settings: dict[str, Any] = {
        "name": config.name or path.parent.name,
        "platform": config.platform,
        "versions": [version],
        "implementation": implementation,
        "inputs": [*tensors_of(path, document, "input", batches)],
        "outputs": [*tensors_of(path, document, "output", batches)],
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


def _parsed(path: Path) -> pb.ModelConfig:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidSettings(f"{path}: larger than {MAX_FILE_BYTES} bytes")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{path}: {getattr(error, 'strerror', None) or 'not a text'}") from None
    try:
        return text_format.Parse(text, pb.ModelConfig())
    except text_format.ParseError as error:
        unknown = UNKNOWN_FIELD.match(str(error))
        if unknown is None:
            raise InvalidSettings(f"{path}: line {' '.join(str(error).split())}") from None
        logger.warning('%s: line %s: the field "%s" is not read', path, unknown[1], unknown[2])
    # protobuf passes over an unknown field that is a list with a colon only; both mean the same.
    text = NAME_OF_LIST.sub(lambda part: f"{part[0]}:" if part[1] else part[0], text)
    try:
        return text_format.Parse(text, pb.ModelConfig(), allow_unknown_field=True)
    except text_format.ParseError as error:
        raise InvalidSettings(f"{path}: line {' '.join(str(error).split())}") from None


def _version(path: Path, config: pb.ModelConfig) -> str:
    folder = path.parent
    versions = sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit() and each.is_dir())
    if wanted := config.version_policy.specific.versions:
        versions = [version for version in versions if version in wanted]
    if not versions:
        raise InvalidSettings(f"{folder}: no folder of a version, such as 1, is beside {path.name}")
    if len(versions) > 1 and config.version_policy.WhichOneof("policy_choice") in ("all", "specific"):
        logger.warning("%s: version %s is served, the others are not", folder, versions[-1])
    return str(versions[-1])


def _runtime(path: Path, config: pb.ModelConfig) -> tuple[str, str]:
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


def _is_decoupled(code: Path, config: pb.ModelConfig) -> bool:
    """Whether requests have any number of responses: by the configuration, or as the code completes it."""
    if config.model_transaction_policy.decoupled:
        return True
    try:
        return DECOUPLES.search(code.read_text("utf-8")) is not None
    except (OSError, UnicodeDecodeError):
        return False  # the load says what is wrong


def tensors_of(
    path: Path, document: Mapping[str, Any], kind: str, batches: bool
) -> tuple[MetadataTensor, ...]:
    """The declarations of inputs or outputs, as `kind` says. Raises InvalidSettings."""
    return tuple(_tensor(path, tensor, batches) for tensor in document.get(kind, ()))


def _tensor(path: Path, tensor: Mapping[str, Any], batches: bool) -> MetadataTensor:
    name = str(tensor.get("data_type", "TYPE_INVALID")).removeprefix("TYPE_")
    if name == "INVALID":
        raise InvalidSettings(f'{path}: "{tensor.get("name", "")}" has no data_type')
    return MetadataTensor(
        name=tensor.get("name", ""),
        datatype="BYTES" if name == "STRING" else name,
        shape=[-1, *tensor["dims"]] if batches else [*tensor["dims"]],
        parameters={key: tensor[key] for key in ("optional", "label_filename") if key in tensor} or None,
    )


def _document(config: pb.ModelConfig) -> dict[str, Any]:
    """The configuration as JSON has it, with whole numbers where protobuf's JSON writes texts."""
    document = MessageToDict(config, preserving_proto_field_name=True)
    for tensor in (*document.get("input", ()), *document.get("output", ())):
        tensor["dims"] = [int(size) for size in tensor.get("dims", ())]
    if batching := document.get("dynamic_batching") or document.get("sequence_batching"):
        batching.update({name: int(each) for name, each in batching.items() if isinstance(each, str)})
    return document
