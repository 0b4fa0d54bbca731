"""The name of a dialect of ModelStreamInfer as a setting."""

from typing import Any

from pydantic_core import PydanticCustomError

from ..extensions import STREAM_DIALECTS, plugins


def check_stream_dialect(value: Any) -> Any:
    """The name of a dialect that is installed, or None, with the message of a fixed list for another."""
    names = [repr(name) for name in ("mlserver", *sorted(plugins(STREAM_DIALECTS)))]
    if value is not None and repr(value) not in names:
        expected = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
    return value
