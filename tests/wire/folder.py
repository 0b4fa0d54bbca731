"""The folder of models that the corpus is recorded against, and the servers on it."""

import json
import shutil
from pathlib import Path

HERE = Path(__file__).parent

NUMBERS = {"name": "x", "datatype": "FP32", "shape": [-1]}
TENSORS = [
    {"name": "a", "datatype": "INT32", "shape": [-1, 2]},
    {"name": "b", "datatype": "BYTES", "shape": [1], "parameters": {"optional": True}},
]
TEXT = [{"name": "text", "datatype": "BYTES", "shape": [1], "parameters": {"content_type": "str"}}]

RANKING = {
    "inputs": [
        {"name": "query", "datatype": "BYTES", "shape": [1]},
        {"name": "documents", "datatype": "BYTES", "shape": [-1]},
    ],
    "outputs": [{"name": "scores", "datatype": "FP64", "shape": [-1]}],
}

MODELS = {
    "arrays": {"implementation": "models.Arrays", "parameters": {"version": "v1"}},
    "batched": {"implementation": "models.Arrays", "max_batch_size": 4, "max_batch_time": 0.001},
    "blocking-stream": {"implementation": "models.BlockingStream"},
    "both": {"implementation": "models.Both"},
    "cached": {"implementation": "models.Cached", "cache_enabled": True},
    "declared": {
        "implementation": "models.Echo",
        "platform": "wire_corpus",
        "inputs": TENSORS,
        "outputs": TENSORS,
    },
    "echo": {"implementation": "models.Echo"},
    "failing": {"implementation": "models.Failing"},
    "headed": {"implementation": "models.Headed"},
    "holding": {"implementation": "models.Holding", "max_concurrency": 1, "max_queue": 0},
    "impatient": {"implementation": "models.Slow", "request_timeout": 0.1},
    "legacy": {"implementation": "legacy.Legacy"},
    "mirror": {"implementation": "models.Mirror"},
    "names/with space ü": {"implementation": "models.Echo"},
    "ranks": {"implementation": "models.Ranks", **RANKING},
    "routes": {"implementation": "models.Routes"},
    "running-sum": {"implementation": "models.RunningSum", "inputs": [NUMBERS]},
    "slow": {"implementation": "models.Slow"},
    "steps": {"implementation": "models.Steps", "max_active": 4},
    "stream": {"implementation": "models.Streaming"},
    "strict": {
        "implementation": "models.Echo",
        "inputs": TENSORS,
        "outputs": TENSORS,
        "input_validation": "strict",
    },
    "text": {"implementation": "models.Echo", "inputs": TEXT, "outputs": TEXT},
    "triton-stream": {"implementation": "models.Streaming", "grpc_stream_dialect": "triton"},
    "typed": {"implementation": "models.Typed"},
    "versions/1": {"name": "versions", "implementation": "models.Both", "parameters": {"version": "1"}},
    "versions/2": {"name": "versions", "implementation": "models.Both", "parameters": {"version": "2"}},
    "versions/10": {"name": "versions", "implementation": "models.Both", "parameters": {"version": "10"}},
    "waiting": {"implementation": "models.Holding"},
    "worker": {"implementation": "models.Both", "parallel_workers": 1},
}

LATER = {
    "broken": {"implementation": "models.Broken"},
    "spare": {"implementation": "models.Echo"},
}
"""Models that come into the folder when the server runs."""

SHARED = {
    "server_name": "wire",
    "server_version": "1.2.3",
    "max_body_bytes": 100_000,
    "cache_enabled": True,
    "grpc_max_message_length": 200_000,
}


def write_folder(folder: Path, **settings: object) -> Path:
    """A folder of all models with a server's settings."""
    folder.mkdir(parents=True)
    for at, model in MODELS.items():
        write_model(folder, at, model)
    (folder / "settings.json").write_text(json.dumps(SHARED | settings))
    return folder


def write_later(folder: Path) -> None:
    for at, model in LATER.items():
        write_model(folder, at, model)


def write_model(folder: Path, at: str, model: dict) -> None:
    into = folder / at
    into.mkdir(parents=True)
    shutil.copy(HERE / f"{model['implementation'].partition('.')[0]}.py", into)
    (into / "model-settings.json").write_text(json.dumps({"name": at, **model}))
