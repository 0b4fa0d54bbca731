"""Texts of a form in a language model: each row of a batch has a grammar of its own, or none."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("llguidance")
pytestmark = pytest.mark.filterwarnings("ignore")

from inferstream.errors import InvalidRequest
from inferstream.plugins.llm.grammars.matching import FormedText, Grammars
from inferstream.testing import InProcess, encode, run
from inferstream.types import InferenceRequest, InferenceResponse
from tests.plugins.llm.transformers import tiny

PLACE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "size": {"enum": ["large", "small"]},
        "at": {"type": "array", "items": {"type": "integer", "maximum": 99}, "minItems": 2, "maxItems": 2},
    },
    "required": ["name", "size", "at"],
    "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}
CODE = {"type": "regex", "regex": "[A-Z]{3}-[0-9]{2}"}
PLAIN = {"max_tokens": 9, "temperature": 0}
CHOICE = {"type": "choice", "choice": ["one", "über", "日本語"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tiny.write(tmp_path_factory.mktemp("tiny"), context=1024)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def client(folder: Path, runner: asyncio.Runner) -> Iterator[InProcess]:
    served = run(str(folder))
    yield runner.run(served.__aenter__())
    runner.run(served.__aexit__(None, None, None))


def request(form: Any, prompt: str = "one two", **parameters: Any) -> InferenceRequest:
    inputs = [encode("prompt", prompt)]
    if form is not None:
        inputs.append(encode("response_format", json.dumps(form)))
    return InferenceRequest(inputs=inputs, parameters={"seed": 5, "temperature": 1.0, **parameters})


async def stream(client: InProcess, form: Any, **parameters: Any) -> list[InferenceResponse]:
    return [each async for each in client.stream("tiny", request(form, **parameters))]


def text_of(responses: list[InferenceResponse]) -> str:
    return "".join(response.outputs[0].data[0] for response in responses)


def reason(responses: list[InferenceResponse]) -> object:
    return responses[-1].parameters.get("finish_reason")


def test_texts_of_a_batch_have_own_formats(client: InProcess, runner: asyncio.Runner, folder: Path) -> None:
    async def all_of_them() -> list[list[InferenceResponse]]:
        forms = [CODE, None, SCHEMA, CHOICE] * 3
        return await asyncio.gather(
            *(
                stream(client, form, seed=seed, **({"max_tokens": 500} if form else PLAIN))
                for seed, form in enumerate(forms)
            )
        )

    alone = tiny.Alone(folder)
    for seed, found in enumerate(runner.run(all_of_them())):
        text = text_of(found)
        match seed % 4:
            case 0:
                assert re.fullmatch(CODE["regex"], text)
            case 1:
                assert text == alone.text(alone.tokens("one two", 9))
            case 2:
                place = json.loads(text)
                assert list(place) == ["name", "size", "at"]
                assert place["size"] in ("large", "small")
                assert len(place["at"]) == 2
            case 3:
                assert text in CHOICE["choice"]
        assert reason(found) == "stop" or seed % 4 == 1


@pytest.mark.parametrize("options", [{"temperature": 0}, {"top_k": 5, "top_p": 0.5, "min_p": 0.1}])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_sampling_follows_format(
    client: InProcess, runner: asyncio.Runner, options: dict[str, Any], penalty: float
) -> None:
    found = runner.run(stream(client, CODE, repetition_penalty=penalty, frequency_penalty=0.5, **options))
    assert re.fullmatch(CODE["regex"], text_of(found))


def test_unary_response_equals_stream(client: InProcess, runner: asyncio.Runner) -> None:
    streamed = runner.run(stream(client, SCHEMA, max_tokens=500))
    whole = runner.run(client.infer("tiny", request(SCHEMA, max_tokens=500)))
    assert text_of([whole]) == text_of(streamed)
    assert whole.parameters.get("finish_reason") == "stop"


def test_truncated_text_has_finish_reason_length(client: InProcess, runner: asyncio.Runner) -> None:
    found = runner.run(stream(client, CODE, max_tokens=4))
    assert re.fullmatch("[A-Z]{3}-", text_of(found))
    assert reason(found) == "length"


def test_completed_format_ends_text_despite_ignore_eos(client: InProcess, runner: asyncio.Runner) -> None:
    found = runner.run(stream(client, CODE, ignore_eos=True))
    assert (len(text_of(found)), reason(found)) == (6, "stop")
    found = runner.run(stream(client, {"type": "regex", "regex": "(ab)?"}, ignore_eos=True))
    assert (text_of(found) in ("", "ab"), reason(found)) == (True, "stop")


def test_log_probabilities_ignore_format(client: InProcess, runner: asyncio.Runner) -> None:
    found = runner.run(stream(client, CODE, logprobs=True, top_logprobs=3))
    top = json.loads(found[0].parameters.get("top_logprobs"))
    assert len(top) == 3
    assert found[0].parameters.get("logprob") > -100


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"type": "regex", "regex": "(a"}, "unclosed group"),
        ({"type": "json_schema", "json_schema": {"schema": {"type": "thing"}}}, "Invalid type: thing"),
        ({"type": "xml"}, 'its type "xml" is unknown'),
    ],
)
def test_invalid_format_is_refused_and_others_continue(
    client: InProcess, runner: asyncio.Runner, form: Any, message: str
) -> None:
    async def both() -> tuple[Any, Any]:
        return await asyncio.gather(stream(client, form), stream(client, CODE), return_exceptions=True)

    wrong, right = runner.run(both())
    assert isinstance(wrong, InvalidRequest)
    assert message in wrong.message
    assert wrong.detail[0]["loc"] == ["response_format"]
    assert reason(right) == "stop"


def test_others_generate_during_grammar_compilation(
    client: InProcess, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, made = Event(), Grammars._compile

    def waiting(self: Grammars, form: str, name: str) -> Any:
        assert go_on.wait(60)
        return made(self, form, name)

    monkeypatch.setattr(Grammars, "_compile", waiting)

    async def both() -> None:
        held = asyncio.ensure_future(stream(client, {"type": "regex", "regex": "held[0-9]"}))
        left = client.stream("tiny", request({"type": "regex", "regex": "left"}))
        leaving = asyncio.ensure_future(anext(left))
        assert len(await stream(client, None, max_tokens=20, ignore_eos=True)) == 20
        assert not held.done()
        leaving.cancel()
        await asyncio.wait([leaving])
        await left.aclose()
        assert len(await stream(client, None, max_tokens=3, ignore_eos=True)) == 3
        go_on.set()
        assert re.fullmatch("held[0-9]", text_of(await held))

    runner.run(both())


def test_text_with_grammar_failure_ends_alone(
    client: InProcess, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, taken = FormedText.add_token, []

    def fails(self: FormedText, token: int) -> bool:
        taken.append(token)
        if len(taken) == 2:
            raise InvalidRequest("too complex")
        return take(self, token)

    monkeypatch.setattr(FormedText, "add_token", fails)

    async def both() -> list[Any]:
        asked = (stream(client, CODE), stream(client, None, max_tokens=8, ignore_eos=True))
        return await asyncio.gather(*asked, return_exceptions=True)

    failed, plain = runner.run(both())
    assert isinstance(failed, InvalidRequest)
    assert len(plain) == 8
