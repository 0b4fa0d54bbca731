"""llama.cpp without a server: a greedy loop over its batches, which is the bound for any server."""

import ctypes
import time
from pathlib import Path
from typing import Any

import numpy as np

PIECE = 512
CONTEXT = 1024
"""Tokens of each sequence."""


class BareLoop:
    """A model with one sequence for each stream."""

    def __init__(self, path: Path, threads: int) -> None:
        import llama_cpp

        self.lib, self.threads = llama_cpp, threads
        self._silence = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._silence, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.size = llama_cpp.llama_vocab_n_tokens(self.vocabulary)

    def run(self, prompts: list[str], tokens: int) -> float:
        """Tokens per second, including the time to read the prompts."""
        options = self.lib.llama_context_default_params()
        options.n_ctx, options.n_seq_max = CONTEXT * len(prompts), len(prompts)
        options.n_threads = options.n_threads_batch = self.threads
        options.n_batch, options.kv_unified = PIECE, True
        context = self.lib.llama_init_from_model(self.model, options)
        batch = self.lib.llama_batch_init(PIECE, 0, 1)
        read = [self.tokenize(prompt) for prompt in prompts]
        started = time.perf_counter()
        places = [
            (index, place, token, place == len(prompt) - 1)
            for index, prompt in enumerate(read)
            for place, token in enumerate(prompt)
        ]
        last = self.decode(context, batch, places)
        for step in range(tokens - 1):
            places = [(index, len(prompt) + step, last[index], True) for index, prompt in enumerate(read)]
            last = self.decode(context, batch, places)
        took = time.perf_counter() - started
        self.lib.llama_batch_free(batch)
        self.lib.llama_free(context)
        return len(prompts) * tokens / took

    def tokenize(self, text: str) -> list[int]:
        found = (self.lib.llama_token * PIECE)()
        data = text.encode()
        count = self.lib.llama_tokenize(self.vocabulary, data, len(data), found, PIECE, True, True)
        return found[:count]

    def decode(self, context: Any, batch: Any, places: list[tuple[int, int, int, bool]]) -> list[int]:
        """The likeliest next tokens after a batch of (sequence, position, token, whether one is wanted)."""
        for index, (sequence, position, token, wanted) in enumerate(places):
            batch.token[index], batch.pos[index], batch.logits[index] = token, position, wanted
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, sequence
        batch.n_tokens = len(places)
        assert self.lib.llama_decode(context, batch) == 0
        found = []
        for index, (*_, wanted) in enumerate(places):
            if wanted:
                logits = self.lib.llama_get_logits_ith(context, index)
                found.append(int(np.ctypeslib.as_array(logits, shape=(self.size,)).argmax()))
        return found
