"""Prompts of language models, read by a tokenizer that counts letters."""

from typing import Any

import orjson
import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.llm.tokenizer_prompts import Prompts
from inferstream.plugins.text.prompt_inputs import read_strings, take_options
from inferstream.types import InferenceRequest, RequestInput


class Letters:
    """A tokenizer whose tokens are the code points of the text."""

    chat_template: str | None = None
    bos_token_id: int | None = None

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        start = [1] if add_special_tokens and self.bos_token_id is not None and text else []
        return {"input_ids": [*start, *map(ord, text)]}

    def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
        if messages[0]["role"] == "robot":
            raise ValueError("no\n  robots")
        tools = f"[{len(options['tools'])}]" if "tools" in options else ""
        return tools + "".join(f"{each['role'][0]}:{each['content']};" for each in messages)


def request(**inputs: Any) -> InferenceRequest:
    return InferenceRequest(
        inputs=[
            RequestInput(name=name, datatype="BYTES", shape=[1], data=[value])
            for name, value in inputs.items()
        ]
    )


def read(template: str | None = "any", start: int | None = None, **inputs: Any) -> tuple[str, str]:
    """The text of the tokens, and the name of their input."""
    tokenizer = Letters()
    tokenizer.bos_token_id = start
    texts = read_strings(request(**inputs))
    options = take_options(texts)
    tokens, name, _ = Prompts(tokenizer, template).read(texts, options)
    return "".join(map(chr, tokens)), name


def test_prompt_input_can_have_any_name() -> None:
    assert read(prompt="hi") == ("hi", "prompt")
    assert read(text=b"h\xc3\xa9") == ("hé", "text")


def test_empty_prompt_is_bos_token() -> None:
    assert read(prompt="", start=1) == ("\x01", "prompt")
    with pytest.raises(InvalidRequest, match="prompt is empty"):
        read(prompt="")


def test_template_messages_have_one_bos_token() -> None:
    parts = [{"type": "text", "text": "a"}, "b"]
    messages = [{"role": "user", "content": parts}, {"role": "assistant"}]
    assert read(start=1, messages=orjson.dumps(messages).decode()) == ("u:ab;a:;", "messages")
    assert read(messages='[{"role":"user","content":"x"}]', tools="[1,2]")[0] == "[2]u:x;"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "A request needs one prompt or messages"),
        ({"a": "x", "b": "y"}, "A request needs one prompt or messages"),
        ({"messages": "[]", "prompt": "x"}, "either messages or a prompt, not prompt too"),
        ({"messages": "[]"}, "messages is empty"),
        ({"messages": "{}"}, "messages is a JSON list"),
        ({"messages": "[1]"}, "Each of the messages is an object with a role"),
        ({"messages": '[{"role":"user","content":[{"type":"image"}]}]'}, "it takes text only"),
        ({"messages": '[{"role":"user","content":1}]'}, "messages: the chat template refuses them"),
        ({"messages": '[{"role":"robot"}]'}, "template refuses them: no robots"),
        ({"prompt": b"\xff"}, "prompt is no UTF-8 text"),
    ],
)
def test_invalid_request_is_explained(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        read(**inputs)


def test_model_without_template_refuses_messages() -> None:
    assert [tensor.name for tensor in Prompts(Letters(), None).inputs()] == ["prompt", "response_format"]
    assert [tensor.name for tensor in Prompts(Letters(), "any").inputs()] == [
        "prompt",
        "messages",
        "chat_template_kwargs",
        "response_format",
    ]
    with_tools = Prompts(Letters(), "any").inputs(tools=True)
    assert [tensor.name for tensor in with_tools] == [
        "prompt",
        "messages",
        "tools",
        "chat_template_kwargs",
        "response_format",
    ]
    with pytest.raises(InvalidRequest, match="no chat template, so it takes no messages"):
        read(template=None, messages="[]")


def test_answer_can_require_a_prefix() -> None:
    given = request(messages='[{"role": "user", "content": "a"}]', tools="[{}]")
    texts = read_strings(given)
    options = take_options(texts)
    tokens, _, begun = Prompts(Letters(), "any").read(texts, options, "<tool_call>")
    assert ("".join(map(chr, tokens)), begun) == ("[1]u:a;<tool_call>", "<tool_call>")
