"""Texts of a form, as clients of OpenAI, vLLM, Ollama and TGI ask for them, from a language model of transformers."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Any, Literal

import httpx
import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("llguidance")
pytestmark = pytest.mark.filterwarnings("ignore")

from tests.plugins.llm.transformers import tiny
from tests.serving import Running

MESSAGES: Any = [{"role": "user", "content": "one two"}]
CODE = "[A-Z]{3}-[0-9]{2}"
ASKED: Any = {"model": "tiny", "messages": MESSAGES, "seed": 7, "temperature": 1.0, "max_tokens": 1900}


class Size(StrEnum):
    LARGE = "large"
    SMALL = "small"


class Closed(BaseModel):
    """Without it, JSON Schema allows any further members, and a text has no end that is certain to come."""

    model_config = ConfigDict(extra="forbid")


class Point(Closed):
    x: int = Field(ge=0, le=99)
    y: int = Field(ge=0, le=99)


class Circle(Closed):
    kind: Literal["circle"]
    center: Point


class Word(Closed):
    kind: Literal["word"]
    word: str = Field(max_length=4)


class Picture(Closed):
    title: str = Field(max_length=6)
    size: Size
    parts: list[Circle | Word] = Field(min_length=1, max_length=2)
    note: str | None = Field(max_length=3)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("structured") / "models"
    tiny.write(folder / "tiny", context=2048)
    file = folder / "tiny" / "model-settings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "tool_format": "hermes"}))
    running = Running(folder, within=180, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def client(served: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", timeout=120, max_retries=0) as client:
        yield client


def test_pydantic_class_is_the_text_schema(client: openai.OpenAI) -> None:
    found = client.chat.completions.parse(**ASKED, response_format=Picture).choices[0]
    assert found.finish_reason == "stop"
    picture = found.message.parsed
    assert isinstance(picture, Picture)
    assert isinstance(picture.size, Size)
    assert 1 <= len(picture.parts) <= 2


def test_stream_has_same_text(client: openai.OpenAI) -> None:
    whole = client.chat.completions.parse(**ASKED, response_format=Picture).choices[0]
    with client.chat.completions.stream(**ASKED, response_format=Picture) as events:
        for _ in events:
            pass
        streamed = events.get_final_completion().choices[0]
    assert streamed.message.content == whole.message.content
    assert streamed.message.parsed == whole.message.parsed
    assert streamed.finish_reason == "stop"


def test_text_truncated_by_max_tokens_is_not_parsed(client: openai.OpenAI) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**{**ASKED, "max_tokens": 5}, response_format=Picture)


def test_responses_api_supports_formats(client: openai.OpenAI) -> None:
    found = client.responses.parse(
        model="tiny", input="one two", temperature=1.0, max_output_tokens=1900, text_format=Point
    )
    assert isinstance(found.output_parsed, Point)


def test_any_object(client: openai.OpenAI) -> None:
    form: Any = {"type": "json_object"}
    found = client.chat.completions.create(**{**ASKED, "max_tokens": 20}, response_format=form).choices[0]
    text = str(found.message.content)
    assert text.startswith("{")
    assert found.finish_reason == "length" or isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({"guided_regex": CODE}, CODE),
        ({"guided_choice": ["ja", "nein", "日本"]}, "ja|nein|日本"),
        ({"guided_json": Point.model_json_schema()}, r'(?s)\{.*"x".*"y".*\}'),
        ({"guided_grammar": 'root ::= "a" [0-9] [0-9]'}, "a[0-9]{2}"),
        ({"structured_outputs": {"regex": CODE}}, CODE),
        ({"structured_outputs": {"choice": ["ja", "nein"]}}, "ja|nein"),
        ({"structured_outputs": {"grammar": 'start: "a" /[0-9]{2}/'}}, "a[0-9]{2}"),
        ({"structured_outputs": {"json": {"enum": ["a", 1]}}}, '"a"|1'),
    ],
)
def test_vllm_client_parameters(client: openai.OpenAI, fields: dict[str, Any], pattern: str) -> None:
    chat = client.chat.completions.create(**ASKED, extra_body=fields).choices[0]
    text = client.completions.create(
        model="tiny", prompt="one two", temperature=1.0, max_tokens=1900, extra_body=fields
    )
    assert re.fullmatch(pattern, str(chat.message.content))
    assert re.fullmatch(pattern, text.choices[0].text)
    assert chat.finish_reason == text.choices[0].finish_reason == "stop"


def test_ollama_and_tgi_have_own_format_field(served: Running) -> None:
    options = {"temperature": 1.0, "num_predict": 1900}
    body = {"model": "tiny", "messages": MESSAGES, "stream": False, "options": options}
    body["format"] = Picture.model_json_schema()
    answer = httpx.post(f"{served.url}/api/chat", json=body, timeout=120).json()
    assert Picture.model_validate_json(answer["message"]["content"])
    sampled = {"do_sample": True, "grammar": {"type": "regex", "value": CODE}}
    answer = httpx.post(
        f"{served.url}/generate", json={"inputs": "one", "parameters": sampled}, timeout=120
    ).json()
    assert re.fullmatch(CODE, answer["generated_text"]), answer


def test_concurrent_clients_get_own_format(client: openai.OpenAI) -> None:
    def one(number: int) -> tuple[str, str]:
        pattern = f"{number}:[a-z]{{{number + 1}}}"
        found = client.chat.completions.create(**ASKED, extra_body={"guided_regex": pattern})
        return pattern, str(found.choices[0].message.content)

    with ThreadPoolExecutor(8) as pool:
        for pattern, text in pool.map(one, range(12)):
            assert re.fullmatch(pattern, text)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "Point"}}])
def test_strict_tool_call_follows_schema(client: openai.OpenAI, choice: Any) -> None:
    tools = [openai.pydantic_function_tool(Point)]
    whole = client.chat.completions.parse(**ASKED, tools=tools, tool_choice=choice).choices[0]
    assert whole.finish_reason == "tool_calls"
    [call] = whole.message.tool_calls or []
    assert isinstance(call.function.parsed_arguments, Point)
    with client.chat.completions.stream(**ASKED, tools=tools, tool_choice=choice) as events:
        for _ in events:
            pass
        [streamed] = events.get_final_completion().choices[0].message.tool_calls or []
    assert streamed.function.arguments == call.function.arguments


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"guided_regex": "(a"}, "unclosed group"),
        ({"guided_regex": "(((a{100}){100}){100}){100}"}, "too many expressions"),
        ({"guided_regex": "(" * 30_000}, "guided_regex"),
        ({"guided_json": {"type": "thing"}}, "Invalid type: thing"),
        ({"guided_json": {"$ref": "#"}}, "no text has this form"),
        ({"guided_json": {"allOf": [{"pattern": f"^.*a.{{{n}}}b"} for n in range(20)]}}, "guided_json"),
        ({"guided_json": {"properties": {f"p{n}": {} for n in range(5000)}}}, "too complex"),
        ({"guided_json": {"enum": ["a" * 70_000]}}, "more than 65536 characters"),
        ({"guided_choice": []}, "guided_choice"),
        ({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs.structural_tag"),
    ],
)
def test_invalid_or_malicious_format_is_400(
    client: openai.OpenAI, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=re.escape(message)):
        client.chat.completions.create(**ASKED, extra_body=fields)
    right = client.chat.completions.create(**ASKED, extra_body={"guided_regex": CODE})
    assert re.fullmatch(CODE, str(right.choices[0].message.content))
