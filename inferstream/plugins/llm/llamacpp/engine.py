"""Continuous batching: advances all streams by a token per batch, and reads chunks of prompts in the same batch."""

from collections.abc import Sequence

import numpy as np

from ..token_stream import ChosenToken, Piece, TokenStream, divide_budget, find_longest_prefix
from .network import Logits, Network, SequenceTokens
from .sampling import add_logprobs, choose
from .sequences import SequenceCache

READ_ALONE = 512
"""Maximum prompt tokens in a batch if no stream is generating."""

READ_BESIDE = 128
"""Maximum prompt tokens in a batch with other streams."""

SHARED = 8
"""Minimum prompt tokens that are worth a step of waiting for another stream to read them."""

READ_SCORED = 64
"""Maximum tokens of a prompt with log probabilities in a batch, because each needs the logits of all tokens."""


class LlamaEngine:
    """Runs the network. Must be called from one thread."""

    def __init__(self, network: Network, sequences: int) -> None:
        self._network = network
        self._sequences = SequenceCache(network, sequences)
        self._full = False
        """Whether a stream was stopped for lack of room since the last one was released."""
        self._came = 0

    @property
    def read(self) -> int:
        """Number of tokens of active streams in the cache."""
        return sum(each.read for each in self._sequences.active)

    def add(self, stream: TokenStream) -> None:
        """Add a stream to the next steps."""
        self._came += 1
        stream.number = self._came

    def remove(self, stream: TokenStream) -> None:
        """Remove a stream and release its sequence."""
        if stream.row >= 0:
            self._sequences.release(stream)
            self._full = False

    def step(self, streams: Sequence[TokenStream]) -> dict[TokenStream, ChosenToken]:
        """Return a token for each stream whose prompt has been read, and read a chunk of other prompts.

        A stream whose prompt is completed in this step receives its first token in the same step.
        """
        try:
            entries, logits = self._decode(streams)
        except Exception:
            self._sequences.clear()  # the library does not say what it has written
            raise
        writing: list[TokenStream] = []
        rows: list[int] = []
        end = 0
        for stream, entry in entries.items():
            start, end = end, end + entry.outputs
            if stream.scores is not None:
                stream.scores += _score(stream, logits[start:end])
            stream.read += len(entry.tokens)
            if not stream.unread:
                writing.append(stream)
                rows.append(end - 1)
        if not writing:
            return {}
        choices = choose(logits if len(rows) == len(logits) else logits[rows], writing)
        for stream, choice in zip(writing, choices, strict=True):
            stream.tokens.append(choice.token)
        return dict(zip(writing, choices, strict=True))

    def _decode(self, streams: Sequence[TokenStream]) -> tuple[dict[TokenStream, SequenceTokens], Logits]:
        """Compute the logits of the next batch. Makes room while the cache is full."""
        while entries := {stream: _build_entry(stream, count) for stream, count in self._plan(streams)}:
            logits = self._network.decode([*entries.values()])
            if logits is not None:
                return entries, logits
            if not self._sequences.drop_oldest():
                self._full = True
                self._sequences.stop_newest({*streams})
        return {}, np.empty((0, 0), np.float32)

    def _plan(self, streams: Sequence[TokenStream]) -> list[Piece]:
        """Return the tokens of each stream in the next batch, and assign sequences to new streams.

        If the cache is full, streams without a sequence wait, unless no other can advance.
        """
        writing = [Piece(each, 1) for each in streams if each.row >= 0 and not each.unread]
        reading = [each for each in streams if each.unread]
        if self._full and any(each.row >= 0 for each in streams):
            reading = [each for each in reading if each.row >= 0]
        reading = self._leave_out_repeated(reading)
        for stream in reading:
            if stream.row < 0:
                self._sequences.assign(stream)
        return [*writing, *divide_budget(reading, READ_BESIDE if writing else READ_ALONE)]

    def _leave_out_repeated(self, reading: list[TokenStream]) -> list[TokenStream]:
        """Leave out new streams that can soon reuse tokens that an earlier stream has yet to read."""
        kept: list[TokenStream] = []
        for stream in sorted(reading, key=lambda each: each.number):
            if stream.row < 0 and self._network.has_prefixes:
                ahead, _ = find_longest_prefix(stream, ((0, each.salt, each.tokens) for each in kept))
                if ahead >= SHARED and ahead - self._sequences.find_prefix(stream)[0] >= SHARED:
                    continue
            kept.append(stream)
        return kept


def _build_entry(stream: TokenStream, count: int) -> SequenceTokens:
    if stream.scores is not None:
        outputs = count = min(count, READ_SCORED)
    else:
        outputs = int(count >= stream.unread)
    start = stream.read
    return SequenceTokens(stream.row, start, stream.tokens[start : start + count], outputs)


def _score(stream: TokenStream, logits: Logits) -> list[ChosenToken]:
    """Return the log probabilities of the prompt tokens that follow the ones in the batch."""
    following = stream.tokens[stream.read + 1 : stream.read + 1 + len(logits)]
    most = stream.sampling.prompt_logprobs or 0
    return [add_logprobs(row, token, most) for row, token in zip(logits, following, strict=False)]
