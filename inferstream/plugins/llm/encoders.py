"""Text encoders: sentence-transformers, or a transformer with pooling."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from inferstream import RequestContext
from inferstream.errors import Cancelled
from inferstream.plugins.text.context_length import report_overflow

from .sentences import Pooling, Sentences

Backend = Literal["sentence-transformers", "transformers"]
DType = Literal["bfloat16", "float16", "float32"]


MAX_INPUT_TOKENS = 8192
"""Maximum input tokens of a model that does not specify a limit."""


class EncoderSettings(BaseModel):
    """`parameters.extra` of an encoder model."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    pretrained_model: str | None = None
    """Name on the Hugging Face Hub, or a folder. By default, the folder in `parameters.uri`."""
    backend: Backend | None = None
    device: str | None = None
    dtype: DType = "float32"
    batch_size: int = Field(32, ge=1)
    """Maximum number of inputs in one run of the transformer."""
    max_length: int | None = Field(None, ge=1)
    """Maximum tokens of an input. Longer inputs are truncated."""
    pooling: Pooling | None = None
    normalize: bool | None = None
    trust_remote_code: bool = False


class EncoderFiles(NamedTuple):
    """The files and settings of an encoder."""

    folder: Path
    settings: EncoderSettings
    sentences: Sentences
    fixed: Mapping[str, Any] = {}
    """Arguments for loading untrusted files safely. Empty for trusted files."""


class Encoder(ABC):
    """Encodes strings in batches of similar length, to minimize padding."""

    def __init__(self, torch: Any, settings: EncoderSettings, sentences: Sentences) -> None:
        self._torch = torch
        self._batch_size = settings.batch_size
        self._device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        # A tokenizer's padding settings are mutable and not thread-safe.
        self._tokenizing = Lock()
        self.prompts: Mapping[str, str] = sentences.prompts or {}
        self.default_prompt = self.prompts.get(sentences.default_prompt or "", "")
        self.dimension = 0
        self.tokenizer: Any = None
        self.max_length = 0
        """Maximum tokens of an input. Longer inputs are truncated."""

    @abstractmethod
    def tokenize(self, texts: list[str]) -> Mapping[str, Any]:
        """Return token tensors, including `attention_mask`."""

    @abstractmethod
    def compute_vectors(self, features: dict[str, Any]) -> Any:
        """Return a tensor with one vector per input."""

    def warm(self) -> None:
        """Encode a sample to determine the dimension of the vectors."""
        self.dimension = len(self._tokenize(["warm"])[0][0])

    def encode(
        self, texts: Sequence[Any], prompt: Any, context: RequestContext
    ) -> tuple[npt.NDArray[np.float32], int]:
        """Return a vector for each string or token list, with the prompt prepended, and the token count.

        Raises Cancelled if all callers have disconnected.
        """
        vectors = np.empty((len(texts), self.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]), reverse=True)
        tokens = 0
        for start in range(0, len(order), self._batch_size):
            if context.cancelled:
                raise Cancelled
            chunk = order[start : start + self._batch_size]
            vectors[chunk], count = self._tokenize([prompt + texts[index] for index in chunk])
            tokens += count
        return vectors, tokens

    def check_lengths(self, name: str, texts: list[str]) -> None:
        """Raise InvalidRequest if an input would be truncated."""
        with self._tokenizing:
            rows = self.tokenizer(texts, verbose=False)["input_ids"]
        longest = max(map(len, rows), default=0)
        if longest > self.max_length:
            raise report_overflow(name, longest, self.max_length)

    def _tokenize(self, texts: list[Any]) -> tuple[Any, int]:
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
            return self.compute_vectors(moved).float().cpu().numpy(), tokens


class SentenceEncoder(Encoder):
    """A model that sentence-transformers runs, including modules of other packages."""

    def __init__(self, torch: Any, package: Any, files: EncoderFiles) -> None:
        folder, settings, sentences, fixed = files
        super().__init__(torch, settings, sentences)
        weights = {**fixed}
        trusted = weights.pop("trust_remote_code", settings.trust_remote_code)
        # Explicit arguments override the model's files.
        more = {"model_kwargs": weights, "local_files_only": True} if fixed else {}
        model = package.SentenceTransformer(
            str(folder), device=self._device, trust_remote_code=trusted, **more
        )
        for module in model.modules() if fixed else ():  # it would render a template without limits
            readers: list[Any] = [getattr(module, name, None) for name in ("processor", "tokenizer")]
            for reader in readers:
                if hasattr(reader, "chat_template"):
                    reader.chat_template = None
        if settings.max_length is not None:
            model.max_seq_length = settings.max_length
        self._model = model.to(dtype=getattr(torch, settings.dtype)).eval()
        self.tokenizer = getattr(model, "tokenizer", None)
        self.max_length = getattr(model, "max_seq_length", None) or MAX_INPUT_TOKENS
        # `tokenize` was renamed to `preprocess` in version 6.
        self._preprocess: Callable[..., Any] = getattr(model, "preprocess", None) or model.tokenize
        self._normalize = settings.normalize and not sentences.normalize

    def tokenize(self, texts: list[str]) -> Mapping[str, Any]:
        features: Mapping[str, Any] = self._preprocess(texts)
        return features

    def compute_vectors(self, features: dict[str, Any]) -> Any:
        vectors = self._model(features)["sentence_embedding"]
        if (dimension := self._model.truncate_dim) is not None:
            vectors = vectors[:, :dimension]
        return self._torch.nn.functional.normalize(vectors, dim=-1) if self._normalize else vectors


class TransformerEncoder(Encoder):
    """A transformer whose token vectors are pooled as configured in `sentences`."""

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

    def compute_vectors(self, features: dict[str, Any]) -> Any:
        vectors = self._model(**features).last_hidden_state
        mask = features["attention_mask"]
        pooled = [pool(self._torch, vectors, mask, kind) for kind in self._pooling]
        pooling = pooled[0] if len(pooled) == 1 else self._torch.cat(pooled, dim=-1)
        return self._torch.nn.functional.normalize(pooling, dim=-1) if self._normalize else pooling


def pool(torch: Any, vectors: Any, mask: Any, kind: Pooling) -> Any:
    """Pool token vectors `[N, T, D]` to `[N, D]`. Vectors whose `mask` `[N, T]` is 0 are ignored."""
    present = mask.unsqueeze(-1)
    if kind == "mean":
        return (vectors * present).sum(1) / present.sum(1).clamp(min=1)
    if kind == "max":
        return vectors.masked_fill(present == 0, -torch.inf).amax(1)
    places = torch.arange(mask.shape[1], device=mask.device)
    # Padding may be on either side.
    at = (mask * (places + 1)).argmax(1) if kind == "lasttoken" else mask.argmax(1)
    return vectors[torch.arange(len(vectors), device=mask.device), at]
