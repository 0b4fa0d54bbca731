"""`PipelineSettings`: the settings of a pipeline, as MLServer's runtime for Hugging Face names them."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from inferstream.ext.settings import MLSERVER_MODEL_PREFIX, EnvironmentModel

from ...errors import InvalidSettings

PARAMETERS = "PREDICTIVE_UNIT_PARAMETERS"
"""A variable that Seldon Core 1 sets: a JSON list of names, values and types. It goes before the settings file."""

TRUE, FALSE = (
    frozenset(("1", "on", "t", "true", "y", "yes")),
    frozenset(("0", "f", "false", "n", "no", "off")),
)


class PipelineSettings(EnvironmentModel):
    """`parameters.extra` of a model, and below it `MLSERVER_MODEL_HUGGINGFACE_*`. Further keys are ignored."""

    env_prefixes = ("INFERSTREAM_MODEL_HUGGINGFACE_", f"{MLSERVER_MODEL_PREFIX}HUGGINGFACE_")

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    task: str = ""
    task_suffix: str = ""
    """Languages of a translation, such as `_en_to_fr`."""
    pretrained_model: str | None = None
    """Folder, or name at the hub; else `parameters.uri`."""
    pretrained_tokenizer: str | None = None
    model_kwargs: dict[str, Any] | None = None
    framework: str | None = None
    """`pt` or `tf`; transformers 5 knows PyTorch alone."""
    optimum_model: bool = False
    """Run the model with ONNX Runtime, through optimum."""
    device: int | str | None = None
    batch_size: int | None = Field(None, ge=1)
    """Rows in one run of the model; else `max_batch_size`."""
    inter_op_threads: int | None = Field(None, ge=1)
    intra_op_threads: int | None = Field(None, ge=1)

    @field_validator("device", mode="after")
    @classmethod
    def _ordinal(cls, device: int | str | None) -> int | str | None:
        """Variables hold texts, and the number of a device is one all the same."""
        digits = isinstance(device, str) and device.strip().removeprefix("-").isdecimal()
        return int(device) if digits and device is not None else device

    @property
    def task_name(self) -> str:
        """The name that transformers has for the task."""
        return self.task + self.task_suffix if self.task == "translation" else self.task


def seldon_parameters(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Settings that Seldon Core 1 gives. Raises InvalidSettings that names the variable."""
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
