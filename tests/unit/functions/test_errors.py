"""Errors of functions that clients are told about, and the place of a function in messages."""

import functools

import pytest

from inferstream.errors import InvalidRequest, ModelError
from inferstream.functions.errors import ErrorMap, not_a_function, source_location


class Missing(KeyError):
    """Below a class that is mapped."""


@pytest.fixture
def errors() -> ErrorMap:
    errors = ErrorMap()
    errors.add(LookupError, 404, None)
    errors.add(KeyError, 410, "gone")
    return errors


def test_nearest_mapped_class_applies(errors: ErrorMap) -> None:
    mapped = errors.translate(Missing("secret"))
    assert isinstance(mapped, ModelError)
    assert (mapped.status_code, mapped.message) == (410, "gone")


def test_default_message_is_the_exception_message(errors: ErrorMap) -> None:
    assert str(errors.translate(IndexError("no such row"))) == "no such row"
    assert str(errors.translate(IndexError())) == "LookupError"


def test_package_errors_are_unchanged(errors: ErrorMap) -> None:
    errors.add(Exception, 500, "anything")
    error = InvalidRequest("x")
    assert errors.translate(error) is error
    assert str(errors.translate(ValueError("x"))) == "anything"


def test_exception_is_the_cause_of_the_client_error(errors: ErrorMap) -> None:
    with pytest.raises(ModelError, match="gone") as caught:
        errors.fail(Missing("secret"))
    assert isinstance(caught.value.__cause__, Missing)
    with pytest.raises(ValueError, match="as it is"):
        errors.fail(ValueError("as it is"))


@pytest.mark.parametrize("status", [200, 399, 600])
def test_status_must_be_an_error_status(status: int) -> None:
    with pytest.raises(ValueError, match=f"{status} is no HTTP status of an error"):
        ErrorMap().add(ValueError, status, None)


def test_only_exceptions_are_mapped() -> None:
    with pytest.raises(TypeError, match="is no class of exceptions"):
        ErrorMap().add(KeyboardInterrupt, 500, None)  # type: ignore[arg-type]


async def test_results_are_checked_inside_the_error_guard(errors: ErrorMap) -> None:
    def check(model: object, argument: int, returned: int) -> int:
        if returned > argument:
            raise KeyError(returned)
        return returned

    async def doubled(model: object, argument: int) -> int:
        return 2 * argument

    guarded = errors.guard(doubled, True, check)
    assert await guarded(None, -1) == -2
    with pytest.raises(ModelError, match="gone"):
        await guarded(None, 1)


def test_method_without_errors_and_check_is_not_wrapped() -> None:
    assert ErrorMap().guard(print, False, None) is print


def test_location_is_of_the_undecorated_function() -> None:
    def below() -> None: ...

    @functools.wraps(below)
    def around() -> None: ...

    line = below.__code__.co_firstlineno
    assert source_location(around).startswith(f"test_errors.py, line {line}, function test_location")
    assert source_location(len) == "function len"


def test_non_function_is_named() -> None:
    assert not_a_function(ErrorMap).message.startswith(
        "errors.py, line 18, class ErrorMap is not a function; hint: "
    )
    assert not_a_function(3).message == "3 is not a function; hint: decorate a `def` or an `async def`"
