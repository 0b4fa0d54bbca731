"""`/v1/completions`."""

from itertools import accumulate
from typing import Any

from .....text.fields import Fields
from .....text.reader import TextReader
from .chunks import ChunkFormat


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
        tokens = [found.token for found in reader.logprobs]
        *offsets, self._offsets[index] = accumulate(map(len, tokens), initial=self._offsets[index])
        found = {
            "tokens": tokens,
            "token_logprobs": [each.logprob for each in reader.logprobs],
            "top_logprobs": [each.top for each in reader.logprobs],
            "text_offset": offsets,
        }
        reader.logprobs.clear()
        return found


def prompts(fields: Fields) -> list[str]:
    """The prompts of a request. Raises InvalidRequest for token ids."""
    found = fields.get("prompt")
    if found is None:
        raise fields.wrong("prompt", "is missing")
    if isinstance(found, str):
        return [found]
    if not isinstance(found, list) or not found:
        raise fields.wrong("prompt", "must be a string or a list of strings")
    if not all(isinstance(each, str) for each in found):
        raise fields.wrong("prompt", "must hold strings; token ids are not taken")
    return found
