"""GGUF models: prompts, messages, options, ends and cancellation, with a stand-in for the network."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferstream import ModelSettings, RequestContext
from inferstream.errors import InvalidRequest, ModelError, ModelLoadFailed
from inferstream.plugins.llm import language_model
from inferstream.plugins.llm.llamacpp import LlamaCppModel
from inferstream.plugins.llm.llamacpp import model as model_module
from inferstream.testing import run
from inferstream.types import InferenceResponse

from .stand_in import Network, Story, asked, parameters_of, settings_of, text_of


async def streamed(
    settings: ModelSettings, inputs: dict[str, Any], **parameters: Any
) -> list[InferenceResponse]:
    async with run(settings) as models:
        return [each async for each in models.stream("m", asked(inputs, **parameters))]


async def test_tokens_have_ids_and_last_has_finish_reason(served) -> None:
    first, second, last = await streamed(served, {"prompt": "hi"})
    assert (first.outputs[0].name, text_of([first])) == ("text", "h")
    assert (parameters_of(first), parameters_of(second)) == (
        {"token_id": 104, "prompt_tokens": 2},
        {"token_id": 105},
    )
    assert parameters_of(last) == {
        "token_id": 0,
        "finish_reason": "stop",
        "prompt_tokens": 2,
        "completion_tokens": 3,
    }


async def test_max_tokens_ends_text(served) -> None:
    responses = await streamed(served, {"prompt": "hello"}, max_tokens=3)
    assert text_of(responses) == "hel"
    assert parameters_of(responses[-1]) == {
        "token_id": 108,
        "finish_reason": "length",
        "prompt_tokens": 5,
        "completion_tokens": 3,
    }


async def test_single_response_has_complete_text(served) -> None:
    async with run(served) as models:
        response = await models.infer("m", asked({"prompt": "héllo"}))
    assert text_of([response]) == "héllo"
    assert parameters_of(response) == {"finish_reason": "stop", "prompt_tokens": 6, "completion_tokens": 7}


async def test_messages_are_rendered_with_template(served) -> None:
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    assert text_of(await streamed(served, {"messages": messages})) == "a|b"


async def test_chat_format_can_be_set(tmp_path, served) -> None:
    messages = [{"role": "user", "content": "b"}]
    assert (
        text_of(await streamed(settings_of(tmp_path, chat_format="chat-ml"), {"messages": messages})) == "b"
    )
    with pytest.raises(
        ModelLoadFailed, match=r'"chat_format" in parameters.extra: llama-cpp-python has no "none"'
    ):
        await LlamaCppModel(settings_of(tmp_path, chat_format="none")).load()


async def test_model_without_template_refuses_messages(served, monkeypatch) -> None:
    monkeypatch.setattr(Network, "template", None)
    model = LlamaCppModel(served)
    await model.load()
    assert [each.name for each in model.inputs] == ["prompt", "response_format"]


async def test_all_inputs_are_optional(served) -> None:
    model = LlamaCppModel(served)
    await model.load()
    assert [each.name for each in model.inputs] == [
        "prompt",
        "messages",
        "chat_template_kwargs",
        "response_format",
    ]
    assert all(each.parameters.get("optional") is True for each in model.inputs)
    assert model.gives_logprobs


async def test_metadata_has_context_length(served) -> None:
    async with run(served) as app:
        metadata = await app.application.models.model_metadata("m")
    assert metadata.parameters is not None
    assert metadata.parameters.get("context_length") == 2048
    assert [tensor.name for tensor in metadata.inputs or ()] == [
        "prompt",
        "messages",
        "chat_template_kwargs",
        "response_format",
    ]


async def test_log_probabilities_match_logits(served) -> None:
    first, *_ = await streamed(served, {"prompt": "a"}, logprobs=True, top_logprobs=2, temperature=0)
    found = parameters_of(first)
    others = 255 * math.exp(-20)
    assert found["logprob"] == pytest.approx(-math.log1p(others))
    top = json.loads(found["top_logprobs"])
    assert top["a"] == pytest.approx(-math.log1p(others))
    assert sorted(top.values())[0] == pytest.approx(-20 - math.log1p(others))


async def test_prompt_has_log_probabilities(served) -> None:
    first, second, _ = await streamed(served, {"prompt": "aa"}, prompt_logprobs=1, temperature=0)
    (start, found) = json.loads(parameters_of(first)["prompt_logprobs"])
    assert start == ["a", None, {}]
    assert found[:2] == ["a", pytest.approx(-20, abs=1e-5)]
    assert "prompt_logprobs" not in parameters_of(second)


async def test_logit_bias_determines_tokens(served) -> None:
    responses = await streamed(served, {"prompt": "hi"}, logit_bias='{"65": 100}', max_tokens=3)
    assert text_of(responses) == "AAA"
    formed = {"prompt": "hi", "response_format": {"type": "regex", "regex": "[AB]{3}"}}
    assert text_of(await streamed(served, formed, logit_bias='{"66": 100}')) == "BBB"


async def test_ignore_eos_continues_text(served) -> None:
    responses = await streamed(served, {"prompt": "hi"}, ignore_eos=True, max_tokens=3)
    assert text_of(responses) == "hi"  # special tokens have no text
    assert parameters_of(responses[-1])["finish_reason"] == "length"


async def test_token_ids_are_the_prompt(served) -> None:
    assert text_of(await streamed(served, {"prompt": "[104, 105]"}, token_ids=True)) == "hi"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"allowed_token_ids": "[65, 66]"}, "AAA"),
        ({"allowed_token_ids": "[65, 66]", "bad_words": '["A"]'}, "BBB"),
        ({"allowed_token_ids": "[65, 66]", "bad_words": '["AA"]'}, "ABA"),
        ({"allowed_token_ids": "[65, 66]", "stop_token_ids": "[65]"}, ""),
        ({"allowed_token_ids": "[65, 66]", "stop_token_ids": "[65]", "min_tokens": 3}, "BBB"),
        ({"allowed_token_ids": "[0, 66]"}, ""),
        ({"allowed_token_ids": "[0, 66]", "min_tokens": 2}, "BB"),
        ({"stop_token_ids": "[105]"}, "h"),
        ({"truncate_prompt_tokens": 1}, "i"),
    ],
)
async def test_tokens_can_be_banned(served, parameters: dict[str, Any], text: str) -> None:
    assert (
        text_of(await streamed(served, {"prompt": "hi"}, max_tokens=3, temperature=0, **parameters)) == text
    )


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"min_tokens": 2, "max_tokens": 1}, "min_tokens"),
        ({"bad_words": "[1]"}, "bad_words"),
        ({"use_beam_search": True}, "use_beam_search"),
        ({"logit_bias": '{"256": 1}'}, "logit_bias"),
        ({"token_ids": True}, "prompt"),
    ],
)
async def test_ineffective_option_is_named(served, parameters: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        await streamed(served, {"prompt": "hi"}, **parameters)


async def test_log_probabilities_need_a_stream(served) -> None:
    async with run(served) as models:
        with pytest.raises(InvalidRequest, match="logprobs"):
            await models.infer("m", asked({"prompt": "hi"}, logprobs=True))


async def test_text_follows_requested_format(served) -> None:
    form = {"type": "choice", "choice": ["yes", "yellow"]}
    *_, before, last = responses = await streamed(
        served, {"prompt": "a", "response_format": form}, temperature=0
    )
    assert text_of(responses) == "yellow"
    assert "finish_reason" not in parameters_of(before)
    assert parameters_of(last)["finish_reason"] == "stop"  # at once: nothing can follow
    assert parameters_of(last)["completion_tokens"] == 6
    responses = await streamed(served, {"prompt": "a", "response_format": form}, max_tokens=3, temperature=0)
    assert (text_of(responses), parameters_of(responses[-1])["finish_reason"]) == ("yel", "length")
    with pytest.raises(InvalidRequest, match="min_tokens is not taken with response_format"):
        await streamed(served, {"prompt": "a", "response_format": form}, min_tokens=3)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"response_format": {"type": "regex", "regex": "(a"}}, "response_format"),
        ({"guided_regex": "(a"}, "guided_regex"),
        ({"structured_outputs": {"regex": "(a"}}, "structured_outputs.regex"),
    ],
)
async def test_format_error_names_client_field(served, fields: dict[str, Any], name: str) -> None:
    async with run(served) as client:
        transport = httpx.ASGITransport(client.application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            answer = await http.post("/v1/completions", json={"model": "m", "prompt": "a", **fields})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, name)
    assert error["message"].startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("inputs", "parameters", "name", "message"),
    [
        ({}, {}, "prompt", "A request needs one prompt or messages"),
        ({"prompt": "a", "messages": []}, {}, "messages", "has either messages or a prompt, not prompt too"),
        ({"prompt": ""}, {}, "prompt", "prompt is empty"),
        (
            {"prompt": "a" * 2048},
            {},
            "prompt",
            "maximum context length is 2048 tokens. However, your prompt resulted in 2048 tokens",
        ),
        ({"messages": "{"}, {}, "messages", "messages is a JSON list"),
        ({"messages": [{"role": "nobody", "content": ""}]}, {}, "messages", "unknown role nobody"),
        (
            {"prompt": "a", "response_format": {"type": "xml"}},
            {},
            "response_format",
            'its type "xml" is unknown',
        ),
        ({"prompt": "a", "response_format": {}}, {}, "response_format", "it cannot be read"),
        ({"prompt": "a"}, {"temperature": -1}, "temperature", "temperature is 0 or more"),
    ],
)
async def test_invalid_option_is_named_before_first_token(served, inputs, parameters, name, message) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await streamed(served, inputs, **parameters)
    assert message in refused.value.message
    assert refused.value.detail is not None
    assert refused.value.detail[0]["loc"] == [name]


async def test_disconnect_frees_the_sequence(served, monkeypatch) -> None:
    monkeypatch.setattr(model_module, "Network", Story)
    served.max_active = 1
    async with run(served) as models:
        stream = models.stream("m", asked({"prompt": "hello"}))
        await anext(stream)
        await stream.aclose()
        answer = await models.infer("m", asked({"prompt": "next"}, max_tokens=3))
    assert len(text_of([answer])) == 3
    assert max(len(batch) for batch in Network.made[0].batches) == 1


async def test_streams_advance_together(served) -> None:
    async with run(served) as models:
        prompts = [f"prompt {number}" for number in range(8)]
        found = await asyncio.gather(*(models.infer("m", asked({"prompt": prompt})) for prompt in prompts))
    assert [text_of([each]) for each in found] == prompts
    assert max(len(batch) for batch in Network.made[0].batches) == 8


async def test_library_receives_settings_and_is_closed(tmp_path, served) -> None:
    model = LlamaCppModel(
        settings_of(tmp_path, {"max_active": 3}, n_ctx=64, n_threads=3, n_gpu_layers=-1, cache_tokens=100)
    )
    await model.load()
    (network,) = Network.made
    assert network.path == tmp_path / "some.gguf"
    sizes = {"cells": 100, "sequences": 6, "batch": 515}
    assert network.options == {"threads": 3, "gpu_layers": -1, **sizes}
    assert model.kv_usage == 0
    await model.unload()
    assert network.closed


@pytest.mark.parametrize(("extra", "cells"), [({}, 8192), ({"n_ctx": 100}, 400), ({"cache_tokens": 1}, 2048)])
async def test_cache_holds_at_least_one_context(tmp_path, served, extra: dict[str, int], cells: int) -> None:
    await LlamaCppModel(settings_of(tmp_path, **extra)).load()
    assert Network.made[0].cells == cells


async def test_more_streams_than_sequences_are_refused(tmp_path, served) -> None:
    with pytest.raises(ModelLoadFailed, match=r"max_active is 256, and llama\.cpp has 256 sequences"):
        await LlamaCppModel(settings_of(tmp_path, {"max_active": 256})).load()


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["a.gguf"], "a.gguf"),
        (["a.gguf", "mmproj-a.gguf"], "a.gguf"),
        (["a.gguf", "model.gguf"], "model.gguf"),
        (["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"], "a-00001-of-00002.gguf"),
        ([], "its folder holds no .gguf file"),
        (["a.gguf", "b.gguf"], "its folder holds a.gguf, b.gguf; parameters.uri has to name one"),
    ],
)
async def test_file_is_found_in_folder(tmp_path, stand_in, files: list[str], found: str) -> None:
    for name in files:
        (tmp_path / name).touch()
    model = LlamaCppModel(settings_of(tmp_path))
    if found.endswith(".gguf"):
        await model.load()
        assert Network.made[0].path.name == found
    else:
        with pytest.raises(ModelLoadFailed, match=found):
            await model.load()


async def test_invalid_settings_are_named(tmp_path, served) -> None:
    with pytest.raises(ModelLoadFailed, match=r'"n_ctxt" in parameters\.extra: '):
        await LlamaCppModel(settings_of(tmp_path, n_ctxt=64)).load()


async def test_unreadable_file_is_named(tmp_path, served, monkeypatch) -> None:
    def refuse(*_: Any) -> None:
        raise ValueError("Failed to load model from file: /secret/some.gguf")

    monkeypatch.setattr(model_module, "Network", refuse)
    with pytest.raises(
        ModelLoadFailed, match=r"llama\.cpp \(llama_cpp 0\) cannot read some\.gguf; the server's log"
    ):
        await LlamaCppModel(served).load()


async def test_required_call_starts_text(tmp_path: Path, stand_in: None) -> None:
    (tmp_path / "some.gguf").touch()
    settings = settings_of(tmp_path, {"tool_format": "hermes"})
    inputs = {"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f"}]}
    begun = '<tool_call>\n{"name": "'
    responses = await streamed(settings, inputs, tool_choice="required")
    assert text_of(responses[:1]) == f"{begun}a"
    assert text_of(responses) == f"{begun}a|f{begun}"  # the stand-in repeats its prompt
    assert text_of(await streamed(settings, inputs)) == "a|f"
    with pytest.raises(InvalidRequest, match="tool_choice cannot be read"):
        await streamed(settings, inputs, tool_choice="some")


async def test_file_shows_call_formats_and_reasoning_tag(
    tmp_path: Path, stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = "<tool_call>{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}"
    monkeypatch.setattr(Network, "template", template)
    (tmp_path / "some.gguf").touch()
    async with run(settings_of(tmp_path)) as models:
        signature = models.application.models.described("m").signature
    assert signature.formats == ("hermes", "think_open")
    names = ["prompt", "messages", "tools", "chat_template_kwargs", "response_format"]
    assert [tensor.name for tensor in signature.inputs or ()] == names
    texts = await streamed(settings_of(tmp_path), {"messages": [{"role": "user", "content": "a"}]})
    assert text_of(texts) == "<think>\n<tool_call>a<think>\n"  # the stand-in repeats its prompt


async def test_untrusted_template_is_rendered_only_in_a_process(
    tmp_path: Path, stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".untrusted").write_text("hf://org/model")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "some.gguf").touch()
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools[0].name }}"
    monkeypatch.setattr(Network, "template", template)
    responses = await streamed(
        settings_of(folder), {"messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "!"}]}
    )
    assert text_of(responses) == "hi!"
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    monkeypatch.setattr(Network, "template", endless)
    with pytest.raises(ModelError, match=r"0\.5 s"):
        await streamed(settings_of(folder), {"messages": [{"role": "user", "content": "hi"}]})


@pytest.mark.parametrize(("shared", "read"), [(False, [5, 5, 1, 5, 1]), (True, [5, 1, 1, 1, 1])])
async def test_prefix_is_reused_only_by_same_principal(
    tmp_path: Path, stand_in: None, monkeypatch: pytest.MonkeyPatch, shared: bool, read: list[int]
) -> None:
    contexts: list[RequestContext] = []
    monkeypatch.setattr(language_model, "request_context", lambda: contexts[-1])
    (tmp_path / "some.gguf").touch()
    model = LlamaCppModel(settings_of(tmp_path, share_prefixes=shared))
    await model.load()
    found = []
    for principal in (None, "alice", "alice", "jwt:alice", None):
        contexts.append(RequestContext(None, True, cache_salt=principal or ""))
        state = model.admit(asked({"prompt": "hello"}))
        model.step([state])
        model.release(state)
        ((entry,),) = Network.made[-1].batches
        found.append(len(entry.tokens))
        Network.made[-1].batches.clear()
    assert found == read
    await model.unload()
