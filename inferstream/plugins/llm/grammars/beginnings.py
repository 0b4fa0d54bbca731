"""Forced starts of the output, and the format of the rest."""

from typing import NamedTuple

from inferstream.plugins.text.calls.formats import find_call_opening, find_text_opening
from inferstream.plugins.text.calls.strict import build_strict_format
from inferstream.plugins.text.fields import field_error
from inferstream.plugins.text.inputs import RESPONSE_FORMAT, TOOLS


class Beginning(NamedTuple):
    """The start of the output and the format of the rest. `name` is the request field of the format.

    If `opening` is None, the model may reason first.
    """

    opening: str | None = None
    form: str | None = None
    name: str = RESPONSE_FORMAT


class Beginnings:
    """Determines how the output starts for a tool call format. `forms`: whether the model supports grammars."""

    def __init__(self, calls: str | None, forms: bool) -> None:
        self._calls = calls
        self._forms = forms

    def of(
        self,
        choice: object,
        tools: str | None,
        form: str | None,
        chat: bool,
        field: str = RESPONSE_FORMAT,
    ) -> Beginning:
        """Return the start for a `tool_choice` and the inputs `tools` and `response_format`.

        `chat` is true if the request has messages. `field` is the client's name for the format. A forced tool
        call takes precedence over a format. Raises InvalidRequest.
        """
        if tools is not None and (call := self._call(choice, tools)) is not None:
            return call
        begun = None if form is None or not chat else find_text_opening(self._calls)
        return Beginning(begun, form, field)

    def _call(self, choice: object, tools: str) -> Beginning | None:
        try:
            begun = find_call_opening(self._calls, choice)
        except ValueError as error:
            raise field_error("tool_choice", str(error)) from error
        if not begun:
            return None
        try:
            strict = build_strict_format(self._calls, tools, choice) if self._forms else None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise field_error(TOOLS, f"{TOOLS} cannot be read") from error
        if strict is None:
            return Beginning(begun)
        return Beginning(find_call_opening(self._calls, "required"), strict, TOOLS)
