"""A real model, run by OpenVINO GenAI: texts, options, formats, batches and cancellation."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from inferstream.errors import InvalidRequest
from inferstream.testing import InProcess, run
from tests.serving import eventually

from ..llamacpp.stand_in import asked, parameters_of, text_of
from .smollm2 import ANSWER, CAPITAL, Watched, path, settings_of

SMOLLM2 = path()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def client(runner: asyncio.Runner) -> Iterator[InProcess]:
    served = run(settings_of(SMOLLM2))
    yield runner.run(served.__aenter__())
    runner.run(served.__aexit__(None, None, None))


async def generate(client: InProcess, inputs: dict[str, Any], **parameters: Any) -> str:
    return text_of([await client.infer("m", asked(inputs, **parameters))])


async def stream(client: InProcess, inputs: dict[str, Any], **parameters: Any) -> list[Any]:
    return [each async for each in client.stream("m", asked(inputs, **parameters))]


def test_stream_has_tokens_and_their_log_probabilities(client: InProcess, runner: asyncio.Runner) -> None:
    responses = runner.run(stream(client, CAPITAL, temperature=0, logprobs=True))
    assert text_of(responses) == ANSWER
    first, last = parameters_of(responses[0]), parameters_of(responses[-1])
    assert first["token_id"] > 0
    assert -5 < first["logprob"] < 0
    assert (last["finish_reason"], last["completion_tokens"]) == ("stop", len(responses))
    assert last["prompt_tokens"] > 10
    assert "logprob" not in parameters_of(runner.run(stream(client, CAPITAL, max_tokens=1))[0])


def test_greedy_texts_are_equal_alone_and_together(client: InProcess, runner: asyncio.Runner) -> None:
    prompts = [
        f"The number {number} is" for number in ("one", "two", "three", "four", "five", "six", "seven")
    ]

    def start(prompt: str) -> Any:
        return generate(client, {"prompt": prompt}, temperature=0, max_tokens=12)

    async def together() -> list[str]:
        return await asyncio.gather(*map(start, prompts))

    assert runner.run(together()) == [runner.run(start(prompt)) for prompt in prompts]


def test_seeded_text_is_reproducible(client: InProcess, runner: asyncio.Runner) -> None:
    found = [
        runner.run(generate(client, {"prompt": "Once"}, seed=seed, temperature=1, max_tokens=12))
        for seed in (7, 7, -8)
    ]
    assert found[0] == found[1] != found[2]


def test_stream_continues_after_written_tokens(client: InProcess, runner: asyncio.Runner) -> None:
    options: dict[str, Any] = {"temperature": 0, "max_tokens": 20}
    whole = runner.run(stream(client, {"prompt": "Once upon a time"}, **options))
    tokens = [parameters_of(each)["token_id"] for each in whole]
    for count in (1, 12):
        written = json.dumps(tokens[:count])
        rest = runner.run(
            stream(client, {"prompt": "Once upon a time"}, **options, written_token_ids=written)
        )
        assert text_of(rest) == text_of(whole[count:])
        assert parameters_of(rest[-1]) == parameters_of(whole[-1])
    form = {"type": "json_schema", "schema": {"type": "boolean"}}
    inputs = {"prompt": "Once", "response_format": form}
    for refused in ({"presence_penalty": 1.0}, {"temperature": 1.0}, {"frequency_penalty": 1.0}):
        with pytest.raises(InvalidRequest, match="written_token_ids is not taken"):
            runner.run(
                stream(client, {"prompt": "Once"}, **{**options, **refused, "written_token_ids": "[5]"})
            )
    with pytest.raises(InvalidRequest, match="written_token_ids is not taken with a format"):
        runner.run(stream(client, inputs, **options, written_token_ids="[5]"))


def test_unseeded_texts_differ(client: InProcess, runner: asyncio.Runner) -> None:
    found = {
        runner.run(generate(client, {"prompt": "Once"}, temperature=1.5, max_tokens=12)) for _ in range(3)
    }
    assert len(found) > 1


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"type": "regex", "regex": "<[ab]{3}>"}, "<"),
        ({"type": "choice", "choice": ["yes\n", 'n"o']}, None),
        ({"type": "grammar", "grammar": 'root ::= "x" "y"'}, "xy"),
        ({"type": "text"}, ANSWER),
    ],
)
def test_text_has_requested_format(
    client: InProcess, runner: asyncio.Runner, form: dict[str, Any], text: str | None
) -> None:
    responses = runner.run(stream(client, {**CAPITAL, "response_format": form}, temperature=0))
    found = text_of(responses)
    assert found in form["choice"] if text is None else found.startswith(text)
    assert parameters_of(responses[-1])["finish_reason"] == "stop"


def test_json_follows_schema(client: InProcess, runner: asyncio.Runner) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "capital": {"type": "boolean"}},
        "required": ["city", "capital"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    inputs = {**CAPITAL, "response_format": form}
    found = json.loads(runner.run(generate(client, inputs, temperature=0, ignore_eos=True)))
    assert found.keys() == {"city", "capital"}
    assert isinstance(found["capital"], bool)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"type": "regex", "regex": "(a"}, "response_format: Regex parsing error at position 3"),
        ({"type": "regex", "regex": r"\p{L}"}, "response_format: Regex parsing error"),
        ({"type": "grammar", "grammar": "start: x"}, "response_format: EBNF lexer error"),
        ({"type": "json_schema", "json_schema": {"schema": {"type": "few"}}}, 'Unsupported type "few"'),
        ({"type": "table"}, 'its type "table" is unknown'),
        ({"type": "regex", "regex": "a" * 2**16}, "has more than 65536 characters"),
    ],
)
def test_invalid_format_fails_only_its_request(
    client: InProcess, runner: asyncio.Runner, form: dict[str, Any], reason: str
) -> None:
    async def both() -> list[Any]:
        good = generate(client, CAPITAL, temperature=0)
        bad = generate(client, {"prompt": "a", "response_format": form})
        return await asyncio.gather(good, bad, return_exceptions=True)

    good, bad = runner.run(both())
    assert good == ANSWER
    assert isinstance(bad, InvalidRequest)
    assert reason in str(bad)
    assert "/" not in str(bad)  # no path in the source of the library


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"logit_bias": '{"5": 1}'}, "logit_bias"),
        ({"allowed_token_ids": "[5]"}, "allowed_token_ids"),
        ({"bad_words": '["a"]'}, "bad_words"),
        ({"truncate_prompt_tokens": 1}, "truncate_prompt_tokens"),
        ({"prompt_logprobs": 0}, "prompt_logprobs"),
        ({"logprobs": True, "top_logprobs": 2}, "top_logprobs"),
        ({"use_beam_search": True}, "use_beam_search"),
    ],
)
def test_missing_option_is_named(
    client: InProcess, runner: asyncio.Runner, parameters: dict[str, Any], name: str
) -> None:
    with pytest.raises(InvalidRequest, match=name):
        runner.run(stream(client, {"prompt": "hi"}, **parameters))


@pytest.mark.parametrize(
    ("parameters", "reason", "tokens"),
    [
        ({"max_tokens": 3}, "length", 3),
        ({"ignore_eos": True, "max_tokens": 12}, "length", 12),
        ({"min_tokens": 10, "max_tokens": 10}, "length", 10),
        ({"stop_token_ids": "[504]"}, "stop", 1),
        ({"stop_token_ids": "[504]", "ignore_eos": True}, "stop", 1),
        ({"top_k": 1, "temperature": 1, "min_p": 1.0, "top_p": 0.1, "seed": 2**64 - 1}, "stop", 8),
    ],
)
def test_options_determine_the_end(
    client: InProcess, runner: asyncio.Runner, parameters: dict[str, Any], reason: str, tokens: int
) -> None:
    *_, last = runner.run(stream(client, CAPITAL, **{"temperature": 0, **parameters}))
    found = parameters_of(last)
    assert (found["finish_reason"], found["completion_tokens"]) == (reason, tokens)


def test_context_limits_prompt_and_output(client: InProcess, runner: asyncio.Runner) -> None:
    with pytest.raises(InvalidRequest, match="maximum context length is 512 tokens"):
        runner.run(generate(client, {"prompt": "word " * 600}))
    *_, last = runner.run(stream(client, {"prompt": "word " * 500}, ignore_eos=True))
    found = parameters_of(last)
    assert found["prompt_tokens"] + found["completion_tokens"] == 512


def test_disconnects_release_the_cache(client: InProcess, runner: asyncio.Runner) -> None:
    model = Watched.last

    async def leave() -> tuple[float, str]:
        responses = client.stream("m", asked({"prompt": "Once upon a time"}, ignore_eos=True))
        await anext(responses)
        usage = model.kv_usage
        await responses.aclose()
        text = await generate(client, CAPITAL, temperature=0)
        await asyncio.to_thread(eventually, lambda: model.kv_usage == 0)
        return usage, text

    for _ in range(3):
        used, text = runner.run(leave())
        assert 0 < used < 1
        assert text == ANSWER


def test_long_prompt_does_not_stop_other_streams(client: InProcess, runner: asyncio.Runner) -> None:
    async def both() -> int:
        writer = client.stream("m", asked({"prompt": "The sea"}, ignore_eos=True, max_tokens=100))
        await anext(writer)
        long = asyncio.ensure_future(generate(client, {"prompt": "word " * 400}, max_tokens=1))
        count = 0
        async for _ in writer:
            count += not long.done()
        await long
        return count

    assert runner.run(both()) >= 1
