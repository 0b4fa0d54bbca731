"""Text of an engine: tokens, options and errors, through every stage of the server, without a port."""

import asyncio
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

pytest.importorskip("grpc")
pytest.importorskip("tokenizers")

from inferstream.errors import InvalidRequest, ModelError, Overloaded
from tests.fake_engine import CONTEXT, STORY, events, load_tokenizer
from tests.plugins.llm.engine.served import protocol as protocol
from tests.plugins.llm.engine.served import request, serve, text_of, until

pytestmark = pytest.mark.usefixtures("protocol")


@pytest.mark.parametrize("size", [1, 3, 200])
async def test_streamed_text_is_complete(tmp_path: Path, size: int, protocol: str) -> None:
    async with serve(tmp_path, size=size) as served:
        found = await served.stream(max_tokens=100)
        count = len(served.engine.story)
        assert text_of(found) == STORY
        assert [each.parameters.get("token_id") for each in found] == served.engine.story
        assert found[0].parameters.get("prompt_tokens") == len(served.asked["ids"])
        last = found[-1].parameters
        assert (last.get("finish_reason"), last.get("completion_tokens")) == ("stop", count)
        assert last.get("cached_tokens") == (None if protocol == "vllm.inference" else 3)
        assert served.asked["stream"]
        await until(lambda: events(served.engine.control, "done"))


async def test_single_response_has_whole_text(tmp_path: Path, protocol: str) -> None:
    async with serve(tmp_path) as served:
        whole = await served.client.infer("llm", request("one two", max_tokens=100))
        assert whole.outputs[0].data[0] == STORY
        assert whole.parameters.get("completion_tokens") == len(served.engine.story)
        assert served.asked["stream"] == (protocol == "openengine")
        cut = await served.client.infer("llm", request("one two", max_tokens=4))
        expected = load_tokenizer(served.engine.tokenizer).decode(served.engine.story[:4])
        assert (cut.outputs[0].data[0], cut.parameters.get("finish_reason")) == (expected, "length")


async def test_text_ends_within_limits(tmp_path: Path) -> None:
    async with serve(tmp_path) as served:
        found = await served.stream(max_tokens=5)
        assert len(found) == 5
        assert found[-1].parameters.get("finish_reason") == "length"
        await served.stream(ignore_eos=True)
        assert served.asked["max_tokens"] == CONTEXT - len(served.asked["ids"])


async def test_sampling_options_reach_engine(tmp_path: Path, protocol: str) -> None:
    options: dict[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.25,
        "top_k": 7,
        "min_p": 0.125,
        "repetition_penalty": 1.5,
        "presence_penalty": -1.0,
        "frequency_penalty": 2.0,
        "seed": 9,
        "min_tokens": 2,
        "max_tokens": 3,
        "ignore_eos": True,
        "stop_token_ids": [250],
    }
    async with serve(tmp_path) as served:
        given = options | {"stop_token_ids": "[250]"}
        biases = {"logit_bias": '{"7": -100, "8": 2.5}'}
        if protocol == "openengine":
            with pytest.raises(InvalidRequest, match="logit_bias is not taken: the protocol"):
                await served.stream(**given, **biases)
            biases = {}
        await served.stream(**given, **biases)
        assert {name: served.asked[name] for name in options} == options
        assert served.asked.get("logit_bias") == ({"7": -100.0, "8": 2.5} if biases else None)
        for seed, expected in ((-1, 2**31 - 1), (2**40 + 5, 5)):
            await served.stream(seed=seed, max_tokens=1)
            assert served.asked["seed"] == expected
        await served.stream(prompt="[1, 2, 3]", token_ids=True, max_tokens=1)
        assert served.asked["ids"] == [1, 2, 3]
        await served.stream(truncate_prompt_tokens=2, max_tokens=1)
        assert len(served.asked["ids"]) == 2


async def test_defaults_are_those_of_engine_and_settings(tmp_path: Path, protocol: str) -> None:
    control = tmp_path / "control"
    control.mkdir()
    (control / "model").write_text(
        json.dumps({"default_sampling_params_json": '{"temperature":0.6,"top_k":20}'})
    )
    async with serve(tmp_path, {"sampling": {"top_k": 5}, "max_tokens": 6, "max_context": 64}) as served:
        await served.stream()
        expected = 0.6 if protocol == "vllm.grpc.engine" else 1.0  # the other one does not report defaults
        assert (served.asked["temperature"], served.asked["top_k"]) == (pytest.approx(expected), 5)
        assert served.asked["max_tokens"] == 6


async def test_stop_tokens_are_not_part_of_text(tmp_path: Path) -> None:
    async with serve(tmp_path) as served:
        stop = served.engine.story[6]
        at = served.engine.story.index(stop)
        found = await served.stream(stop_token_ids=json.dumps([stop]))
        expected = load_tokenizer(served.engine.tokenizer).decode(served.engine.story[:at])
        assert (text_of(found), found[-1].parameters.get("finish_reason")) == (expected, "stop")


@pytest.mark.parametrize("size", [1, 3])
async def test_text_ends_although_engine_continues(tmp_path: Path, size: int) -> None:
    """The end token of the tokenizer's files, which the engine does not know."""
    async with serve(tmp_path, size=size) as served:
        served.engine.story = [*served.engine.story[:-1], 0, *served.engine.story[:20]]
        served.engine.tokens = lambda _: iter((token, False) for token in served.engine.story)  # type: ignore[method-assign]
        found = await served.stream()
        assert (text_of(found), found[-1].parameters.get("finish_reason")) == (STORY, "stop")


