"""State of a stream: its tokens, cache row and sampling."""

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple

from inferstream.plugins.text.detokenizer import Detokenizer

from .grammars.matching import FormedText
from .sampling import Restrictions, Sampling

OLDEST_SHARE = 4
"""The oldest waiting prompt gets at least `1 / OLDEST_SHARE` of the token budget."""


class ChosenToken(NamedTuple):
    """A chosen token with its log probability and the top log probabilities, if requested."""

    token: int
    logprob: float | None = None
    top: list[tuple[int, float]] | None = None


@dataclass(slots=True, eq=False)
class TokenStream:
    """The state of one stream, which `admit` returns.

    `limit` is the maximum number of tokens of prompt and output together.
    """

    tokens: list[int]
    """Prompt tokens, followed by generated tokens."""
    limit: int
    sampling: Sampling
    detokenizer: Detokenizer
    single: InitVar[bool]
    prompt_length: int = field(init=False)
    pieces: list[str] | None = field(init=False)
    """Text so far for a client that does not stream, else None."""
    generator: Any = None
    """Random generator of a stream that samples."""
    writing: FormedText | None = None
    """Position in its grammar, if any."""
    salt: str = ""
    """Cache salt. A stream reuses only rows with the same salt."""
    row: int = -1
    """Cache row or sequence. -1 until the first chunk of the prompt is read."""
    restrictions: Restrictions | None = None
    scores: list[Any] | None = None
    """Log probabilities of the prompt so far. None if not requested."""
    opening: str = ""
    """End of the prompt that belongs to the output and has not been emitted yet."""
    read: int = 0
    """Number of tokens in the cache."""
    to_read: int = field(init=False)
    """Number of tokens to read before the next one is generated: the prompt, or everything after a restart."""
    number: int = 0
    """Order of arrival."""
    announces: bool = False
    """Whether the next response says that the stream continues with other random numbers."""

    def __post_init__(self, single: bool) -> None:
        self.prompt_length = self.to_read = len(self.tokens)
        self.pieces = [] if single else None

    @property
    def unread(self) -> int:
        """Tokens to read that are not in the cache. 0 once it generates."""
        return max(0, self.to_read - self.read)

    @property
    def written(self) -> int:
        return len(self.tokens) - self.prompt_length

    def resume(self, written: Sequence[int]) -> None:
        """Continue after tokens that an earlier stream has generated. Call it before the first step."""
        self.tokens += written
        self.to_read = len(self.tokens)
        for token in written:
            self.detokenizer.add(token)

    def restart(self) -> None:
        """Take the stream out of the cache. It reads its tokens again before it continues."""
        self.row, self.read, self.to_read = -1, 0, len(self.tokens)
        if self.scores is not None:
            self.scores = []


class Piece(NamedTuple):
    """A chunk of a prompt that one step reads."""

    stream: TokenStream
    tokens: int


def divide_budget(streams: list[TokenStream], budget: int) -> list[Piece]:
    """Divide the token budget of a step among prompts, shortest first, with a share for the oldest."""
    if not streams:
        return []
    oldest = min(streams, key=lambda each: each.number)
    granted = {oldest: min(oldest.unread, max(1, budget // OLDEST_SHARE))}
    left = budget - granted[oldest]
    for stream in sorted(streams, key=lambda each: (each.unread, each.number)):
        more = min(stream.unread - granted.get(stream, 0), left)
        if more > 0:
            granted[stream] = granted.get(stream, 0) + more
            left -= more
    return [Piece(stream, tokens) for stream, tokens in granted.items()]


def find_longest_prefix(stream: TokenStream, cached: Iterable[tuple[int, str, list[int]]]) -> tuple[int, int]:
    """Return the length and row of the longest cached prefix with the salt of a stream.

    `cached` are rows with their salts and tokens. The last token to read is always computed again.
    """
    best, source = 0, -1
    for row, salt, tokens in cached:
        if salt == stream.salt:
            shared = _common_prefix_length(stream.tokens, tokens, stream.to_read - 1)
            if shared > best:
                best, source = shared, row
    return best, source


def _common_prefix_length(one: list[int], other: list[int], most: int) -> int:
    most = min(most, len(other))
    if one[:most] == other[:most]:
        return most
    for index in range(most):
        if one[index] != other[index]:
            return index
    return most
