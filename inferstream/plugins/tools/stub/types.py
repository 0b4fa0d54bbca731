"""Writes annotations as source code.

Classes of the app are redeclared, so that the stub does not import the app.
"""

import dataclasses
import enum
import math
import sys
import types
import typing
from collections.abc import Collection, Iterable
from datetime import date, time, timedelta
from typing import Any, Literal, Union

import numpy as np
from pydantic import BaseModel

from inferstream import Token
from inferstream.ext.values import TensorHint

INDENT = "    "

BUILTIN = (str, int, float, bool, bytes, list, dict, tuple, set, frozenset, object)

BARE = {list: "{}", dict: "str, {}", tuple: "{}, ...", set: "{}"}
"""Type parameters of containers that are annotated without any. Strict type checkers require them."""


class TypeSource:
    """The annotations of one stub, and the imports and classes that they need.

    `reserved` are names that the stub already uses.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self.imports: set[str] = set()
        self.classes: list[str] = []
        """Sources of the classes. Base classes and defaults precede their uses."""
        self._names: dict[type, str] = {}
        self._taken = set(reserved)

    def write_annotation(self, hint: Any) -> str:
        """Return the source of an annotation. `Any` if it has no meaning outside the app's code."""
        if hint is None or hint is type(None):
            return "None"
        if isinstance(hint, TensorHint):
            return self._array(hint.dtype)
        if hint is Token:
            return "str"
        hint = _resolve_alias(hint)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is Iterable:
            origin = Collection  # In a stub, an iterable is a stream.
        if origin is typing.Annotated:
            return self.write_annotation(arguments[0])
        if origin is Literal:
            self.imports.add("from typing import Literal")
            return f"Literal[{', '.join(self.write_value(argument) or 'None' for argument in arguments)}]"
        if origin in (Union, types.UnionType):
            return " | ".join(dict.fromkeys(map(self.write_annotation, arguments)))
        if origin is np.ndarray:
            return self._array(typing.get_args(arguments[1])[0])
        if origin is not None and arguments:
            inner = ("..." if argument is ... else self.write_annotation(argument) for argument in arguments)
            name = origin.__name__ if origin in BUILTIN else self._class(origin)
            return f"{name}[{', '.join(inner)}]"
        return self._class(hint) if isinstance(hint, type) else self._any()

    def write_value(self, value: Any) -> str | None:
        """Return the source of a default or literal value. Returns None if it cannot be written."""
        if isinstance(value, enum.Enum):
            return f"{self.write_annotation(type(value))}.{value.name}"
        if type(value) is float and not math.isfinite(value):
            return f'float("{value}")'
        if value is None or type(value) in (str, int, float, bool, bytes):
            return format_literal(value)
        if isinstance(value, date | time | timedelta) and type(value).__module__ == "datetime":
            self.imports.add("import datetime")
            return repr(value)
        if type(value) in (list, tuple):
            parts = [self.write_value(part) for part in value]
            if None in parts:
                return None
            inner = ", ".join(map(str, parts))
            return f"[{inner}]" if type(value) is list else f"({inner}{',' * (len(parts) == 1)})"
        if type(value) is dict:
            keys, parts = [*map(self.write_value, value)], [*map(self.write_value, value.values())]
            if None in keys or None in parts:
                return None
            pairs = (f"{key}: {part}" for key, part in zip(keys, parts, strict=True))
            return f"{{{', '.join(pairs)}}}"
        return None

    def _array(self, dtype: Any) -> str:
        self.imports.add("import numpy.typing as npt")
        if dtype is None:
            return f"npt.NDArray[{self._any()}]"
        self.imports.add("import numpy as np")
        name = np.dtype(dtype).type.__name__
        return f"npt.NDArray[np.{'bool_' if name == 'bool' else name}]"

    def _any(self) -> str:
        self.imports.add("from typing import Any")
        return "Any"

    def _class(self, kind: Any) -> str:
        if kind in BARE:
            return f"{kind.__name__}[{BARE[kind].format(self._any())}]"
        if kind in BUILTIN:
            return str(kind.__name__)
        if kind in self._names:
            return self._names[kind]
        module, name = kind.__module__, kind.__qualname__
        package = module.partition(".")[0]
        if (package, name) == ("pandas", "DataFrame"):
            self.imports.add("import pandas as pd")
            return "pd.DataFrame"
        if (package, name) == ("PIL", "Image"):
            self.imports.add("import PIL.Image")
            return "PIL.Image.Image"
        if issubclass(kind, np.generic):
            self.imports.add("import numpy as np")
            return f"np.{'bool_' if name == 'bool' else name}"
        if package in sys.stdlib_module_names and module != "__main__":
            self.imports.add(f"import {module}")
            return f"{module}.{name}"
        return self._redeclare(kind)

    def _redeclare(self, kind: type) -> str:
        """Redeclare a class of the app, and return its name."""
        declare = self._declare(kind)
        if declare is None:
            return self._any()
        name, number = kind.__name__, 2
        while name in self._taken:
            name, number = f"{kind.__name__}{number}", number + 1
        self._taken.add(name)
        self._names[kind] = name  # Before its fields, which may refer to it.
        head, lines = declare(kind, name)
        text = kind.__doc__ or ""
        generated = text.startswith(f"{kind.__name__}(") or text == enum.Enum.__doc__
        doc = [f"{quote_docstring(text, INDENT)}\n"] if text and not generated else []
        self.classes.append("\n".join([*head, *doc, *(f"{INDENT}{line}" for line in lines or ["pass"])]))
        return name

    def _declare(self, kind: type) -> Any:
        if issubclass(kind, enum.Enum):
            return self._enum
        if issubclass(kind, BaseModel):
            return self._model
        if dataclasses.is_dataclass(kind):
            return self._dataclass
        if typing.is_typeddict(kind) or hasattr(kind, "__required_keys__"):
            return self._typed_dict
        return self._named_tuple if issubclass(kind, tuple) and hasattr(kind, "_fields") else None

    def _enum(self, kind: type[enum.Enum], name: str) -> tuple[list[str], list[str]]:
        self.imports.add("import enum")
        base = next((base for base in (enum.StrEnum, enum.IntEnum) if issubclass(kind, base)), None)
        mixed = next((base for base in (str, int, float) if issubclass(kind, base)), None)
        bases = f"enum.{base.__name__}" if base else f"{mixed.__name__}, enum.Enum" if mixed else "enum.Enum"
        return [f"class {name}({bases}):"], [
            f"{member.name} = {format_literal(member.value)}" for member in kind
        ]

    def _dataclass(self, kind: Any, name: str) -> tuple[list[str], list[str]]:
        hints = typing.get_type_hints(kind)
        fields = []
        for field in dataclasses.fields(kind):
            default = None
            if field.default is not dataclasses.MISSING:
                default = self.write_value(field.default)
            elif field.default_factory in (list, dict, set):
                default = f"dataclasses.field(default_factory={field.default_factory.__name__})"
            if field.init:
                fields.append((field.name, self.write_annotation(hints[field.name]), default))
        self.imports.add("import dataclasses")
        return [f"@dataclasses.dataclass{_by_name(fields)}", f"class {name}:"], _lines(fields)

    def _model(self, kind: type[BaseModel], name: str) -> tuple[list[str], list[str]]:
        self.imports.add("from pydantic import BaseModel")
        fields = []
        for field_name, field in kind.model_fields.items():
            default = (
                None
                if field.is_required()
                else self.write_value(field.get_default(call_default_factory=False))
            )
            if field.default_factory in (list, dict, set):
                default = "[]" if field.default_factory is list else f"{field.default_factory.__name__}()"
            fields.append((field_name, self.write_annotation(field.annotation), default))
        return [f"class {name}(BaseModel):"], _lines(fields)

    def _typed_dict(self, kind: Any, name: str) -> tuple[list[str], list[str]]:
        # Before Python 3.12, pydantic rejects `typing.TypedDict`.
        self.imports.add("from typing_extensions import TypedDict")
        lines = []
        for key, hint in typing.get_type_hints(kind).items():
            written = self.write_annotation(hint)
            if key not in kind.__required_keys__:
                self.imports.add("from typing_extensions import NotRequired")
                written = f"NotRequired[{written}]"
            lines.append(f"{key}: {written}")
        return [f"class {name}(TypedDict):"], lines

    def _named_tuple(self, kind: Any, name: str) -> tuple[list[str], list[str]]:
        self.imports.add("from typing import NamedTuple")
        hints = typing.get_type_hints(kind)
        defaults = {key: self.write_value(value) for key, value in kind._field_defaults.items()}
        fields = [
            (field, self.write_annotation(hints.get(field, Any)), defaults.get(field))
            for field in kind._fields
        ]
        return [f"class {name}(NamedTuple):"], _lines(fields)


