"""Stream items with a name or a media type."""

import re
from types import UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np

from ..protos.sse import EVENT, MEDIA_TYPE, is_name

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;\s*[\w.+-]+=[\w.+-]+)*", re.ASCII)

SCALARS = (str, int, float, bool)


class Event:
    """A stream item with a name, media type or parameters. Functions can mix events and plain values.

    `name` becomes the `event:` line of server-sent events, and the response parameter `event`. `value`, if
    any, is an item of the declared type. `media_type` describes its bytes. All other arguments become
    parameters of the response, and must be strings, numbers or booleans.

        yield Event("progress", done=3, of=10)
        yield Event("frame", jpeg, media_type="image/jpeg")

    Raises ValueError for a name that is not a word, or that is `error`, `end` or `message`.
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
    """Return an annotation without `Event`: `str` for `str | Event`, and None for `Event`."""
    if hint is Event:
        return None
    if get_origin(hint) in (Union, UnionType) and Event in get_args(hint):
        return Union[tuple(each for each in get_args(hint) if each is not Event)]  # noqa: UP007  # made at run time
    return hint
