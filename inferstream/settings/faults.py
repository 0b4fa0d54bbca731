"""Messages for values that settings do not allow, in the words of this package."""

from collections.abc import Mapping
from typing import Any

KINDS: Mapping[str, str] = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "string": "a string",
    "dict": "a JSON object",
    "mapping": "a JSON object",
    "model": "a JSON object",
    "dataclass": "a JSON object",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "literal": "{expected}",
    "enum": "{expected}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "greater than {gt}",
}
"""The required values, by prefix of the pydantic error type."""


def describe_fault(fault: Any) -> str:
    """Describe the required value, given a pydantic error."""
    kind = str(fault["type"])
    for start, allowed in KINDS.items():
        if kind == start or kind.rpartition("_")[0] in (start, f"{start}_attributes", f"{start}_from"):
            return f"must be {allowed.format_map(fault.get('ctx', {}))}"
    message = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return message.replace("Input should be", "must be").replace("Input should", "must")
