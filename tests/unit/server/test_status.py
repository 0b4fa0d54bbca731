"""Which status an error has, and how much of its message fits into the header it travels in."""

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidModelURI, ModelError, ModelLoadFailed, ModelNotFound, ModelNotReady
from inferstream.server.status import ELLIPSIS, LONGEST_MESSAGE, shortened, status_of

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


def test_a_client_that_is_not_known_is_not_one_without_permission() -> None:
    assert status_of(ModelError("who are you?", 401)) == (401, "UNAUTHENTICATED")
    assert status_of(ModelError("not you", 403)) == (403, "PERMISSION_DENIED")
    assert ModelError("who are you?", 401).code.value == "unauthenticated"


def test_a_models_own_status_goes_first_and_the_profile_decides_the_others() -> None:
    assert status_of(ModelError("no", 418), "mlserver").http == 418
    assert status_of(ModelLoadFailed("no", 418)) == (418, "INVALID_ARGUMENT")
    assert status_of(ModelLoadFailed("no")) == (500, "INTERNAL")
    assert status_of(ModelNotFound("m")) == (404, "NOT_FOUND")
    assert status_of(InvalidModelURI("m")).http == 422
    assert status_of(ModelNotReady("m")) == (503, "UNAVAILABLE")
    assert status_of(ModelNotReady("m"), "mlserver") == (400, "INVALID_ARGUMENT")
