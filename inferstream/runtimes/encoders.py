"""Texts as vectors: by sentence-transformers, or by a transformer with pooling."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from inferstream import RequestContext

from ..errors import Cancelled
from ..text.context_length import report_overflow
from .sentences import Pooling, Sentences

Backend = Literal["sentence-transformers", "transformers"]
DType = Literal["bfloat16", "float16", "float32"]


LONGEST = 8192
"""Tokens of a text for a model that names no limit."""


class EncoderSettings(BaseModel):
    """`parameters.extra` of a model that encodes texts."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    pretrained_model: str | None = None
    """Name at the hub, or a folder; else the folder of `parameters.uri`."""
    backend: Backend | None = None
    device: str | None = None
    dtype: DType = "float32"
    batch_size: int = Field(32, ge=1)
    """Texts in one run of the transformer."""
    max_length: int | None = Field(None, ge=1)
    """Tokens of a text that count; the rest is cut off."""
    pooling: Pooling | None = None
    normalize: bool | None = None
    trust_remote_code: bool = False


class EncoderFiles(NamedTuple):
    """The files that an encoder is made of, and how."""

    folder: Path
    settings: EncoderSettings
    sentences: Sentences
    fixed: Mapping[str, Any] = {}
    """Arguments for files without trust."""


class Encoder(ABC):
    """Encodes texts in chunks of similar length, so that little of a chunk is padding."""

    def __init__(self, torch: Any, settings: EncoderSettings, sentences: Sentences) -> None:
        self._torch = torch
        self._batch_size = settings.batch_size
        self._device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        # The padding of a tokenizer is state of its own, which two threads must not change at once.
        self._tokenizing = Lock()
        self.prompts: Mapping[str, str] = sentences.prompts or {}
        self.default_prompt = self.prompts.get(sentences.default_prompt or "", "")
        self.dimension = 0
        self.tokenizer: Any = None
        self.max_length = 0
        """Tokens of a text that count."""

    @abstractmethod
    def tokenize(self, texts: list[str]) -> Mapping[str, Any]:
        """Tensors of tokens, `attention_mask` among them."""

    @abstractmethod
    def embed(self, features: dict[str, Any]) -> Any:
        """One vector for each text, as a tensor."""

    def warm(self) -> None:
        """Encode a text, which shows how long the vectors are."""
        self.dimension = len(self._encoded(["warm"])[0][0])

    def encode(
        self, texts: Sequence[Any], prompt: Any, context: RequestContext
    ) -> tuple[npt.NDArray[np.float32], int]:
        """A vector for each text or list of tokens, with the prompt in front, and the number of tokens.

        Raises Cancelled once nobody waits any more.
        """
        vectors = np.empty((len(texts), self.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]), reverse=True)
        tokens = 0
        for start in range(0, len(order), self._batch_size):
            if context.cancelled:
                raise Cancelled
            chunk = order[start : start + self._batch_size]
            vectors[chunk], count = self._encoded([prompt + texts[index] for index in chunk])
            tokens += count
        return vectors, tokens

    def check_lengths(self, name: str, texts: list[str]) -> None:
        """Raise InvalidRequest for a text of which a part would be cut off."""
        with self._tokenizing:
            rows = self.tokenizer(texts, verbose=False)["input_ids"]
        longest = max(map(len, rows), default=0)
        if longest > self.max_length:
            raise report_overflow(name, longest, self.max_length)

    def _encoded(self, texts: list[Any]) -> tuple[Any, int]:
        with self._tokenizing:
            listed = not isinstance(texts[0], str)
            padded = {"input_ids": texts}
            features = self.tokenizer.pad(padded, return_tensors="pt") if listed else self.tokenize(texts)
        tokens = int(features["attention_mask"].sum())
        to_device = self._torch.is_tensor
        moved = {
            name: value.to(self._device) if to_device(value) else value for name, value in features.items()
        }
        with self._torch.inference_mode():
            return self.embed(moved).float().cpu().numpy(), tokens


