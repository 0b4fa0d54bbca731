"""Text out of token numbers, piece by piece: no character is split and no space is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.plugins.text.detokenizer import HELD, REPLACEMENT, Detokenizer


def bytewise(tokens: list[int]) -> str:
    """A byte-level decoder: each token is one byte."""
    return bytes(tokens).decode(errors="replace")


WORDS = ["▁Hello", "▁world", "!", "▁", "▁Ünï", "<s>", "ing"]


def metaspace(tokens: list[int]) -> str:
    """As sentencepiece decodes: a space at the start of a text is dropped, special tokens have no text."""
    return "".join(WORDS[each] for each in tokens if each != 5).replace("▁", " ").removeprefix(" ")


def fallback(tokens: list[int]) -> str:
    """Bytes that are no whole text are one replacement character each, as in decoders with byte fallback."""
    try:
        return bytes(tokens).decode()
    except UnicodeDecodeError:
        return REPLACEMENT * len(tokens)


def pieces(detokenizer: Detokenizer, tokens: list[int]) -> list[str]:
    return [*(detokenizer.add(token) for token in tokens), detokenizer.flush()]


@given(st.text(st.characters(exclude_characters=REPLACEMENT, exclude_categories=["Cs"]), max_size=40))
def test_chunks_join_to_text_and_contain_complete_characters(text: str) -> None:
    for decode in (bytewise, fallback):
        found = pieces(Detokenizer(decode), list(text.encode()))
        assert "".join(found) == text
        assert not any(REPLACEMENT in piece for piece in found)


def test_emoji_of_four_tokens_arrives_with_last_token() -> None:
    assert pieces(Detokenizer(bytewise), list("a🙂b".encode())) == ["a", "", "", "", "🙂", "b", ""]


def test_leading_space_is_kept_within_text_and_after_prompt() -> None:
    assert pieces(Detokenizer(metaspace), [0, 1, 2]) == ["Hello", " world", "!", ""]
    assert pieces(Detokenizer(metaspace, [0]), [1, 6, 3, 4]) == [" world", "ing", " ", "  Ünï"[1:], ""]


def test_token_without_text_changes_nothing() -> None:
    assert pieces(Detokenizer(metaspace), [0, 5, 1, 5]) == ["Hello", "", " world", "", ""]


def test_end_flushes_incomplete_character() -> None:
    assert pieces(Detokenizer(bytewise), list("a🙂".encode()[:-1])) == ["a", "", "", "", REPLACEMENT]


def test_replacement_character_of_model_is_kept() -> None:
    assert "".join(pieces(Detokenizer(bytewise), list(f"a{REPLACEMENT}b".encode()))) == f"a{REPLACEMENT}b"


@pytest.mark.parametrize("decode", [bytewise, fallback])
def test_invalid_bytes_are_not_held_back_forever(decode) -> None:
    detokenizer = Detokenizer(decode)
    found = [detokenizer.add(0xFF) for _ in range(10 * HELD)]
    assert max(len("".join(found[:n])) + 2 * HELD >= n for n in range(1, len(found)))
    assert len("".join(found)) > 8 * HELD
    assert len(detokenizer._ids) <= 3 * HELD


def test_character_after_invalid_bytes_is_complete() -> None:
    detokenizer = Detokenizer(bytewise)
    found = "".join(detokenizer.add(each) for each in [0xFF] * (HELD + 1) + list("🙂!".encode()))
    assert found.endswith("🙂!")


def test_decoding_window_stays_small() -> None:
    longest = 0

    def decode(tokens: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(tokens))
        return bytewise(tokens)

    assert "".join(pieces(Detokenizer(decode), list(b"abc" * 500))) == "abc" * 500
    assert longest <= 2
