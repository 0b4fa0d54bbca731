"""Tools and the choice among them, in a language model whose engine and tokenizer are stand-ins."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from inferstream import Finished, ModelSettings
from inferstream.errors import InvalidRequest
from inferstream.plugins.llm import language_model
from inferstream.plugins.llm.requests import GenerationReader
from inferstream.plugins.llm.sampling import Sampling
from inferstream.plugins.llm.tokenizer_prompts import Prompts
from inferstream.plugins.llm.transformers.causal_lm import CausalLM
from inferstream.types import InferenceRequest, Parameters, RequestInput

END = 0x10FFFF
NAMED = json.dumps({"type": "function", "function": {"name": "f"}})


class Letters:
    """A tokenizer whose tokens are the code points of the text; `|` is a special one."""

    chat_template = "any"
    bos_token_id = None
    opens = ""
    """What the template begins answers with."""

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [*map(ord, text)]}

    def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
        return "".join(each["content"] for each in messages) + self.opens

    def decode(self, tokens: list[int], skip_special_tokens: bool, **_: Any) -> str:
        text = "".join(map(chr, tokens))
        return text.replace("|", "") if skip_special_tokens else text


@pytest.fixture(autouse=True)
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "request_context", lambda: SimpleNamespace(single=False))


def model(format: str | None, opens: str = "") -> CausalLM:
    made: Any = CausalLM(ModelSettings(name="m", implementation=CausalLM, tool_format=format))
    made._tokenizer = Letters()
    made._tokenizer.opens = opens
    prompts = Prompts(made._tokenizer, None)
    prompts.reasoning = "think"
    made._reader = GenerationReader(prompts, format, False, 300, 1000, Sampling(temperature=0), None)
    made._ends, made._shares_prefixes = {END}, True
    made._engine = SimpleNamespace(add=lambda stream: None)
    return made


def written(
    format: str | None, text: str, tools: bool = True, opens: str = "", **parameters: Any
) -> tuple[str, str]:
    """The prompt, and the text that a client gets if the model writes this one."""
    made: Any = model(format, opens)
    inputs = {"messages": '[{"role": "user", "content": "a"}]', **({"tools": "[]"} if tools else {})}
    tensors = [
        RequestInput(name=name, shape=[1], datatype="BYTES", data=[value]) for name, value in inputs.items()
    ]
    state = made.admit(InferenceRequest(inputs=tensors, parameters=Parameters(**parameters)))
    prompt = "".join(map(chr, state.tokens))
    given = ""
    for token in (*map(ord, text), END):
        item = made._build_emission(state, SimpleNamespace(token=token, logprob=None, top=[]))
        [item] = item.responses if isinstance(item, Finished) else [item]
        given += item.text if item is not None else ""
    return prompt, given


def test_required_call_starts_answer() -> None:
    begun = '<tool_call>\n{"name": "f", "arguments": {'
    assert written("hermes", "}}", tool_choice=NAMED) == (f"a{begun}", f"{begun}}}}}")
    assert written("hermes", "b", tool_choice="auto") == ("a", "b")
    assert written("hermes", "b", tools=False, tool_choice="required") == ("a", "b")
    with pytest.raises(InvalidRequest, match="tool_choice cannot be read"):
        written("hermes", "b", tool_choice="some")


def test_text_has_reasoning_tag_opened_by_prompt() -> None:
    assert written(None, "b</think>c", opens="<think>\n") == ("a<think>\n", "<think>\nb</think>c")
    assert written(None, "c", opens="<think>\n\n</think>\n\n") == ("a<think>\n\n</think>\n\n", "c")


def test_required_call_closes_open_reasoning() -> None:
    begun = '\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {'
    asked: dict[str, Any] = {"tool_choice": NAMED}
    opened = ("a<think>\n" + begun, f"<think>\n{begun}}}}}")
    assert written("hermes", "}}", opens="<think>\n", **asked) == opened
    assert (
        written("hermes", "}}", opens="</think>", **asked)[0] == "a</think>" + begun[len("\n</think>\n\n") :]
    )


def test_first_token_has_prompt_token_count() -> None:
    made: Any = model(None)
    tensor = RequestInput(name="prompt", shape=[1], datatype="BYTES", data=["abc"])
    state = made.admit(InferenceRequest(inputs=[tensor]))
    items = []
    for token in (1, 2):
        state.tokens.append(token)
        items.append(made._build_emission(state, SimpleNamespace(token=token, logprob=None, top=[])))
    assert (items[0].usage.prompt_tokens, items[0].usage.completion_tokens, items[1].usage) == (3, None, None)


def test_special_tokens_are_shown_if_they_mark_calls() -> None:
    assert written("llama", "<|x|>")[1] == "<|x|>"
    assert written("llama", "<|x|>", tools=False)[1] == "<x>"
    assert written("harmony", "<|x|>", tools=False)[1] == "<|x|>"
    assert written("hermes", "<|x|>")[1] == "<x>"
