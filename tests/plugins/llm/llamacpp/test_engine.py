"""The schedule of streams in the shared cache, with a network whose text depends on all tokens so far."""

from pathlib import Path

import pytest

from inferstream.plugins.llm.llamacpp.engine import READ_ALONE, READ_BESIDE, READ_SCORED, LlamaEngine
from inferstream.plugins.llm.sampling import Sampling
from inferstream.plugins.llm.token_stream import TokenStream
from inferstream.plugins.text.detokenizer import Detokenizer

from .stand_in import Network, Story

SEQUENCES = 8


class Served:
    """An engine with a cache of `cells` tokens."""

    def __init__(self, cells: int = 10**6, sequences: int = SEQUENCES) -> None:
        self.network = Story(None, Path("m"), 1, 0)
        self.network.open(cells, sequences, 0)
        self.engine = LlamaEngine(self.network, sequences)

    def add(self, prompt: str, tokens: int = 10, **options: int) -> TokenStream:
        sampling = Sampling(**options)
        stream = TokenStream([*prompt.encode()], len(prompt) + tokens, sampling, Detokenizer(str), False)
        if sampling.prompt_logprobs is not None:
            stream.scores = []
        self.engine.add(stream)
        return stream

    def finish(self, *streams: TokenStream) -> list[str]:
        """Advance the streams until all have ended, and return what they wrote."""
        left = [*streams]
        for _ in range(10_000):
            if not left:
                return [bytes(each.tokens[each.prompt_length :]).decode() for each in streams]
            self.engine.step(left)
            for each in [each for each in left if len(each.tokens) >= each.limit]:
                self.engine.remove(each)
                left.remove(each)
        raise AssertionError("the streams do not end")

    @property
    def sizes(self) -> list[list[int]]:
        """Tokens of each stream in each batch."""
        return [[len(entry.tokens) for entry in batch] for batch in self.network.batches]


def alone(prompt: str, tokens: int = 10) -> str:
    served = Served()
    (text,) = served.finish(served.add(prompt, tokens))
    return text


PROMPTS = [f"{number} stories about {'the sea ' * number}" for number in range(4)]


def test_text_is_equal_alone_and_in_a_batch() -> None:
    served = Served()
    texts = served.finish(*(served.add(prompt, 5 + len(prompt)) for prompt in PROMPTS))
    assert texts == [alone(prompt, 5 + len(prompt)) for prompt in PROMPTS]
    assert served.sizes[1] == [1, 1, 1, 1]


def test_long_prompt_is_read_in_pieces_beside_other_streams() -> None:
    served = Served()
    writer = served.add("short", 1000)
    served.engine.step([writer])
    long = served.add("long " * 100, 4)
    before = writer.written
    while long.unread:
        served.engine.step([writer, long])
    steps = -(-500 // READ_BESIDE)
    assert writer.written - before == steps
    assert served.sizes[1:] == [[1, READ_BESIDE]] * (steps - 1) + [[1, 500 - READ_BESIDE * (steps - 1)]]
    assert served.finish(long) == [alone("long " * 100, 4)]


def test_prompts_are_read_in_large_pieces_if_no_stream_writes() -> None:
    served = Served()
    served.finish(served.add("x" * (READ_ALONE + 1), 1))
    assert served.sizes == [[READ_ALONE], [1]]


def test_shared_prefix_is_read_once() -> None:
    served = Served()
    one = served.add("The answer is 1")
    served.engine.step([one])
    two = served.add("The answer is 2")
    assert served.finish(one, two) == [alone("The answer is 1"), alone("The answer is 2")]
    again = served.add("The answer is 23")
    assert served.finish(again) == [alone("The answer is 23")]
    assert [each for batch in served.sizes for each in batch if each > 1] == [15]


def test_shared_prefix_of_new_streams_is_read_once() -> None:
    served = Served()
    prompts = [f"The answer is {number}" for number in range(4)]
    streams = [served.add(prompt) for prompt in prompts]
    other = served.add("Else")
    assert served.finish(*streams, other) == [*map(alone, prompts), alone("Else")]
    assert [sorted(sizes) for sizes in served.sizes[:2]] == [[4, 15], [1, 1, 1, 1, 1]]


def test_prefix_is_not_shared_by_recurrent_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Network, "has_prefixes", False)
    served = Served()
    for _ in range(2):
        served.finish(served.add("The answer", 1))
    assert served.sizes == [[10], [10]]


def test_least_recently_used_prefix_is_dropped() -> None:
    served = Served(sequences=2)
    for prompt in ("aaaa", "bbbb", "aaaa", "cccc", "aaaa", "bbbb"):
        served.finish(served.add(prompt, 1))
    assert served.sizes == [[4], [4], [1], [4], [1], [4]]


def test_full_cache_stops_the_newest_stream_until_there_is_room() -> None:
    served = Served(cells=100)
    texts = served.finish(*(served.add(prompt, 30) for prompt in PROMPTS))
    assert texts == [alone(prompt, 30) for prompt in PROMPTS]
    assert served.engine.read == 0


def test_prefixes_make_room_before_streams() -> None:
    served = Served(cells=40)
    served.finish(served.add("a" * 20, 1))
    one, two = served.add("b" * 12, 3), served.add("c" * 12, 3)
    assert served.finish(one, two) == [alone("b" * 12, 3), alone("c" * 12, 3)]
    assert served.sizes[1] == [12, 12]


def test_stream_with_slow_reader_makes_room_for_others() -> None:
    served = Served(cells=40)
    slow = served.add("s" * 20, 15)
    served.engine.step([slow])
    assert served.finish(served.add("f" * 20, 15)) == [alone("f" * 20, 15)]
    assert served.finish(slow) == [alone("s" * 20, 15)]


def test_stream_that_leaves_frees_its_sequence() -> None:
    served = Served(cells=40, sequences=2)
    for number in range(20):
        stream = served.add(f"{number} leaves early")
        served.engine.step([stream])
        served.engine.remove(stream)
    waiting = served.add("never read")
    served.engine.remove(waiting)
    assert served.finish(served.add("The end")) == [alone("The end")]


def test_failed_batch_leaves_no_wrong_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served()
    one, two = served.add("one"), served.add("two")
    served.engine.step([one])
    with monkeypatch.context() as patch:
        patch.setattr(Story, "next_token", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            served.engine.step([one, two])
    served.engine.remove(two)
    assert served.finish(one, served.add("two")) == [alone("one"), alone("two")]


def test_prompt_that_cannot_fit_fails() -> None:
    served = Served(cells=4)
    with pytest.raises(RuntimeError, match="no room"):
        served.engine.step([served.add("five!")])


def test_prompt_is_scored_in_small_pieces() -> None:
    served = Served()
    stream = served.add("x" * (READ_SCORED + 3), 1, prompt_logprobs=2)
    served.finish(stream)
    assert served.sizes == [[READ_SCORED], [3]]
    assert stream.scores is not None
    assert [choice.token for choice in stream.scores] == [ord("x")] * (READ_SCORED + 2)
    assert all(len(choice.top or ()) == 2 for choice in stream.scores)
