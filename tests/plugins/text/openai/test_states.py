"""Conversations in the ids of responses."""

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from inferstream import InferenceRequest, MLModel, ModelSettings, StringCodec
from inferstream.errors import InvalidSettings
from inferstream.plugins.text import sealing
from inferstream.plugins.text.chat import MAX_MESSAGES
from inferstream.plugins.text.openai.states import LARGE, NO_KEYS, TOO_LARGE, UNOPENED
from inferstream.testing import run
from tests.plugins.text.test_text_dialect import Asking

PATH = "/v1/responses"
TEXTS = {"datatype": "BYTES", "shape": [1]}


class Told(MLModel):
    """Says which messages it got."""

    async def predict(self, payload: InferenceRequest) -> str:
        [messages, *_] = StringCodec.decode_input(payload.inputs[0])
        return str(messages)


def told(name: str = "words", **settings: Any) -> Told:
    inputs = [{"name": "messages", **TEXTS}, {"name": "images", **TEXTS, "parameters": {"optional": True}}]
    outputs = [{"name": "text", **TEXTS}]
    return Told(ModelSettings(implementation=Told, name=name, inputs=inputs, outputs=outputs, **settings))


class Keeping(Asking):
    """Asks a server with a file of keys."""

    def __init__(self, key_file: Path | None, *models: MLModel) -> None:
        settings = {} if key_file is None else {"state_key_file": str(key_file)}
        self._run = run([*models] or [told()], **settings)

    async def told(self, input: object, **fields: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The response, and the messages that the model got."""
        answered = (await self.post(PATH, input=input, **fields)).json()
        assert "output" in answered, answered
        return answered, json.loads(answered["output"][0]["content"][0]["text"])


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "state.keys"
    path.write_text(secrets.token_urlsafe(32))
    path.chmod(0o600)
    return path


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


async def test_response_id_contains_conversation_without_instructions(key_file: Path) -> None:
    async with Keeping(key_file) as asking:
        first, _ = await asking.told("a", instructions="be kind")
        second, got = await asking.told("b", instructions="be brief", previous_response_id=first["id"])
        assert got[0] == {"role": "system", "content": "be brief"}
        assert got[1] == user("a")
        assert got[2]["role"] == "assistant"
        assert json.loads(got[2]["content"])[1] == user("a")
        assert got[3:] == [user("b")]
        _, got = await asking.told([user("c")], previous_response_id=second["id"])
        assert [each["role"] for each in got] == ["user", "assistant"] * 2 + ["user"]
        assert (first["store"], second["store"], second["previous_response_id"]) == (True, True, None)


async def test_id_contains_functions_and_images_but_no_reasoning(key_file: Path) -> None:
    call = {"type": "function_call", "call_id": "1", "name": "time", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "1", "output": "noon"}
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    async with Keeping(key_file) as asking:
        first, _ = await asking.told([user([image]), {"type": "reasoning", "summary": []}, call, output])
        _, got = await asking.told("b", previous_response_id=first["id"])
        assert [each["role"] for each in got] == ["user", "assistant", "tool", "assistant", "user"]
        assert got[0]["content"] == [{"type": "image"}]
        assert got[1]["tool_calls"][0]["function"] == {"name": "time", "arguments": "{}"}


@pytest.mark.parametrize("store", [False, True, None])
async def test_store_selects_stateful_id(key_file: Path, store: bool | None) -> None:
    async with Keeping(key_file) as asking:
        answered, _ = await asking.told("a", store=store)
        assert answered["store"] is (store is not False)
        assert (sealing.MARK in answered["id"]) is (store is not False)
        again = await asking.post(PATH, input="b", previous_response_id=answered["id"])
        assert again.status_code == (400 if store is False else 200)


async def test_last_stream_event_has_stateful_id(key_file: Path) -> None:
    async with Keeping(key_file) as asking:
        text = (await asking.post(PATH, input="a", stream=True, store=True)).text
        events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]
        created, completed = events[0]["response"], events[-1]["response"]
        assert (created["store"], completed["store"]) == (False, True)
        assert text.count(sealing.MARK) == 1
        _, got = await asking.told("b", previous_response_id=completed["id"])
        assert got[0] == user("a")
        refused = await asking.post(PATH, input="b", previous_response_id=created["id"])
        assert refused.status_code == 400
        assert UNOPENED in refused.json()["error"]["message"]
        for fields in ({}, {"store": None}, {"store": False}):
            assert sealing.MARK not in (await asking.post(PATH, input="a", stream=True, **fields)).text


def expect_unopened(refused: Any, sentence: str = UNOPENED) -> None:
    assert (refused.status_code, refused.json()["error"]) == (
        400,
        {
            "message": f"previous_response_id: {sentence}",
            "type": "invalid_request_error",
            "param": "previous_response_id",
            "code": "previous_response_not_found",
        },
    )


async def test_other_model_key_or_text_opens_nothing(key_file: Path) -> None:
    other = key_file.with_name("other.keys")
    other.write_text(secrets.token_urlsafe(32))
    other.chmod(0o600)
    async with Keeping(key_file, told(), told("other")) as asking, Keeping(other) as stranger:
        id = (await asking.told("a"))[0]["id"]
        expect_unopened(await asking.post(PATH, model="other", input="b", previous_response_id=id))
        expect_unopened(await stranger.post(PATH, input="b", previous_response_id=id))
        for text in ("", "resp_1", id[:-1], id + "A", id.removeprefix("resp_"), "resp_" + id, "ü" * 300_000):
            expect_unopened(await asking.post(PATH, input="b", previous_response_id=text))
        refused = (await asking.post(PATH, input="b", previous_response_id=5)).json()["error"]
        assert refused["message"] == "previous_response_id: must be a string"


async def test_other_model_version_continues_conversation(key_file: Path) -> None:
    versions = [told(parameters={"version": version}) for version in ("1", "2")]
    async with Keeping(key_file, *versions) as asking:
        id = (await asking.told("a", model="words:1"))[0]["id"]
        _, got = await asking.told("b", model="words:2", previous_response_id=id)
        assert got[0] == user("a")


@pytest.mark.parametrize("streamed", [False, True])
async def test_conversation_too_large_for_id_is_reported_on_continuation(
    key_file: Path, streamed: bool
) -> None:
    async with Keeping(key_file) as asking:
        large = "".join(secrets.token_urlsafe() for _ in range(10_000))
        answered = await asking.post(PATH, input=large, stream=streamed, store=True)
        assert answered.status_code == 200
        assert sealing.MARK not in answered.text
        id = LARGE + answered.text.rpartition(LARGE)[2].partition('"')[0]
        assert '"store":true' not in answered.text
        expect_unopened(await asking.post(PATH, input="b", previous_response_id=id), TOO_LARGE)


async def test_conversation_has_request_message_limit(key_file: Path) -> None:
    async with Keeping(key_file) as asking:
        items = [user("a")] * (MAX_MESSAGES - 1) + [{"type": "reasoning"}]
        id = (await asking.post(PATH, input=items)).json()["id"]
        refused = await asking.post(PATH, input=[user("b")], previous_response_id=id)
        message = refused.json()["error"]["message"]
        assert message == "input: holds 1 messages, at most 0 are allowed"


async def test_any_item_value_is_preserved(key_file: Path) -> None:
    deep = json.loads("[" * 90 + "]" * 90)
    numbers = [10**30, -(10**18), 1e300, 0.1, True, None]
    async with Keeping(key_file) as asking:
        for content in ("a", "a" * 100_000):
            item = {**user(content), "more": deep, "numbers": numbers, "text": "\u0000\U0001f389"}
            answered = await asking.post(PATH, input=[item])
            assert (answered.status_code, answered.json().get("store")) == (200, True), answered.text[:300]


async def test_missing_keys_error_names_setting_and_nothing_is_stored() -> None:
    async with Keeping(None) as asking:
        answered, _ = await asking.told("a", store=True)
        assert answered["store"] is False
        assert len(answered["id"]) < 60
        refused = await asking.post(PATH, input="b", previous_response_id=answered["id"])
        assert (refused.status_code, NO_KEYS in refused.json()["error"]["message"]) == (400, True)


async def test_world_readable_key_file_aborts_startup(key_file: Path) -> None:
    key_file.chmod(0o644)
    with pytest.raises(InvalidSettings, match="other users have access"):
        async with Keeping(key_file):
            pass
