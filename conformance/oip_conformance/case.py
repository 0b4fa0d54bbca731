"""The list of cases. A case is a function of the server that returns, or raises an outcome."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from .server import Server

Run = Callable[[Server], None]


@dataclass(frozen=True)
class Case:
    """A case. `function` is its name without what it is run for: `rest.json_values` of `rest.json_values[INT8]`."""

    name: str
    function: str
    run: Run


CASES: list[Case] = []
"""All cases, in the order in which they run: those that unload models last."""


def case(function: Run) -> Run:
    """Register a case under the name of its module and its own."""
    name = _name(function.__module__, function.__name__)
    CASES.append(Case(name, name, function))
    return function


def each(
    parameters: Iterable[str],
) -> Callable[[Callable[[Server, str], None]], Callable[[Server, str], None]]:
    """Register a case for each of the parameters."""

    def register(function: Callable[[Server, str], None]) -> Callable[[Server, str], None]:
        name = _name(function.__module__, function.__name__)
        CASES.extend(Case(f"{name}[{text}]", name, partial(_with, function, text)) for text in parameters)
        return function

    return register


def _with(function: Callable[[Server, str], None], parameter: str, server: Server) -> None:
    function(server, parameter)


def _name(module: str, function: str) -> str:
    return f"{module.rpartition('.')[2]}.{function}"
