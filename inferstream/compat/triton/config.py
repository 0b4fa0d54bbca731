"""The configuration of a model, which code for Triton's Python backend reads and completes."""

import copy
from collections.abc import Mapping
from typing import Any

Tensor = Mapping[str, Any]


class BackendConfig:
    """What `auto_complete_config` fills in. What the configuration has already must not differ."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config: dict[str, Any] = copy.deepcopy(dict(config))

    def as_dict(self) -> dict[str, Any]:
        return self._config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Raises ValueError where the configuration has a larger one."""
        if (size := self._config.get("max_batch_size", 0)) > max_batch_size:
            raise ValueError(
                f"max_batch_size is {size} in the configuration, and {max_batch_size} in the code"
            )
        self._config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Let the server gather requests, unless the configuration schedules them in another way."""
        if "sequence_batching" not in self._config:
            self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, transaction_policy: Mapping[str, Any]) -> None:
        """Raises ValueError for another key than `decoupled`, or a value that the configuration denies."""
        if unknown := sorted({*transaction_policy} - {"decoupled"}):
            raise ValueError(f"a transaction policy has no {unknown[0]!r}")
        said = self._config.get("model_transaction_policy", {})
        if said.get("decoupled", transaction_policy["decoupled"]) != transaction_policy["decoupled"]:
            raise ValueError("the configuration and the code differ in whether the model is decoupled")
        self._config["model_transaction_policy"] = dict(transaction_policy)

    def add_input(self, tensor: Tensor) -> None:
        """Raises ValueError for a tensor without a name, datatype or shape, or that the configuration denies."""
        self._add("input", tensor, {"name", "data_type", "dims", "optional"})

    def add_output(self, tensor: Tensor) -> None:
        """The same for an output."""
        self._add("output", tensor, {"name", "data_type", "dims"})

    def _add(self, kind: str, tensor: Tensor, known: set[str]) -> None:
        if unknown := sorted({*tensor} - known):
            raise ValueError(f"an {kind} has no {unknown[0]!r}; it has {', '.join(sorted(known))}")
        if missing := sorted({"name", "data_type", "dims"} - {*tensor}):
            raise ValueError(f"an {kind} needs {missing[0]!r}")
        tensors: list[dict[str, Any]] = self._config.setdefault(kind, [])
        for there in tensors:
            if there.get("name") == tensor["name"]:
                for name, value in tensor.items():
                    if there.setdefault(name, value) != value:
                        raise ValueError(
                            f'{kind} "{tensor["name"]}": {name} is {there[name]!r} in the configuration'
                        )
                return
        tensors.append(dict(tensor))


def get_input_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The input of this name in a configuration; None without one."""
    return _named(model_config.get("input", ()), name)


def get_output_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The output of this name in a configuration; None without one."""
    return _named(model_config.get("output", ()), name)


def _named(tensors: Any, name: str) -> dict[str, Any] | None:
    return next((tensor for tensor in tensors if tensor["name"] == name), None)


def using_decoupled_model_transaction_policy(model_config: Mapping[str, Any]) -> bool:
    """Whether a request to the model may have any number of responses."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))
