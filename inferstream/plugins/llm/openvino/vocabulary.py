"""The tokens of a model, from the tokenizer of the library."""

from typing import Any

from ..spelling import Speller


class OpenVinoVocabulary(Speller):
    """The tokens of `tokenizer`. Raises ValueError if it does not list them."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        tokens: dict[bytes, int] = tokenizer.get_vocab()
        if not tokens:
            raise ValueError("the tokenizer does not list its tokens")
        self.size = max(tokens.values()) + 1
        self.pieces = [b""] * self.size
        """The bytes of each token."""
        for piece, token in tokens.items():
            self.pieces[token] = piece
        each = [[token] for token in range(self.size)]
        shown, hidden = (tokenizer.decode(each, skip_special_tokens=skip) for skip in (False, True))
        self.special = frozenset(token for token in range(self.size) if shown[token] != hidden[token])
        self.special_texts = {
            "bos_token": str(tokenizer.get_bos_token()),
            "eos_token": str(tokenizer.get_eos_token()),
        }
        """The variables of chat templates."""

    def name(self, token: int) -> str:
        return self.pieces[token].decode(errors="replace") or f"<{token}>"

    def read_bytes(self, token: int) -> bytes:
        return self.pieces[token]

    def tokenize(self, text: str, starts: bool = False) -> list[int]:
        """Return the tokens of a string, with BOS and EOS as the model adds them if `starts` is true."""
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=starts).input_ids.data[0].tolist()
        return tokens

    def decode(self, tokens: list[int], skip: bool = True) -> str:
        """Return the text of tokens. If `skip` is true, special tokens have none."""
        shown = (self.pieces[each] for each in tokens if not (skip and each in self.special))
        return b"".join(shown).decode(errors="replace")
