"""The base class of runtimes that use transformers. It locates model files and creates encoders."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferstream import ModelSettings
from inferstream.errors import ModelLoadFailed
from inferstream.ext.runtimes import TORCH_LOADING, FrameworkModel

from .encoders import Encoder, EncoderFiles, EncoderSettings, SentenceEncoder, TransformerEncoder
from .sentences import MODULES, read_sentences

UNREADABLE = (ImportError, KeyError, OSError, RuntimeError, ValueError)
"""Exceptions that transformers raises for files that it cannot read."""


class EncoderModel(FrameworkModel):
    """A model that transformers loads. By default, requests run one at a time, because each uses all cores.

    `extra` is the extra of this package that installs the dependencies.
    """

    extra: str

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        if settings.threads is None:
            settings.threads = settings.max_concurrency or 1

    async def unload(self) -> bool:
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()
        return True

    def _import_transformers(self) -> Any:
        """Import transformers without progress bars, which are unreadable in logs."""
        transformers = self._import("transformers", self.extra)
        transformers.utils.logging.disable_progress_bar()
        return transformers

    async def _open_encoder(self, settings: EncoderSettings) -> Encoder:
        return await asyncio.to_thread(
            self._load_encoder, await self._source(settings.pretrained_model), settings
        )

    def _load_encoder(self, source: Path | str, settings: EncoderSettings) -> Encoder:
        with TORCH_LOADING, self._importing():
            fixed = self._fixed_arguments(source)
            if isinstance(source, str) and settings.trust_remote_code:
                fixed = {}
            torch, transformers = self._import("torch", self.extra), self._import_transformers()
            try:
                folder = self._folder(source, fixed)
                files = EncoderFiles(folder, settings, read_sentences(folder), fixed)
                encoder = self._build_encoder(torch, transformers, files)
                encoder.warm()
            except UNREADABLE as error:
                raise self._unreadable(source, f"transformers {transformers.__version__}", error) from error
            return encoder

    def _folder(self, source: Path | str, fixed: Mapping[str, Any]) -> Path:
        if isinstance(source, str):
            patterns = [f"*{suffix}" for suffix in self.permitted_call.files] if fixed else None
            hub = self._import("huggingface_hub", self.extra)
            folder = Path(hub.snapshot_download(source, allow_patterns=patterns))
            if fixed:
                self._check_values(folder, source)
            return folder
        if not source.is_dir():
            raise self._build_load_error(f"{source.name} is not a folder")
        return source

    def _build_encoder(self, torch: Any, transformers: Any, files: EncoderFiles) -> Encoder:
        folder, settings, sentences, _ = files
        # sentence-transformers runs exactly the modules that the files name.
        differs = settings.pooling is not None or (settings.normalize is False and sentences.normalize)
        required = settings.backend == "sentence-transformers"
        if required and differs:
            raise self._build_load_error(
                "pooling and normalize in parameters.extra need the backend transformers"
            )
        if required or (settings.backend is None and not differs and (folder / MODULES).is_file()):
            package = self._import_sentence_transformers(required)
            if package is not None:
                if sentences.prompts and "include_prompt" in sentences.special:
                    raise self._build_load_error(
                        "its pooling leaves prompts out (include_prompt), which is not supported"
                    )
                return SentenceEncoder(torch, package, files)
        if sentences.special:
            special = ", ".join(sentences.special)
            raise self._needs("sentence_transformers", self.extra, f"{special} in its configuration needs")
        return TransformerEncoder(torch, transformers, files)

    def _import_sentence_transformers(self, required: bool) -> Any:
        """Import the package. Returns None if it is missing and not `required`."""
        try:
            return self._import("sentence_transformers", self.extra)
        except ModelLoadFailed:
            if required:
                raise
            return None
