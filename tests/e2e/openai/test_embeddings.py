"""Embeddings through OpenAI's client."""

import base64

import httpx
import numpy as np
import pytest
from openai import AsyncOpenAI, BadRequestError

from tests.serving import Running
from tests.texts import client


def test_vectors_in_requested_encoding(texts: Running) -> None:
    """In base64, which the client decodes."""
    answer = client(texts).embeddings.create(model="vectors", input=["a", "été"])
    assert [found.index for found in answer.data] == [0, 1]
    assert [found.embedding for found in answer.data] == [[1, 3, 4, 0], [3, 3, 4, 0]]
    assert answer.model == "vectors"
    assert client(texts).embeddings.create(model="vectors", input="abcd").data[0].embedding == [4, 3, 4, 0]


async def test_the_asynchronous_client(texts: Running) -> None:
    async with AsyncOpenAI(base_url=f"{texts.url}/v1", api_key="none", max_retries=0) as openai:
        answer = await openai.embeddings.create(model="vectors", input="abc")
        assert answer.data[0].embedding == [3, 3, 4, 0]


def test_float_and_base64_are_equal(texts: Running) -> None:
    floats = client(texts).embeddings.create(model="vectors", input="ab", encoding_format="float")
    assert floats.data[0].embedding == [2, 3, 4, 0]
    body = {"model": "vectors", "input": "ab", "encoding_format": "base64"}
    encoded = httpx.post(f"{texts.url}/v1/embeddings", json=body).json()["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(encoded), "<f4").tolist() == [2, 3, 4, 0]


def test_shortened_vectors_are_normalised(texts: Running) -> None:
    answer = client(texts).embeddings.create(model="vectors", input=["abcd", ""], dimensions=2)
    assert np.allclose([found.embedding for found in answer.data], [[0.8, 0.6], [0, 1]])


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"input": []}, "input"),
        ({"input": [[1, 2, 3]]}, "input"),
        ({"input": [1, 2]}, "input"),
        ({"input": ["x"] * 2049}, "input"),
        ({"input": "x", "dimensions": 0}, "dimensions"),
        ({"input": "x", "dimensions": 5}, "dimensions"),
        ({"input": "x", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "x", "model": "words"}, "model"),
    ],
)
def test_invalid_field_is_named(texts: Running, options: dict, param: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        client(texts).embeddings.create(**{"model": "vectors", **options})
    assert refused.value.param == param


def test_server_options_are_not_parameters(texts: Running) -> None:
    options = {"timeout": "no number", "priority": "nor this", "content_type": "x"}
    answer = client(texts).embeddings.create(model="vectors", input="ab", extra_body=options)
    assert answer.data[0].embedding == [2, 3, 4, 0]


def test_embedding_model_generates_no_text(texts: Running) -> None:
    with pytest.raises(BadRequestError) as refused:
        client(texts).completions.create(model="vectors", prompt="x")
    assert refused.value.param == "model"
