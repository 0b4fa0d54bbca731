"""Server-sent events, and the names that models may give them."""

import pytest

from inferstream.protos.sse import event, is_name, named_event, response_event
from inferstream.types import Parameters


@pytest.mark.parametrize("name", ["token", "a.b:c/d-e", "x" * 64])
def test_response_may_name_its_event(name: str) -> None:
    assert is_name(name)
    parameters = Parameters(event=name)
    assert (
        response_event(parameters, b"{}")
        == named_event(name, b"{}")
        == f"event: {name}\ndata: {{}}\n\n".encode()
    )


@pytest.mark.parametrize("name", ["error", "end", "message", "", "a b", "a\nb", "é", "x" * 65, "-a", 5, None])
def test_reserved_or_multi_word_event_name_is_ignored(name: object) -> None:
    assert not is_name(name)
    assert response_event(Parameters(event=name), b"{}") == event(b"{}") == b"data: {}\n\n"


def test_response_without_parameters_is_a_plain_event() -> None:
    assert (
        response_event(None, b"1") == response_event(Parameters(content_type="str"), b"1") == b"data: 1\n\n"
    )
