"""A server with principals of keys, of tokens and with names that look alike, and everything they own."""

import base64
import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.serving import HERE, Running

ISSUER = "https://id.example"

EVERY_SCOPE = ("infer", "stream", "repository", "metrics", "docs", "access")

SIGNING = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())

HOOK = """
import os
for name, value in (each.split("=") for each in os.environ["PATCHED"].split()):
    module, _, name = name.rpartition(".")
    setattr(__import__(module, fromlist=["x"]), name, int(value))
"""
"""Changes constants of the package in each process of a server."""


def token(
    sub: object,
    key: ec.EllipticCurvePrivateKey = SIGNING,
    header: dict[str, object] | None = None,
    **claims: object,
) -> str:
    all_claims = {
        "iss": ISSUER,
        "aud": "models",
        "sub": sub,
        "exp": time.time() + 3600,
        "scope": " ".join(EVERY_SCOPE),
        "models": ["*"],
        **claims,
    }
    # PyJWT signs no subject that is not a text.
    return jwt.PyJWS().encode(
        json.dumps(all_claims).encode(), key, "ES256", {"typ": "JWT", "kid": "one", **(header or {})}
    )


def unsigned(sub: str) -> str:
    parts = ({"alg": "none", "kid": "one"}, {"iss": ISSUER, "aud": "models", "sub": sub, "exp": 2**32})
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
        + "."
    )


class Keys:
    """A document of keys, one for each principal."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self.entries: list[dict[str, object]] = []

    def add(self, principal: str, scopes: tuple[str, ...] = EVERY_SCOPE, **more: object) -> str:
        id = f"k{len(self.entries)}"
        key = self.secrets[principal] = f"ifs_{id}_{secrets.token_urlsafe(32)}"
        digest = hashlib.sha256(key.encode()).hexdigest()
        rights = {"scopes": [*scopes], "models": ["*"], **more}
        self.entries.append({"id": id, "principal": principal, "sha256": digest, **rights})
        return key

    def bearer(self, principal: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secrets[principal]}"}

    def write(self, folder: Path, tokens: Mapping[str, object] | None = None) -> str:
        jwks = {"keys": [{**json.loads(ECAlgorithm.to_jwk(SIGNING.public_key())), "kid": "one"}]}
        (folder / "jwks.json").write_text(json.dumps(jwks))
        rules = {
            "issuer": ISSUER,
            "audience": "models",
            "jwks_file": str(folder / "jwks.json"),
            **(tokens or {}),
        }
        path = folder / "keys.json"
        path.write_text(json.dumps({"version": 1, "keys": self.entries, "jwt": rules}))
        path.chmod(0o600)
        return str(path)


def serve_app(
    root: Path,
    keys: Keys,
    code: str | None = None,
    tokens: Mapping[str, object] | None = None,
    patched: str = "",
    flags: tuple[str, ...] = (),
    **settings: object,
) -> Running:
    """An app with keys; without `code` the one of `held_app.py`. `patched` has constants, as in `module.NAME=3`."""
    folder = root / "app"
    folder.mkdir()
    if code is None:
        shutil.copy(HERE / "held_app.py", folder / "app.py")
    else:
        (folder / "app.py").write_text(code)
    own = {"keys_file": keys.write(root, tokens), "audit_log": str(root / "audit.jsonl"), **settings}
    (folder / "settings.json").write_text(json.dumps(own))
    environment = {}
    if patched:
        (root / "hook").mkdir()
        (root / "hook" / "sitecustomize.py").write_text(HOOK)
        environment = {"PATCHED": patched, "PYTHONPATH": f"{root / 'hook'}:{HERE.parent}"}
    return Running(folder, *flags, within=120, **environment)


def audited(root: Path) -> list[dict[str, object]]:
    path = root / "audit.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
