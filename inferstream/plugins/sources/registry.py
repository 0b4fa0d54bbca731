"""Container registries: `oci://registry/image:tag`, or `@sha256:…` instead of the tag."""

import base64
import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from inferstream.errors import InvalidSettings
from inferstream.ext.sources import FetchFailed, RemoteFile, hide_credentials

from .http import HttpSource, fetch_document, read_pieces

FORM = re.compile(
    r"oci://(?P<host>[^/@]+)/(?P<name>[^@]+?)(:(?P<tag>[^:/@]+))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)

MANIFESTS = ", ".join(
    [
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    ]
)

TITLE = "org.opencontainers.image.title"
"""The annotation with the name of a file that is pushed as a layer (ORAS)."""

PACKED = "io.deis.oras.content.unpack"
"""The annotation of a layer that is a folder packed as a tar archive (ORAS)."""

DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Architecture names in registries, by machine name."""

LOOPBACK = re.compile(r"(localhost|127\.[0-9.]+|\[::1\])(:\d+)?")
"""Registries that are accessed without TLS, as in Docker."""


class RegistryImage(HttpSource):
    """The layers of an image or artefact. Layers with a title are files, and others are archives."""

    def __init__(self, uri: str) -> None:
        match = FORM.fullmatch(uri)
        if match is None:
            raise InvalidSettings(f"{hide_credentials(uri)} is not of the form oci://registry/image:tag")
        self._host = match["host"]
        self._name = match["name"]
        self._reference = match["digest"] or match["tag"] or "latest"
        scheme = "http" if LOOPBACK.fullmatch(self._host) else "https"
        self._url = f"{scheme}://{self._host}/v2/{self._name}"
        super().__init__(uri, self._url)
        self._headers: dict[str, str] = {}

    def files(self) -> Sequence[RemoteFile]:
        try:
            manifest = self._fetch_manifest(self._reference)
            if "manifests" in manifest:
                every = manifest["manifests"]
                machine = MACHINES.get(platform.machine(), platform.machine())
                own = [each for each in every if each.get("platform", {}).get("architecture") == machine]
                manifest = self._fetch_manifest((own or every)[0]["digest"])
            return [self._file(layer) for layer in manifest.get("layers", ())]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
            raise FetchFailed(f"the manifest of {hide_credentials(self.uri)} is malformed") from None

    def _file(self, layer: dict[str, Any]) -> RemoteFile:
        notes, digest, size = layer.get("annotations") or {}, layer["digest"], layer["size"]
        title = notes.get(TITLE, digest)
        if not (DIGEST.fullmatch(digest) and type(size) is int and size >= 0 and isinstance(title, str)):
            raise ValueError
        return RemoteFile(title, size, digest, digest, TITLE not in notes or notes.get(PACKED) == "true")

    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        url = f"{self._url}/blobs/{file.identity}"
        try:
            yield from read_pieces(self._client, url, offset, self._headers)
        except httpx.HTTPStatusError as refused:  # Raised before any data. Tokens can expire during a fetch.
            if refused.response.status_code != httpx.codes.UNAUTHORIZED:
                raise
            self._authorize(refused.response)
            yield from read_pieces(self._client, url, offset, self._headers)

    def _fetch_manifest(self, reference: str) -> dict[str, Any]:
        url, accept = f"{self._url}/manifests/{reference}", {"Accept": MANIFESTS}
        response, content = fetch_document(self._client, url, {**accept, **self._headers})
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self._authorize(response)
            response, content = fetch_document(self._client, url, {**accept, **self._headers})
        response.raise_for_status()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if reference.startswith("sha256:") and digest != reference:
            raise FetchFailed(f"the manifest of {hide_credentials(self.uri)} has the digest {digest}")
        manifest: dict[str, Any] = json.loads(content)
        return manifest

    def _authorize(self, refused: httpx.Response) -> None:
        """Obtain credentials for the registry: a token with pull permission, or basic authentication."""
        if (
            refused.url.netloc.decode() != self._host
        ):  # After a redirect, the credentials must not be sent to another host.
            refused.raise_for_status()
        challenge = refused.headers.get("www-authenticate", "")
        own = self._read_login()
        basic = {} if own is None else {"Authorization": f"Basic {own}"}
        if not challenge.lower().startswith("bearer "):
            self._headers = basic
            return
        asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        realm = asked.pop("realm", "")
        scope = asked.get("scope", f"repository:{self._name}:pull")
        url = httpx.URL(realm).copy_merge_params({**asked, "scope": scope})
        response, content = fetch_document(self._client, str(url), basic)
        response.raise_for_status()
        got = json.loads(content)
        self._headers = {"Authorization": f"Bearer {got.get('token') or got.get('access_token')}"}

    def _read_login(self) -> str | None:
        """Return credentials in base64, from the Docker configuration that `docker login` writes."""
        folder = os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"
        with suppress(OSError, ValueError, KeyError):
            logins = json.loads(Path(folder, "config.json").read_text())["auths"]
            login: str = logins[self._host]["auth"]
            base64.b64decode(login, validate=True)
            return login
        return None
