"""LlamaIndex against a running server: chats, tools, agents and schemas."""

from typing import Literal

import pytest

openai_like = pytest.importorskip("llama_index.llms.openai_like", exc_type=ImportError)

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from tests.serving import Running

pytestmark = pytest.mark.filterwarnings("default")

HELLO = [ChatMessage(role="user", content="hello")]


class Person(BaseModel):
    name: str
    age: int


class Known(BaseModel):
    name: Literal["Ann", "Ben"]
    age: Literal[6, 33]


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


MULTIPLY = FunctionTool.from_defaults(fn=multiply)


def client(server: Running):
    return openai_like.OpenAILike(
        model="agent",
        api_base=f"{server.url}/v1",
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
        should_use_structured_outputs=True,
        max_retries=0,
        timeout=120,
    )


def test_a_chat(agent: Running) -> None:
    assert client(agent).chat(HELLO).message.content == "It is hello "
    assert "".join(part.delta or "" for part in client(agent).stream_chat(HELLO)) == "It is hello "


@pytest.mark.parametrize("streamed", [False, True])
def test_tools(agent: Running, streamed: bool) -> None:
    asked = client(agent)
    if streamed:
        *_, answer = asked.stream_chat_with_tools([MULTIPLY], user_msg="6 times 6")
    else:
        answer = asked.chat_with_tools([MULTIPLY], user_msg="6 times 6")
    [call] = asked.get_tool_calls_from_response(answer)
    assert (call.tool_name, call.tool_kwargs) == ("multiply", {"a": 6, "b": 6})
    assert asked.predict_and_call([MULTIPLY], "6 times 6").response == "36"


async def test_an_agent(agent: Running) -> None:
    running = FunctionAgent(tools=[MULTIPLY], llm=client(agent), system_prompt="You multiply.")
    assert str(await running.run("6 times 6")) == "It is 36 "


def test_a_schema(agent: Running) -> None:
    asked = client(agent).as_structured_llm(Person)
    assert asked.complete("Ann is 33").raw == Person(name="echo found-it", age=6)
    *_, last = asked.stream_chat([ChatMessage(role="user", content="Ann is 33")])
    assert last.raw == Person(name="echo found-it", age=6)


@pytest.mark.parametrize("required", [False, True])
def test_tools_with_language_model(memorised: Running, required: bool) -> None:
    asked = client(memorised)
    *_, streamed = asked.stream_chat_with_tools([MULTIPLY], user_msg="6 times 6", tool_required=required)
    for answer in (
        asked.chat_with_tools([MULTIPLY], user_msg="6 times 6", tool_required=required),
        streamed,
    ):
        [call] = asked.get_tool_calls_from_response(answer)
        assert (call.tool_name, call.tool_kwargs) == ("multiply", {"a": 6, "b": 6})
    assert asked.predict_and_call([MULTIPLY], "6 times 6").response == "36"


async def test_agent_with_language_model(memorised: Running) -> None:
    running = FunctionAgent(tools=[MULTIPLY], llm=client(memorised), system_prompt="You multiply.")
    assert str(await running.run("6 times 6")) == "It is 36."


def test_schema_with_language_model(memorised: Running) -> None:
    asked = client(memorised).as_structured_llm(Person)
    assert asked.complete("Ann is 33").raw == Person(name="Ann", age=33)
    *_, last = asked.stream_chat([ChatMessage(role="user", content="Ann is 33")])
    assert last.raw == Person(name="Ann", age=33)


def test_a_language_model(language: Running) -> None:
    asked = client(language)
    assert asked.chat(HELLO).message.content
    assert "".join(part.delta or "" for part in asked.stream_chat(HELLO))
    assert asked.as_structured_llm(Known).complete("Ann is 33").raw.age in (6, 33)
