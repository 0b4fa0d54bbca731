"""Parses the parameters of TGI requests."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from ..fields import Fields
from ..generation import RESERVED, SEEDS, Generation
from ..inputs import RESPONSE_FORMAT, FieldTexts
from ..interface import TextInterface
from ..schemas import COUNT, FLAG, POSITIVE, STRINGS, Schema

MAX_TOP_TOKENS = 5
MAX_SEQUENCES = 4

READ = frozenset[str]().union(
    ("best_of", "decoder_input_details", "details", "do_sample", "frequency_penalty", "grammar"),
    (
        "max_new_tokens",
        "repetition_penalty",
        "return_full_text",
        "seed",
        "stop",
        "stop_sequences",
        "temperature",
    ),
    ("top_k", "top_n_tokens", "top_p", "typical_p", "watermark", "max_tokens", "logprobs", "top_logprobs"),
)
"""Parameters that the server reads itself. All others are passed to the model unchanged."""

SCHEMAS: Mapping[str, Schema] = {
    "max_new_tokens": COUNT,
    "temperature": POSITIVE,
    "top_k": COUNT,
    "top_p": POSITIVE,
    "typical_p": POSITIVE,
    "repetition_penalty": POSITIVE,
    "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "do_sample": FLAG,
    "seed": {"type": "integer", "minimum": 0},
    "truncate": COUNT,
    "stop": STRINGS,
    "return_full_text": FLAG,
    "details": FLAG,
    "top_n_tokens": {"type": "integer", "minimum": 0},
    "best_of": COUNT,
    "grammar": {"type": "object"},
}


class Asked(NamedTuple):
    """Parsed parameters for the model and for the format of the response."""

    generation: Generation
    inputs: dict[str, list[str | bytes]]
    details: bool
    full_text: bool
    seed: int | None
    sequences: int
    """Number of sequences to generate. The most probable one is the response."""


def read_parameters(fields: Fields, interface: TextInterface, streamed: bool) -> Asked:
    """Parse the parameters of a request. Raises InvalidRequest naming the invalid one."""
    given = fields.object("parameters")
    read = given or Fields({}, "parameters")
    details = read.flag("details")
    if read.flag("decoder_input_details"):
        raise read.wrong("decoder_input_details", "the server does not know the tokens of the prompt")
    seed = read.integer("seed", 0, SEEDS - 1)
    sequences = _sequences(read, interface, streamed, seed)
    parameters = read.other_parameters(READ | RESERVED)
    if given is not None:
        parameters |= _sampling(read)
    if seed is not None:
        parameters["seed"] = seed
    if top := read.integer("top_n_tokens", 0, MAX_TOP_TOKENS):
        if not interface.logprobs:
            raise read.wrong("top_n_tokens", "the model gives no log probabilities")
        parameters["top_logprobs"] = top
    generation = Generation(
        parameters,
        read_stop(read),
        read.integer("max_new_tokens", 1),
        interface.logprobs and (streamed or details or sequences > 1),
    )
    full_text = read.flag("return_full_text")
    return Asked(generation, _grammar(read, interface), details, full_text, seed, sequences)


def _sampling(read: Fields) -> dict[str, Any]:
    """Return the sampling parameters. As in TGI, decoding is greedy unless a parameter requests sampling."""
    sampling: dict[str, Any] = {
        "temperature": _positive(read, "temperature"),
        "top_k": read.integer("top_k", 1),
        "top_p": _positive(read, "top_p", 1),
        "typical_p": _positive(read, "typical_p", 1),
    }
    samples = read.flag("do_sample") or any(value is not None for value in sampling.values())
    if sampling["temperature"] is None:
        sampling["temperature"] = 1.0 if samples else 0.0
    sampling["repetition_penalty"] = _positive(read, "repetition_penalty")
    sampling["frequency_penalty"] = read.number("frequency_penalty", -2, 2)
    sampling["watermark"] = read.flag("watermark") or None
    return {name: value for name, value in sampling.items() if value is not None}


def read_stop(read: Fields) -> tuple[str, ...]:
    """Return the stop strings from both of their fields, `stop` and `stop_sequences`."""
    return read.stop_strings() + read.stop_strings("stop_sequences")


def _positive(read: Fields, name: str, most: float | None = None) -> float | None:
    value = read.number(name, None, most)
    if value is not None and not value > 0:
        raise read.wrong(name, f"must be greater than 0, got {value}")
    return value


def _sequences(read: Fields, interface: TextInterface, streamed: bool, seed: int | None) -> int:
    sequences = read.integer("best_of", 1, MAX_SEQUENCES) or 1
    if sequences > 1:
        if streamed:
            raise read.wrong("best_of", "must be 1 for a stream")
        if seed is not None:
            raise read.wrong("seed", "must not be given with best_of")
        if not interface.logprobs:
            raise read.wrong("best_of", "the model gives no log probabilities by which to choose")
    return sequences


def _grammar(read: Fields, interface: TextInterface) -> dict[str, list[str | bytes]]:
    """Return the grammar as an OpenAI response format, for a model that supports it."""
    grammar = read.object("grammar")
    if grammar is None:
        return {}
    kind = grammar.require_choice("type", ("json", "json_schema", "regex"))
    if not interface.takes(RESPONSE_FORMAT):
        raise grammar.wrong("type", f"the model does not write {kind}")
    if kind == "regex":
        form = {"type": kind, kind: grammar.require_text("value")}
        return {RESPONSE_FORMAT: FieldTexts([orjson.dumps(form).decode()], grammar.path("value"))}
    schema = grammar.json("value", interface.limits)
    if not isinstance(schema, dict):
        raise grammar.wrong("value", "must be a JSON schema")
    named = schema if kind == "json_schema" and "schema" in schema else {"name": "grammar", "schema": schema}
    format = {"type": "json_schema", "json_schema": named}
    return {RESPONSE_FORMAT: FieldTexts([orjson.dumps(format).decode()], grammar.path("value"))}
