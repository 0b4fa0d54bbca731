"""The codes of gRPC, and how much of an error's message fits into the header it travels in."""

from urllib.parse import quote

import grpc
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import ModelNotReady
from inferstream.server.grpc.statuses import ELLIPSIS, LONGEST_MESSAGE, StatusCode, grpc_status, shortened

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


def test_the_codes_are_those_of_grpc() -> None:
    theirs = {code.name: code.value[0] for code in grpc.StatusCode}
    assert {code.name: code.value for code in StatusCode} == theirs


def test_an_error_of_ours_has_its_message_and_any_other_has_none() -> None:
    error = ModelNotReady("m")
    assert grpc_status(error) == (StatusCode.UNAVAILABLE, error.message)
    assert grpc_status(error, "mlserver")[0] is StatusCode.INVALID_ARGUMENT
    assert grpc_status(ValueError("secret")) == (
        StatusCode.INTERNAL,
        "The server failed; its log says why.",
    )
