"""Items of streams that have a name, or say what their bytes are."""

import re
from types import UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np

from ..protos.sse import EVENT, MEDIA_TYPE, is_name

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;\s*[\w.+-]+=[\w.+-]+)*", re.ASCII)

SCALARS = (str, int, float, bool)


class Event:
    """An item that a function yields to its stream beside plain values.

    `name` becomes the `event:` line of server-sent events, and the parameter `event` of the response. `value`, if any,
    is an item of the type that the function declares. `media_type` says what its bytes are. All further arguments are
    parameters of the response: texts, numbers and booleans.

        yield Event("progress", done=3, of=10)
        yield Event("frame", jpeg, media_type="image/jpeg")

    Raises ValueError for a name that is no word, or is `error`, `end` or `message`.
    """

    __slots__ = ("parameters", "value")

    def __init__(
        self, name: str | None = None, value: Any = None, *, media_type: str | None = None, **parameters: Any
    ) -> None:
        if name is not None and not is_name(name):
            raise ValueError(f"{name!r} is no name of an event")
        if media_type is not None and not _MEDIA_TYPE.fullmatch(media_type):
            raise ValueError(f"{media_type!r} is no media type")
        for key, parameter in parameters.items():
            if isinstance(parameter, np.generic):
                parameters[key] = parameter.item()
            elif not isinstance(parameter, SCALARS):
                raise ValueError(
                    f'parameter "{key}" of an event is a {type(parameter).__name__}, not a scalar'
                )
        self.value = value
        self.parameters: dict[str, Any] = {}
        if name is not None:
            self.parameters[EVENT] = name
        if media_type is not None:
            self.parameters[MEDIA_TYPE] = media_type
        self.parameters |= parameters

    @property
    def name(self) -> str | None:
        return self.parameters.get(EVENT)

    def __repr__(self) -> str:
        return f"Event({self.value!r}, {self.parameters!r})"


def without_event(hint: Any) -> Any:
    """An annotation without `Event`: `str` for `str | Event`, and None for `Event`."""
    if hint is Event:
        return None
    if get_origin(hint) in (Union, UnionType) and Event in get_args(hint):
        return Union[tuple(each for each in get_args(hint) if each is not Event)]  # noqa: UP007  # made at run time
    return hint
