"""Events around requests of V1, and around their responses."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.plugins.kubernetes.test_instances import app, serving

ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "tests", "type": "asked"}
HEADERS = {f"ce-{name}": value for name, value in ATTRIBUTES.items()}
STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}
ONE, TWO = {"instances": [{"a": 1, "b": 2}]}, {"instances": [{"a": 1}, {"a": 2}]}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with serving([app]) as client:
        yield client


@pytest.mark.parametrize(("body", "predictions"), [(ONE, [3]), (TWO, [2, 3])])
async def test_binary_event_gets_binary_response(
    client: httpx.AsyncClient, body: Any, predictions: list[int]
) -> None:
    answer = await client.post("/v1/models/add:predict", json=body, headers=HEADERS)
    assert answer.json() == {"predictions": predictions}
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["ce-specversion"] == "1.0"
    assert answer.headers["ce-source"] == "io.kserve.inference.add"
    assert answer.headers["ce-type"] == "io.kserve.inference.response"
    assert answer.headers["ce-id"] not in ("", "1")
    assert answer.headers["ce-time"].endswith("Z")


@pytest.mark.parametrize(("body", "predictions"), [(ONE, [3]), (TWO, [2, 3])])
async def test_structured_event_gets_structured_response(
    client: httpx.AsyncClient, body: Any, predictions: list[int]
) -> None:
    for data in (
        {"data": body},
        {"data_base64": base64.b64encode(json.dumps(body).encode()).decode()},
        {"datacontenttype": "application/json", "data": body},
    ):
        event = json.dumps({**ATTRIBUTES, **data})
        answer = await client.post("/v1/models/add:predict", content=event, headers=STRUCTURED)
        assert answer.headers["content-type"] == "application/cloudevents+json"
        document = answer.json()
        assert document["data"] == {"predictions": predictions}
        assert document["source"] == "io.kserve.inference.add"
        assert document["datacontenttype"] == "application/json"


async def test_text_data(client: httpx.AsyncClient) -> None:
    data = base64.b64encode(b"loud").decode()
    event = {**ATTRIBUTES, "datacontenttype": "text/plain", "data_base64": data}
    answer = await client.post("/v1/models/shout:predict", content=json.dumps(event), headers=STRUCTURED)
    assert answer.json()["data"] == {"predictions": ["LOUD"]}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be a JSON object"),
        (json.dumps({**ATTRIBUTES, "id": 1, "data": ONE}), 'no attribute "id"'),
        (json.dumps({"specversion": "1.0", "id": "1", "type": "x", "data": ONE}), 'no attribute "source"'),
        (json.dumps(ATTRIBUTES), "neither data nor data_base64"),
        (json.dumps({**ATTRIBUTES, "data_base64": "?"}), "no text in base64"),
        (json.dumps({**ATTRIBUTES, "data": []}), "must be a JSON object"),
    ],
)
async def test_invalid_events(client: httpx.AsyncClient, event: str, expected: str) -> None:
    answer = await client.post("/v1/models/add:predict", content=event, headers=STRUCTURED)
    assert answer.status_code == 400
    assert expected in answer.json()["error"]


@pytest.mark.parametrize("media_type", ["application/avro", "application/cloudevents-batch+json"])
async def test_unsupported_events(client: httpx.AsyncClient, media_type: str) -> None:
    headers = {**HEADERS, "content-type": media_type}
    answer = await client.post("/v1/models/add:predict", content=b"[]", headers=headers)
    assert answer.status_code == 415


async def test_malformed_event_response_has_no_event_headers(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/models/add:predict", json=ONE)
    assert not [name for name in answer.headers if name.startswith("ce-")]