async def test_logprobs_are_sorted(tmp_path: Path) -> None:
    async with serve(tmp_path) as served:
        found = await served.stream(logprobs=True, top_logprobs=2, max_tokens=2)
        assert served.asked["logprobs"] == 3
        assert [each.parameters.get("logprob") for each in found] == [-0.5, -0.5]
        top = orjson.loads(found[0].parameters.get("top_logprobs"))
        assert [*top.values()] == [-0.25, -0.5]
        plain = await served.stream(logprobs=True, max_tokens=1)
        assert (served.asked["logprobs"], plain[0].parameters.get("top_logprobs")) == (0, None)
        scored = await served.stream(prompt_logprobs=0, max_tokens=1)
        prompt = orjson.loads(scored[0].parameters.get("prompt_logprobs"))
        assert [value for _, value, _ in prompt] == [None, *[-1.0] * (len(prompt) - 1)]
        assert "".join(token for token, _, _ in prompt) == "one two"


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
            {"json_schema": orjson.dumps(SCHEMA).decode()},
        ),
        ({"type": "json_object"}, {"json_object": True}),
        ({"type": "regex", "regex": "a+"}, {"regex": "a+"}),
        ({"type": "grammar", "grammar": "root ::= 'a'"}, {"grammar": "root ::= 'a'"}),
        ({"type": "choice", "choice": ["a", "b"]}, {"choice": {"choices": ["a", "b"]}}),
        ({"type": "text"}, {}),
    ],
)
async def test_formats_reach_engine_as_constraint(tmp_path: Path, form: Any, expected: Any) -> None:
    async with serve(tmp_path) as served:
        await served.stream(response_format=form, max_tokens=2)
        names = ("json_schema", "json_object", "regex", "grammar", "choice")
        assert {name: served.asked[name] for name in names if name in served.asked} == expected
        assert served.asked.get("grammar_from_first_token", False) is bool(expected)


async def test_strict_call_reaches_engine_as_structural_tag(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}]
    async with serve(tmp_path, settings={"tool_format": "hermes"}) as served:
        messages = [{"role": "user", "content": "hi"}]
        await served.stream(None, messages=messages, tools=tools, tool_choice="required", max_tokens=2)
        tag = json.loads(served.asked["structural_tag"])
        [element] = tag["format"]["elements"]
        assert (element["begin"], element["end"]) == ('f", "arguments": ', "}\n</tool_call>")
        assert element["content"] == {"type": "json_schema", "json_schema": SCHEMA}
        prompt = load_tokenizer(served.engine.tokenizer).decode(served.asked["ids"], False)
        assert prompt == '<user>hi</s><assistant><tool_call>\n{"name": "'


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"bad_words": '["x"]'}, "bad_words"),
        ({"adapter_id": "tuned"}, "adapter_id"),
        ({"temperature": -1}, "temperature"),
        ({"response_format": {"type": "poem"}}, "response_format"),
        ({"response_format": {"type": "regex"}}, "response_format"),
        ({"response_format": {"type": "json_object"}, "min_tokens": 3}, "min_tokens"),
    ],
)
async def test_options_that_engine_lacks_are_refused(tmp_path: Path, options: Any, named: str) -> None:
    async with serve(tmp_path) as served:
        with pytest.raises(InvalidRequest, match=named) as caught:
            await served.stream(**options)
        assert caught.value.detail is not None
        assert caught.value.detail[0]["loc"] == [named]
        assert not events(served.engine.control, "generate")


async def test_prompt_beyond_context_is_refused(tmp_path: Path) -> None:
    async with serve(tmp_path) as served:
        with pytest.raises(InvalidRequest, match="maximum context length is 512 tokens"):
            await served.stream("one " * 600)
        assert not events(served.engine.control, "generate")


async def test_closed_stream_is_cancelled_at_engine(tmp_path: Path) -> None:
    async with serve(tmp_path, pace=0.001) as served:
        responses = served.client.stream("llm", request("one two", ignore_eos=True))
        await anext(responses)
        await responses.aclose()
        await until(lambda: events(served.engine.control, "cancelled"))


async def test_cancelled_single_call_is_cancelled_at_engine(tmp_path: Path) -> None:
    async with serve(tmp_path) as served:
        served.control("hang")
        call = asyncio.ensure_future(served.client.infer("llm", request("one two", max_tokens=9)))
        await until(lambda: events(served.engine.control, "generate"))
        call.cancel()
        await until(lambda: events(served.engine.control, "cancelled"))


@pytest.mark.parametrize("status", ["INVALID_ARGUMENT", "NOT_FOUND"])
async def test_rejected_request_is_invalid(tmp_path: Path, status: str) -> None:
    async with serve(tmp_path) as served:
        served.control("refuse", status)
        with pytest.raises(
            InvalidRequest, match=f"does not accept the request: refused with {status}"
        ) as caught:
            await served.stream()
        assert "secret" not in str(caught.value)


async def test_statuses_of_engine_are_translated(tmp_path: Path) -> None:
    async with serve(tmp_path) as served:
        served.control("refuse", "RESOURCE_EXHAUSTED")
        with pytest.raises(Overloaded):
            await served.stream()
        served.control("refuse", "INTERNAL")
        with pytest.raises(ModelError, match="The engine of model llm failed") as caught:
            await served.stream()
        assert "refused" not in str(caught.value)


async def test_error_of_engine_ends_text(tmp_path: Path, protocol: str) -> None:
    async with serve(tmp_path) as served:
        served.control("reason", "error")
        with pytest.raises(
            ModelError,
            match="sent an incomplete text" if protocol == "vllm.inference" else "failed on the request",
        ):
            await served.stream()
