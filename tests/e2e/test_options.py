"""Every field of every text API is applied, refused by its name, or listed as one without effect on the answer.

Fields do not interact, so each is sent once to each kind of model, and one test has all fields of an API.
"""

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferstream.plugins.text.decisive_options import NEUTRAL
from scripts.options_reference import APPLIED, ARGUMENT, HINT, REFUSED, UNUSED, outcomes, render
from tests.api_fields import APIS, CHAT, COMPLETIONS, EMBEDDINGS, OLLAMA_CHAT, OLLAMA_EMBED, Api
from tests.serving import Running

APP = '''
import json
from collections.abc import Callable, Iterator
from inferstream import App

app = App()

@app.model("plain")
def plain(prompt: str) -> Iterator[str]:
    """Says the prompt again, and more."""
    yield from f"{prompt} and it all has come to an end".split(" ")

@app.model("probe")
def probe(
    prompt: str, temperature: float = -9, top_p: float = -9, top_k: int = -9, min_p: float = -9, seed: int = -9,
    presence_penalty: float = -9, frequency_penalty: float = -9, repetition_penalty: float = -9,
    max_tokens: int = -9, logit_bias: str = "",
) -> Iterator[str]:
    """Says what it was given."""
    yield json.dumps({name: value for name, value in locals().items()})

@app.model("vectors")
def vectors(text: list[str]) -> list[list[float]]:
    """A vector for each text."""
    return [[3.0, 4.0, float(len(each))] for each in text]
'''

VOLATILE = frozenset(
    ("id", "created", "created_at", "completed_at", "total_duration", "load_duration", "eval_duration")
) | {"prompt_eval_duration", "item_id"}

