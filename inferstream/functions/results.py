"""Results of functions: the outputs in metadata, and the response for each value."""

import typing
from collections.abc import Mapping
from typing import Any

from ..codecs.values.base import Value, reason
from ..codecs.values.hints import format_hint, value_for, without_none
from ..codecs.values.scalars import Binary, Boolean, Number, Text
from ..errors import CodecError, InvalidOutput
from ..signature import Tensors
from ..tokens import Token, TokenWriter
from ..types import InferenceResponse, Parameters, ResponseOutput
from ..types.forms import KINDS, OutputForm
from .event import Event, without_event

OUTPUT = "output"
"""The name of a single output."""

PLAIN = (Binary, Boolean, Number, Text)
"""Value types that fit a form, so that only the Python type is checked before a value is sent."""


class Results:
    """The outputs of a function.

    `hint` is the annotation of its return value, or of an item of its stream. If `by_item` is set, lists
    contain batch items. Raises TypeError for an unsupported type.
    """

    def __init__(self, hint: Any, by_item: bool = False) -> None:
        self.hint = hint = without_event(hint)
        self._by_item = by_item
        self.free = hint is InferenceResponse
        """Whether the function itself builds its responses."""
        bare, self.takes_none = without_none(hint)
        self.token = _is_token(bare)
        self.values: dict[str, Value] = {}
        self.optional: set[str] = set()
        """Names of outputs that may be absent."""
        self.several = _is_tuple(bare)
        if not self.free and bare not in (None, type(None)):
            self.values = {name: self._value(name, part) for name, part in _parts(bare).items()}

    def _value(self, name: str, hint: Any) -> Value:
        bare, takes_none = without_none(hint)
        if takes_none:
            self.optional.add(name)
        return Text() if _is_token(bare) else value_for(bare, self._by_item)

    @property
    def only(self) -> Value | None:
        """The `Value` of a single output, else None."""
        return None if self.several or not self.values else self.values[OUTPUT]

    def tensors(self) -> Tensors | None:
        """Return the declared outputs. Returns None if the function builds its responses itself."""
        if self.free:
            return None
        return tuple(value.tensor(name) for name, value in self.values.items())

    def join(self, values: Mapping[str, Any]) -> Any:
        """Combine several outputs into the function's return value: a tuple, or its NamedTuple."""
        bare, _ = without_none(self.hint)
        ordered = [values[name] for name in self.values]
        return bare(*ordered) if isinstance(bare, type) and hasattr(bare, "_fields") else tuple(ordered)


class ResultWriter:
    """Builds responses from the values of one loaded model."""

    def __init__(self, results: Results, model: str, version: str | None) -> None:
        self._results = results
        self._model = model
        self._version = version
        only = results.only
        self.form: OutputForm | None = None
        if only is not None and type(only) in PLAIN and only.datatype in KINDS:
            self.form = OutputForm(model, version, OUTPUT, only.datatype, (1,), isinstance(only, Binary))
        declared = results.tensors() or ()
        self._texts = TokenWriter(model, version, declared) if isinstance(only, Text) else None

    def write(self, value: Any) -> InferenceResponse | None:
        """Return the response for a value. Raises InvalidOutput for a value of the wrong type."""
        if isinstance(value, Token) and self._texts is not None:
            return self._texts.write(value)
        parameters = None
        if type(value) is Event:
            parameters, value = Parameters.of(dict(value.parameters)), value.value
        outputs = [] if value is None and parameters is not None else self._outputs(value)
        return InferenceResponse.of(self._model, outputs, self._version, None, parameters)

    def _outputs(self, value: Any) -> list[ResponseOutput]:
        results = self._results
        if value is None and not results.free and (results.takes_none or not results.values):
            return []
        try:
            if results.free:
                raise TypeError("it is no InferenceResponse")
            if not results.values:
                raise TypeError("it is declared to return nothing")
            if not results.several:
                return [results.values[OUTPUT].encode_output(OUTPUT, value)]
            if not isinstance(value, tuple | list) or len(value) != len(results.values):
                names = ", ".join(f'"{name}"' for name in results.values)
                raise TypeError(f"it is declared to return {len(results.values)} values, the outputs {names}")
            pairs = zip(results.values.items(), value, strict=True)
            return [
                kind.encode_output(name, part)
                for (name, kind), part in pairs
                if part is not None or name not in results.optional
            ]
        except (TypeError, ValueError, CodecError) as error:
            kind, annotated = type(value).__name__, format_hint(results.hint)
            where = "that does not fit" if kind == annotated else f"where its annotation says {annotated}"
            raise InvalidOutput(
                f"Model {self._model} returned a value of type {kind} {where}: {reason(error)}."
            ) from error


def _is_token(hint: Any) -> bool:
    """Whether a hint is `Token`, or `Token | str`."""
    return hint is Token or set(typing.get_args(hint)) == {Token, str}


def _is_tuple(hint: Any) -> bool:
    fields = isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")
    return fields or (typing.get_origin(hint) is tuple and ... not in typing.get_args(hint))


def _parts(hint: Any) -> dict[str, Any]:
    """Return the outputs by name.

    Names are the fields of a NamedTuple, `output_0`, `output_1`, … for a tuple, and otherwise `output`.
    """
    if not _is_tuple(hint):
        return {OUTPUT: hint}
    if typing.get_origin(hint) is tuple:
        return {f"{OUTPUT}_{index}": part for index, part in enumerate(typing.get_args(hint))}
    return dict(typing.get_type_hints(hint, include_extras=True))
