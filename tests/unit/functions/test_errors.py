"""Errors of functions that clients are told about, and the place of a function in messages."""

import functools

import pytest

from inferstream.errors import InvalidRequest, ModelError
from inferstream.functions.errors import ErrorMap, location_of, no_function


class Missing(KeyError):
    """Below a class that is mapped."""


@pytest.fixture
def errors() -> ErrorMap:
    errors = ErrorMap()
    errors.add(LookupError, 404, None)
    errors.add(KeyError, 410, "gone")
    return errors


def test_the_nearest_class_counts(errors: ErrorMap) -> None:
    mapped = errors.translated(Missing("secret"))
    assert isinstance(mapped, ModelError)
    assert (mapped.status_code, mapped.message) == (410, "gone")


def test_without_a_message_the_client_gets_that_of_the_exception(errors: ErrorMap) -> None:
    assert str(errors.translated(IndexError("no such row"))) == "no such row"
    assert str(errors.translated(IndexError())) == "LookupError"


def test_errors_of_the_package_stay_as_they_are(errors: ErrorMap) -> None:
    errors.add(Exception, 500, "anything")
    error = InvalidRequest("x")
    assert errors.translated(error) is error
    assert str(errors.translated(ValueError("x"))) == "anything"


def test_the_exception_is_the_cause_of_what_clients_get(errors: ErrorMap) -> None:
    with pytest.raises(ModelError, match="gone") as caught:
        errors.fail(Missing("secret"))
    assert isinstance(caught.value.__cause__, Missing)
    with pytest.raises(ValueError, match="as it is"):
        errors.fail(ValueError("as it is"))


@pytest.mark.parametrize("status", [200, 399, 600])
def test_a_status_is_one_of_an_error(status: int) -> None:
    with pytest.raises(ValueError, match=f"{status} is no HTTP status of an error"):
        ErrorMap().add(ValueError, status, None)


def test_only_exceptions_are_mapped() -> None:
    with pytest.raises(TypeError, match="is no class of exceptions"):
        ErrorMap().add(KeyboardInterrupt, 500, None)  # type: ignore[arg-type]


async def test_results_are_checked_inside_of_the_guard(errors: ErrorMap) -> None:
    def check(model: object, argument: int, returned: int) -> int:
        if returned > argument:
            raise KeyError(returned)
        return returned

    async def doubled(model: object, argument: int) -> int:
        return 2 * argument

    guarded = errors.guarded(doubled, True, check)
    assert await guarded(None, -1) == -2
    with pytest.raises(ModelError, match="gone"):
        await guarded(None, 1)


def test_a_method_without_errors_and_check_is_not_wrapped() -> None:
    assert ErrorMap().guarded(print, False, None) is print


def test_a_location_is_that_of_the_function_below_its_decorators() -> None:
    def below() -> None: ...

    @functools.wraps(below)
    def around() -> None: ...

    line = below.__code__.co_firstlineno
    assert location_of(around).startswith(f"test_errors.py, line {line}, function test_a_location")
    assert location_of(len) == "function len"


def test_what_is_no_function_is_named() -> None:
    assert no_function(ErrorMap).message == "class inferstream.functions.errors.ErrorMap is no function"
    assert no_function(3).message == "3 is no function"
