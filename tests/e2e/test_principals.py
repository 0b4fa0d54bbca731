"""Principals by key, by certificate and by the token of an issuer, over REST and gRPC; what they used, over a restart."""

import hashlib
import json
import secrets
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.certificates import Authority
from tests.serving import SERVER, Running

APP = """
from inferstream import App

app = App()

@app.model
def double(n: int) -> int:
    return 2 * n
"""

SIGNING = rsa.generate_private_key(public_exponent=65537, key_size=2048)
KEY = f"ifs_one_{secrets.token_urlsafe(32)}"
SPENT = f"ifs_spent_{secrets.token_urlsafe(32)}"
RIGHTS = {"scopes": ["infer"], "models": ["double"]}
BODY = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [4]}]}


class Issuer(ThreadingHTTPServer):
    """Tells its keys as OpenID Connect describes."""

    def __init__(self, authority: Authority) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        files = authority.issue("issuer")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files["ssl_certfile"], files["ssl_keyfile"])
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server_port}"
        public = {**json.loads(RSAAlgorithm.to_jwk(SIGNING.public_key())), "kid": "one", "alg": "RS256"}
        self.answers: dict[str, Any] = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [public]},
        }

    def token(self, **claims: object) -> str:
        its = {"iss": self.url, "aud": "models", "sub": "tessa", "exp": time.time() + 3600, "scope": "infer"}
        return jwt.encode({**its, "models": ["double"], **claims}, SIGNING, "RS256", {"kid": "one"})


class Answering(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.answers[self.path]).encode())

    def log_message(self, *_: object) -> None: ...


class Site:
    """A server that knows principals of every kind, and its clients."""

    def __init__(self, root: Path) -> None:
        self.authority = Authority(root)
        self.issuer = Issuer(self.authority)
        threading.Thread(target=self.issuer.serve_forever, daemon=True).start()
        self.folder = root / "served"
        self.folder.mkdir()
        (self.folder / "app.py").write_text(APP)
        document = {
            "version": 1,
            "keys": [entry("one", KEY), entry("spent", SPENT, limits={"tokens_per_day": 2})],
            "subjects": [{"subject": "robot.example", "principal": "robot", **RIGHTS}],
            "jwt": {"issuer": self.issuer.url, "audience": "models"},
        }
        (self.folder / "keys.json").write_text(json.dumps(document))
        tls = {**self.authority.issue("server"), "ssl_ca_certs": str(self.authority.pem), "ssl_cert_reqs": 1}
        settings: dict[str, Any] = {f"_custom_{port}_server_settings": tls for port in ("rest", "grpc")}
        settings |= {f"{name}_file": str(self.folder / f"{name}.json") for name in ("keys", "usage")}
        settings["audit_log"] = str(self.folder / "audit.jsonl")
        (self.folder / "settings.json").write_text(json.dumps(settings))
        self.robot = self.authority.issue("robot", hosts=("robot.example",))
        self.start()

    def start(self) -> None:
        self.running = Running(self.folder, within=60, SSL_CERT_FILE=str(self.authority.pem))
        self.url = self.running.url.replace("http://", "https://")

    def stop(self) -> None:
        assert self.running.stop() == 0, self.running.text()

    def over_rest(self, headers: dict[str, str], robot: bool, path: str = "double/infer") -> int:
        trust = ssl.create_default_context(cafile=self.authority.pem)
        if robot:
            trust.load_cert_chain(self.robot["ssl_certfile"], self.robot["ssl_keyfile"])
        url = f"{self.url}/v2/models/{path}"
        return httpx.post(url, json=BODY, headers=headers, verify=trust, timeout=20).status_code

    def over_grpc(self, headers: dict[str, str], robot: bool) -> grpc.StatusCode:
        files = (self.robot["ssl_keyfile"], self.robot["ssl_certfile"]) if robot else ()
        pems = [Path(file).read_bytes() for file in (self.authority.pem, *files)]
        message = ModelInferRequest(model_name="double")
        message.inputs.add(name="n", datatype="INT64", shape=[1]).contents.int64_contents.append(4)
        with grpc.secure_channel(self.running.grpc, grpc.ssl_channel_credentials(*pems)) as channel:
            try:
                GRPCInferenceServiceStub(channel).ModelInfer(
                    message, metadata=tuple(headers.items()), timeout=20
                )
            except grpc.RpcError as error:
                return error.code()
        return grpc.StatusCode.OK


