"""Functions that handlers call."""

import json
import types
from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import Unsupported
from inferstream.plugins.torchserve.calls import (
    PredictionException,
    list_classes_from_module,
    load_label_mapping,
    map_class_to_label,
    measure_time,
    send_intermediate_predict_response,
)


def test_labels(tmp_path: Path) -> None:
    file = tmp_path / "index_to_name.json"
    assert load_label_mapping(str(file)) is None
    for document, expected in (
        ({"0": "cat", "1": ["n2", "dog"]}, {"0": "cat", "1": "dog"}),
        ({"object_type_names": ["cat", "dog"]}, {"0": "cat", "1": "dog"}),
    ):
        file.write_text(json.dumps(document))
        assert load_label_mapping(str(file)) == expected
    for wrong in ([], {"0": 1}):
        file.write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=r"index_to_name\.json"):
            load_label_mapping(str(file))


def test_probabilities_by_label() -> None:
    assert map_class_to_label([[0.9, 0.1]], {"0": "cat", "3": "dog"}, [[3, 0]]) == [{"dog": 0.9, "cat": 0.1}]
    assert map_class_to_label([[0.9, 0.1]]) == [{"0": 0.9, "1": 0.1}]
    with pytest.raises(TypeError):
        map_class_to_label((0.9,))  # type: ignore[arg-type]


def test_module_classes() -> None:
    module: Any = types.ModuleType("handlers")
    own = type("Own", (dict,), {"__module__": "handlers"})
    module.Own, module.Other = own, type("Other", (), {"__module__": "elsewhere"})
    assert list_classes_from_module(module) == [own]
    assert list_classes_from_module(module, dict) == [own]
    assert list_classes_from_module(module, list) == []


def test_chunks_follow_context() -> None:
    sent: list[Any] = []
    context = types.SimpleNamespace(send=sent.append)
    send_intermediate_predict_response(["a"], {0: "id"}, "said", 200, context)
    assert sent == [["a"]]
    with pytest.raises(Unsupported):
        send_intermediate_predict_response(["a"], {0: "id"}, "said", 200, types.SimpleNamespace(send=None))


def test_timing_decorator_and_prediction_exception() -> None:
    assert measure_time(len) is len
    error = PredictionException("no", 507)
    assert (error.message, error.error_code, str(error)) == ("no", 507, "no : 507")
