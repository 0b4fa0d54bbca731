"""A GGUF model over the low-level functions of llama-cpp-python: batches of tokens of many sequences."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inferstream.ext.telemetry import get_logger

from ..spelling import Speller

logger = get_logger("runtimes")

ALL_LAYERS = 2**31 - 1

FULL = 1
"""Result of llama_decode if the cache has no room for the batch. Nothing has changed then."""

ERROR = 4
"""Level of errors in the log of the library."""

Logits = npt.NDArray[np.float32]


class SequenceTokens(NamedTuple):
    """Consecutive tokens of one sequence in a batch."""

    sequence: int
    position: int
    """Position of the first token."""
    tokens: Sequence[int]
    outputs: int
    """Number of tokens at the end whose logits are computed."""


class Network:
    """The weights and one cache of key/value pairs, which all sequences share. Raises ValueError.

    Sequences have numbers below `sequences`. Call `decode` from one thread.
    """

    _model: Any = None
    _context: Any = None

    def __init__(self, library: Any, path: Path, threads: int, gpu_layers: int) -> None:
        self._library = library
        self._threads = threads
        self._log = library.llama_log_callback(_log_error)  # referenced as long as the library calls it
        library.llama_log_set(self._log, ctypes.c_void_p(0))
        library.llama_backend_init()
        parameters = library.llama_model_default_params()
        parameters.n_gpu_layers = ALL_LAYERS if gpu_layers < 0 else gpu_layers
        self._model = library.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._model:
            raise ValueError("the library cannot load the file")
        self.trained_length = int(library.llama_model_n_ctx_train(self._model))
        """Context length of the model."""
        # The state of recurrent layers cannot be cut at the end of a prefix.
        self.has_prefixes = not (
            library.llama_model_is_recurrent(self._model) or library.llama_model_is_hybrid(self._model)
        )

    def open(self, cells: int, sequences: int, batch: int) -> None:
        """Allocate a cache for `cells` tokens, and batches of up to `batch` tokens."""
        library = self._library
        parameters = library.llama_context_default_params()
        parameters.n_ctx, parameters.n_seq_max, parameters.n_batch = cells, sequences, batch
        parameters.n_threads = parameters.n_threads_batch = self._threads
        parameters.kv_unified = True
        self._context = library.llama_init_from_model(self._model, parameters)
        if not self._context:
            raise ValueError("the library cannot allocate the context")
        self._memory = library.llama_get_memory(self._context)
        self.vocabulary = Vocabulary(library, self._model)
        self._tokens, self._positions, self._sequences = np.zeros((3, batch), np.int32)
        self._counts = np.ones(batch, np.int32)
        self._outputs = np.zeros(batch, np.int8)
        step = self._sequences.itemsize
        self._addresses = self._sequences.ctypes.data + step * np.arange(batch, dtype=np.uintp)
        self._batch = library.llama_batch()
        arrays: dict[str, npt.NDArray[Any]]
        arrays = {"token": self._tokens, "pos": self._positions, "n_seq_id": self._counts}
        arrays |= {"seq_id": self._addresses, "logits": self._outputs}
        kinds = dict(library.llama_batch._fields_)
        for name, array in arrays.items():
            setattr(self._batch, name, ctypes.cast(array.ctypes.data, kinds[name]))

    def decode(self, entries: Sequence[SequenceTokens]) -> Logits | None:
        """Return the logits `[outputs, vocabulary]`, valid until the next call, or None if the cache is full."""
        start = outputs = 0
        self._outputs[:] = 0
        for sequence, position, tokens, count in entries:
            end = start + len(tokens)
            self._tokens[start:end] = tokens
            self._positions[start:end] = np.arange(position, position + len(tokens))
            self._sequences[start:end] = sequence
            self._outputs[end - count : end] = 1
            start, outputs = end, outputs + count
        self._batch.n_tokens = start
        result = self._library.llama_decode(self._context, self._batch)
        if result == FULL:
            return None
        if result:
            raise RuntimeError(f"llama_decode returned {result}")
        logits = self._library.llama_get_logits(self._context)
        return np.ctypeslib.as_array(logits, shape=(outputs, self.vocabulary.size))

    def remove(self, sequence: int) -> None:
        """Remove all tokens of a sequence, or of all if it is -1."""
        self._library.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Let a sequence share the first tokens of another."""
        self._library.llama_memory_seq_cp(self._memory, source, target, 0, tokens)

    def metadata(self, key: str) -> str | None:
        """Return a value in the file."""
        size = self._library.llama_model_meta_val_str(self._model, key.encode(), None, 0)
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        self._library.llama_model_meta_val_str(self._model, key.encode(), buffer, size + 1)
        return buffer.value.decode(errors="replace")

    def close(self) -> None:
        """Free the memory. The network cannot be used any more."""
        if self._context:
            self._library.llama_free(self._context)
        if self._model:
            self._library.llama_model_free(self._model)
        self._context = self._model = None

    __del__ = close


class Vocabulary(Speller):
    """The tokens of a model."""

    def __init__(self, library: Any, model: Any) -> None:
        self._library = library
        self.handle = library.llama_model_get_vocab(model)
        self.size = int(library.llama_vocab_n_tokens(self.handle))
        self.ends = frozenset(
            token for token in range(self.size) if library.llama_vocab_is_eog(self.handle, token)
        )
        self.pieces = [self._detokenize(token) for token in range(self.size)]
        """The text of each token."""
        hidden = library.LLAMA_TOKEN_ATTR_UNKNOWN | library.LLAMA_TOKEN_ATTR_CONTROL
        self.special = frozenset(
            token for token in range(self.size) if library.llama_vocab_get_attr(self.handle, token) & hidden
        )
        self.special_texts = {
            "bos_token": self._special_text(library.llama_vocab_bos(self.handle)),
            "eos_token": self._special_text(library.llama_vocab_eos(self.handle)),
        }
        """The variables of chat templates."""

    def read_bytes(self, token: int) -> bytes:
        return self.pieces[token]

    def name(self, token: int) -> str:
        name: bytes = self._library.llama_vocab_get_text(self.handle, token)
        return name.decode(errors="replace")

    def tokenize(self, text: str, starts: bool = False) -> list[int]:
        """Return the tokens of a string, with BOS and EOS as the model adds them if `starts` is true."""
        data = text.encode()
        most = len(data) + 2  # a token has at least one byte, except the first and the last
        buffer = (self._library.llama_token * most)()
        count = self._library.llama_tokenize(self.handle, data, len(data), buffer, most, starts, True)
        if count < 0:
            buffer = (self._library.llama_token * -count)()
            count = self._library.llama_tokenize(self.handle, data, len(data), buffer, -count, starts, True)
        return list(buffer[:count])

    def _detokenize(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(64)
        size = self._library.llama_token_to_piece(self.handle, token, buffer, 64, 0, True)
        if size < 0:
            buffer = ctypes.create_string_buffer(-size)
            size = self._library.llama_token_to_piece(self.handle, token, buffer, -size, 0, True)
        return buffer.raw[:size]

    def _special_text(self, token: int) -> str:
        return "" if token < 0 else self.pieces[token].decode(errors="replace")


def _log_error(level: int, text: bytes, _: Any) -> None:
    if level == ERROR:
        logger.error("llama.cpp: %s", text.decode(errors="replace").rstrip())
