"""A character-level language model that writes for many readers at once: a step is one letter for each of them."""

import time
from pathlib import Path

import numpy as np

from inferstream import Finished, StepModel, request_context
from inferstream.codecs import StringCodec
from inferstream.errors import ModelError
from inferstream.types import InferenceRequest, InferenceResponse

UNITS = 600
"""Numbers in which a stream remembers what it has read and written."""

LONGEST = 10_000


class Writer:
    """The state of one stream. What it remembers is a row of the model's array, as in a KV cache."""

    def __init__(self, prompt: list[int], length: int, temperature: float, seed: int) -> None:
        self.row = -1
        self.unread = prompt[::-1]
        self.left = length
        self.temperature = temperature
        self.random = np.random.default_rng(seed)
        self.whole: list[str] | None = [] if request_context().single else None


class CharLM(StepModel):
    """An echo state network: a fixed random recurrent layer, and a readout fitted by least squares.

    It is so small that `device_seconds` in its settings stands for what a step of a large model takes.
    """

    def load(self) -> None:
        self.device_seconds = self.settings.parameters.extra["device_seconds"]
        text = Path(self.settings.source).with_name("corpus.txt").read_text().replace("\n", " ")
        self.letters = sorted(set(text))
        self.codes = {letter: code for code, letter in enumerate(self.letters)}
        random = np.random.default_rng(0)
        recurrent = random.standard_normal((UNITS, UNITS), np.float32)
        self.recurrent = 0.9 * recurrent / np.abs(np.linalg.eigvals(recurrent)).max()
        self.entering = random.standard_normal((len(self.letters), UNITS), np.float32)
        self.readout = self.fit([self.codes[letter] for letter in text])
        self.remembered = np.zeros((self.settings.max_active, UNITS), np.float32)
        self.free = list(range(self.settings.max_active))

    def read(self, remembered: np.ndarray, codes: list[int]) -> np.ndarray:
        """What each row remembers after one more letter."""
        return np.tanh(remembered @ self.recurrent + self.entering[codes])

    def fit(self, codes: list[int]) -> np.ndarray:
        """Read the corpus once, and solve for the readout that foretells each next letter."""
        remembered = np.zeros((1, UNITS), np.float32)
        seen = []
        for code in codes[:-1]:
            remembered = self.read(remembered, [code])
            seen.append(remembered[0])
        features, wanted = np.array(seen), np.eye(len(self.letters))[codes[1:]]
        readout = np.linalg.solve(features.T @ features + 0.01 * np.eye(UNITS), features.T @ wanted)
        return readout.astype(np.float32)

    def admit(self, request: InferenceRequest) -> Writer:
        prompt = StringCodec.decode_input(request.inputs[0])[0]
        asked = request.parameters
        length, temperature = asked.get("length", 80), asked.get("temperature", 0.3)
        if not 0 < length <= LONGEST or not 0 < temperature <= 10:
            raise ModelError(f"length must be 1 to {LONGEST}, temperature over 0 and at most 10")
        known = [self.codes[letter] for letter in prompt.lower() if letter in self.codes]
        writer = Writer(known or [self.codes[" "]], length, temperature, asked.get("seed", 0))
        writer.row = self.free.pop()  # there is one, because there are never more than max_active states
        self.remembered[writer.row] = 0
        return writer

    def step(self, writers: list[Writer]) -> list[InferenceResponse | Finished | None]:
        time.sleep(self.device_seconds)
        rows = [writer.row for writer in writers]
        remembered = self.read(self.remembered[rows], [writer.unread.pop() for writer in writers])
        self.remembered[rows] = remembered
        chances = np.maximum(remembered @ self.readout, 1e-6)
        chances /= chances.max(axis=1, keepdims=True)
        chances **= [[1 / writer.temperature] for writer in writers]
        sums = chances.cumsum(axis=1)
        drawn = sums[:, -1] * [writer.random.random() for writer in writers]
        codes = (sums <= drawn[:, None]).sum(axis=1).tolist()
        return [self.write(writer, code) for writer, code in zip(writers, codes, strict=True)]

    def write(self, writer: Writer, code: int) -> InferenceResponse | Finished | None:
        if writer.unread:
            return None  # still reads its prompt
        writer.unread.append(code)
        writer.left -= 1
        text = self.letters[code]
        if writer.whole is not None:
            writer.whole.append(text)
            return None if writer.left else Finished(self.say("".join(writer.whole)))
        return self.say(text) if writer.left else Finished(self.say(text))

    def say(self, text: str) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("text", [text])])

    def release(self, writer: Writer) -> None:
        self.free.append(writer.row)
