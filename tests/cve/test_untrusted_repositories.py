"""Without trust nothing of a repository runs, whatever its files and settings say, and from whichever place it comes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import obstore
import pytest
import xgboost
from obstore.store import S3Store

from inferstream.errors import InvalidSettings
from inferstream.plugins.frameworks.xgboost import XGBoostModel
from inferstream.plugins.llm.huggingface import HuggingFaceRuntime
from inferstream.plugins.sources import blobs
from inferstream.plugins.sources.fetched_artefacts import FetchedRepository
from inferstream.repository.trust import permit
from inferstream.settings import ModelParameters, ModelSettings, Settings
from tests import stores
from tests.certificates import Authority
from tests.cve.hostile_repositories import described, repository, ways
from tests.programs import write_program
from tests.serving import Running

CVES = ("CVE-2026-27893", "CVE-2024-3568", "CVE-2024-11392", "CVE-2025-32434")


def reasons(running: Running) -> dict[str, str]:
    """Why each model did not load; empty for one that did."""
    return {
        each["name"]: each.get("reason") or ""
        for each in httpx.post(f"{running.url}/v2/repository/index", json={}).json()
    }


@contextmanager
def s3(files: dict[str, bytes], folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    with stores.moto() as url:
        options = {"client_options": {"allow_http": True}, "region": "us-east-1", "endpoint": url}
        store = S3Store("bucket", access_key_id="id", secret_access_key="s3cr3t", **options)
        for path, content in files.items():
            obstore.put(store, f"models/{path}", content)
        environment = {**stores.CREDENTIALS, "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true"}
        yield "s3://bucket/models", environment


@contextmanager
def hf(files: dict[str, bytes], folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    web = stores.Web()
    try:
        web.publish("org/models", "v1", files)
        yield "hf://org/models@v1", {"HF_ENDPOINT": web.url, "HF_HUB_DISABLE_TELEMETRY": "1"}
    finally:
        web.stop()


@contextmanager
def oci(files: dict[str, bytes], folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    with stores.registry(folder / "registry") as host:
        title = "org.opencontainers.image.title"
        layers = [(content, {title: path}, "application/octet-stream") for path, content in files.items()]
        stores.push(host, "team/models", "1", layers)
        yield f"oci://{host}/team/models:1", {}


@contextmanager
def https(files: dict[str, bytes], folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    authority = Authority(folder / "ca")
    web = stores.Web(authority.issue("archives"))
    try:
        web.files["/models.tar.gz"] = stores.packed(files)
        yield f"https://127.0.0.1:{web.port}/models.tar.gz", {"SSL_CERT_FILE": str(authority.pem)}
    finally:
        web.stop()


@pytest.mark.parametrize("place", [s3, hf, oci, https])
def test_untrusted_repository_runs_no_code_and_error_names_setting(place: Callable, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    browser = tmp_path / "browser"
    write_program(browser, f"#!/bin/sh\nmkdir -p {canary}\n")
    (tmp_path / "local").mkdir()
    with place(repository(canary), tmp_path) as (uri, environment):
        running = Running(
            tmp_path / "local",
            within=120,
            target=uri,
            BROWSER=str(browser),
            INFERSTREAM_SOURCES_DIR=str(tmp_path / "cache"),
            **environment,
        )
        try:
            found = reasons(running)
        finally:
            assert running.stop() == 0, running.text()
    expected = ways(canary)
    assert found.keys() == expected.keys()
    wrong = {
        name: found[name]
        for name, hostile in expected.items()
        if hostile.named not in found[name] or "trust_remote_code" not in found[name]
    }
    assert wrong == {}
    assert not canary.exists()


def trained() -> bytes:
    model = xgboost.XGBRegressor(n_estimators=1, base_score=3.0, n_jobs=1)
    model.fit(np.zeros((4, 1)), np.full(4, 3.0))
    return bytes(model.get_booster().save_raw("json"))


class Memory(blobs.RemoteSource):
    """Files in memory, under any scheme."""

    content: dict[str, bytes] = {}

    def files(self) -> list[blobs.RemoteFile]:
        return [blobs.RemoteFile(path, len(each), str(hash(each))) for path, each in self.content.items()]

    def read(self, file: blobs.RemoteFile, offset: int) -> Iterator[bytes]:
        yield self.content[file.path][offset:]


Fetch = Callable[[dict[str, bytes]], FetchedRepository]


@pytest.fixture(params=["hf", "s3", "gs", "az", "https", "oci"])
def fetched(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    """Makes a repository of files in memory, under each scheme."""

    def made(files: dict[str, bytes], **settings: object) -> FetchedRepository:
        source = type("Source", (Memory,), {"content": files})
        monkeypatch.setattr(blobs.RemoteSource, "of", source)
        uri = f"{request.param}://host/models"
        return FetchedRepository(
            Settings(model_repository_root=uri, sources_dir=str(tmp_path / "cache"), **settings)
        )

    return made


async def test_only_shipped_runtimes_are_usable_under_every_scheme(fetched: Fetch, tmp_path: Path) -> None:
    expected = ways(tmp_path / "canary")
    repository_of_all = fetched(repository(tmp_path / "canary"))
    usable = {settings.name: settings.implementation_ for settings in await repository_of_all.list()}
    broken = {each.name: each.reason for each in await repository_of_all.broken()}
    refused = {name for name in expected if name.startswith("implementation-")}
    assert refused <= broken.keys()
    assert all(
        "trust_remote_code" in broken[name] and expected[name].named in broken[name] for name in refused
    )
    assert all(path.startswith("inferstream.plugins.") or "mlserver_" in path for path in usable.values())
    assert not (tmp_path / "canary").exists()


async def test_harmless_files_load_and_are_copied(fetched: Fetch) -> None:
    harmless = [
        *("README.md", "LICENSE", "picture.png", "labels.txt", "vocab.json", "spiece.model", "chat.jinja"),
        *("data.csv", ".gitattributes", "NOTICE", "sound.wav", "model.safetensors"),
    ]
    files = dict.fromkeys(harmless, b"{}") | {"model.json": trained(), "training_args.bin": b"x"}
    [settings] = await fetched(files).list()
    folder = Path(settings.parameters.uri).parent
    assert {path.name for path in folder.iterdir()} == {*files} - {"training_args.bin"}


async def test_operator_environment_is_kept(fetched: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "own.Model")
    [settings] = await fetched({"model.json": trained()}).list()
    assert settings.implementation_ == "own.Model"


async def test_environment_arguments_come_from_operator(
    fetched: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSERVER_MODEL_EXTRA", '{"n_jobs": 2}')
    [settings] = await fetched({"model.json": trained()}).list()
    assert permit(XGBoostModel.permitted_call, Path(settings.parameters.uri), settings) == {}
    settings.parameters.extra = {"n_jobs": 3}
    with pytest.raises(InvalidSettings, match="n_jobs"):
        permit(XGBoostModel.permitted_call, Path(settings.parameters.uri), settings)


async def test_trusted_repository_applies_all_settings(fetched: Fetch, tmp_path: Path) -> None:
    files = {**described("model.Model", parallel_workers=300), "model.py": b"", "model.bin": b""}
    [settings] = await fetched(files, trust_remote_code=True).list()
    assert (settings.implementation_, settings.parallel_workers) == ("model.Model", 300)
    assert (Path(settings.source).parent / "model.py").exists()
    assert (Path(settings.source).parent / "model.bin").exists()


CLASSIFIED = {
    **dict.fromkeys(("implementation_", "trust_remote_code"), "decided by is_allowed"),
    **dict.fromkeys(
        (
            *("parallel_workers", "devices", "threads", "max_concurrency", "worker_concurrency", "max_queue"),
            *("max_active", "max_batch_size", "stream_buffer", "request_timeout", "pinned"),
        ),
        "bounded",
    ),
    **dict.fromkeys(("inference_pool_gid", "autogenerate_inference_pool_gid"), "removed"),
    **dict.fromkeys(("environment_path", "environment_tarball"), "refused"),
    "uri": "stays in the repository",
    "extra": "the names in the permitted call of the runtime",
    "parameters": "its own fields are classified",
    **dict.fromkeys(("name", "platform", "versions", "version", "inputs", "outputs", "format"), "described"),
    **dict.fromkeys(
        ("content_type", "tool_format", "reasoning_format", "grpc_stream_dialect"), "a known name"
    ),
    **dict.fromkeys(("openai", "input_validation", "items_per_second", "max_batch_time"), "its own calls"),
    **dict.fromkeys(("default_priority", "priority_aging", "sequence_idle", "load"), "its own calls"),
    **dict.fromkeys(("split", "shadow", "calls"), "models of the same repository"),
    **dict.fromkeys(("cache_enabled", "cache_ttl", "resumable_streams"), "the server's store has bounds"),
    "loop": "code of ours",
    "warm_workers": "no effect",
    "chat_template": "tests of templates",
}
"""What settings without trust may do by each field."""


def test_every_field_of_settings_is_classified() -> None:
    fields = {**ModelSettings.model_fields, **ModelParameters.model_fields}
    assert {*fields} == CLASSIFIED.keys()


async def test_untrusted_settings_cannot_exceed_server_resources(
    fetched: Fetch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("inferstream.processors.available", lambda: 2)
    many = {
        **{name: 10**9 for name, reason in CLASSIFIED.items() if reason == "bounded"},
        "devices": ["0"] * 1000,
        "pinned": True,
        "request_timeout": 0,
    }
    path = "inferstream.plugins.frameworks.xgboost.XGBoostModel"
    pool = {"inference_pool_gid": "other"}
    files = {
        f"{name}/{file}": content
        for name in ("a", "b")
        for file, content in described(path, parameters=pool, **many).items()
    }
    found = {settings.name: settings for settings in await fetched(files, request_timeout=9).list()}
    assert (found["a"].parallel_workers, found["b"].parallel_workers) == (2, None)
    for settings in found.values():
        assert len(settings.devices) <= 2
        assert settings.request_timeout == 9
        assert not settings.pinned
        assert settings.parameters.inference_pool_gid is None
        for name in (
            "threads",
            "max_concurrency",
            "worker_concurrency",
            "max_queue",
            "max_active",
            "stream_buffer",
        ):
            assert getattr(settings, name) <= 1024, name
    assert "model a: limited without trust_remote_code: parallel_workers is 2" in caplog.text


async def test_server_worker_count_is_allowed(fetched: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.processors.available", lambda: 1)
    files = described("inferstream.plugins.frameworks.xgboost.XGBoostModel", parallel_workers=5)
    [settings] = await fetched(files, parallel_workers=3).list()
    assert settings.parallel_workers == 3


async def test_operator_folder_is_trusted(tmp_path: Path) -> None:
    """Its settings with a remote `uri` are the operator's; the files of the URI are not."""
    settings = ModelSettings(
        name="m",
        implementation="inferstream.plugins.llm.huggingface.HuggingFaceRuntime",
        _source=str(tmp_path / "m"),
    )
    settings.parameters = ModelParameters(extra={"model_kwargs": {"weights_only": False}})
    assert permit(HuggingFaceRuntime.permitted_call, tmp_path, settings) == {}
    assert permit(HuggingFaceRuntime.permitted_call, "org/name", settings)["use_safetensors"] is True
