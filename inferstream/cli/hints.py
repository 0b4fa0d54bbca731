"""Example commands, one for each kind of call, with requests that the loaded models accept."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..codecs.values.base import OPTIONAL, SCHEMA, fact
from ..dataplane.facets import TextFacts
from ..errors import InferstreamError
from ..extensions import entries, loading
from ..types import MetadataTensor

if TYPE_CHECKING:
    from ..dataplane.serving import ServedModel, Serving

WORDS = "What is the capital?"

MAX_NUMBERS = 64
"""The maximum number of values in an example. A model whose inputs need more has no example."""


FITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: value >= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
    "multipleOf": lambda value, bound: value % bound == 0,
    "minLength": lambda value, bound: len(value) >= bound,
    "maxLength": lambda value, bound: len(value) <= bound,
    "pattern": lambda value, bound: False,
}
"""Checks of a value against the bounds of a JSON schema. No example is known to match a pattern."""


def hints(registry: "Serving", url: str) -> Iterator[str]:
    """Yield curl commands: a single response, a stream, and the calls of plug-ins.

    Text models are preferred.
    """
    texts = sorted(
        {
            name
            for (name, _), served in registry.faceted.get(TextFacts, ())
            if (facts := served.pipeline.facet(TextFacts)) is not None and facts.makes_texts
        }
    )
    shown = {}
    for (name, _), served in sorted(registry.items(), key=lambda item: item[0][0] not in texts):
        if not served.ready or served is not registry.default(name):
            continue
        capabilities = served.execution.capabilities
        kind = "stream" if capabilities.streams and not capabilities.gathers else "predict"
        if kind in shown or (call := _call(name, served, kind == "stream")) is None:
            continue
        shown[kind] = f"curl {'-N ' if kind == 'stream' else ''}{url}{call}"
    yield from (shown[kind] for kind in ("predict", "stream") if kind in shown)
    if texts and _takes_words(registry.default(texts[0])):
        for _, hint in loading.load_group(entries.HINTS, strict=False):
            path, body = hint(texts[0], WORDS)
            yield f"curl -N {url}{path} -d {_quote(body)}"


def _call(name: str, served: "ServedModel", streams: bool) -> str | None:
    """Return the path and body of an example call.

    Returns None if the inputs are unknown, or if they do not accept the example values.
    """
    path, end = f"/v2/models/{quote(name)}", "_stream" if streams else ""
    signature = served.execution.signature
    if signature.inputs is None:
        facts = served.pipeline.facet(TextFacts)
        if facts is None or facts.prompt is None:
            return None
        return f"{path}/generate{end} -d {_quote({facts.prompt.name: WORDS})}"
    inputs = [tensor for tensor in signature.inputs if not fact(tensor, OPTIONAL)]
    values = [_value(tensor) for tensor in inputs]
    if not all(_fits(value, _bounds(tensor)) for value, tensor in zip(values, inputs, strict=True)):
        return None
    if all(tensor.shape in ([], [1], [-1]) for tensor in inputs):
        arguments = {tensor.name: value for tensor, value in zip(inputs, values, strict=True)}
        return f"{path}/generate{end} -d {_quote(arguments)}" if _accepts(served, arguments) else None
    tensors = [_tensor(tensor) for tensor in inputs]
    if sum(len(tensor["data"]) for tensor in tensors) > MAX_NUMBERS:
        return None
    return f"{path}/infer{end} -d {_quote({'inputs': tensors})}"


def _accepts(served: "ServedModel", arguments: dict[str, Any]) -> bool:
    """Whether the model accepts these arguments.

    It may, for example, require a list, or only allow certain strings.
    """
    if served.pipeline.flat is None:
        return True
    try:
        served.pipeline.flat.arguments.read(arguments)
    except InferstreamError:
        return False
    return True


def _takes_words(served: "ServedModel | None") -> bool:
    facts = None if served is None else served.pipeline.facet(TextFacts)
    return facts is None or facts.prompt is None or _fits(WORDS, _bounds(facts.prompt))


def _value(tensor: MetadataTensor) -> str | int | float | bool:
    match tensor.datatype:
        case "BYTES":
            return WORDS
        case "BOOL":
            return True
        case "FP16" | "BF16" | "FP32" | "FP64":
            return float(_example_number(_bounds(tensor)))
        case _:
            return int(_example_number(_bounds(tensor)))


def _example_number(bounds: Mapping[str, Any]) -> float:
    """Return an example within the bounds: 1 if allowed, else an allowed value at a bound, else 1."""
    shifts = {"minimum": 0, "exclusiveMinimum": 1, "maximum": 0, "exclusiveMaximum": -1}
    said = {name: bounds[name] for name in shifts if isinstance(bounds.get(name), int | float)}
    near = [bound + shifts[name] for name, bound in said.items()]
    return next((value for value in (1, *near) if _fits(value, bounds)), 1)


def _bounds(tensor: MetadataTensor) -> Mapping[str, Any]:
    """Return the JSON schema of an input, or an empty mapping."""
    try:
        said = json.loads(fact(tensor, SCHEMA) or "{}")
    except (TypeError, ValueError):  # the schema is not valid JSON
        return {}
    return said if isinstance(said, dict) else {}


def _fits(value: Any, bounds: Mapping[str, Any]) -> bool:
    """Whether a value satisfies all bounds in `FITS`."""
    try:
        return all(FITS[name](value, bound) for name, bound in bounds.items() if name in FITS)
    except (TypeError, ArithmeticError):  # the declared bounds may be invalid
        return False


def _tensor(tensor: MetadataTensor) -> dict[str, Any]:
    shape = [max(size, 1) for size in tensor.shape]
    data = [_value(tensor)] * min(prod(shape), MAX_NUMBERS + 1)
    return {"name": tensor.name, "shape": shape, "datatype": tensor.datatype, "data": data}


def _quote(document: dict[str, Any]) -> str:
    return shlex.quote(json.dumps(document, ensure_ascii=False))
