"""The registry of test cases.

A case is a function of the server that passes if it returns without an exception.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from .server import Server

Run = Callable[[Server], None]


@dataclass(frozen=True)
class Case:
    """A test case.

    `function` is its name without the parameter: `rest.json_values` for `rest.json_values[INT8]`.
    """

    name: str
    function: str
    run: Run


CASES: list[Case] = []
"""All cases in the order in which they run. Cases that unload models run last."""


def case(function: Run) -> Run:
    """Register a case, named after its module and function."""
    name = _name(function.__module__, function.__name__)
    CASES.append(Case(name, name, function))
    return function


def each(
    parameters: Iterable[str],
) -> Callable[[Callable[[Server, str], None]], Callable[[Server, str], None]]:
    """Register one case per parameter."""

    def register(function: Callable[[Server, str], None]) -> Callable[[Server, str], None]:
        name = _name(function.__module__, function.__name__)
        CASES.extend(Case(f"{name}[{text}]", name, partial(_with, function, text)) for text in parameters)
        return function

    return register


def _with(function: Callable[[Server, str], None], parameter: str, server: Server) -> None:
    function(server, parameter)


def _name(module: str, function: str) -> str:
    return f"{module.rpartition('.')[2]}.{function}"
