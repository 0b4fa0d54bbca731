"""Models as Ollama lists and shows them. What only Ollama's files have is empty."""

from hashlib import sha256
from time import time
from typing import Any

from inferstream.ext.calls import Caller, Described, ServerModels

from .....text.context_length import ARCHITECTURE, context_length_of
from .....text.inputs import IMAGES, SUFFIX, TOOLS
from .....text.interface import TextInterface
from ..text_models import listed
from .lines import timestamp

UNKNOWN = "unknown"
"""The architecture of a model that does not report one; clients look for others under its name."""

DETAILS = ("parent_model", "format", "family", "families", "parameter_size", "quantization_level")

FOREVER_SECONDS = 100 * 365 * 86400.0
"""How long a model stays that never leaves memory. Ollama's clients expect a time here too."""


def list_models(dataplane: ServerModels, caller: Caller, running: bool = False) -> dict[str, Any]:
    """The models that take text; only those in memory if they are `running`."""
    models = []
    for name, model in listed(dataplane, caller):
        described = dataplane.described(model.name, model.version)
        if not running:
            models.append(_listed(name, described))
        elif (resident := described.resident) is None or resident.loaded:
            models.append({**_listed(name, described), **_running(described)})
    return {"models": models}


def _listed(name: str, described: Described) -> dict[str, Any]:
    return {
        "name": name,
        "model": name,
        "modified_at": timestamp(described.created),
        "size": 0,
        "digest": _digest(name, described),
        "details": _details(described),
    }


def _running(described: Described) -> dict[str, Any]:
    """When a model leaves memory unless it is called again, and its context."""
    seconds = None if described.resident is None else described.resident.seconds_left
    return {
        "expires_at": timestamp(time() + (FOREVER_SECONDS if seconds is None else seconds)),
        "size_vram": 0,
        "context_length": context_length_of(described.signature) or 0,
    }


def shown_model(name: str, described: Described) -> dict[str, Any]:
    """One model, with what it can do."""
    architecture = described.signature.parameters.get(ARCHITECTURE) or UNKNOWN
    length = context_length_of(described.signature)
    # GitHub Copilot shows the base name.
    info = {"general.name": name, "general.basename": name, "general.architecture": architecture}
    if length is not None:
        info[f"{architecture}.context_length"] = length
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _details(described),
        "model_info": info,
        "capabilities": _capabilities(described.facet(TextInterface)),
        "modified_at": timestamp(described.created),
    }


def _digest(name: str, described: Described) -> str:
    """Another one if the model can do something else: clients remember its capabilities by its digest."""
    facts = name, _capabilities(described.facet(TextInterface)), described.signature.parameters
    return sha256(repr(facts).encode()).hexdigest()


def _details(described: Described) -> dict[str, Any]:
    family = described.signature.parameters.get(ARCHITECTURE) or ""
    return dict.fromkeys(DETAILS, "") | {"family": family, "families": [family] if family else []}


def _capabilities(text: TextInterface | None) -> list[str]:
    """What a model can do, in Ollama's words."""
    if text is None:
        return []
    can = {
        "completion": text.generates,
        "embedding": text.embeds,
        "tools": text.takes(TOOLS),
        "thinking": text.thinks,
        "vision": text.takes(IMAGES),
        "insert": text.takes(SUFFIX),
    }
    return [name for name, does in can.items() if does]
