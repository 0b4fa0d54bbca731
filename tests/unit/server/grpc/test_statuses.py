"""The codes of gRPC, and how much of an error's message fits into the header it travels in."""

from urllib.parse import quote

import grpc
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import ModelNotReady
from inferstream.server.grpc.statuses import ELLIPSIS, MAX_MESSAGE_LENGTH, StatusCode, grpc_status, truncate

AS_IT_IS = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
TEXTS = st.builds(
    lambda words, times: words * times,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    st.integers(1, 5000),
)


@given(TEXTS)
def test_status_message_is_truncated_to_fit(message: str) -> None:
    kept = truncate(message)

    assert len(quote(kept, safe=AS_IT_IS)) <= MAX_MESSAGE_LENGTH
    assert kept == message or message.startswith(kept.removesuffix(ELLIPSIS))


@given(TEXTS)
def test_only_oversized_messages_are_truncated(message: str) -> None:
    fits = len(quote(message, safe=AS_IT_IS)) <= MAX_MESSAGE_LENGTH
    assert (truncate(message) == message) == fits


def test_truncated_message_ends_with_ellipsis() -> None:
    assert truncate("x" * MAX_MESSAGE_LENGTH) == "x" * MAX_MESSAGE_LENGTH
    assert truncate("x" * (MAX_MESSAGE_LENGTH + 1)).endswith("x" + ELLIPSIS)
    assert set(truncate("日" * MAX_MESSAGE_LENGTH)) == {"日", ELLIPSIS}


def test_status_codes_match_grpc() -> None:
    theirs = {code.name: code.value[0] for code in grpc.StatusCode}
    assert {code.name: code.value for code in StatusCode} == theirs


def test_package_errors_keep_their_message_and_others_do_not() -> None:
    error = ModelNotReady("m")
    assert grpc_status(error) == (StatusCode.UNAVAILABLE, error.message)
    assert grpc_status(error, "mlserver")[0] is StatusCode.INVALID_ARGUMENT
    assert grpc_status(ValueError("secret")) == (
        StatusCode.INTERNAL,
        "The server failed; its log says why.",
    )
