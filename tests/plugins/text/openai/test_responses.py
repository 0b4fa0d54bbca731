"""`/v1/responses`: what a request may ask for, and what of it comes back."""

from typing import Any

import pytest

from inferstream.plugins.text.openai.responses import ECHOED, REFUSED
from tests.plugins.text.test_text_dialect import Asking, words

PATH = "/v1/responses"


@pytest.mark.parametrize("field", REFUSED)
async def test_unsupported_field_is_refused_with_reason(field: str) -> None:
    async with Asking(words()) as asking:
        refused = (await asking.post(PATH, input="a", **{field: 1})).json()["error"]
        assert (refused["param"], REFUSED[field] in refused["message"]) == (field, True)
        assert (await asking.post(PATH, input="a", **{field: False})).status_code == 200


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"top_logprobs": 2}, 'top_logprobs: needs "message.output_text.logprobs" in include'),
        ({"stream_options": {}}, "stream_options: needs stream to be true"),
        ({"truncation": "middle"}, "truncation: must be one of disabled"),
        ({"store": "yes"}, "store: must be true or false"),
        ({"max_output_tokens": 0}, "max_output_tokens: must be at least 1"),
        ({"input": []}, "input"),
    ],
)
async def test_invalid_field_is_named(fields: dict[str, Any], said: str) -> None:
    async with Asking(words()) as asking:
        refused = await asking.post(PATH, **{"input": "a", **fields})
        assert refused.status_code == 400
        assert said in refused.json()["error"]["message"]


async def test_response_echoes_request_fields() -> None:
    asked = {"temperature": 0.5, "user": "me", "max_output_tokens": 30, "metadata": {"a": "b"}}
    async with Asking(words()) as asking:
        answered = (await asking.post(PATH, input="a b", instructions="c", **asked)).json()
    assert {name: answered[name] for name in asked} == asked
    assert all(answered[name] == default for name, default in ECHOED.items() if name not in asked)
    assert (answered["status"], answered["instructions"], answered["store"]) == ("completed", "c", False)
    assert answered["id"].startswith("resp_")


async def test_included_log_probabilities_are_returned() -> None:
    async with Asking(words()) as asking:
        include = ["message.output_text.logprobs"]
        answered = (await asking.post(PATH, input="a b", include=include)).json()
        (part,) = answered["output"][0]["content"]
        assert [each["logprob"] for each in part["logprobs"]][:2] == [-1.0, -1.0]


async def test_response_cannot_be_fetched_later() -> None:
    async with Asking(words()) as asking:
        missing = await asking.get(f"{PATH}/resp_1")
        assert (missing.status_code, "not stored" in missing.text) == (404, True)
        assert (await asking.client.delete(f"{PATH}/resp_1")).status_code == 404
