"""The shared cache and its schedule: companions change nothing, rows come back, prompts do not block."""

import inspect
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

from inferstream.plugins.llm.sampling import Sampling
from inferstream.plugins.llm.token_stream import TokenStream
from inferstream.plugins.llm.transformers import engine as engine_module
from inferstream.plugins.llm.transformers import loading, rows
from inferstream.plugins.llm.transformers.engine import StepEngine
from inferstream.plugins.llm.transformers.settings import LanguageSettings
from inferstream.plugins.text.detokenizer import Detokenizer
from tests.plugins.llm.transformers import tiny

BUDGET = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(folder: Path):
    torch.set_num_threads(1)
    return loading.open_model(folder / "artefacts", LanguageSettings(), {}).model


def made(tokens: list[int], count: int = 10, sampling: Sampling | None = None) -> TokenStream:
    """A stream of `count` tokens after these."""
    stream = TokenStream(
        list(tokens), len(tokens) + count, sampling or Sampling(), Detokenizer(str), single=False
    )
    if stream.sampling.temperature:
        stream.generator = torch.Generator().manual_seed(stream.sampling.seed or 0)
    return stream


def written(engine: StepEngine, *streams: TokenStream) -> list[list[int]]:
    """What they write in each other's company; each leaves when it is complete."""
    for stream in streams:
        engine.add(stream)
    run(engine, list(streams))
    return [stream.tokens[stream.prompt_length :] for stream in streams]


def run(engine: StepEngine, active: list[TokenStream]) -> None:
    while active:
        engine.step(active)
        for stream in [each for each in active if len(each.tokens) >= each.limit]:
            active.remove(stream)
            engine.remove(stream)


