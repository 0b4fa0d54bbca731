"""Descriptions of models and of the repository."""

import pytest
from pydantic import ValidationError

from inferstream.types import MetadataModelResponse, MetadataTensor, RepositoryIndexResponse, State


def test_unknown_metadata_is_omitted() -> None:
    tensor = MetadataTensor(name="x", datatype="FP32", shape=[-1], parameters={"content_type": "np"})
    described = MetadataModelResponse(name="m", platform="", inputs=[tensor])
    assert described.model_dump() == {
        "name": "m",
        "platform": "",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1], "parameters": {"content_type": "np"}}],
    }


def test_unknown_datatype_in_a_declaration_is_refused() -> None:
    with pytest.raises(ValidationError, match="unknown datatype 'float'; known are BOOL"):
        MetadataTensor(name="x", datatype="float", shape=[1])


def test_index_is_a_list_of_its_items() -> None:
    index = RepositoryIndexResponse.model_validate(
        [
            {"name": "a", "state": "READY", "reason": ""},
            {"name": "b", "version": "1", "state": "LOADING", "reason": ""},
        ]
    )
    assert [item.name for item in index] == ["a", "b"]
    assert (len(index), index[1].state) == (2, State.LOADING)
    with pytest.raises(ValidationError, match="state"):
        RepositoryIndexResponse.model_validate([{"name": "a", "state": "GONE", "reason": ""}])
