"""The name of a dialect of ModelStreamInfer as a setting."""

from typing import Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from ..extensions import STREAM_DIALECTS, plugins


def _check(value: Any) -> Any:
    names = [repr(name) for name in ("mlserver", *sorted(plugins(STREAM_DIALECTS)))]
    if value is not None and repr(value) not in names:
        expected = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
    return value


INSTALLED_DIALECT = BeforeValidator(_check)
"""The name of a dialect that is installed, or None. The error has the words of a fixed list."""
