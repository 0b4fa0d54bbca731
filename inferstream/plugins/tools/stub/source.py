"""Generates the source of a stub: a Python module with a synchronous and an asynchronous client class."""

import inspect
import keyword
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from inferstream import App
from inferstream.errors import InvalidSettings
from inferstream.ext.hosting import STUB_MODULE
from inferstream.ext.values import DescribedFunction, pascal_case

from .types import TypeSource, format_literal, quote_docstring

BASES = ("AsyncStub", "Stub")
NAMES = ("DEFAULT", "remote")

MAX_LINE_LENGTH = 100
"""Maximum length of a method signature on one line."""

REQUIRED = inspect.Parameter.empty

TAKEN = ("aclose", "client", "close")
"""Attributes of the base classes, which methods must not override."""


def generate_stub(app: App, target: str) -> str:
    """Generate the source of a stub for an app.

    `target` is its location, such as `module:app`. Raises InvalidSettings if names clash.
    """
    name = pascal_case(app.name)
    name = name if name.isidentifier() and not keyword.iskeyword(name) else "App"
    types = TypeSource([*BASES, *NAMES, name, f"Async{name}", "Any", "BaseModel", "TypedDict", "NamedTuple"])
    methods = _methods(app)
    classes = [
        _class(
            f"Async{name}", "AsyncStub", f"Models of {target}, for `await` and `async for`.", types, methods
        ),
        _class(name, "Stub", f"Models of {target}, for code without asyncio.", types, methods),
    ]
    body = "\n\n\n".join([*types.classes, *classes])
    used = [each for each in (*BASES, *NAMES) if re.search(rf"\b{each}\b", body)]
    types.imports |= {
        f"from collections.abc import {each}"
        for each in ("AsyncIterable", "AsyncIterator", "Iterable", "Iterator")
        if re.search(rf"\b(?<!\.){each}\[", body)
    }
    ours = f"from {STUB_MODULE} import {', '.join(used)}"
    head = f'"""Client of the models of {target}, written by `server stub`."""'
    parts = [head, "from __future__ import annotations", *_imports(types.imports), ours]
    return "\n\n".join(parts) + f"\n\n\n{body}\n"


def _imports(lines: set[str]) -> list[str]:
    """Return the import statements of other packages, one line per module."""
    names: dict[str, list[str]] = {}
    for line in sorted(lines):
        module, _, name = line.removeprefix("from ").partition(" import ")
        names.setdefault(module, []).extend([name] if name else [])
    imports = [f"from {module} import {', '.join(of)}" if of else module for module, of in names.items()]
    return ["\n".join(sorted(imports, key=lambda line: (line.startswith("from"), line)))] if imports else []


class StubMethod(NamedTuple):
    """A model as a method of the stub."""

    model: str
    version: str | None
    parameters: list["StubParameter"]
    result: Any
    """The annotation of the result or, for a stream, of one item."""
    streams: bool
    doc: str


class StubParameter(NamedTuple):
    """A parameter of a method. Without a default, `default` is `REQUIRED`."""

    name: str
    hint: Any
    default: Any = REQUIRED
    is_stream: bool = False


Methods = dict[str, StubMethod]


def _methods(app: App) -> Methods:
    """Return the functions of an app by method name. Raises InvalidSettings for duplicate names."""
    names = [function.name for function in app]
    methods: Methods = {}
    for function in app:
        name = function.name
        if function.version is not None and names.count(name) > 1:
            name = f"{name}_{function.version}"
        name = re.sub(r"\W", "_", name)
        if name[0].isdigit():
            name = f"_{name}"
        if keyword.iskeyword(name) or name in TAKEN or name.startswith("__"):
            name = f"{name}_"
        if name in methods:
            raise InvalidSettings(f'{function.location}: a stub would have two methods of the name "{name}"')
        arguments, results = function.arguments, function.results
        parameters = [StubParameter(each.name, each.hint, each.default) for each in arguments.arguments]
        if (stream := arguments.stream) is not None:
            parameters.append(StubParameter(stream.name, stream.hint, is_stream=True))
        if isinstance(function, DescribedFunction):  # A step function takes states instead.
            order = [*inspect.signature(function.function).parameters]
            parameters.sort(key=lambda parameter: order.index(parameter.name))
        methods[name] = StubMethod(
            function.name,
            function.version,
            parameters,
            Any if results.free else results.hint,
            function.streams,
            inspect.cleandoc(function.function.__doc__ or ""),
        )
    return methods


def _class(name: str, base: str, doc: str, types: TypeSource, methods: Methods) -> str:
    written = (_method(name, method, types, base == "AsyncStub") for name, method in methods.items())
    return "\n\n".join([f'class {name}({base}):\n    """{doc}"""', *written])


def _method(name: str, method: StubMethod, types: TypeSource, awaits: bool) -> str:
    result = types.write_annotation(method.result)
    if method.streams:
        result = f"{'AsyncIterator' if awaits else 'Iterator'}[{result}]"
    version = "" if method.version is None else f", {format_literal(method.version)}"
    definition = "async def" if awaits and not method.streams else "def"
    parameters = ["self", *_parameters(method, types, awaits)]
    line = f"    {definition} {name}({', '.join(parameters)}) -> {result}:"
    if len(line) > MAX_LINE_LENGTH:
        inner = "".join(f"        {parameter},\n" for parameter in parameters)
        line = f"    {definition} {name}(\n{inner}    ) -> {result}:"
    lines = [f"    @remote({format_literal(method.model)}{version})", line]
    if method.doc:
        lines.append(quote_docstring(method.doc, "        "))
    return "\n".join([*lines, "        raise NotImplementedError"])


def _parameters(method: StubMethod, types: TypeSource, awaits: bool) -> Iterator[str]:
    """Yield the parameters of a method in order.

    Parameters from the first default on are keyword-only if a later parameter has no default.
    """
    # The stream's annotation is written last. The order determines the order of the generated classes.
    written = {
        parameter.name: _parameter(parameter, types, awaits)
        for parameter in sorted(method.parameters, key=lambda parameter: parameter.is_stream)
    }
    defaults = [parameter.default is not REQUIRED for parameter in method.parameters]
    for index, parameter in enumerate(method.parameters):
        if defaults != sorted(defaults) and index == defaults.index(True):
            yield "*"
        yield written[parameter.name]


def _parameter(parameter: StubParameter, types: TypeSource, awaits: bool) -> str:
    hint = types.write_annotation(parameter.hint)
    if parameter.is_stream:
        hint = f"{'AsyncIterable' if awaits else 'Iterable'}[{hint}]"
    if parameter.default is REQUIRED:
        return f"{parameter.name}: {hint}"
    return f"{parameter.name}: {hint} = {types.write_value(parameter.default) or 'DEFAULT'}"