def entry(id: str, key: str, **more: object) -> dict[str, object]:
    return {"id": id, "principal": id, "sha256": hashlib.sha256(key.encode()).hexdigest(), **RIGHTS, **more}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("principals"))
    yield site
    site.stop()
    site.issuer.shutdown()
    site.issuer.server_close()
    lines = [json.loads(line) for line in (site.folder / "audit.jsonl").read_text().splitlines()]
    seen = {(line["door"], line["principal"]) for line in lines if line["end"] == "success"}
    assert {(door, who) for door in ("http", "grpc") for who in ("one", "robot", "jwt:tessa")} <= seen


WHO: dict[str, Callable[[Site], tuple[dict[str, str], bool]]] = {
    "a key": lambda site: ({"x-api-key": KEY}, False),
    "a certificate": lambda site: ({}, True),
    "a token": lambda site: ({"authorization": f"Bearer {site.issuer.token()}"}, False),
}


@pytest.mark.parametrize("who", WHO)
def test_each_principal_kind_has_its_permissions(site: Site, who: str) -> None:
    headers, robot = WHO[who](site)
    assert site.over_rest(headers, robot) == 200
    assert site.over_grpc(headers, robot) is grpc.StatusCode.OK
    assert site.over_rest(headers, robot, "double/infer_stream") == 403
    assert site.over_rest(headers, robot, "other/infer") == 403


def test_anonymous_and_foreign_tokens_have_no_permissions(site: Site) -> None:
    other = {"authorization": f"Bearer {site.issuer.token(iss='https://other.example')}"}
    for headers in ({}, other):
        assert site.over_rest(headers, False) == 401
        assert site.over_grpc(headers, False) is grpc.StatusCode.UNAUTHENTICATED


def test_usage_and_daily_limit_survive_restart(site: Site) -> None:
    spent: dict[str, str] = {"x-api-key": SPENT}
    today = time.gmtime().tm_yday
    assert [site.over_rest(spent, False) for _ in range(3)] == [200, 200, 429]
    site.stop()
    site.start()
    if time.gmtime().tm_yday != today:
        pytest.skip("midnight has passed")
    assert site.over_rest(spent, False) == 429
    site.stop()
    command = [*SERVER, "keys", "usage", "--json"]
    shown = subprocess.run(command, cwd=site.folder, capture_output=True, check=True, text=True).stdout
    site.start()
    [row] = [row for row in json.loads(shown)["usage"] if row["key"] == "spent"]
    assert (row["principal"], row["requests"], row["refused"], row["tokens"]) == ("spent", 2, 2, 2)
    assert row["bytes"] > 2 * len(json.dumps(BODY)), "bytes of responses count too"


BROKEN = {
    "no JSON": ("{", ""),
    "a key twice": ([entry("one", KEY)] * 2, 'id "one" is there twice'),
    "a scope nobody knows": ([entry("one", KEY, scopes=["all"])], '"one"'),
    "a limit below zero": ([entry("one", KEY, limits={"streams": -1})], '"streams" must be 0 or more'),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_file_aborts_startup_with_one_line(tmp_path: Path, what: str) -> None:
    document, said = BROKEN[what]
    (tmp_path / "served").mkdir()
    keys = tmp_path / "served" / "keys.json"
    keys.write_text(document if isinstance(document, str) else json.dumps({"version": 1, "keys": document}))
    (tmp_path / "served" / "app.py").write_text(APP)
    (tmp_path / "served" / "settings.json").write_text(json.dumps({"keys_file": str(keys)}))
    running = Running(tmp_path / "served", wait=False)
    assert running.process.wait(60) == 1
    [line] = [line for line in running.text().splitlines() if line.startswith("error: ")]
    assert str(keys) in line
    assert said in line
    assert "Traceback" not in running.text()
    assert KEY not in running.text()