def text(length: int, seed: int = 0) -> list[int]:
    return torch.randint(1, 300, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def alone(model, prompt: list[int], count: int = 10) -> list[int]:
    """Without any cache, so without anything that could be wrong with one."""
    tokens = list(prompt)
    for _ in range(count):
        with torch.inference_mode():
            tokens.append(
                int(model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax())
            )
    return tokens[len(prompt) :]


def test_batch_companions_do_not_change_output(model) -> None:
    engine = StepEngine(model, 16, BUDGET, kept=0)
    prompts = [text(length, length) for length in (1, 3, 40, 7, 8, 9, 17, 2)]
    assert written(engine, *map(made, prompts)) == [alone(model, prompt) for prompt in prompts]
    assert engine.active == 0


def test_joining_and_leaving_streams_do_not_change_output(model) -> None:
    engine = StepEngine(model, 4, BUDGET, kept=64)
    waiting = [made(text(3 + index % 7, index), 3 + index % 5) for index in range(20)]
    expected = [alone(model, each.tokens, each.limit - each.prompt_length) for each in waiting]
    streams, active = list(waiting), []
    while waiting or active:
        while waiting and len(active) < 4:
            active.append(waiting.pop(0))
            engine.add(active[-1])
        engine.step(active)
        for stream in [each for each in active if len(each.tokens) >= each.limit]:
            active.remove(stream)
            engine.remove(stream)
    assert [each.tokens[each.prompt_length :] for each in streams] == expected


def test_paused_stream_continues_from_its_position(model) -> None:
    engine = StepEngine(model, 4, BUDGET, kept=0)
    streams = [made(text(5, seed)) for seed in range(3)]
    for each in streams:
        engine.add(each)
    for _ in range(4):
        engine.step(streams)
    for _ in range(3):
        assert engine.step(streams[1:2]).keys() == {streams[1]}
        assert engine.step(streams[::2]).keys() == {streams[0], streams[2]}
    run(engine, streams[:])
    assert [each.tokens[5:] for each in streams] == [alone(model, text(5, seed)) for seed in range(3)]


def noting(engine: StepEngine) -> list[int]:
    """How many tokens of its prompt each stream takes over from another row."""
    taken: list[int] = []
    take = engine.rows.assign

    def noted(stream: TokenStream) -> None:
        take(stream)
        taken.append(stream.read)

    engine.rows.assign = noted
    return taken


def test_shared_prompt_prefix_is_computed_once(model) -> None:
    system = text(60)
    prompts = [system + text(5, seed) for seed in (1, 2, 3)]
    expected = [alone(model, prompt) for prompt in prompts]
    engine = StepEngine(model, 2, BUDGET, kept=1000)
    taken = noting(engine)
    assert written(engine, made(prompts[0])) == expected[:1]  # read
    assert written(engine, made(prompts[1])) == expected[1:2]  # in the row of the one that ended
    first, second = made(prompts[0], 50), made(prompts[2])
    engine.add(first)
    while first.unread:
        engine.step([first])
    engine.add(second)
    run(engine, [first, second])
    assert second.tokens[65:] == expected[2]
    assert first.tokens[65:] == alone(model, prompts[0], 50)
    turn = second.tokens[:70]
    assert written(engine, made(turn)) == [alone(model, turn)]  # its own text, one turn later
    assert taken == [0, 60, 60, 60, 69]


def test_prompts_are_read_completely_without_prefix_cache(model) -> None:
    engine = StepEngine(model, 2, BUDGET, kept=0)
    taken = noting(engine)
    for _ in range(2):
        assert written(engine, made(text(20))) == [alone(model, text(20))]
    assert taken == [0, 0]
    assert engine.rows.retained_count == 0


def test_prefixes_are_reused_only_within_salt(model) -> None:
    engine = StepEngine(model, 8, BUDGET, kept=400)
    taken = noting(engine)
    salts = ["alice", "bob", ""]

    def salted(salt: str, length: int) -> TokenStream:
        stream = made(text(length), 12)
        stream.salt = salt
        return stream

    first = [salted(salt, 20) for salt in salts]
    for stream in first:
        engine.add(stream)
    while any(stream.unread for stream in first):
        engine.step(first)
    assert taken == [0, 0, 0]
    # Beside the active ones, and after they have ended.
    beside = written(engine, *(salted(salt, 20) for salt in salts))
    run(engine, first)
    after = written(engine, salted("carol", 20), *(salted(salt, 20) for salt in salts))
    assert taken == [0, 0, 0, 19, 19, 19, 0, 19, 19, 19]
    assert beside + after == [alone(model, text(20), 12)] * 7


def test_many_prefixes_in_few_rows(model) -> None:
    """Rows are swapped, copied, evicted and cut off; what is written never depends on it."""
    engine = StepEngine(model, 3, BUDGET, kept=90)
    choices = [
        [*text(length - 1, length % 5), seed] for seed, length in enumerate([30, 12, 31, 50, 9] * 4, 1)
    ]
    random = torch.Generator().manual_seed(1)
    active: list[TokenStream] = []
    expected = {}
    for prompt in choices:
        stream = made(prompt, 1 + int(torch.randint(0, 12, (1,), generator=random)))
        expected[stream] = alone(model, prompt, stream.limit - len(prompt))
        engine.add(stream)
        active.append(stream)
        while len(active) == 3 or (active and torch.rand(1, generator=random) < 0.7):
            engine.step(active)
            for each in [each for each in active if len(each.tokens) >= each.limit]:
                active.remove(each)
                engine.remove(each)
    run(engine, active)
    for stream, tokens in expected.items():
        assert stream.tokens[stream.prompt_length :] == tokens


def test_long_prompt_delays_short_one_by_under_three_steps(model) -> None:
    engine = StepEngine(model, 8, BUDGET, kept=0)
    writer, long = made(text(4), 100), made(text(200, 1))
    engine.add(writer)
    engine.step([writer])
    engine.add(long)
    engine.step([writer, long])
    short = made(text(5, 2))
    engine.add(short)
    steps, tokens = 0, len(writer.tokens)
    while len(short.tokens) == 5:
        steps += 1
        engine.step([writer, long, short])
    assert steps < 3
    assert len(writer.tokens) == tokens + steps  # who writes gets a token in every step
    assert long.read < 200


def test_short_prompts_do_not_starve_a_long_one(model) -> None:
    engine = StepEngine(model, 8, BUDGET, kept=0)
    long = made(text(40, 1), 1)
    engine.add(long)
    for step in range(40):
        short = made(text(8, step), 1)
        engine.add(short)
        engine.step([long, short])
        engine.remove(short)
        if not long.unread:
            break
    assert not long.unread


def test_prefill_stays_within_step_budget(model) -> None:
    engine = StepEngine(model, 8, BUDGET, kept=0)
    streams = [made(text(length, length)) for length in (30, 3, 20, 5)]
    for each in streams:
        engine.add(each)
    read = 0
    while any(each.unread for each in streams):
        engine.step(streams)
        now = sum(min(each.read, each.prompt_length) for each in streams)
        assert now - read <= BUDGET
        read = now


def test_memory_follows_active_streams(model) -> None:
    engine = StepEngine(model, 8, 512, kept=0)
    streams = [made(text(5, seed), 200) for seed in range(7)]
    long = made(text(3000), 5)
    for each in [*streams, long]:
        engine.add(each)
    while long.unread:
        engine.step([*streams, long])
    full = engine.cache.capacity
    assert engine.cache.rows == 8
    assert full > 3000
    engine.remove(long)
    assert engine.cache.capacity < full / 2
    for each in streams:
        engine.remove(each)
    assert engine.active == 0
    assert engine.cache.rows * engine.cache.capacity <= rows.FEW


def test_finished_streams_are_cached_up_to_limit(model) -> None:
    engine = StepEngine(model, 8, 512, kept=100)
    prompts = [text(150, seed) for seed in range(8)]
    for _ in range(2):
        found = written(engine, *(made(prompt, 2) for prompt in prompts))
        assert found == [alone(model, prompt, 2) for prompt in prompts]
        assert 0 < engine.rows.retained_count <= 100
        assert engine.cache.rows * engine.cache.capacity < 200


def test_failed_pass_leaves_no_wrong_tokens(model, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = StepEngine(model, 2, BUDGET, kept=100)
    stream = made(text(5))
    engine.add(stream)
    engine.step([stream])
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_model", lambda **_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.step([stream])
    engine.remove(stream)
    again = text(5) + stream.tokens[5:6]
    assert written(engine, made(again)) == [alone(model, again)]


def test_models_without_shareable_cache_are_refused(model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module.Masks, "make", lambda self, positions, length: None)
    with pytest.raises(ValueError, match="over a shared cache"):
        loading.verify_shared_cache(model)


def test_cache_is_passed_by_a_name_that_the_model_has(model, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers 5.40 removes `past_key_values`."""
    known = inspect.signature(model.forward).parameters
    engine = StepEngine(model, 2, BUDGET, 0)
    given: set[str] = set()

    def call(**arguments: object) -> object:
        given.update(arguments)
        return model(**arguments)

    monkeypatch.setattr(engine, "_model", call)
    written(engine, made([1, 2]))
    assert given <= known.keys()
