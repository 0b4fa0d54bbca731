"""`PipelineSettings`: the settings of a Hugging Face pipeline, with the same names as in MLServer."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from inferstream.errors import InvalidSettings
from inferstream.ext.settings import MLSERVER_MODEL_PREFIX, EnvironmentModel

PARAMETERS = "PREDICTIVE_UNIT_PARAMETERS"
"""Environment variable of Seldon Core 1: a JSON list of names, values and types. It overrides the settings
file."""

TRUE, FALSE = (
    frozenset(("1", "on", "t", "true", "y", "yes")),
    frozenset(("0", "f", "false", "n", "no", "off")),
)


class PipelineSettings(EnvironmentModel):
    """Settings in `parameters.extra` of a model, then in `MLSERVER_MODEL_HUGGINGFACE_*`. Unknown keys are
    ignored."""

    env_prefixes = ("INFERSTREAM_MODEL_HUGGINGFACE_", f"{MLSERVER_MODEL_PREFIX}HUGGINGFACE_")

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    task: str = ""
    task_suffix: str = ""
    """Languages of a translation, such as `_en_to_fr`."""
    pretrained_model: str | None = None
    """Folder of the model, or its name on the Hugging Face Hub. If null: `parameters.uri`."""
    pretrained_tokenizer: str | None = None
    model_kwargs: dict[str, Any] | None = None
    framework: str | None = None
    """`pt` or `tf`. transformers 5 only supports PyTorch."""
    optimum_model: bool = False
    """Run the model in ONNX Runtime with Optimum."""
    device: int | str | None = None
    batch_size: int | None = Field(None, ge=1)
    """Maximum number of rows per run of the model. If null: `max_batch_size`."""
    inter_op_threads: int | None = Field(None, ge=1)
    intra_op_threads: int | None = Field(None, ge=1)

    @field_validator("device", mode="after")
    @classmethod
    def _ordinal(cls, device: int | str | None) -> int | str | None:
        """Convert a numeric string to a device number, because environment variables are strings."""
        digits = isinstance(device, str) and device.strip().removeprefix("-").isdecimal()
        return int(device) if digits and device is not None else device

    @property
    def task_name(self) -> str:
        """The name of the task in transformers."""
        return self.task + self.task_suffix if self.task == "translation" else self.task


def seldon_parameters(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the settings that Seldon Core 1 passes. Raises InvalidSettings naming the variable."""
    content = environment.get(PARAMETERS)
    if not content:
        return {}
    try:
        return {str(each["name"]): TYPES[each["type"]](each["value"]) for each in json.loads(content)}
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSettings(
            f"{PARAMETERS} is no list of parameters with name, value and type ({', '.join(TYPES)}): {error!r}"
        ) from error


def _truth(value: Any) -> bool:
    text = str(value).lower()
    if text not in TRUE | FALSE:
        raise ValueError(f"{value!r} is neither true nor false")
    return text in TRUE


TYPES: dict[str, Callable[[Any], Any]] = {
    "INT": int,
    "FLOAT": float,
    "DOUBLE": float,
    "STRING": str,
    "BOOL": _truth,
}
