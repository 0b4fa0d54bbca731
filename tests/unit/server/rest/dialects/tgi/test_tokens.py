"""Tokens that wait for the text that they decide."""

from inferstream.server.rest.dialects.tgi.tokens import MOST_HELD, DecidedTokens
from inferstream.text.reader import TextReader

from .test_formats import response_of


def test_tokens_without_text_do_not_wait_for_ever() -> None:
    tokens, reader = DecidedTokens(), TextReader()
    found = [len(tokens.decide(response_of("").accept(reader), reader)) for _ in range(MOST_HELD)]
    assert found == [0] * (MOST_HELD - 1) + [MOST_HELD]
