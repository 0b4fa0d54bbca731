"""Beginnings of answers by what their requests ask for, and the form of what follows."""

from typing import NamedTuple

from ...text.calls.formats import opening, opening_of_text
from ...text.calls.strict import strict_form
from ...text.fields import refused
from ...text.inputs import RESPONSE_FORMAT, TOOLS


class Beginning(NamedTuple):
    """The beginning of an answer, and the form of what follows, which `name` asked for. None lets the model think."""

    opening: str | None = None
    form: str | None = None
    name: str = RESPONSE_FORMAT


class Beginnings:
    """Those of a model that writes calls in this format. `forms` says whether it takes any."""

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
        """By a `tool_choice`, the inputs `tools` and `response_format`, and whether messages are answered.

        `field` is what the client calls its form. A call that has to come goes before a form. Raises InvalidRequest.
        """
        if tools is not None and (call := self._call(choice, tools)) is not None:
            return call
        begun = None if form is None or not chat else opening_of_text(self._calls)
        return Beginning(begun, form, field)

    def _call(self, choice: object, tools: str) -> Beginning | None:
        try:
            begun = opening(self._calls, choice)
        except ValueError as error:
            raise refused("tool_choice", str(error)) from error
        if not begun:
            return None
        try:
            strict = strict_form(self._calls, tools, choice) if self._forms else None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise refused(TOOLS, f"{TOOLS} cannot be read") from error
        if strict is None:
            return Beginning(begun)
        return Beginning(opening(self._calls, "required"), strict, TOOLS)
