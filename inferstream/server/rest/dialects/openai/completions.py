"""`/v1/completions`."""

from itertools import accumulate
from typing import Any

from .....dataplane.admission import Admission
from .....text.fields import Fields, wrong_field
from .....text.reader import TextReader
from .....text.response_format import read_response_format
from ..text import TextRequest, add_suffix, generating, identified
from .chunks import MOST_CHOICES, ChunkFormat, read_generation, read_streaming


class CompletionFormat(ChunkFormat):
    """Writes texts as completions. `echoed` are the prompts that come before them, or nothing."""

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
        """Where the next token of each text begins."""

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        if self._unechoed and index in self._unechoed:
            self._unechoed.discard(index)
            text = self._echoed[index] + text
        return super().piece(index, text, reader)

    def choice(self, index: int, text: str, reader: TextReader, finish_reason: str | None) -> dict[str, Any]:
        logprobs = self._logprobs(index, reader)
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}

    def whole_choice(self, index: int, text: str, reader: TextReader) -> dict[str, Any]:
        if self._echoed:
            text = self._echoed[index] + text
        return self.choice(index, text, reader, reader.finish_reason)

    def _logprobs(self, index: int, reader: TextReader) -> dict[str, Any] | None:
        """The log probabilities read so far, and the reader's list emptied."""
        if not reader.logprobs:
            return None
        tokens = [each.token for each in reader.logprobs]
        *offsets, self._offsets[index] = accumulate(map(len, tokens), initial=self._offsets[index])
        logprobs = {
            "tokens": tokens,
            "token_logprobs": [each.logprob for each in reader.logprobs],
            "top_logprobs": [each.top for each in reader.logprobs],
            "text_offset": offsets,
        }
        reader.logprobs.clear()
        return logprobs


def read_completions(fields: Fields, admission: Admission, name: str) -> TextRequest:
    """Read a request. Raises InvalidRequest that names the wrong field."""
    interface = generating(admission, name)
    texts = fields.needed_texts("prompt")
    count = fields.integer("n", 1, MOST_CHOICES) or 1
    if len(texts) * count > MOST_CHOICES:
        raise fields.wrong(
            "prompt", f"asks for {len(texts) * count} texts, at most {MOST_CHOICES} are allowed"
        )
    if (best := fields.integer("best_of", 1)) is not None and best > count:
        raise fields.wrong("best_of", "must not be larger than n")
    inputs = read_response_format(fields, interface)
    add_suffix(fields, interface, inputs)
    if interface.prompt is None:
        raise wrong_field("model", f"{name} takes messages only; use chat completions")
    generation = read_generation(fields, interface, {}, fields.integer("logprobs", 0, 5))
    requests = [
        generation.request(interface, text, inputs, index) for text in texts for index in range(count)
    ]
    streamed, usage = read_streaming(fields)
    echoed = [text for text in texts for _ in range(count)] if fields.flag("echo") else []
    format = CompletionFormat(identified(requests), name, len(requests), usage, len(texts), echoed)
    return TextRequest(admission, generation, requests, format, streamed)
