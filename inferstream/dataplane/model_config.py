"""The configuration of a model in Triton's words, made of its settings and of what it says of itself."""

from typing import Any

from inferstream import ModelSettings
from inferstream.ext.calls import Described
from inferstream.ext.values import OPTIONAL, parameter_of

from ..types import MetadataModelResponse, MetadataTensor
from .classification import LABELS

BACKENDS = {
    "inferstream.runtimes.onnx.OnnxModel": "onnxruntime",
    "inferstream.runtimes.torch.TorchModel": "pytorch",
}
"""Triton's backends for the same artefacts. All others are Python to a client."""

TYPES = {"BYTES": "TYPE_STRING"}
"""The datatypes that a configuration does not call TYPE_ and their name."""


def config_of(model: Described, metadata: MetadataModelResponse) -> dict[str, Any]:
    """The configuration of a loaded model, with the fields of `ModelConfig` in `dataplane.proto`.

    One that was read from `config.pbtxt` is complete; what it lacks is added.
    """
    settings, capabilities = model.settings, model.capabilities
    inputs, outputs = metadata.inputs or [], metadata.outputs or []
    read = settings.configuration
    size = int(read.get("max_batch_size", settings.max_batch_size if settings.max_batch_size > 1 else 0))
    batches = size > 0 and all(each.shape[:1] == [-1] for each in (*inputs, *outputs))
    made: dict[str, Any] = {
        "name": metadata.name,
        "platform": metadata.platform,
        "backend": BACKENDS.get(settings.implementation_, "python"),
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": size if batches else 0,
        "input": [
            _tensor(each, batches) | {"optional": bool(parameter_of(each, OPTIONAL))} for each in inputs
        ],
        "output": [
            _tensor(each, batches) | {LABELS: str(parameter_of(each, LABELS) or "")} for each in outputs
        ],
        "instance_group": [_instances(metadata.name, settings)],
        "default_model_filename": "",
        "parameters": {},
        # A client of Triton's sends such a model no request outside a stream.
        "model_transaction_policy": {"decoupled": not (capabilities.predict or capabilities.gathers)},
        "response_cache": {"enable": settings.cache_enabled},
    }
    if batches and not read:
        made["dynamic_batching"] = {"max_queue_delay_microseconds": round(settings.max_batch_time * 1e6)}
    return {**made, **read, "name": metadata.name}


def _tensor(tensor: MetadataTensor, batches: bool) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "data_type": TYPES.get(tensor.datatype, f"TYPE_{tensor.datatype}"),
        "dims": tensor.shape[1:] if batches else [*tensor.shape],
    }


def _instances(name: str, settings: ModelSettings) -> dict[str, Any]:
    gpus = [int(each) for each in settings.devices if each.isdigit()] if settings.devices != "auto" else []
    kind = "KIND_GPU" if settings.devices else "KIND_CPU"
    return {"name": f"{name}_0", "kind": kind, "count": settings.parallel_workers or 1, "gpus": gpus}