def _resolve_alias(hint: Any) -> Any:
    """Return the annotation behind a `NewType` or `type` statement, such as NumPy's `NDArray` since NumPy 2.5."""
    while (behind := getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)) is not None:
        arguments = typing.get_args(hint)
        hint = behind[arguments] if arguments else behind
    return hint


def _lines(fields: list[tuple[str, str, str | None]]) -> list[str]:
    return [f"{name}: {hint}" + (f" = {default}" if default else "") for name, hint, default in fields]


def _by_name(fields: list[tuple[str, str, str | None]]) -> str:
    """Return `(kw_only=True)` if a field without a default follows one with a default, otherwise ""."""
    defaults = [default is not None for _, _, default in fields]
    return "" if defaults == sorted(defaults) else "(kw_only=True)"


def format_literal(value: Any) -> str:
    """Return the source of a literal, with double quotes if no escaping is needed."""
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def quote_docstring(text: str, indent: str) -> str:
    """Return the source of a docstring, with its quotes."""
    lines = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').strip().splitlines()
    shown = [lines[0], *(f"{indent}{line}".rstrip() for line in lines[1:])] if lines else [""]
    closing = f"\n{indent}" if len(shown) > 1 or shown[0].endswith('"') else ""
    return f'{indent}"""' + "\n".join(shown) + closing + '"""'
