"""Tracebacks show the frames of the user, and the log at debug level all."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferstream.dataplane.stages.access_log import AccessLog
from inferstream.imports.implementation import import_shared_module
from inferstream.telemetry.access import AccessLines
from inferstream.telemetry.logs import JSONFormatter, LineFormatter
from inferstream.telemetry.tracebacks import format_own_frames, is_of_server
from inferstream.types import InferenceRequest


def failing() -> None:
    """Raises through a frame of the server's own package, with a cause."""
    try:
        InferenceRequest.model_validate({"inputs": 7})
    except ValueError as error:
        raise RuntimeError("no weights") from error


def raised() -> BaseException:
    try:
        failing()
    except RuntimeError as error:
        return error
    raise AssertionError


async def through_the_server() -> BaseException:
    """An error of this file that passed through a file of the server."""

    async def inner(call: object) -> None:
        raise KeyError("mine")

    call = type("Call", (), dict.fromkeys(("dialect", "model", "version", "principal", "trace"), None))()
    call.operation, call.request = None, type("Request", (), {"id": ""})()
    try:
        await AccessLog(inner, AccessLines())(call)
    except KeyError as error:
        return error
    raise AssertionError


async def test_server_frames_are_omitted_and_counted() -> None:
    error = await through_the_server()
    text = format_own_frames(error)
    assert "KeyError: 'mine'" in text
    assert "in inner" in text
    assert "access_log.py" not in text
    assert text.endswith("1 frame of the server left out; --debug shows them")
    assert error.__traceback__.tb_next is not None, "the error itself is unchanged"


def test_exception_chain_is_kept() -> None:
    text = format_own_frames(raised())
    assert "ValidationError" in text
    assert "The above exception was the direct cause" in text
    assert text.index("ValidationError") < text.index("RuntimeError: no weights")
    assert "types/payload.py" not in text


def test_traceback_without_user_frames_is_complete() -> None:
    error = ValueError("x")
    assert format_own_frames(error) == "ValueError: x"
    assert is_of_server(sys.modules["inferstream.telemetry.logs"].__file__)
    assert not is_of_server(__file__)


def test_syntax_error_shows_its_location(tmp_path: Path) -> None:
    (tmp_path / "broken_syntax.py").write_text("x = (\n")
    try:
        import_shared_module("broken_syntax", str(tmp_path / "broken_syntax.py"))
    except SyntaxError as error:
        error.__traceback__ = error.__traceback__.tb_next  # without the frame of this file
        text = format_own_frames(error)
    assert "inferstream/" not in text
    assert f'File "{tmp_path}/broken_syntax.py", line 1' in text
    assert "of the server left out" in text


@pytest.fixture
def level() -> Iterator[logging.Logger]:
    logger = logging.getLogger("inferstream")
    before = logger.level
    yield logger
    logger.setLevel(before)


def test_debug_and_json_have_the_full_traceback(level: logging.Logger) -> None:
    error = raised()
    made = logging.LogRecord("x", logging.ERROR, "", 0, "m", (), (type(error), error, error.__traceback__))
    level.setLevel(logging.INFO)
    assert "types/payload.py" not in LineFormatter().format(made)
    assert "left out" in LineFormatter().format(made)
    assert "types/payload.py" in JSONFormatter().format(made)
    level.setLevel(logging.DEBUG)
    assert "types/payload.py" in LineFormatter().format(made)
