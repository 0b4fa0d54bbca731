"""Message lists of the references, prepared for the chat templates of model families, or refused in one sentence."""

import base64
from typing import Any

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.text.chat import read_messages
from inferstream.plugins.text.fields import Fields
from inferstream.plugins.text.limited_template import LimitedTemplate
from inferstream.plugins.text.template import Template
from tests.plugins.text.model_families import FAMILIES

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
IMAGE = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"png").decode()},
}


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(
    id: str = "call_abcdef", arguments: Any = '{"city": "rome"}', name: str = "weather"
) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content: Any = "sunny", id: str = "call_abcdef") -> dict[str, Any]:
    return said("tool", content, tool_call_id=id)


RULES, ASK, ANSWER, MORE = (
    said("system", "rules"),
    said("user", "ask"),
    said("assistant", "answer"),
    said("user", "more"),
)
CALLED = said("assistant", None, tool_calls=[call()])
CONTINUED = {"continue_final_message": True, "add_generation_prompt": False}

TABLE: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "a question": ([ASK], {}),
    "a system prompt": ([RULES, ASK], {}),
    "a developer prompt": ([said("developer", "rules"), ASK], {}),
    "system and developer": ([RULES, said("developer", "manners"), ASK], {}),
    "two system prompts": ([RULES, said("system", "manners"), ASK], {}),
    "a system prompt behind the question": ([ASK, RULES], {}),
    "a reminder in the middle": ([RULES, ASK, said("system", "monday"), ANSWER, MORE], {}),
    "a reminder before the answer": ([RULES, ASK, ANSWER, said("developer", "monday"), MORE], {}),
    "a system prompt alone": ([RULES], {}),
    "several turns": ([RULES, ASK, ANSWER, MORE], {}),
    "two questions": ([ASK, MORE], {}),
    "two answers": ([ASK, ANSWER, said("assistant", "again"), MORE], {}),
    "an answer first": ([ANSWER, ASK], {}),
    "parts of text": ([said("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "sk"}])], {}),
    "parts of a system prompt": ([said("system", [{"type": "text", "text": "rules"}]), ASK], {}),
    "no parts": ([said("user", []), ANSWER, MORE], {}),
    "an image": ([said("user", [{"type": "text", "text": "ask"}, IMAGE])], {}),
    "an image in an earlier turn": ([said("user", [IMAGE, {"type": "text", "text": "ask"}]), ANSWER, MORE], {}),
    "an empty answer": ([ASK, said("assistant", ""), MORE], {}),
    "a null answer": ([ASK, said("assistant", None), MORE], {}),
    "a refusal": ([ASK, said("assistant", None, refusal="answer"), MORE], {}),
    "a call": ([ASK, CALLED, result()], {}),
    "a call and its answer": ([RULES, ASK, CALLED, result(), ANSWER, MORE], {}),
    "a call with text": ([ASK, said("assistant", "answer", tool_calls=[call()]), result(), ANSWER, MORE], {}),
    "a call with arguments as an object": ([ASK, said("assistant", "", tool_calls=[call(arguments={"city": "rome"})]), result()], {}),
    "a call without arguments": ([ASK, said("assistant", None, tool_calls=[call(arguments="")]), result()], {}),
    "two calls": ([ASK, said("assistant", None, tool_calls=[call("c1"), call("c2", '{"city": "oslo"}')]), result("sunny", "c1"), result("rainy", "c2")], {}),
    "calls one after another": ([ASK, CALLED, result(), said("assistant", None, tool_calls=[call("c2")]), result("rainy", "c2")], {}),
    "a result in parts": ([ASK, CALLED, result([{"type": "text", "text": "sunny"}])], {}),
    "a result of nothing": ([ASK, CALLED, result(None), MORE], {}),
    "a function of old": ([ASK, said("assistant", None, function_call={"name": "weather", "arguments": '{"city": "rome"}'}), said("function", "sunny", name="weather")], {}),
    "calls that are empty": ([ASK, said("assistant", "answer", tool_calls=[]), MORE], {}),
    "names": ([said("user", "ask", name="ann"), ANSWER, said("user", "more", name="bob")], {}),
    "an answer to continue": ([RULES, ASK, ANSWER], CONTINUED),
    "an answer to continue with a space": ([ASK, said("assistant", "answer ")], CONTINUED),
    "a call that was cut off": ([ASK, said("assistant", None, tool_calls=[call(arguments='{"city": "ro')]), result()], {}),
    "a question to continue": ([ASK], CONTINUED),
    "no thinking": ([ASK], {"chat_template_kwargs": {"enable_thinking": False}}),
    "little thinking": ([ASK], {"reasoning_effort": "low"}),
}  # fmt: skip
"""The messages and further fields of a request."""

IMAGES = ("an image", "an image in an earlier turn")
NO_TOOLS = ("chatml", "llama2", "gemma2", "smollm3", "qwen2-vl", "llava")
ALTERNATING = ("llama2", "mistral", "gemma2")

REFUSED = {
    *(("an image", family) for family in FAMILIES if family not in ("qwen2-vl", "llava")),
    *(("an image in an earlier turn", family) for family in FAMILIES if family not in ("qwen2-vl", "llava")),
    *(("an answer first", family) for family in ALTERNATING),
    *(("a question to continue", family) for family in FAMILIES),
    *(
        (name, family)
        for family in ("llama2", "gemma2")
        for name in TABLE
        if "call" in name or "result" in name
    ),
    *((name, family) for family in ("llama2", "gemma2") for name in ("a function of old",)),
    *(("a call that was cut off", family) for family in ("qwen3.5", "glm4.5")),
    ("two calls", "llama3.1"),
    ("a result of nothing", "mistral"),
} - {("calls that are empty", "llama2"), ("calls that are empty", "gemma2")}
"""What a family has no way to say."""


def facts(message: dict[str, Any]) -> list[str]:
    content = message["content"] or message.get("refusal") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    calls = [each["function"] for each in message.get("tool_calls") or []]
    calls += [message["function_call"]] if "function_call" in message else []
    return [content, *(each["name"] for each in calls), *(("rome",) if "rome" in str(calls) else ())]


def prompt_of(template: Any, name: str) -> str:
    messages, fields = TABLE[name]
    chat = read_messages(Fields({"messages": messages, **fields}))
    return template.write(chat.messages, chat.field, chat.options)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
@pytest.mark.parametrize("family", ["qwen3.5", "gpt-oss"])
def test_template_receives_reasoning_of_earlier_messages(family: str, name: str) -> None:
    template = Template(FAMILIES[family], SPECIAL)
    for content in (None, "answer"):
        called = said("assistant", content, tool_calls=[call()], **{name: "because"})
        chat = read_messages(Fields({"messages": [ASK, called, result()]}))
        prompt = template.write(chat.messages, chat.field, chat.options)
        assert prompt.count("because") == 1
        assert content is None or prompt.index("because") < prompt.index("answer")
        assert "weather" in prompt


@pytest.fixture(scope="module")
def templates() -> dict[str, Template]:
    return {family: Template(source, SPECIAL) for family, source in FAMILIES.items()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", TABLE)
def test_messages_are_prepared_or_refused_in_one_sentence(
    templates: dict[str, Template], name: str, family: str
) -> None:
    if (name, family) in REFUSED:
        with pytest.raises(
            InvalidRequest, match=r"^messages: the chat template refuses them: .+$"
        ) as refused:
            prompt_of(templates[family], name)
        assert "\n" not in refused.value.message
        return
    prompt = prompt_of(templates[family], name)
    for message in TABLE[name][0]:
        for fact in facts(message):
            is_call = "tool_calls" in message or "function_call" in message
            if not is_call or family not in NO_TOOLS:
                assert fact in prompt, (fact, prompt)
    assert name == "a call that was cut off" or not any(
        sign in prompt for sign in ("None", "'city'", '\\"city', "{'type'")
    ), prompt
    if name.startswith("an answer to continue"):
        assert prompt.endswith(TABLE[name][0][-1]["content"])


@pytest.mark.parametrize("family", FAMILIES)
def test_template_process_renders_same_prompts(templates: dict[str, Template], family: str) -> None:
    limited = LimitedTemplate("m", FAMILIES[family], SPECIAL)
    for name in TABLE:
        if (name, family) not in REFUSED:
            assert prompt_of(limited, name) == prompt_of(templates[family], name)


def test_thinking_switch_reaches_template(templates: dict[str, Template]) -> None:
    assert prompt_of(templates["qwen2.5"], "no thinking").endswith("<think>\n\n</think>\n\n")
    assert "Reasoning: low" in prompt_of(templates["gpt-oss"], "little thinking")


def test_ids_have_format_of_family(templates: dict[str, Template]) -> None:
    prompt = prompt_of(templates["mistral"], "two calls")
    ids = [part[:9] for part in prompt.split('id": "')[1:]]
    assert all(id.isalnum() for id in ids)
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]
    assert "call_abcdef" in prompt_of(templates["granite"], "a call")


def test_order_is_kept(templates: dict[str, Template]) -> None:
    prompt = prompt_of(templates["gemma2"], "a reminder in the middle")
    turns = ["user\nrules\n\nask\n\nmonday", "model\nanswer", "user\nmore", "model\n"]
    assert (
        prompt
        == "<s>"
        + "".join(f"<start_of_turn>{turn}<end_of_turn>\n" for turn in turns[:3])
        + f"<start_of_turn>{turns[3]}"
    )
