"""Setting type for the name of a `ModelStreamInfer` dialect."""

from typing import Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from ..extensions.discovery import plugins
from ..extensions.entries import STREAM_DIALECTS


def _check(value: Any) -> Any:
    names = [repr(name) for name in ("mlserver", *sorted(plugins(STREAM_DIALECTS)))]
    if value is not None and repr(value) not in names:
        expected = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
    return value


INSTALLED_DIALECT = BeforeValidator(_check)
"""Validator that accepts None and the names of installed dialects. Its error has the same format as the error
of a `Literal`."""
