"""Configuration files of sentence-transformers: pooling, normalisation, lengths and prompts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Pooling = Literal["cls", "lasttoken", "max", "mean"]

POOLINGS: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys in older configurations, in concatenation order, and the names in newer ones."""

MODULES = "modules.json"


@dataclass(frozen=True)
class Sentences:
    """The settings that determine how token vectors are combined into an embedding.

    `special` names properties that only sentence-transformers supports: other modules and pooling modes.
    """

    encoder: str = ""
    """Path of the transformer within the folder."""
    pooling: tuple[Pooling, ...] = ("mean",)
    normalize: bool = False
    max_length: int | None = None
    lowercase: bool = False
    prompts: Mapping[str, str] | None = None
    default_prompt: str | None = None
    special: tuple[str, ...] = ()


def read_sentences(folder: Path) -> Sentences:
    """Read the configuration of a folder. A plain transformer has mean pooling. Raises ValueError."""
    if not (folder / MODULES).is_file():
        return Sentences()
    read: dict[str, Any] = {}
    special: list[str] = []
    for module in _read(folder / MODULES, list):
        kind, path = str(module["type"]).rpartition(".")[2], folder / str(module.get("path") or "")
        if kind == "Transformer":
            read["encoder"] = str(module.get("path") or "")
            read |= _lengths(path)
        elif kind == "Pooling":
            read["pooling"], other = _pooling(_read(path / "config.json", dict))
            special += other
        elif kind == "Normalize":
            read["normalize"] = True
        else:
            special.append(kind)
    config = folder / "config_sentence_transformers.json"
    general = _read(config, dict) if config.is_file() else {}
    if general.get("truncate_dim"):
        special.append("truncate_dim")
    return Sentences(
        **read,
        prompts=general.get("prompts") or None,
        default_prompt=general.get("default_prompt_name"),
        special=tuple(special),
    )


def _lengths(folder: Path) -> dict[str, Any]:
    for path in sorted(folder.glob("sentence_*_config.json")):
        config = _read(path, dict)
        return {"max_length": config.get("max_seq_length"), "lowercase": bool(config.get("do_lower_case"))}
    return {}


def _pooling(config: dict[str, Any]) -> tuple[tuple[Pooling, ...], list[str]]:
    """Return the supported pooling modes, and other properties of the configuration."""
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [
            POOLINGS.get(name, name) for name, on in config.items() if on and name.startswith("pooling_mode_")
        ]
    modes = [modes] if isinstance(modes, str) else list(modes)
    order = list(POOLINGS.values())
    known = tuple(mode for mode in order if mode in modes)
    other = [str(mode) for mode in modes if mode not in order]
    if config.get("include_prompt") is False:
        other.append("include_prompt")
    return known or ("mean",), other


def _read(path: Path, kind: type[Any]) -> Any:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path.name}: {error}") from error
    if not isinstance(content, kind):
        raise ValueError(f"{path.name} holds no {kind.__name__}")
    return content
