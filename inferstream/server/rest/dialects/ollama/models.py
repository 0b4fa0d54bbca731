"""Models as Ollama lists and shows them. What only Ollama's files have is empty."""

from collections.abc import Iterable
from hashlib import sha256
from time import time
from typing import Any

import orjson

from .....dataplane.dataplane import DataPlane, Described, TextModel
from .....text.context_length import ARCHITECTURE, context_length_of
from .....text.inputs import IMAGES, SUFFIX, TOOLS
from .....text.interface import TextInterface
from .lines import timestamp

UNKNOWN = "unknown"
"""The architecture of a model that does not report one; clients look for others under its name."""

FOREVER_SECONDS = 100 * 365 * 86400.0
"""How long a model stays that never leaves memory. Ollama's clients expect a time here too."""


def listed_model(dataplane: DataPlane, name: str, model: TextModel) -> dict[str, Any]:
    """One model of a list."""
    described = dataplane.described(model.name, model.version)
    return {
        "name": name,
        "model": name,
        "modified_at": timestamp(model.created),
        "size": 0,
        "digest": _digest(name, described),
        "details": _details(described),
    }


def running_models(dataplane: DataPlane, models: Iterable[tuple[str, TextModel]]) -> list[dict[str, Any]]:
    """The models in memory, and when they leave it unless they are called again."""
    running = []
    for name, model in models:
        resident = model.resident
        if resident is not None and not resident.loaded:
            continue
        seconds = None if resident is None else resident.seconds_left
        described = dataplane.described(model.name, model.version)
        running.append(
            {
                **listed_model(dataplane, name, model),
                "expires_at": timestamp(time() + (FOREVER_SECONDS if seconds is None else seconds)),
                "size_vram": 0,
                "context_length": context_length_of(described.signature) or 0,
            }
        )
    return running


def shown_model(name: str, created: int, described: Described) -> dict[str, Any]:
    """One model, with what it can do."""
    architecture, length = _architecture(described), context_length_of(described.signature)
    info: dict[str, Any] = {"general.name": name, "general.architecture": architecture}
    if length is not None:
        info[f"{architecture}.context_length"] = length
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _details(described),
        "model_info": info,
        "capabilities": _capabilities(described.text),
        "modified_at": timestamp(created),
    }


def _digest(name: str, described: Described) -> str:
    """Another one if the model can do something else: clients remember its capabilities by its digest."""
    parts = name, _capabilities(described.text), dict(described.signature.parameters)
    return sha256(orjson.dumps(parts)).hexdigest()


def _details(described: Described) -> dict[str, Any]:
    family = str(described.signature.parameters.get(ARCHITECTURE) or "")
    return {
        "parent_model": "",
        "format": "",
        "family": family,
        "families": [family] if family else [],
        "parameter_size": "",
        "quantization_level": "",
    }


def _architecture(described: Described) -> str:
    return str(described.signature.parameters.get(ARCHITECTURE) or UNKNOWN)


def _capabilities(text: TextInterface | None) -> list[str]:
    """What a model can do, in Ollama's words."""
    if text is None:
        return []
    can = {
        "completion": text.generates,
        "embedding": text.embeds,
        "tools": text.takes(TOOLS),
        "vision": text.takes(IMAGES),
        "insert": text.takes(SUFFIX),
    }
    return [name for name, does in can.items() if does]
