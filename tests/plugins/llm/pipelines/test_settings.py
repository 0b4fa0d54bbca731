"""The settings of a pipeline: from the settings file, MLServer's variables and Seldon's."""

import json
from typing import Any

import pytest

from inferstream.errors import InvalidSettings
from inferstream.plugins.llm.pipelines.settings import PARAMETERS, PipelineSettings, seldon_parameters


@pytest.mark.parametrize("prefix", ["MLSERVER_MODEL_HUGGINGFACE_", "INFERSTREAM_MODEL_HUGGINGFACE_"])
def test_variables_complete_settings_file(monkeypatch, prefix: str) -> None:
    monkeypatch.setenv(f"{prefix}TASK", "fill-mask")
    monkeypatch.setenv(f"{prefix}PRETRAINED_MODEL", "from-the-environment")
    monkeypatch.setenv(f"{prefix}OPTIMUM_MODEL", "true")
    found = PipelineSettings(pretrained_model="from-the-file", predict_fn="ignored")
    assert (found.task, found.pretrained_model, found.optimum_model) == ("fill-mask", "from-the-file", True)


@pytest.mark.parametrize(
    ("given", "device"), [("0", 0), ("-1", -1), (1, 1), ("cuda:1", "cuda:1"), (None, None)]
)
def test_device_has_name_or_number(given: Any, device: Any) -> None:
    assert PipelineSettings(task="t", device=given).device == device


def test_only_translation_has_suffix() -> None:
    assert PipelineSettings(task="translation", task_suffix="_en_to_fr").task_name == "translation_en_to_fr"
    assert PipelineSettings(task="fill-mask", task_suffix="_en_to_fr").task_name == "fill-mask"


def seldon(*parameters: tuple[str, str, str]) -> dict[str, Any]:
    named = [{"name": name, "value": value, "type": kind} for name, value, kind in parameters]
    return seldon_parameters({PARAMETERS: json.dumps(named)})


def test_seldon_parameters_are_typed() -> None:
    given = [("task", "fill-mask", "STRING"), ("device", "1", "INT"), ("optimum_model", "False", "BOOL")]
    assert seldon(*given) == {"task": "fill-mask", "device": 1, "optimum_model": False}
    assert seldon_parameters({}) == {}


@pytest.mark.parametrize(
    "wrong", [("device", "one", "INT"), ("device", "1", "WORD"), ("optimum_model", "3", "BOOL")]
)
def test_invalid_seldon_parameter_is_named(wrong: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidSettings, match=f"^{PARAMETERS} is no list of parameters"):
        seldon(wrong)
