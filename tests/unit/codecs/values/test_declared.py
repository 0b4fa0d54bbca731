"""Values as the metadata of a model declares them."""

import math
from typing import Any

import orjson
import pytest

from inferstream.codecs.values.declared import value_of_tensor
from inferstream.codecs.values.hints import value_for

from .samples import SAMPLES, identity


@pytest.mark.parametrize("sample", SAMPLES, ids=identity)
def test_metadata_is_sufficient_to_encode_a_value(sample: tuple[Any, Any]) -> None:
    hint, given_value = sample
    value = value_for(hint)
    declared = value.tensor("x")
    plain = orjson.loads(orjson.dumps(value.to_json(given_value))) if given_value != math.inf else 1.0
    client = value_of_tensor(type(declared).model_validate_json(declared.model_dump_json()))
    there = client.encode_input("x", client.from_json(plain))
    assert value.to_json(value.decode_input(there)) is not None
    assert (client.datatype, client.shape) == (value.datatype, value.shape)
