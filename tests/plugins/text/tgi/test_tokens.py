"""Tokens that wait for the text that they decide."""

from inferstream.plugins.text.reader import TextReader
from inferstream.plugins.text.tgi.tokens import MAX_HELD, DecidedTokens
from tests.plugins.text.responses import responses_of


def test_tokens_without_text_do_not_wait_forever() -> None:
    tokens, reader = DecidedTokens(), TextReader()
    texts = (response.accept(reader) for response in responses_of(*[""] * MAX_HELD))
    found = [len(tokens.decide(text, reader)) for text in texts]
    assert found == [0] * (MAX_HELD - 1) + [MAX_HELD]
