"""Folders of transformers and sentence-transformers without trust: nothing in their files runs or chooses what runs."""

import json
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CVES = ("CVE-2026-4372",)

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sentence_transformers")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from inferstream.errors import ModelLoadFailed
from inferstream.plugins.sources import blobs
from inferstream.plugins.sources.fetched_artefacts import Artefacts, FetchedRepository
from inferstream.repository.loading import load_model
from inferstream.settings import ModelSettings, Settings
from tests.artefacts import transformer_models
from tests.cve.hostile_repositories import Canary
from tests.plugins.llm.transformers import tiny

pytestmark = pytest.mark.filterwarnings("default")

RUNTIMES = "inferstream.runtimes"
FAMILY = {
    "embeddings": (f"{RUNTIMES}.embeddings.EmbeddingsModel", {}),
    "plain": (f"{RUNTIMES}.embeddings.EmbeddingsModel", {"backend": "transformers"}),
    "similarity": (f"{RUNTIMES}.huggingface.HuggingFaceRuntime", {"task": "sentence-similarity"}),
    "pipeline": (f"{RUNTIMES}.huggingface.HuggingFaceRuntime", {"task": "feature-extraction"}),
    "mlserver": ("mlserver_huggingface.HuggingFaceRuntime", {"task": "feature-extraction"}),
}
"""The ways to read such a folder."""


class Folder(blobs.RemoteSource):
    """The files of a folder, as if they were elsewhere."""

    folder: Path

    def files(self) -> list[blobs.RemoteFile]:
        paths = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        return [
            blobs.RemoteFile(
                str(path.relative_to(self.folder)), path.stat().st_size, str(hash(path.read_bytes()))
            )
            for path in paths
        ]

    def read(self, file: blobs.RemoteFile, offset: int) -> Iterator[bytes]:
        yield (self.folder / file.path).read_bytes()[offset:]


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that hostile code makes. torch.load fails too: it reads nothing of a model without trust."""
    path = tmp_path / "canary"

    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("torch.load reads a file without trust")

    monkeypatch.setattr(torch, "load", load)
    yield path
    assert not path.exists()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    return transformer_models.sentences(folder)


Load = Callable[..., Any]


@pytest.fixture(params=["repository", "uri"])
def load(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads the model in a folder: of a remote repository, and of a remote `uri` in the operator's settings."""

    async def loaded(folder: Path, implementation: str | None, **extra: Any) -> str:
        """Why the model has not loaded; empty if it has."""
        monkeypatch.setattr(blobs.RemoteSource, "of", type("Source", (Folder,), {"folder": folder}))
        server = Settings(model_repository_root="hf://org/model", sources_dir=str(tmp_path / "cache"))
        artefacts = Artefacts(server)
        if request.param == "repository":
            if implementation is not None:
                described = {"implementation": implementation, "parameters": {"extra": extra}}
                (folder / "model-settings.json").write_text(json.dumps(described))
            repository = FetchedRepository(server)
            if not (usable := await repository.list()):
                return (await repository.broken())[0].reason
            settings = usable[0]
        else:
            settings = ModelSettings(
                name="m",
                implementation=implementation or FAMILY["embeddings"][0],
                parameters={"uri": "hf://org/model", "extra": extra},
                _source=str(tmp_path / "own" / "model-settings.json"),
            )
            settings = await artefacts.local(settings, stale=False)
        try:
            await load_model(settings, 120)
        except ModelLoadFailed as error:
            return artefacts.explain(error.message, settings)
        return ""

    return loaded


def changed(path: Path, **values: Any) -> None:
    """Change values of a JSON file, or make it."""
    content = json.loads(path.read_bytes()) if path.exists() else {}
    path.write_text(json.dumps({**content, **values}))


def modules(folder: Path, kind: str, path: str = "") -> None:
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": path, "type": kind}]))


