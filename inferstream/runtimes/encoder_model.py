"""The base of runtimes of transformers: where their files are, and how an encoder is made of them."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferstream import ModelSettings
from inferstream.ext.runtimes import TORCH_LOADING, FrameworkModel

from ..errors import ModelLoadFailed
from .encoders import Encoder, EncoderFiles, EncoderSettings, SentenceEncoder, TransformerEncoder
from .sentences import MODULES, read_sentences

UNREADABLE = (ImportError, KeyError, OSError, RuntimeError, ValueError)
"""What transformers raises for files that it cannot read."""


class EncoderModel(FrameworkModel):
    """A model that transformers reads. One run takes all cores, so its requests run one after another.

    `extra` is the extra of the package that installs what it needs.
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

    def _transformers(self) -> Any:
        """The package, without its progress bars, which a log cannot show."""
        transformers = self._import("transformers", self.extra)
        transformers.utils.logging.disable_progress_bar()
        return transformers

    async def _open_encoder(self, settings: EncoderSettings) -> Encoder:
        return await asyncio.to_thread(
            self._opened_encoder, await self._source(settings.pretrained_model), settings
        )

    def _opened_encoder(self, source: Path | str, settings: EncoderSettings) -> Encoder:
        with TORCH_LOADING, self._importing():
            fixed = self._fixed_arguments(source)
            if isinstance(source, str) and settings.trust_remote_code:
                fixed = {}
            torch, transformers = self._import("torch", self.extra), self._transformers()
            try:
                folder = self._folder(source, fixed)
                files = EncoderFiles(folder, settings, read_sentences(folder), fixed)
                encoder = self._encoder_of(torch, transformers, files)
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
            raise self._failed(f"{source.name} is not a folder")
        return source

    def _encoder_of(self, torch: Any, transformers: Any, files: EncoderFiles) -> Encoder:
        folder, settings, sentences, _ = files
        # sentence-transformers runs the modules that the files name, and no others.
        differs = settings.pooling is not None or (settings.normalize is False and sentences.normalize)
        required = settings.backend == "sentence-transformers"
        if required and differs:
            raise self._failed("pooling and normalize in parameters.extra need the backend transformers")
        if required or (settings.backend is None and not differs and (folder / MODULES).is_file()):
            package = self._sentence_transformers(required)
            if package is not None:
                if sentences.prompts and "include_prompt" in sentences.special:
                    raise self._failed(
                        "its pooling leaves prompts out (include_prompt), which is not supported"
                    )
                return SentenceEncoder(torch, package, files)
        if sentences.special:
            raise self._failed(
                f"{', '.join(sentences.special)} in its configuration needs sentence_transformers: "
                f'pip install "inferstream[{self.extra}]"'
            )
        return TransformerEncoder(torch, transformers, files)

    def _sentence_transformers(self, required: bool) -> Any:
        """The package; None if it is neither installed nor `required`."""
        try:
            return self._import("sentence_transformers", self.extra)
        except ModelLoadFailed:
            if required:
                raise
            return None
