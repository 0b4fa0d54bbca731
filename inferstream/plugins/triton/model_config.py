"""The model configuration in the Triton format, generated from settings and metadata."""

from typing import Any

from inferstream import ModelSettings
from inferstream.ext.calls import Described
from inferstream.ext.values import OPTIONAL, parameter_of
from inferstream.types import MetadataModelResponse, MetadataTensor

from .classification import LABELS

BACKENDS = {
    "inferstream.plugins.frameworks.onnx.OnnxModel": "onnxruntime",
    "inferstream.plugins.frameworks.torch.TorchModel": "pytorch",
}
"""Triton backends by implementation. All other models are reported as `python`."""

TYPES = {"BYTES": "TYPE_STRING"}
"""Names of datatypes in a configuration. All others are `TYPE_` followed by the datatype."""


def build_config(model: Described, metadata: MetadataModelResponse) -> dict[str, Any]:
    """Return the configuration of a loaded model, with the fields of `ModelConfig` in `dataplane.proto`.

    Fields from `config.pbtxt` take precedence over generated ones.
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
        # Triton clients call decoupled models only with streams.
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
