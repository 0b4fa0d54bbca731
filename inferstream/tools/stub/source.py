"""Writes the stub of an app: a Python module with a class for `Client` and one for `AsyncClient`."""

import inspect
import keyword
import re
from collections.abc import Iterator
from typing import Any

from inferstream import App
from inferstream.ext.values import DescribedFunction, pascal_case

from ...errors import InvalidSettings
from ...functions.arguments import Argument
from ...functions.function import ModelFunction
from .types import TypeSource, literal, quoted

BASES = ("AsyncStub", "Stub")
NAMES = ("DEFAULT", "remote")

LONGEST = 100
"""Characters of a line that holds all parameters of a method."""

TAKEN = ("aclose", "client", "close")
"""Names of the base classes that no method may have."""


def stub_source(app: App, target: str) -> str:
    """The source of the stub of an app, which `target` names. Raises InvalidSettings for names that clash."""
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
    ours = f"from inferstream.clients.stubs.base import {', '.join(used)}"
    head = f'"""Client of the models of {target}, written by `server stub`."""'
    parts = [head, "from __future__ import annotations", *_imports(types.imports), ours]
    return "\n\n".join(parts) + f"\n\n\n{body}\n"


def _imports(lines: set[str]) -> list[str]:
    """The imports of other packages, with one line for each module."""
    names: dict[str, list[str]] = {}
    for line in sorted(lines):
        module, _, name = line.removeprefix("from ").partition(" import ")
        names.setdefault(module, []).extend([name] if name else [])
    imports = [f"from {module} import {', '.join(of)}" if of else module for module, of in names.items()]
    return ["\n".join(sorted(imports, key=lambda line: (line.startswith("from"), line)))] if imports else []


Methods = dict[str, ModelFunction]


def _methods(app: App) -> Methods:
    """The functions of an app by the names of their methods."""
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
        methods[name] = function
    return methods


def _class(name: str, base: str, doc: str, types: TypeSource, methods: Methods) -> str:
    written = (_method(method, function, types, base == "AsyncStub") for method, function in methods.items())
    return "\n\n".join([f'class {name}({base}):\n    """{doc}"""', *written])


def _method(name: str, function: ModelFunction, types: TypeSource, awaits: bool) -> str:
    result = types.written(Any if function.results.free else function.results.hint)
    if function.streams:
        result = f"{'AsyncIterator' if awaits else 'Iterator'}[{result}]"
    version = "" if function.version is None else f", {literal(function.version)}"
    definition = "async def" if awaits and not function.streams else "def"
    parameters = ["self", *_parameters(function, types, awaits)]
    line = f"    {definition} {name}({', '.join(parameters)}) -> {result}:"
    if len(line) > LONGEST:
        inner = "".join(f"        {parameter},\n" for parameter in parameters)
        line = f"    {definition} {name}(\n{inner}    ) -> {result}:"
    lines = [f"    @remote({literal(function.name)}{version})", line]
    if doc := inspect.cleandoc(function.function.__doc__ or ""):
        lines.append(quoted(doc, "        "))
    return "\n".join([*lines, "        raise NotImplementedError"])


def _parameters(function: ModelFunction, types: TypeSource, awaits: bool) -> Iterator[str]:
    """The parameters of a method in their order. If one without a default follows one with, these go by name."""
    arguments = function.arguments
    known: dict[str, str] = {argument.name: _written(argument, types) for argument in arguments.arguments}
    if (stream := arguments.stream) is not None:
        kind = "AsyncIterable" if awaits else "Iterable"
        known[stream.name] = f"{stream.name}: {kind}[{types.written(stream.hint)}]"
    if isinstance(function, DescribedFunction):
        known = {
            name: known[name] for name in inspect.signature(function.function).parameters if name in known
        }
    defaults = [" = " in written for written in known.values()]
    for index, written in enumerate(known.values()):
        if defaults != sorted(defaults) and index == defaults.index(True):
            yield "*"
        yield written


def _written(argument: Argument, types: TypeSource) -> str:
    written = f"{argument.name}: {types.written(argument.hint)}"
    return written if argument.required else f"{written} = {types.value(argument.default) or 'DEFAULT'}"
