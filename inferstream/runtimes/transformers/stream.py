"""One stream of a language model: its tokens, its place in the cache and how its tokens are chosen."""

from dataclasses import InitVar, dataclass, field
from typing import Any

from ...text.detokenizer import Detokenizer
from ..grammars.matching import FormedText
from ..sampling import Restrictions, Sampling


@dataclass(slots=True, eq=False)
class TokenStream:
    """The state of one stream, which `admit` returns.

    `limit` is the number of tokens, prompt and text together, at which it ends.
    """

    tokens: list[int]
    """Those of its prompt at first."""
    limit: int
    sampling: Sampling
    detokenizer: Detokenizer
    single: InitVar[bool]
    prompt_length: int = field(init=False)
    pieces: list[str] | None = field(init=False)
    """The text of a client that takes one response."""
    generator: Any = None
    """torch.Generator of a sampled stream."""
    writing: FormedText | None = None
    """Where it is in the grammar that it keeps to."""
    salt: str = ""
    """Whose stream it is: it builds on rows of equal salt only."""
    row: int = -1
    """Its row of the cache; -1 until its prompt begins to be read."""
    restrictions: Restrictions | None = None
    scores: list[Any] | None = None
    """The log probabilities of its prompt so far; None if nobody asks for them."""
    opening: str = ""
    """The end of its prompt, where that is the beginning of its text and not given out yet."""
    read: int = 0
    """Tokens that the cache holds for it."""
    number: int = 0
    """Order of arrival."""

    def __post_init__(self, single: bool) -> None:
        self.prompt_length = len(self.tokens)
        self.pieces = [] if single else None

    @property
    def unread(self) -> int:
        """Tokens of the prompt that are not in the cache; 0 once it writes."""
        return max(0, self.prompt_length - self.read)

    @property
    def written(self) -> int:
        return len(self.tokens) - self.prompt_length
