"""Repositories with every way in which the files of a model have run code in its library."""

import json
import os
import pickle
from pathlib import Path
from typing import Any, NamedTuple

RUNTIMES = "inferstream.runtimes"
BERT = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 8,
    "vocab_size": 8,
    "max_position_embeddings": 32,
}


class Hostile(NamedTuple):
    """The files of one model, and what the error of its load names."""

    files: dict[str, bytes]
    named: str


class Canary:
    """Unpickling it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple:
        return os.makedirs, (self.path, 0o777, True)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def described(implementation: str, uri: str | None = None, **more: Any) -> dict[str, bytes]:
    """A settings file; `extra` goes into its parameters."""
    parameters = {"extra": more.pop("extra", {}), **more.pop("parameters", {})}
    if uri is not None:
        parameters["uri"] = uri
    settings = {"implementation": implementation, "parameters": parameters, **more}
    return {"model-settings.json": encoded(settings)}


def ways(canary: Path) -> dict[str, Hostile]:
    """Each way by its name. Whatever runs makes the folder `canary`."""
    code = f"import os\nos.makedirs({str(canary)!r}, exist_ok=True)\n".encode()
    pickled = pickle.dumps(Canary(canary))
    found: dict[str, Hostile] = {}
    implementations = {
        "own": "model.Model",
        "app": "model:app/x",
        "browser": "antigravity.X",
        "program": "inferstream.__main__.X",
        "demo": "inferstream.cli.demo_models.storyteller.model.Storyteller",
        "function": "inferstream.runtimes.framework.import_module",
        "path": "inferstream.plugins.frameworks.sklearn.Path",
        "foreign": "mlserver_alibi_explain.AlibiExplainRuntime",
    }
    for name, path in implementations.items():
        found[f"implementation-{name}"] = Hostile(
            {**described(path), "model.py": code, "model/__init__.py": code}, path
        )
    pickles = {
        "sklearn": (
            "sklearn.SKLearnModel",
            ("model.joblib", "model.pkl", "model.pickle", "model.json", "model"),
        ),
        "torch": ("torch.TorchModel", ("model.pt", "model.pt2", "model.pth", "model.json")),
        "catboost": ("catboost.CatBoostModel", ("model.bin",)),
        "onnx": ("onnx.OnnxModel", ("model.ort", "model.so")),
        "xgboost": ("xgboost.XGBoostModel", ("model.deprecated", "model.pkl")),
        "lightgbm": ("lightgbm.LightGBMModel", ("model.pkl",)),
        "llamacpp": ("llamacpp.LlamaCppModel", ("model.bin", "model.ggml")),
        "openvino": ("openvino.OpenVino", ("model.bin", "model.so")),
    }
    for runtime, (path, files) in pickles.items():
        for file in files:
            settings = described(f"{RUNTIMES}.{path}", f"./{file}")
            found[f"{runtime}-{file.replace('.', '-')}"] = Hostile({**settings, file: pickled}, file)
    for name in ("mlserver_sklearn.SKLearnModel", "mlserver_sklearn.sklearn.SKLearnModel"):
        files = {**described(name, "./weights.txt"), "weights.txt": pickled, "mlserver_sklearn.py": code}
        found[f"name-{name.replace('.', '-')}"] = Hostile(files, "weights.txt")
    flavor = (
        b"flavors:\n  python_function:\n    loader_module: code\n    code: code\n    python_model: p.pkl\n"
    )
    found["mlflow-flavor"] = Hostile(
        {
            **described(f"{RUNTIMES}.mlflow.MLflowModel"),
            "MLmodel": flavor,
            "code/code.py": code,
            "p.pkl": pickled,
        },
        "MLmodel",
    )
    found["mlflow-mlserver"] = Hostile(
        {**described("mlserver_mlflow.MLflowRuntime"), "MLmodel": flavor, "code.py": code}, "MLmodel"
    )
    found["torchserve"] = Hostile(
        {
            **described("inferstream.plugins.torchserve.model.ArchiveModel", "./model.mar"),
            "model.mar": pickled,
        },
        "model.mar",
    )
    config = b'name: "triton-python"\nbackend: "python"\n'
    found["triton-python"] = Hostile({"config.pbtxt": config, "1/model.py": code}, "model.py")
    found["triton-torch"] = Hostile(
        {"config.pbtxt": b'name: "triton-torch"\nplatform: "pytorch_libtorch"\n', "1/model.pt": pickled},
        "model.pt",
    )
    tools = {
        "torch-class": ("torch.TorchModel", "model.safetensors", {"class": "model.Model"}, "class"),
        "onnx-session": ("onnx.OnnxModel", "model.onnx", {"session_config": {"a": "b"}}, "session_config"),
        "xgboost-method": ("xgboost.XGBoostModel", "model.json", {"predict_fn": "save_model"}, "predict_fn"),
        "onnx-provider": (
            "onnx.OnnxModel",
            "model.onnx",
            {"providers": ["TensorrtExecutionProvider"]},
            "providers",
        ),
        "xgboost-threads": ("xgboost.XGBoostModel", "model.json", {"n_jobs": 100000}, "n_jobs"),
        "llamacpp-threads": ("llamacpp.LlamaCppModel", "model.gguf", {"n_threads": 10**6}, "n_threads"),
        "openvino-threads": ("openvino.OpenVino", "model.gguf", {"n_threads": 1000}, "n_threads"),
    }
    for name, (path, file, extra, named) in tools.items():
        files = {**described(f"{RUNTIMES}.{path}", f"./{file}", extra=extra), file: pickled, "model.py": code}
        found[name] = Hostile(files, named)
    bert = {"config.json": encoded(BERT), "pytorch_model.bin": pickled, "modeling.py": code}
    arguments: dict[str, Any] = {
        "model_kwargs": {"weights_only": False},
        "framework": "tf",
        "optimum_model": True,
        "pretrained_model": "attacker/model",
        "pretrained_tokenizer": "attacker/model",
        "trust_remote_code": True,
        "intra_op_threads": 10**6,
    }
    for path in (f"{RUNTIMES}.huggingface.HuggingFaceRuntime", "mlserver_huggingface.HuggingFaceRuntime"):
        for argument, value in arguments.items():
            extra = {"task": "feature-extraction", argument: value}
            outside = argument.startswith(("pretrained", "trust"))
            name = f"{path.partition('.')[0]}-{argument}"
            found[name] = Hostile(
                {**bert, **described(path, extra=extra)}, "settings" if outside else argument
            )
    extra = {"task": "feature-extraction", "model_kwargs": {"weights_only": False}}
    settings = described(f"{RUNTIMES}.huggingface.HuggingFaceRuntime", extra=extra, parallel_workers=1)
    found["worker-process"] = Hostile({**bert, **settings}, "model_kwargs")
    for argument in ("environment_path", "environment_tarball"):
        settings = described(f"{RUNTIMES}.xgboost.XGBoostModel", parameters={argument: "./environment"})
        found[argument] = Hostile({**settings, "environment/bin/python": code}, "settings")
    settings = described(f"{RUNTIMES}.xgboost.XGBoostModel", "../../../../blobs/x")
    found["uri-outside"] = Hostile(settings, "settings")
    return found


def repository(canary: Path) -> dict[str, bytes]:
    """All ways as the models of one repository."""
    return {
        f"{name}/{path}": content
        for name, hostile in ways(canary).items()
        for path, content in hostile.files.items()
    }
