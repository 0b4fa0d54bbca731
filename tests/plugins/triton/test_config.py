"""A configuration that the code of a model completes."""

from typing import Any

import pytest

from inferstream.plugins.triton.config import (
    BackendConfig,
    get_input_config_by_name,
    get_output_config_by_name,
    using_decoupled_model_transaction_policy,
)

X: dict[str, Any] = {"name": "x", "data_type": "TYPE_FP32", "dims": [4]}


def test_code_completes_missing_fields() -> None:
    given: dict[str, Any] = {"name": "m", "input": [{"name": "x", "dims": [4]}]}
    config = BackendConfig(given)
    config.add_input(X)
    config.add_input({**X, "name": "z", "optional": True})
    config.add_output({**X, "name": "y"})
    config.set_max_batch_size(4)
    config.set_dynamic_batching()
    config.set_model_transaction_policy({"decoupled": True})
    made = config.as_dict()
    assert [each["name"] for each in made["input"]] == ["x", "z"]
    assert made["input"][0]["data_type"] == "TYPE_FP32"
    assert (made["max_batch_size"], made["dynamic_batching"]) == (4, {})
    assert using_decoupled_model_transaction_policy(made)
    assert len(given["input"]) == 1
    assert get_input_config_by_name(made, "z") == {**X, "name": "z", "optional": True}
    assert get_output_config_by_name(made, "x") is None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda config: config.add_input({**X, "dims": [5]}), 'input "x": dims is'),
        (lambda config: config.add_input({**X, "colour": 1}), "an input has no 'colour'"),
        (lambda config: config.add_output({"name": "y", "dims": [1]}), "an output needs 'data_type'"),
        (lambda config: config.set_max_batch_size(1), "max_batch_size is 2"),
        (lambda config: config.set_model_transaction_policy({"decoupled": True}), "differ in whether"),
        (lambda config: config.set_model_transaction_policy({"eager": True}), "has no 'eager'"),
    ],
)
def test_contradiction_to_configuration_is_refused(call: Any, said: str) -> None:
    config = BackendConfig(
        {"max_batch_size": 2, "input": [X], "model_transaction_policy": {"decoupled": False}}
    )
    with pytest.raises(ValueError, match=said):
        call(config)
