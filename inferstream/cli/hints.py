"""Commands to paste, one for each kind of call of the models that the server has, with requests that these take."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .. import extensions
from ..codecs.values.base import OPTIONAL, SCHEMA, fact
from ..dataplane.facets import TextFacts
from ..errors import InferstreamError
from ..types import MetadataTensor

if TYPE_CHECKING:
    from ..dataplane.serving import ServedModel, Serving

WORDS = "What is the capital?"

MOST_NUMBERS = 64
"""Numbers of an example; a model whose inputs need more gets none."""


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
"""Whether a value is within a bound of a JSON schema. No words are known to fit a pattern."""


def hints(registry: "Serving", url: str) -> Iterator[str]:
    """Calls by curl: a single response, a stream, and those of plug-ins. Models that make texts are shown first."""
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
        for _, hint in extensions.loaded(extensions.HINTS, strict=False):
            path, body = hint(texts[0], WORDS)
            yield f"curl -N {url}{path} -d {_quoted(body)}"


def _call(name: str, served: "ServedModel", streams: bool) -> str | None:
    """Path and body of a call that the model takes; None if its inputs are not known, or take other values."""
    path, end = f"/v2/models/{quote(name)}", "_stream" if streams else ""
    signature = served.execution.signature
    if signature.inputs is None:
        facts = served.pipeline.facet(TextFacts)
        if facts is None or facts.prompt is None:
            return None
        return f"{path}/generate{end} -d {_quoted({facts.prompt.name: WORDS})}"
    inputs = [tensor for tensor in signature.inputs if not fact(tensor, OPTIONAL)]
    values = [_value(tensor) for tensor in inputs]
    if not all(_fits(value, _bounds(tensor)) for value, tensor in zip(values, inputs, strict=True)):
        return None
    if all(tensor.shape in ([], [1], [-1]) for tensor in inputs):
        arguments = {tensor.name: value for tensor, value in zip(inputs, values, strict=True)}
        return f"{path}/generate{end} -d {_quoted(arguments)}" if _taken(served, arguments) else None
    tensors = [_tensor(tensor) for tensor in inputs]
    if sum(len(tensor["data"]) for tensor in tensors) > MOST_NUMBERS:
        return None
    return f"{path}/infer{end} -d {_quoted({'inputs': tensors})}"


def _taken(served: "ServedModel", arguments: dict[str, Any]) -> bool:
    """Whether the model takes these arguments: it may want a list, or allow certain texts only."""
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
            return float(_number(_bounds(tensor)))
        case _:
            return int(_number(_bounds(tensor)))


def _number(bounds: Mapping[str, Any]) -> float:
    """One, or the number at a bound that fits the others; one too if there is none."""
    shifts = {"minimum": 0, "exclusiveMinimum": 1, "maximum": 0, "exclusiveMaximum": -1}
    said = {name: bounds[name] for name in shifts if isinstance(bounds.get(name), int | float)}
    near = [bound + shifts[name] for name, bound in said.items()]
    return next((value for value in (1, *near) if _fits(value, bounds)), 1)


def _bounds(tensor: MetadataTensor) -> Mapping[str, Any]:
    """What the schema of an input says of its value; empty without one."""
    try:
        said = json.loads(fact(tensor, SCHEMA) or "{}")
    except (TypeError, ValueError):  # its author wrote something else there
        return {}
    return said if isinstance(said, dict) else {}


def _fits(value: Any, bounds: Mapping[str, Any]) -> bool:
    """Whether a value is within the bounds that are known here."""
    try:
        return all(FITS[name](value, bound) for name, bound in bounds.items() if name in FITS)
    except (TypeError, ArithmeticError):  # settings may declare bounds that make no sense
        return False


def _tensor(tensor: MetadataTensor) -> dict[str, Any]:
    shape = [max(size, 1) for size in tensor.shape]
    data = [_value(tensor)] * min(prod(shape), MOST_NUMBERS + 1)
    return {"name": tensor.name, "shape": shape, "datatype": tensor.datatype, "data": data}


def _quoted(document: dict[str, Any]) -> str:
    return shlex.quote(json.dumps(document, ensure_ascii=False))
