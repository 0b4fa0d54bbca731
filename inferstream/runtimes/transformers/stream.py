"""One stream of a language model: its tokens, its place in the cache and how its tokens are chosen."""

from typing import Any

from ...text.detokenizer import Detokenizer
from ..grammars.matching import FormedText
from ..sampling import Sampling


class TokenStream:
    """The state of one stream, which `admit` returns.

    `limit` is the number of tokens, prompt and text together, at which it ends.
    """

    __slots__ = (
        "detokenizer",
        "generator",
        "limit",
        "number",
        "opening",
        "pieces",
        "prompt_length",
        "read",
        "row",
        "sampling",
        "tokens",
        "writing",
    )

    def __init__(
        self, prompt: list[int], limit: int, sampling: Sampling, detokenizer: Detokenizer, single: bool
    ) -> None:
        self.tokens = prompt
        self.prompt_length = len(prompt)
        self.limit = limit
        self.sampling = sampling
        self.detokenizer = detokenizer
        self.generator: Any = None
        """torch.Generator of a sampled stream."""
        self.pieces: list[str] | None = [] if single else None
        """The text of a client that takes one response."""
        self.writing: FormedText | None = None
        """Where it is in the grammar that it keeps to."""
        self.row = -1
        """Its row of the cache; -1 until its prompt begins to be read."""
        self.opening = ""
        """The end of its prompt, where that is the beginning of its text and not given out yet."""
        self.read = 0
        """Tokens that the cache holds for it."""
        self.number = 0
        """Order of arrival."""

    @property
    def unread(self) -> int:
        """Tokens of the prompt that are not in the cache; 0 once it writes."""
        return max(0, self.prompt_length - self.read)

    @property
    def written(self) -> int:
        return len(self.tokens) - self.prompt_length
