"""Paged attention: each text is that of `generate` alone, alone and in company."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.generation.continuous_batching.cb_logits_processors")
pytestmark = pytest.mark.filterwarnings("ignore")

from inferstream.errors import InvalidRequest, ModelLoadFailed
from inferstream.testing import InProcess, run
from tests.plugins.llm.transformers import tiny
from tests.plugins.llm.transformers.test_causal_lm import PROMPTS, request, stream, text_of, tokens_of
from tests.serving import eventually


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tiny.write(tmp_path_factory.mktemp("paged"), prefill_budget=16, attention="paged")


@pytest.fixture(scope="module")
def alone(folder: Path) -> tiny.Alone:
    return tiny.Alone(folder)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def client(folder: Path, runner: asyncio.Runner) -> Iterator[InProcess]:
    served = run(str(folder))
    yield runner.run(served.__aenter__())
    runner.run(served.__aexit__(None, None, None))


def test_sixteen_batched_streams_equal_single_ones(
    client: InProcess, runner: asyncio.Runner, alone: tiny.Alone
) -> None:
    expected = [alone.tokens(prompt, 6 + index) for index, prompt in enumerate(PROMPTS)]

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(
            *(stream(client, prompt, max_tokens=6 + index) for index, prompt in enumerate(PROMPTS))
        )

    for found, tokens, prompt in zip(runner.run(all_of_them()), expected, PROMPTS, strict=True):
        assert tokens_of(found) == tokens
        assert text_of(found) == alone.text(tokens)
        last = found[-1].parameters
        assert last.get("finish_reason") == ("stop" if tokens[-1] == 0 else "length")
        assert last.get("completion_tokens") == len(tokens)
        assert last.get("prompt_tokens") == len(alone.tokenizer(prompt)["input_ids"])


def test_end_and_stop_tokens_end_text(client: InProcess, runner: asyncio.Runner, alone: tiny.Alone) -> None:
    tokens = alone.tokens("one two", 30)
    stop = tokens[7]
    found = runner.run(stream(client, "one two", max_tokens=30, stop_token_ids=json.dumps([stop])))
    assert tokens_of(found) == tokens[: tokens.index(stop) + 1]
    assert found[-1].parameters.get("finish_reason") == "stop"
    single = runner.run(client.infer("tiny", request("one two", max_tokens=30)))
    assert text_of([single]) == alone.text(tokens)


def test_sampled_texts_differ_and_narrow_ones_do_not(
    client: InProcess, runner: asyncio.Runner, alone: tiny.Alone
) -> None:
    wide = {text_of(runner.run(stream(client, "one", temperature=1.5, max_tokens=20))) for _ in range(3)}
    assert len(wide) == 3
    narrow = [{"temperature": 2.0, "top_k": 1}, {"temperature": 0.001}, {"temperature": 1.0, "top_p": 1e-6}]
    for options in narrow:
        found = runner.run(stream(client, "one", max_tokens=20, **options))
        assert tokens_of(found) == alone.tokens("one", 20)


def test_stream_continues_after_written_tokens(client: InProcess, runner: asyncio.Runner) -> None:
    whole = runner.run(stream(client, "one two", max_tokens=30))
    written = json.dumps(tokens_of(whole)[:13])
    rest = runner.run(stream(client, "one two", max_tokens=30, written_token_ids=written))
    assert tokens_of(rest) == tokens_of(whole)[13:]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"seed": 5, "temperature": 1.0}, "seed"),
        ({"logprobs": True}, "logprobs"),
        ({"presence_penalty": 1.0}, "presence_penalty"),
        ({"logit_bias": '{"5": 1}'}, "logit_bias"),
        ({"min_p": 0.1}, "min_p"),
        ({"min_tokens": 3}, "min_tokens"),
    ],
)
def test_missing_options_are_refused_by_name(
    client: InProcess, runner: asyncio.Runner, options: dict[str, Any], name: str
) -> None:
    with pytest.raises(InvalidRequest, match=f'{name} is not taken with the setting attention "paged"'):
        runner.run(stream(client, "one", **options))


def test_disconnect_releases_pages(folder: Path, alone: tiny.Alone) -> None:
    """The cache has room for one context, so a stream that stayed would block the next ones."""
    settings = json.loads((folder / "model-settings.json").read_text())
    settings["parameters"]["extra"] |= {"cache_tokens": 256}
    settings["max_active"] = 1
    tight = folder.parent / "tight"
    tight.mkdir()
    (tight / "model-settings.json").write_text(json.dumps(settings))
    (tight / "artefacts").symlink_to(folder / "artefacts")

    async def leave_and_ask() -> None:
        async with run(str(tight)) as client:
            for _ in range(5):
                responses = client.stream("tiny", request("one", max_tokens=200, ignore_eos=True))
                await anext(responses)
                await responses.aclose()
            found = await stream(client, "one two", max_tokens=100)
            assert tokens_of(found) == alone.tokens("one two", 100)

    asyncio.run(leave_and_ask())


def test_failed_thread_starts_again(folder: Path, alone: tiny.Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    from inferstream.plugins.llm.transformers import paged

    engines: list[paged.PagedEngine] = []
    start = paged.PagedEngine._start
    monkeypatch.setattr(paged.PagedEngine, "_start", lambda self: (engines.append(self), start(self))[1])

    async def fail_and_ask() -> None:
        async with run(str(folder)) as client:
            responses = client.stream("tiny", request("one", max_tokens=200, ignore_eos=True))
            await anext(responses)
            manager = engines[0]._manager
            manager.stop(hard_stop=True)
            with pytest.raises(Exception, match="Model tiny failed"):
                [each async for each in responses]
            assert tokens_of(await stream(client, "one", max_tokens=5)) == alone.tokens("one", 5)
            assert engines[0]._manager is not manager

    asyncio.run(fail_and_ask())


def test_model_whose_defaults_are_not_accepted_fails_load(tmp_path: Path) -> None:
    tiny.write(tmp_path, attention="paged")
    transformers.GenerationConfig(repetition_penalty=1.2, eos_token_id=0).save_pretrained(
        tmp_path / "artefacts"
    )

    async def load() -> None:
        async with run(str(tmp_path)):
            pass

    with pytest.raises(ModelLoadFailed, match=r'attention "paged" has no repetition_penalty'):
        asyncio.run(load())


def test_unload_ends_the_thread(folder: Path) -> None:
    before = threading.active_count()

    async def load() -> None:
        async with run(str(folder)) as client:
            await stream(client, "one", max_tokens=2)

    asyncio.run(load())
    eventually(lambda: threading.active_count() <= before)
