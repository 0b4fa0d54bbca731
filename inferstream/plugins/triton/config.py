"""The model configuration that Triton Python backend code reads and completes."""

import copy
import json
from collections.abc import Mapping
from typing import Any

Tensor = Mapping[str, Any]

FIELDS = """
{"name": "", "platform": "", "backend": "python", "runtime": "", "version_policy": {"latest": {"num_versions": 1}},
 "max_batch_size": 0, "input": [], "output": [], "batch_input": [], "batch_output": [],
 "optimization": {"priority": "PRIORITY_DEFAULT", "input_pinned_memory": {"enable": true},
  "output_pinned_memory": {"enable": true}, "gather_kernel_buffer_threshold": 0, "eager_batching": false},
 "instance_group": [{}], "default_model_filename": "model.py", "cc_model_filenames": {}, "metric_tags": {},
 "parameters": {}, "model_warmup": []}
"""
"""The fields of every configuration, with Triton's defaults for fields that the file omits."""

FIELDS_OF_INPUT = """
{"format": "FORMAT_NONE", "is_shape_tensor": false, "allow_ragged_batch": false, "optional": false,
 "is_non_linear_format_io": false}
"""

FIELDS_OF_OUTPUT = """
{"label_filename": "", "is_shape_tensor": false, "is_non_linear_format_io": false}
"""

FIELDS_OF_GROUP = """
{"kind": "KIND_CPU", "count": 1, "gpus": [], "secondary_devices": [], "profile": [], "passive": false,
 "host_policy": ""}
"""


def add_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a configuration and add all fields that model code may read."""
    complete: dict[str, Any] = {**json.loads(FIELDS), **copy.deepcopy(dict(config))}
    complete["input"] = [{**json.loads(FIELDS_OF_INPUT), **each} for each in complete["input"]]
    complete["output"] = [{**json.loads(FIELDS_OF_OUTPUT), **each} for each in complete["output"]]
    complete["instance_group"] = [
        {"name": f"{complete['name']}_{index}", **json.loads(FIELDS_OF_GROUP), **group}
        for index, group in enumerate(complete["instance_group"])
    ]
    return complete


class BackendConfig:
    """The configuration that `auto_complete_config` completes.

    Values that are already set must not change.
    """

    def __init__(self, model_config: Mapping[str, Any] | str) -> None:
        """Read the configuration, which Triton passes as JSON or as a dictionary."""
        config = json.loads(model_config) if isinstance(model_config, str) else model_config
        self._config: dict[str, Any] = copy.deepcopy(dict(config))

    def as_dict(self) -> dict[str, Any]:
        return self._config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Set the maximum batch size. Raises ValueError if the configuration has a larger one."""
        if (size := self._config.get("max_batch_size", 0)) > max_batch_size:
            raise ValueError(
                f"max_batch_size is {size} in the configuration, and {max_batch_size} in the code"
            )
        self._config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Enable batching. Raises ValueError if the configuration has sequence batching."""
        if "sequence_batching" in self._config:
            raise ValueError("the configuration has sequence_batching, and the code sets dynamic_batching")
        self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, transaction_policy_dict: Mapping[str, Any]) -> None:
        """Set whether the model is decoupled.

        Raises ValueError for any key except `decoupled`, or for a value that contradicts the configuration.
        """
        if unknown := sorted({*transaction_policy_dict} - {"decoupled"}):
            raise ValueError(f"a transaction policy has no {unknown[0]!r}")
        policy = self._config.setdefault("model_transaction_policy", {})
        for name, value in transaction_policy_dict.items():
            if policy.setdefault(name, value) != value:
                raise ValueError("the configuration and the code differ in whether the model is decoupled")

    def add_input(self, input: Tensor) -> None:
        """Declare an input.

        Raises ValueError if the name, datatype or shape is missing, or if the declaration contradicts the
        configuration.
        """
        self._add("input", input, {"name", "data_type", "dims", "optional"})

    def add_output(self, output: Tensor) -> None:
        """Declare an output. Raises the same errors as `add_input`."""
        self._add("output", output, {"name", "data_type", "dims"})

    def _add(self, kind: str, tensor: Tensor, known: set[str]) -> None:
        if unknown := sorted({*tensor} - known):
            raise ValueError(f"an {kind} has no {unknown[0]!r}; it has {', '.join(sorted(known))}")
        if missing := sorted({"name", "data_type", "dims"} - {*tensor}):
            raise ValueError(f"an {kind} needs {missing[0]!r}")
        tensors: list[dict[str, Any]] = self._config.setdefault(kind, [])
        there = _find_tensor(tensors, tensor["name"])
        if there is None:
            tensors.append(dict(tensor))
            return
        for name, value in tensor.items():
            if there.get(name) not in (None, "TYPE_INVALID", [], False, value):
                raise ValueError(f'{kind} "{tensor["name"]}": {name} is {there[name]!r} in the configuration')
            there[name] = value


def get_input_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return the input with this name in a configuration, or None."""
    return _find_tensor(model_config.get("input", ()), name)


def get_output_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return the output with this name in a configuration, or None."""
    return _find_tensor(model_config.get("output", ()), name)


def _find_tensor(tensors: Any, name: str) -> dict[str, Any] | None:
    return next((tensor for tensor in tensors if tensor["name"] == name), None)


def using_decoupled_model_transaction_policy(model_config: Mapping[str, Any]) -> bool:
    """Whether a request to the model can have any number of responses."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))
