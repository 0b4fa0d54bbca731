"""Model lists and details in the Ollama format. Modelfile fields are left empty."""

from hashlib import sha256
from time import time
from typing import Any

from inferstream.ext.calls import Caller, Described, ServerModels

from ..context_length import ARCHITECTURE, find_context_length
from ..inputs import IMAGES, SUFFIX, TOOLS
from ..interface import TextInterface
from ..text_models import list_text_models
from .lines import timestamp

UNKNOWN = "unknown"
"""Architecture of a model that does not report one. Clients use it as the prefix of other keys."""

DETAILS = ("parent_model", "format", "family", "families", "parameter_size", "quantization_level")

FOREVER_SECONDS = 100 * 365 * 86400.0
"""Reported time to expiry of a model that is never unloaded, because Ollama clients require one."""


def list_models(dataplane: ServerModels, caller: Caller, running: bool = False) -> dict[str, Any]:
    """Return the models that take text, or only those in memory if `running` is true."""
    models = []
    for name, model in list_text_models(dataplane, caller):
        described = dataplane.described(model.name, model.version)
        if not running:
            models.append(_model_entry(name, described))
        elif (resident := described.resident) is None or resident.loaded:
            models.append({**_model_entry(name, described), **_describe_running(described)})
    return {"models": models}


def _model_entry(name: str, described: Described) -> dict[str, Any]:
    return {
        "name": name,
        "model": name,
        "modified_at": timestamp(described.created),
        "size": 0,
        "digest": _digest(name, described),
        "details": _details(described),
    }


def _describe_running(described: Described) -> dict[str, Any]:
    """Return the time at which a model is unloaded if it receives no more calls, and its context length."""
    seconds = None if described.resident is None else described.resident.seconds_left
    return {
        "expires_at": timestamp(time() + (FOREVER_SECONDS if seconds is None else seconds)),
        "size_vram": 0,
        "context_length": find_context_length(described.signature) or 0,
    }


def describe_model_details(name: str, described: Described) -> dict[str, Any]:
    """Return the details and capabilities of a model."""
    architecture = described.signature.parameters.get(ARCHITECTURE) or UNKNOWN
    length = find_context_length(described.signature)
    # GitHub Copilot displays the base name.
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
    """Return a digest that changes with the model's capabilities, because clients cache these by digest."""
    facts = name, _capabilities(described.facet(TextInterface)), described.signature.parameters
    return sha256(repr(facts).encode()).hexdigest()


def _details(described: Described) -> dict[str, Any]:
    family = described.signature.parameters.get(ARCHITECTURE) or ""
    return dict.fromkeys(DETAILS, "") | {"family": family, "families": [family] if family else []}


def _capabilities(text: TextInterface | None) -> list[str]:
    """Return the capabilities of a model, named as in Ollama."""
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
