"""pydantic-ai against a running server, over chat completions and responses."""

import pytest

pydantic_ai = pytest.importorskip("pydantic_ai", exc_type=ImportError)

from pydantic import BaseModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.serving import Running

pytestmark = pytest.mark.filterwarnings("default")


class Person(BaseModel):
    name: str
    age: int


FILLED = Person(name="echo found-it", age=6)
APIS = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}


def assistant(server: Running, api: str, **more: object):
    provider = OpenAIProvider(base_url=f"{server.url}/v1", api_key="none")
    return pydantic_ai.Agent(APIS[api]("agent", provider=provider), **more)


@pytest.mark.parametrize("api", APIS)
async def test_text_and_usage(agent: Running, api: str) -> None:
    answer = await assistant(agent, api).run("hello")
    assert (answer.output, answer.usage.input_tokens, answer.usage.output_tokens) == ("It is hello ", 1, 3)
    async with assistant(agent, api).run_stream("hello") as stream:
        assert "".join([piece async for piece in stream.stream_text(delta=True)]) == "It is hello "
    assert (stream.usage.input_tokens, stream.usage.output_tokens) == (1, 3)


@pytest.mark.parametrize("api", APIS)
async def test_tools(agent: Running, api: str) -> None:
    multiplying = assistant(agent, api, system_prompt="You multiply.")

    @multiplying.tool_plain
    def multiply(a: int, b: int) -> int:
        return a * b

    assert (await multiplying.run("6 times 6")).output == "It is 36 "
    async with multiplying.run_stream("6 times 6") as stream:
        assert [text async for text in stream.stream_text()][-1] == "It is 36 "


@pytest.mark.parametrize("api", APIS)
async def test_typed_result(agent: Running, api: str) -> None:
    assert (await assistant(agent, api, output_type=Person).run("Ann is 33")).output == FILLED
    async with assistant(agent, api, output_type=Person).run_stream("Ann is 33") as stream:
        assert [found async for found in stream.stream_output()][-1] == FILLED


@pytest.mark.parametrize("api", APIS)
async def test_tools_and_types_with_language_model(memorised: Running, api: str) -> None:
    multiplying = assistant(memorised, api, system_prompt="You multiply.")

    @multiplying.tool_plain
    def multiply(a: int, b: int) -> int:
        return a * b

    assert (await multiplying.run("6 times 6")).output == "It is 36."
    async with multiplying.run_stream("6 times 6") as stream:
        assert [text async for text in stream.stream_text()][-1] == "It is 36."
    typed = assistant(memorised, api, output_type=Person)
    assert (await typed.run("Ann is 33")).output == Person(name="Ann", age=33)
    async with typed.run_stream("Ann is 33") as stream:
        assert [found async for found in stream.stream_output()][-1] == Person(name="Ann", age=33)


@pytest.mark.parametrize("api", APIS)
async def test_a_language_model(language: Running, api: str) -> None:
    answer = await assistant(language, api).run("hello")
    assert answer.output
    assert answer.usage.input_tokens > 1
