"""The Hugging Face hub: `hf://org/model@revision`, optionally with `/path` for a part of the model."""

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from inferstream.errors import InvalidSettings, MissingExtra
from inferstream.ext.sources import RemoteFile

from .http import HttpSource, fetch_document, read_pieces


class HubModel(HttpSource):
    """The files of one revision of a repository, by default `main`.

    The endpoint and the token are configured as in huggingface_hub.
    """

    def __init__(self, uri: str) -> None:
        try:
            import huggingface_hub
        except ModuleNotFoundError as missing:
            raise MissingExtra("hf://", "hub", missing) from None
        self._hub: Any = huggingface_hub
        organisation, _, rest = uri.removeprefix("hf://").rstrip("/").partition("/")
        named, _, self._path = rest.partition("/")
        model, _, revision = named.partition("@")
        if not organisation or not model:
            raise InvalidSettings(f"{uri} is not of the form hf://organisation/model@revision")
        self._model = f"{organisation}/{model}"
        self._revision = revision or None
        self._folder = ""
        self._endpoint = huggingface_hub.HfApi().endpoint
        super().__init__(uri, self._endpoint)

    def files(self) -> Sequence[RemoteFile]:
        revision = f"/revision/{quote(self._revision, safe='')}" if self._revision else ""
        url = f"{self._endpoint}/api/models/{self._model}{revision}?blobs=true"
        response, content = fetch_document(self._client, url, self._hub.utils.build_hf_headers())
        response.raise_for_status()
        info = json.loads(content)
        self._revision = info["sha"]
        every = {each["rfilename"]: each for each in info["siblings"]}
        single = self._path in every
        self._folder = self._path.rpartition("/")[0] if single else self._path
        start = len(self._folder) + 1 if self._folder else 0
        return [
            RemoteFile(path[start:], each.get("size"), each.get("blobId") or "", _digest(each))
            for path, each in every.items()
            if (path == self._path if single else path.startswith(self._folder and f"{self._folder}/"))
        ]

    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        path = f"{self._folder}/{file.path}" if self._folder else file.path
        url = self._hub.hf_hub_url(self._model, path, revision=self._revision)
        return read_pieces(self._client, url, offset, self._hub.utils.build_hf_headers())


def _digest(sibling: dict[str, Any]) -> str | None:
    if large := sibling.get("lfs"):
        return f"sha256:{large['sha256']}"
    return f"git:{sibling['blobId']}" if sibling.get("blobId") else None