class SentenceEncoder(Encoder):
    """A model that sentence-transformers runs, modules of other packages included."""

    def __init__(self, torch: Any, package: Any, files: EncoderFiles) -> None:
        folder, settings, sentences, fixed = files
        super().__init__(torch, settings, sentences)
        weights = {**fixed}
        trusted = weights.pop("trust_remote_code", settings.trust_remote_code)
        # Given arguments go before those in the files of the model.
        more = {"model_kwargs": weights, "local_files_only": True} if fixed else {}
        model = package.SentenceTransformer(
            str(folder), device=self._device, trust_remote_code=trusted, **more
        )
        for module in model.modules() if fixed else ():  # a template would be rendered here without limits
            readers: list[Any] = [getattr(module, name, None) for name in ("processor", "tokenizer")]
            for reader in readers:
                if hasattr(reader, "chat_template"):
                    reader.chat_template = None
        if settings.max_length is not None:
            model.max_seq_length = settings.max_length
        self._model = model.to(dtype=getattr(torch, settings.dtype)).eval()
        self.tokenizer = getattr(model, "tokenizer", None)
        self.max_length = getattr(model, "max_seq_length", None) or LONGEST
        # Its name since version 6.
        self._preprocess: Callable[..., Any] = getattr(model, "preprocess", None) or model.tokenize
        self._normalize = settings.normalize and not sentences.normalize

    def tokenize(self, texts: list[str]) -> Mapping[str, Any]:
        features: Mapping[str, Any] = self._preprocess(texts)
        return features

    def embed(self, features: dict[str, Any]) -> Any:
        vectors = self._model(features)["sentence_embedding"]
        if (dimension := self._model.truncate_dim) is not None:
            vectors = vectors[:, :dimension]
        return self._torch.nn.functional.normalize(vectors, dim=-1) if self._normalize else vectors


class TransformerEncoder(Encoder):
    """A transformer whose token vectors are pooled as `sentences` says."""

    def __init__(self, torch: Any, package: Any, files: EncoderFiles) -> None:
        folder, settings, sentences, fixed = files
        super().__init__(torch, settings, sentences)
        path = str(folder / sentences.encoder)
        arguments = {"trust_remote_code": settings.trust_remote_code, **fixed}
        trusted = arguments["trust_remote_code"]
        self.tokenizer = package.AutoTokenizer.from_pretrained(path, trust_remote_code=trusted)
        model = package.AutoModel.from_pretrained(path, **arguments)
        if model.config.is_encoder_decoder:
            raise ValueError("a model with a decoder has no vectors of its own")
        self._model = model.to(device=self._device, dtype=getattr(torch, settings.dtype)).eval()
        self._lowercase = sentences.lowercase
        self._pooling = sentences.pooling if settings.pooling is None else (settings.pooling,)
        self._normalize = sentences.normalize if settings.normalize is None else settings.normalize
        positions = getattr(model.config, "max_position_embeddings", None)
        lengths = (settings.max_length or sentences.max_length, self.tokenizer.model_max_length, positions)
        self.max_length = min(length for length in lengths if length)

    def tokenize(self, texts: list[str]) -> Mapping[str, Any]:
        if self._lowercase:
            texts = [text.lower() for text in texts]
        features: Mapping[str, Any] = self.tokenizer(
            texts, padding=True, truncation=True, max_length=self.max_length, return_tensors="pt"
        )
        return features

    def embed(self, features: dict[str, Any]) -> Any:
        vectors = self._model(**features).last_hidden_state
        mask = features["attention_mask"]
        pooled = [pool(self._torch, vectors, mask, kind) for kind in self._pooling]
        pooling = pooled[0] if len(pooled) == 1 else self._torch.cat(pooled, dim=-1)
        return self._torch.nn.functional.normalize(pooling, dim=-1) if self._normalize else pooling


def pool(torch: Any, vectors: Any, mask: Any, kind: Pooling) -> Any:
    """One vector for each row of token vectors `[N, T, D]`, without those that `mask` `[N, T]` leaves out."""
    present = mask.unsqueeze(-1)
    if kind == "mean":
        return (vectors * present).sum(1) / present.sum(1).clamp(min=1)
    if kind == "max":
        return vectors.masked_fill(present == 0, -torch.inf).amax(1)
    places = torch.arange(mask.shape[1], device=mask.device)
    # Padding may be on either side.
    at = (mask * (places + 1)).argmax(1) if kind == "lasttoken" else mask.argmax(1)
    return vectors[torch.arange(len(vectors), device=mask.device), at]