EVERY_API = pytest.mark.parametrize("api", APIS, ids=[api.title for api in APIS])


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("options") / "app"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    running = Running(folder, target=str(folder / "app.py"))
    yield running.url
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    for package in ("torch", "transformers", "llguidance"):
        pytest.importorskip(package)
    from tests.artefacts import transformer_models
    from tests.plugins.llm.transformers import tiny

    folder = tmp_path_factory.mktemp("options") / "models"
    tiny.write(folder / "tiny")
    (folder / "vectors").mkdir()
    transformer_models.sentences(folder / "vectors" / "artefacts")
    settings = {
        "name": "vectors",
        "implementation": "inferstream.plugins.llm.embeddings.EmbeddingsModel",
        "parameters": {"uri": "./artefacts", "extra": {"backend": "transformers"}},
    }
    (folder / "vectors" / "model-settings.json").write_text(json.dumps(settings))
    running = Running(folder, within=180, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    yield running.url
    assert running.stop() == 0, running.text()


def steady(value: Any) -> Any:
    """An answer without what differs from one request to the next."""
    if isinstance(value, dict):
        return {name: steady(each) for name, each in value.items() if name not in VOLATILE}
    return [steady(each) for each in value] if isinstance(value, list) else value


def asked(url: str, api: Api, model: str, body: dict[str, Any]) -> tuple[int, Any]:
    answer = httpx.post(f"{url}{api.path}", json={**body, "model": model}, timeout=60)
    try:
        return answer.status_code, steady(answer.json())
    except ValueError:
        return answer.status_code, answer.text


def check(url: str, api: Api, name: str, model: str, expected: str) -> None:
    """The field does what the table says: it changes the answer, is refused by its name, or has no effect."""
    without, with_it = api.request(name)
    status, answer = asked(url, api, model, with_it)
    if status == 200 and (expected in (UNUSED, HINT) or (name, model) in UNSEEN or name == "keep_alive"):
        return
    if status == 200:
        assert expected == APPLIED
        assert answer != asked(url, api, model, without)[1], f"{name} is accepted and has no effect"
    else:
        assert status in (400, 422), answer
        field = api.fields[name]
        within = field.value if isinstance(field.value, dict) else {}
        assert any(each in json.dumps(answer) for each in (name, *field.given, *within)), answer
        assert expected in (APPLIED, HINT, REFUSED), answer


UNSEEN = {("raw", "plain"), ("raw", "probe"), ("skip_special_tokens", "tiny")}
"""Fields without effect on a model: a function has no chat template, and the small model writes no special tokens."""


def model_of(api: Api, language: str) -> str:
    return "vectors" if api in (EMBEDDINGS, OLLAMA_EMBED) else language


def check_all(url: str, api: Api, model: str, expected: Callable[[str], str]) -> None:
    """Check each field of an API, and report all that are wrong."""
    wrong = {}
    for name in api.fields:
        try:
            check(url, api, name, model_of(api, model), expected(name))
        except AssertionError as error:
            wrong[name] = str(error)
    assert not wrong


@EVERY_API
def test_typed_function(functions: str, api: Api) -> None:
    def expected(name: str) -> str:
        outcome = outcomes(api, name)[0]
        return APPLIED if outcome == ARGUMENT else outcome

    check_all(functions, api, "probe", expected)


@EVERY_API
def test_untyped_function(functions: str, api: Api) -> None:
    def expected(name: str) -> str:
        if (outcome := outcomes(api, name)[0]) == ARGUMENT:
            return REFUSED if name == "logit_bias" else UNUSED
        return outcome

    check_all(functions, api, "plain", expected)


@EVERY_API
def test_own_runtimes(runtimes: str, api: Api) -> None:
    check_all(runtimes, api, "tiny", lambda name: outcomes(api, name)[1])


@pytest.mark.parametrize("api", [CHAT, COMPLETIONS, OLLAMA_CHAT, OLLAMA_EMBED], ids=lambda api: api.title)
def test_neutral_values_are_accepted(functions: str, runtimes: str, api: Api) -> None:
    neutral = {**NEUTRAL, "min_tokens": 0, "truncate": api is OLLAMA_EMBED}
    if api is COMPLETIONS:
        del neutral["best_of"]
    for url, language in ((functions, "plain"), (functions, "probe"), (runtimes, "tiny")):
        status, answer = asked(url, api, model_of(api, language), {**api.body, **neutral})
        assert (status, answer) == asked(url, api, model_of(api, language), {**api.body})


def test_table_matches_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "options.md"
    assert page.read_text() == render(), "make options"


def fields_of(module: str, name: str) -> set[str]:
    """The fields of a class of parameters of a client library, without those of models and messages."""
    import importlib

    kind = getattr(importlib.import_module(module), name)
    return set(getattr(kind, "model_fields", None) or kind.__annotations__)


@pytest.mark.parametrize(
    ("package", "module", "kind", "title", "without"),
    [
        ("openai", "openai.types.chat.completion_create_params", "CompletionCreateParamsBase", "OpenAI chat completions", {"messages"}),
        ("openai", "openai.types.completion_create_params", "CompletionCreateParamsBase", "OpenAI completions", {"prompt"}),
        ("openai", "openai.types.responses.response_create_params", "ResponseCreateParamsBase", "OpenAI responses", {"input"}),
        ("openai", "openai.types.embedding_create_params", "EmbeddingCreateParams", "OpenAI embeddings", {"input"}),
        ("anthropic", "anthropic.types.message_create_params", "MessageCreateParamsBase", "Anthropic messages", {"messages"}),
        ("ollama", "ollama._types", "ChatRequest", "Ollama chat", {"messages"}),
        ("ollama", "ollama._types", "GenerateRequest", "Ollama generate", {"prompt"}),
        ("ollama", "ollama._types", "EmbedRequest", "Ollama embed", {"input"}),
        ("ollama", "ollama._types", "Options", "Ollama options", set()),
    ],
)  # fmt: skip
def test_fields_match_reference(package: str, module: str, kind: str, title: str, without: set[str]) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    [api] = [api for api in APIS if api.title == title]
    stream = {"stream_options"} if title == "OpenAI responses" else set()
    assert fields_of(module, kind) - without - {"model"} - stream <= api.fields.keys()
