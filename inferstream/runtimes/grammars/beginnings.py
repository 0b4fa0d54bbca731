"""Beginnings of answers by what their requests ask for, and the form of what follows."""

from typing import NamedTuple

from ...text.calls.formats import opening, opening_of_text, unopened
from ...text.calls.strict import strict_form
from ...text.inputs import RESPONSE_FORMAT, TOOLS
from ..sampling import refused


class Beginning(NamedTuple):
    """The end of a prompt that is the beginning of its text, and the form of what follows, which `name` asked for."""

    opening: str = ""
    form: str | None = None
    name: str = RESPONSE_FORMAT


class Beginnings:
    """Those of a model that writes calls and reasoning in these formats. `forms` says whether it takes any."""

    def __init__(self, calls: str | None, reasoning: str | None, forms: bool) -> None:
        self._calls = calls
        self._reasoning = reasoning
        self._forms = forms

    def of(
        self,
        choice: object,
        tools: str | None,
        form: str | None,
        chat: bool,
        field: str = RESPONSE_FORMAT,
        closed: bool = False,
    ) -> Beginning:
        """By a `tool_choice`, the inputs `tools` and `response_format`, and whether messages are answered.

        `field` is what the client calls its form. A call that has to come goes before a form. `closed` says that
        the prompt opens no reasoning. Raises InvalidRequest.
        """
        reasoning = unopened(self._reasoning) if closed else self._reasoning
        if tools is not None and (call := self._call(choice, tools, reasoning)) is not None:
            return call
        begun = "" if form is None or not chat else opening_of_text(self._calls, reasoning)
        return Beginning(begun, form, field)

    def _call(self, choice: object, tools: str, reasoning: str | None) -> Beginning | None:
        try:
            begun = opening(self._calls, reasoning, choice)
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
        return Beginning(opening(self._calls, reasoning, "required"), strict, TOOLS)
