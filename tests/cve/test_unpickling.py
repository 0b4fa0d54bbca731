"""Bytes of a peer that become objects, on a socket or in a request."""

import ast
import base64
import builtins
import pickle
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from tests.cve.audited import Audited
from tests.cve.source import called, imported, nodes
from tests.cve.surfaces import bytes_tensor
from tests.grpc_web import framed
from tests.serving import eventually

CVES = (
    "CVE-2026-3059",
    "CVE-2026-3060",
    "CVE-2026-7301",
    "CVE-2026-3989",
    "CVE-2025-10164",
    "CVE-2024-2912",
    "CVE-2025-27520",
)

TYPES = (
    "application/vnd.bentoml+pickle",
    "application/x-pickle",
    "application/python-pickle",
    "application/octet-stream",
    "application/json",
    "application/msgpack",
    "application/grpc-web+proto",
    "application/x-npy",
    "text/plain",
)
CODECS = ("pickle", "pd", "np", "nplist", "hg_json", "raw", "base64", "str", "json", "joblib")

LOADERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}
LOADING = {"torch.load", "np.load", "numpy.load", "pd.read_pickle", "eval", "exec"}


class Canary:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> tuple:
        return builtins.open, (self._path, "w")


@pytest.fixture
def canary(watched: Audited, tmp_path: Path) -> Iterator[bytes]:
    victim = tmp_path / "unpickled"
    yield pickle.dumps(Canary(victim))
    assert not victim.exists()
    assert watched.done("pickle.", f"open {victim}") == []


def test_canary_pickle_is_effective(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Canary(tmp_path / "unpickled"))).close()
    assert (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("media", TYPES)
def test_request_bodies_are_not_unpickled(watched: Audited, canary: bytes, media: str) -> None:
    paths = (
        "/v2/models/echo/infer",
        "/v2/models/both/infer_stream",
        "/v2/models/words/generate",
        "/generate",
    )
    others = (
        "/v1/chat/completions",
        "/rpc",
        "/v2/repository/index",
        "/v2/repository/models/echo/load",
        "/own/post",
    )
    headers = {
        "Content-Type": media,
        "Payload-Container": "NdarrayContainer",
        "Payload-Meta": '{"format": "pickle"}',
    }
    with httpx.Client(base_url=watched.url, timeout=20, headers=headers) as client:
        for path in (*paths, *others):
            assert client.post(path, content=canary).status_code < 500, path
        length = {"Inference-Header-Content-Length": "0"}  # a tensor that is the body
        assert client.post("/v2/models/decoding/infer", content=canary, headers=length).status_code < 500


@pytest.mark.parametrize("codec", CODECS)
def test_tensors_are_not_unpickled(watched: Audited, canary: bytes, codec: str) -> None:
    """Tensors go to a worker and into the cache, and come back out of it."""
    for model in ("cached", "decoding", "arrays"):
        for data in (base64.b64encode(canary).decode(), base64.encodebytes(canary).decode()):
            body = {"inputs": [bytes_tensor(data, content_type=codec)]}
            for _ in range(2):
                assert watched.infer(model, body).status_code < 500
        head = b'{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":%d,'
        head = head % (len(canary) + 4) + b'"content_type":"%b"}}]}' % codec.encode()
        size = len(canary).to_bytes(4, "little")
        sent = httpx.post(
            f"{watched.url}/v2/models/{model}/infer",
            content=head + size + canary,
            headers={"Inference-Header-Content-Length": str(len(head))},
            timeout=20,
        )
        assert sent.status_code < 500, sent.text


def test_messages_are_not_unpickled(watched: Audited, canary: bytes) -> None:
    with connect(f"ws://127.0.0.1:{watched.http_port}/v2/models/both/stream") as opened:
        for sent in (canary, len(canary).to_bytes(4, "little") + canary):
            opened.send(sent)
            assert "error" in str(opened.recv(timeout=10))
    found = httpx.post(
        f"{watched.url}/inference.GRPCInferenceService/ModelInfer",
        content=framed(canary),
        headers={"Content-Type": "application/grpc-web"},
    )
    assert b"grpc-status:13" not in found.content


def listening() -> dict[str, str]:
    """Inodes of the sockets of this machine that wait for connections, with what they are."""
    found = {}
    for name in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            (
                _,
                local,
                _,
                state,
                *_,
            ) = fields = line.split()
            if state == "0A" or name.startswith("udp"):
                found[fields[9]] = f"{name} {int(local.rpartition(':')[2], 16)}"
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "00010000" or len(fields) > 7:  # listens, or has a name
            found[fields[6]] = f"unix {fields[7:]}"
    return found


def test_only_declared_ports_listen(audited: Audited) -> None:
    """Workers and front ends speak over pairs of sockets that nobody else can connect to."""
    known = listening()
    declared = {f"tcp {port}" for port in (audited.http_port, audited.grpc_port, audited.metrics_port)}
    eventually(lambda: {known[inode] for inode in audited.sockets() if inode in known} == declared)


def test_server_code_cannot_unpickle() -> None:
    loaders = set()
    for name, node in nodes(*LOADERS, *LOADING):
        strings = [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
        modules = {each.partition(".")[0] for each in imported(node)} | set(strings)
        if modules & LOADERS or called(node) in LOADING:
            loaders.add(name)
    # The artefact of a model of scikit-learn is a pickle, which its folder is trusted with.
    # Ray pickles what it deploys, and the room of Ray tries whether it can; it loads nothing.
    trusted = {"runtimes/refusals.py", "plugins/frameworks/sklearn.py", "cli/templates/sklearn/model.py"}
    # It names code of pickle, to know who asks for an import.
    imports = {"imports/path/model_folders.py"}
    # TorchServe's handlers read weights without pickled code, and the settings of archives are safe YAML.
    archives = {"plugins/torchserve/handlers.py", "plugins/torchserve/mar.py"}
    assert loaders == {*trusted, *archives, *imports, "plugins/ray/deployment.py"}