def code_beside(folder: Path, canary: Path) -> None:
    """Files whose import or unpickling makes the canary, under each name that a library looks for."""
    code = f"import os\nos.makedirs({str(canary)!r}, exist_ok=True)\nclass Evil: pass\n"
    for name in (
        "modeling_evil.py",
        "tokenization_evil.py",
        "custom_generate/generate.py",
        "pipeline_evil.py",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
    for name in (
        "pytorch_model.bin",
        "training_args.bin",
        "adapter_model.bin",
        "optimizer.pt",
        "weights.npy",
        "evil.joblib",
    ):
        (folder / name).write_bytes(pickle.dumps(Canary(canary)))


@pytest.mark.parametrize("way", FAMILY)
async def test_folder_without_code_loads_without_trust(
    model: Path, canary: Path, load: Load, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its files say of code: none is fetched, and the arguments of the runtime win."""
    code_beside(model, canary)
    auto = {"AutoModel": "modeling_evil.Evil", "AutoConfig": "modeling_evil.Evil"}
    changed(
        model / "config.json",
        auto_map=auto,
        trust_remote_code=True,
        use_safetensors=False,
        weights_only=False,
    )
    changed(model / "tokenizer_config.json", auto_map={"AutoTokenizer": ["tokenization_evil.Evil", None]})
    changed(model / "config_sentence_transformers.json", trust_remote_code=True)
    changed(model / "generation_config.json", custom_generate="attacker/repo", trust_remote_code=True)
    implementation, extra = FAMILY[way]
    reason = await load(model, implementation, **extra)
    assert reason == ""
    assert "pytorch_model.bin" in caplog.text


@pytest.mark.parametrize("way", ["pipeline", "mlserver"])
async def test_repository_pipeline_fails_load(model: Path, canary: Path, load: Load, way: str) -> None:
    code_beside(model, canary)
    pipelines = {"feature-extraction": {"impl": "pipeline_evil.Evil", "pt": ["AutoModel"]}}
    changed(model / "config.json", custom_pipelines=pipelines)
    implementation, extra = FAMILY[way]
    assert "trust_remote_code" in await load(model, implementation, **extra)


@pytest.mark.parametrize("way", FAMILY)
async def test_pickled_weights_fail_load(model: Path, canary: Path, load: Load, way: str) -> None:
    (model / "model.safetensors").unlink()
    code_beside(model, canary)
    implementation, extra = FAMILY[way]
    reason = await load(model, implementation, **extra)
    assert "pytorch_model.bin" in reason
    assert "trust_remote_code" in reason


CHANGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    **{
        f"{argument}-{name}": (
            argument,
            lambda folder, argument=argument, name=name, value=value: changed(
                folder / "sentence_bert_config.json", **{argument: {name: value}}
            ),
        )
        for argument in (
            "model_args",
            "model_kwargs",
            "tokenizer_args",
            "processor_kwargs",
            "config_args",
            "config_kwargs",
        )
        for name, value in (
            ("weights_only", False),
            ("use_safetensors", False),
            ("subfolder", ".."),
            ("gguf_file", "x"),
        )
    },
    **{
        f"module-{kind}": ("modules.json", lambda folder, kind=kind: modules(folder, kind))
        for kind in (
            "attacker/repo--modeling_evil.Evil",
            "modeling_evil.Evil",
            "joblib.numpy_pickle",
            "os.system",
            "sentence_transformers.models.WordEmbeddings",
            "sentence_transformers.models.Router",
            "sentence_transformers.models.CLIPModel",
            "sentence_transformersx.models.Transformer",
        )
    },
    "module-path": (
        "modules.json",
        lambda folder: modules(folder, "sentence_transformers.models.Transformer", "../../other"),
    ),
    "activation": (
        "activation_function",
        lambda folder: changed(folder / "1_Pooling" / "config.json", activation_function="os.getcwd"),
    ),
    "router": ("types", lambda folder: changed(folder / "router_config.json", types={"a": "os.system"})),
    "kernel": (
        "config.json",
        lambda folder: changed(folder / "config.json", attn_implementation="attacker/kernel"),
    ),
    "part-kernel": (
        "config.json",
        lambda folder: changed(
            folder / "config.json", text_config={"_attn_implementation": "attacker/kernel@v1"}
        ),
    ),
    "internal-kernel": (  # CVE-2026-4372
        "config.json",
        lambda folder: changed(folder / "config.json", _attn_implementation_internal="attacker/kernel"),
    ),
    "expert-kernel": (
        "config.json",
        lambda folder: changed(folder / "config.json", _experts_implementation="attacker/kernel"),
    ),
    "kernels": (
        "config.json",
        lambda folder: changed(
            folder / "config.json", attn_implementation={"text_config": "attacker/kernel"}
        ),
    ),
    "timm": ("backbone", lambda folder: changed(folder / "config.json", backbone="hf_hub:attacker/model")),
    "adapter": (
        "adapter_config.json",
        lambda folder: changed(folder / "adapter_config.json", base_model_name_or_path="attacker/model"),
    ),
}
"""What the error names, and the change of the folder."""


@pytest.mark.parametrize("way", FAMILY)
@pytest.mark.parametrize("change", CHANGES)
async def test_code_selecting_settings_fail_load(
    model: Path, canary: Path, load: Load, way: str, change: str
) -> None:
    code_beside(model, canary)
    named, alter = CHANGES[change]
    alter(model)
    implementation, extra = FAMILY[way]
    reason = await load(model, implementation, **extra)
    assert named in reason
    assert "trust_remote_code" in reason


async def test_folder_without_settings_is_untrusted(model: Path, canary: Path, load: Load) -> None:
    assert await load(model, None) == ""
    changed(model / "sentence_bert_config.json", model_args={"weights_only": False})
    assert "model_args" in await load(model, None)


LANGUAGE = f"{RUNTIMES}.transformers.CausalLM"


@pytest.fixture
def language(tmp_path: Path) -> Path:
    return tiny.write(tmp_path / "language") / "artefacts"


async def test_language_model_loads_without_trust_or_its_code(
    language: Path, canary: Path, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    code_beside(language, canary)
    auto = {"AutoModelForCausalLM": "modeling_evil.Evil", "AutoConfig": "modeling_evil.Evil"}
    changed(language / "config.json", auto_map=auto, trust_remote_code=True)
    changed(language / "tokenizer_config.json", auto_map={"AutoTokenizer": ["tokenization_evil.Evil", None]})
    changed(language / "generation_config.json", custom_generate="attacker/repo", trust_remote_code=True)
    assert await load(language, LANGUAGE) == ""
    assert "custom_generate/generate.py" in caplog.text


@pytest.mark.parametrize("change", ["kernel", "internal-kernel", "expert-kernel", "timm", "adapter"])
async def test_language_model_code_setting_fails_load(
    language: Path, canary: Path, load: Load, change: str
) -> None:
    named, alter = CHANGES[change]
    alter(language)
    reason = await load(language, LANGUAGE)
    assert named in reason
    assert "trust_remote_code" in reason


async def test_language_model_pickled_weights_fail_load(language: Path, canary: Path, load: Load) -> None:
    (language / "model.safetensors").unlink()
    code_beside(language, canary)
    reason = await load(language, LANGUAGE)
    assert "pytorch_model.bin" in reason
    assert "trust_remote_code" in reason


async def test_model_type_with_custom_code_fails_load(language: Path, canary: Path, load: Load) -> None:
    code_beside(language, canary)
    auto = {"AutoModelForCausalLM": "modeling_evil.Evil", "AutoConfig": "modeling_evil.Evil"}
    changed(language / "config.json", auto_map=auto, model_type="evil")
    assert "trust_remote_code" in await load(language, LANGUAGE)
