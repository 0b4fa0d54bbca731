"""Messages of statuses fit into the header they travel in."""

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from inferstream.server.status import ELLIPSIS, LONGEST_MESSAGE, shortened

AS_IT_IS = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
TEXTS = st.builds(
    lambda words, times: words * times,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    st.integers(1, 5000),
)


@given(TEXTS)
def test_a_message_fits_and_is_the_beginning_of_what_was_said(message: str) -> None:
    kept = shortened(message)

    assert len(quote(kept, safe=AS_IT_IS)) <= LONGEST_MESSAGE
    assert kept == message or message.startswith(kept.removesuffix(ELLIPSIS))


@given(TEXTS)
def test_only_what_does_not_fit_is_cut(message: str) -> None:
    fits = len(quote(message, safe=AS_IT_IS)) <= LONGEST_MESSAGE
    assert (shortened(message) == message) == fits


def test_a_cut_message_ends_in_an_ellipsis() -> None:
    assert shortened("x" * LONGEST_MESSAGE) == "x" * LONGEST_MESSAGE
    assert shortened("x" * (LONGEST_MESSAGE + 1)).endswith("x" + ELLIPSIS)
    assert set(shortened("日" * LONGEST_MESSAGE)) == {"日", ELLIPSIS}
