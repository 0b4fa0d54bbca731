"""`/v1/completions`."""

from itertools import accumulate
from typing import Any

from inferstream.ext.calls import Admission

from ..fields import Fields, wrong_field
from ..generation import read_texts
from ..inputs import TOKEN_IDS
from ..reader import TextReader
from ..response_format import read_response_format
from ..spelling import read_spelling
from ..text_dialect import TextRequest, add_suffix, ensure_id, require_text_interface
from .chunks import GENERAL, MAX_CHOICES, ChunkFormat, read_generation, read_streaming

KNOWN = GENERAL | {"prompt", "suffix", "echo", "best_of"}
"""Fields that never become parameters of the model request."""


class CompletionFormat(ChunkFormat):
    """Writes text completions. `echoed` contains the prompt of each completion, or is empty."""

    prefix = "cmpl-"
    whole_object = "text_completion"
    chunk_object = "text_completion"

    def __init__(
        self, id: str, model: str, choices: int, usage: bool, prompts: int, echoed: list[str]
    ) -> None:
        super().__init__(id, model, choices, usage, prompts)
        self._echoed = echoed
        self._unechoed = set(range(choices)) if echoed else set()
        self._offsets = [len(text) for text in echoed] or [0] * choices
        """Character offset of the next token in each text."""

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        if self._unechoed and index in self._unechoed:
            self._unechoed.discard(index)
            text = self._prompt(index, reader) + text
        return super().piece(index, text, reader)

    def choice(self, index: int, text: str, reader: TextReader, finish_reason: str | None) -> dict[str, Any]:
        logprobs = self._logprobs(index, reader)
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}

    def whole_choice(self, index: int, text: str, reader: TextReader) -> dict[str, Any]:
        if self._echoed:
            text = self._prompt(index, reader) + text
        return self.choice(index, text, reader, reader.finish_reason)

    def _prompt(self, index: int, reader: TextReader) -> str:
        """Return the prompt to echo: as sent, or decoded from the token IDs that were sent."""
        tokens = b"".join(read_spelling(each.token) for each in reader.prompt)
        return self._echoed[index] or tokens.decode(errors="replace")

    def _logprobs(self, index: int, reader: TextReader) -> dict[str, Any] | None:
        """Return the log probabilities read so far, and clear the reader's lists."""
        tokens = [*reader.prompt, *reader.logprobs]
        if not tokens:
            return None
        # Characters are counted by their first byte.
        sizes = [sum(byte & 0xC0 != 0x80 for byte in read_spelling(each.token)) for each in tokens]
        if reader.prompt:
            self._offsets[index] = 0
            sizes[0] *= self._prompt(index, reader).startswith(tokens[0].token)  # 0 for a BOS token
        *offsets, self._offsets[index] = accumulate(sizes, initial=self._offsets[index])
        logprobs = {
            "tokens": [each.token for each in tokens],
            "token_logprobs": [each.logprob for each in tokens],
            "top_logprobs": [None if each.logprob is None else each.top for each in tokens],
            "text_offset": offsets,
        }
        reader.prompt.clear()
        reader.logprobs.clear()
        return logprobs


def read_completions(fields: Fields, admission: Admission, name: str) -> TextRequest:
    """Parse a request. Raises InvalidRequest naming the invalid field."""
    interface = require_text_interface(admission, name)
    texts, parameters = read_texts(fields, "prompt", interface)
    count = fields.integer("n", 1, MAX_CHOICES) or 1
    if len(texts) * count > MAX_CHOICES:
        raise fields.wrong(
            "prompt", f"asks for {len(texts) * count} texts, at most {MAX_CHOICES} are allowed"
        )
    if (best := fields.integer("best_of", 1)) is not None and best > count:
        raise fields.wrong("best_of", "must not be larger than n")
    inputs = read_response_format(fields, interface)
    add_suffix(fields, interface, inputs)
    if interface.prompt is None:
        raise wrong_field("model", f"{name} takes messages only; use chat completions")
    logprobs, echoes = fields.integer("logprobs", 0, 5), fields.flag("echo")
    if echoes and interface.token_ids and (logprobs is not None or parameters):
        if logprobs is None:
            raise fields.wrong("echo", "needs logprobs where the prompt is token numbers")
        parameters["prompt_logprobs"] = logprobs
    generation = read_generation(fields, interface, parameters, logprobs, KNOWN)
    requests = [
        generation.build_request(interface, text, inputs, index) for text in texts for index in range(count)
    ]
    streamed, usage = read_streaming(fields)
    shown = [""] * len(texts) if TOKEN_IDS in parameters else texts
    echoed = [text for text in shown for _ in range(count)] if echoes else []
    format = CompletionFormat(ensure_id(requests), name, len(requests), usage, len(texts), echoed)
    return TextRequest(admission, generation, requests, format, streamed)
