"""TGI's routes, and the plain `/generate` beside them."""

import json
from typing import Any

import pytest

from tests.plugins.text.test_text_dialect import Asking, words


async def test_body_fields_select_format() -> None:
    async with Asking(words()) as asking:
        tgi = (await asking.post("/generate", inputs="a b")).json()
        assert tgi == {"generated_text": "a b "}
        plain = (await asking.post("/generate", prompt="a b")).json()
        assert (plain["text"], plain["num_tokens"], plain["finish_reason"]) == ("a b ", 2, "stop")
        listed = (await asking.post("/", inputs="a b")).json()
        assert listed == [{"generated_text": "a b "}]


@pytest.mark.parametrize(
    ("path", "body", "error", "places"),
    [
        (
            "/generate",
            {},
            "The body needs inputs, as for TGI, or prompt.",
            [["body", "inputs"], ["body", "prompt"]],
        ),
        (
            "/generate",
            {"inputs": "a", "prompt": "a"},
            "it has both.",
            [["body", "inputs"], ["body", "prompt"]],
        ),
        ("/generate_stream", {"prompt": "a"}, "inputs: is missing", [["body", "inputs"]]),
        ("/generate", {"inputs": ""}, "inputs: must not be empty", [["body", "inputs"]]),
        ("/", {"inputs": 5}, "inputs: must be a string", [["body", "inputs"]]),
    ],
)
async def test_body_without_format_is_refused(path: str, body: Any, error: str, places: Any) -> None:
    async with Asking(words()) as asking:
        refused = await asking.post(path, **body)
        assert (refused.status_code, refused.json()["error_type"]) == (422, "validation")
        assert error in refused.json()["error"]
        assert [fault["loc"] for fault in refused.json()["detail"]] == places


@pytest.mark.parametrize(("path", "fields"), [("/generate_stream", {}), ("/", {"stream": True})])
async def test_stream_has_one_event_per_token(path: str, fields: dict[str, Any]) -> None:
    async with Asking(words()) as asking:
        text = (await asking.post(path, inputs="a b", **fields)).text
        events = [json.loads(event.removeprefix("data:")) for event in text.split("\n\n") if event]
        assert [event["token"]["text"] for event in events[:2]] == ["a ", "b "]
        assert events[-1]["generated_text"] == "a b "


async def test_body_can_omit_model_with_default() -> None:
    async with Asking(words("only")) as asking:
        assert (await asking.client.post("/generate", json={"inputs": "a"})).status_code == 200
        assert (await asking.get("/info")).json()["model_id"] == "only"


async def test_health_covers_every_model() -> None:
    async with Asking(words()) as asking:
        assert (await asking.get("/health")).json() == {"status": "healthy"}
