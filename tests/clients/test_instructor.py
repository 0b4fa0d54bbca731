"""instructor against a running server: typed answers by tools and by schemas, whole, in parts and one by one."""

from typing import Literal

import pytest

instructor = pytest.importorskip("instructor", exc_type=ImportError)

from openai import OpenAI
from pydantic import BaseModel

from tests.serving import Running

pytestmark = pytest.mark.filterwarnings("default")

MODES = ("TOOLS", "TOOLS_STRICT", "JSON_SCHEMA", "RESPONSES_TOOLS")
SAID = [{"role": "user", "content": "Ann is 33"}]


class Person(BaseModel):
    name: Literal["echo found-it", "Ann"]
    age: Literal[6, 33]


FILLED = Person(name="echo found-it", age=6)


def completions(server: Running, mode: str):
    client = OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120)
    return instructor.from_openai(client, mode=instructor.Mode[mode]).chat.completions


@pytest.mark.parametrize("mode", MODES)
def test_typed_result(agent: Running, mode: str) -> None:
    asked = {"model": "agent", "messages": SAID, "response_model": Person, "max_retries": 0}
    assert completions(agent, mode).create(**asked).model_dump() == FILLED.model_dump()
    *_, last = completions(agent, mode).create_partial(**asked)
    assert last.model_dump() == FILLED.model_dump()


@pytest.mark.parametrize("mode", MODES)
def test_streams_typed_results(agent: Running, mode: str) -> None:
    found = completions(agent, mode).create_iterable(model="agent", messages=SAID, response_model=Person)
    assert [*found] == [FILLED, FILLED]


class Anyone(BaseModel):
    name: str
    age: int


@pytest.mark.parametrize("mode", MODES)
def test_language_model_returns_typed_results(memorised: Running, mode: str) -> None:
    asked = {"model": "agent", "messages": SAID, "max_retries": 0}
    person = type("Person", (Anyone,), {})
    expected = {"name": "Ann", "age": 33}
    whole = completions(memorised, mode).create(**asked, response_model=person)
    assert whole.model_dump() == expected
    *_, last = completions(memorised, mode).create_partial(**asked, response_model=person)
    assert last.model_dump() == expected


def test_a_language_model(language: Running) -> None:
    stream = completions(language, "TOOLS").create(
        model="agent", messages=SAID, response_model=None, stream=True, max_tokens=8
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
