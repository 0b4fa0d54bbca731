"""Writes annotations as source. Classes of an app's own code are declared again, so that a stub does not import it."""

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
"""Parameters of containers that an annotation names without any, which strict type checkers refuse."""


class TypeSource:
    """The annotations of one stub, with the imports and the classes that they need.

    `reserved` are names that the stub uses for other things.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self.imports: set[str] = set()
        self.classes: list[str] = []
        """Source of each class, in an order in which bases and defaults precede their uses."""
        self._names: dict[type, str] = {}
        self._taken = set(reserved)

    def written(self, hint: Any) -> str:
        """The source of an annotation; `Any` for one that means nothing outside the app's code."""
        if hint is None or hint is type(None):
            return "None"
        if isinstance(hint, TensorHint):
            return self._array(hint.dtype)
        if hint is Token:
            return "str"
        hint = _resolve_alias(hint)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is Iterable:
            origin = Collection  # in a stub, an iterable is a stream
        if origin is typing.Annotated:
            return self.written(arguments[0])
        if origin is Literal:
            self.imports.add("from typing import Literal")
            return f"Literal[{', '.join(self.value(argument) or 'None' for argument in arguments)}]"
        if origin in (Union, types.UnionType):
            return " | ".join(dict.fromkeys(map(self.written, arguments)))
        if origin is np.ndarray:
            return self._array(typing.get_args(arguments[1])[0])
        if origin is not None and arguments:
            inner = ("..." if argument is ... else self.written(argument) for argument in arguments)
            name = origin.__name__ if origin in BUILTIN else self._class(origin)
            return f"{name}[{', '.join(inner)}]"
        return self._class(hint) if isinstance(hint, type) else self._any()

    def value(self, value: Any) -> str | None:
        """The source of a default or a literal; None if it has none."""
        if isinstance(value, enum.Enum):
            return f"{self.written(type(value))}.{value.name}"
        if type(value) is float and not math.isfinite(value):
            return f'float("{value}")'
        if value is None or type(value) in (str, int, float, bool, bytes):
            return literal(value)
        if isinstance(value, date | time | timedelta) and type(value).__module__ == "datetime":
            self.imports.add("import datetime")
            return repr(value)
        if type(value) in (list, tuple):
            parts = [self.value(part) for part in value]
            if None in parts:
                return None
            inner = ", ".join(map(str, parts))
            return f"[{inner}]" if type(value) is list else f"({inner}{',' * (len(parts) == 1)})"
        if type(value) is dict:
            keys, parts = [*map(self.value, value)], [*map(self.value, value.values())]
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
        return self._declared(kind)

    def _declared(self, kind: type) -> str:
        """The name of a class of the app, which is declared again."""
        declare = self._declaration_of(kind)
        if declare is None:
            return self._any()
        name, number = kind.__name__, 2
        while name in self._taken:
            name, number = f"{kind.__name__}{number}", number + 1
        self._taken.add(name)
        self._names[kind] = name  # before its fields, which may name it
        head, lines = declare(kind, name)
        text = kind.__doc__ or ""
        generated = text.startswith(f"{kind.__name__}(") or text == enum.Enum.__doc__
        doc = [f"{quoted(text, INDENT)}\n"] if text and not generated else []
        self.classes.append("\n".join([*head, *doc, *(f"{INDENT}{line}" for line in lines or ["pass"])]))
        return name

    def _declaration_of(self, kind: type) -> Any:
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
        return [f"class {name}({bases}):"], [f"{member.name} = {literal(member.value)}" for member in kind]

    def _dataclass(self, kind: Any, name: str) -> tuple[list[str], list[str]]:
        hints = typing.get_type_hints(kind)
        fields = []
        for field in dataclasses.fields(kind):
            default = None
            if field.default is not dataclasses.MISSING:
                default = self.value(field.default)
            elif field.default_factory in (list, dict, set):
                default = f"dataclasses.field(default_factory={field.default_factory.__name__})"
            if field.init:
                fields.append((field.name, self.written(hints[field.name]), default))
        self.imports.add("import dataclasses")
        return [f"@dataclasses.dataclass{_by_name(fields)}", f"class {name}:"], _lines(fields)

    def _model(self, kind: type[BaseModel], name: str) -> tuple[list[str], list[str]]:
        self.imports.add("from pydantic import BaseModel")
        fields = []
        for field_name, field in kind.model_fields.items():
            default = (
                None if field.is_required() else self.value(field.get_default(call_default_factory=False))
            )
            if field.default_factory in (list, dict, set):
                default = "[]" if field.default_factory is list else f"{field.default_factory.__name__}()"
            fields.append((field_name, self.written(field.annotation), default))
        return [f"class {name}(BaseModel):"], _lines(fields)

    def _typed_dict(self, kind: Any, name: str) -> tuple[list[str], list[str]]:
        # pydantic refuses the class of `typing` before Python 3.12.
        self.imports.add("from typing_extensions import TypedDict")
        lines = []
        for key, hint in typing.get_type_hints(kind).items():
            written = self.written(hint)
            if key not in kind.__required_keys__:
                self.imports.add("from typing_extensions import NotRequired")
                written = f"NotRequired[{written}]"
            lines.append(f"{key}: {written}")
        return [f"class {name}(TypedDict):"], lines

    def _named_tuple(self, kind: Any, name: str) -> tuple[list[str], list[str]]:
        self.imports.add("from typing import NamedTuple")
        hints = typing.get_type_hints(kind)
        defaults = {key: self.value(value) for key, value in kind._field_defaults.items()}
        fields = [(field, self.written(hints.get(field, Any)), defaults.get(field)) for field in kind._fields]
        return [f"class {name}(NamedTuple):"], _lines(fields)


def _resolve_alias(hint: Any) -> Any:
    """The annotation behind a `NewType` or a `type` statement, such as numpy's `NDArray` since numpy 2.5."""
    while (behind := getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)) is not None:
        arguments = typing.get_args(hint)
        hint = behind[arguments] if arguments else behind
    return hint


def _lines(fields: list[tuple[str, str, str | None]]) -> list[str]:
    return [f"{name}: {hint}" + (f" = {default}" if default else "") for name, hint, default in fields]


def _by_name(fields: list[tuple[str, str, str | None]]) -> str:
    """`(kw_only=True)` where a field without a default follows one with a default."""
    defaults = [default is not None for _, _, default in fields]
    return "" if defaults == sorted(defaults) else "(kw_only=True)"


def literal(value: Any) -> str:
    """A literal, with double quotes where that is simple."""
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def quoted(text: str, indent: str) -> str:
    """A docstring with its quotes."""
    lines = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').strip().splitlines()
    shown = [lines[0], *(f"{indent}{line}".rstrip() for line in lines[1:])] if lines else [""]
    closing = f"\n{indent}" if len(shown) > 1 or shown[0].endswith('"') else ""
    return f'{indent}"""' + "\n".join(shown) + closing + '"""'
