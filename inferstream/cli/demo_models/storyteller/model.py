"""A tiny language model: a second-order Markov chain over the words of six stories."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from math import log
from pathlib import Path

from inferstream import InferenceRequest, MLModel, ModelError, StringCodec, Token, Usage

PAUSE = 0.04
"""The delay per word in seconds, so that the streaming is visible."""

WORDS = 60
"""The default of `max_tokens`, in words."""


class Storyteller(MLModel):
    gives_logprobs = True

    async def load(self) -> None:
        text = Path(__file__).with_name("stories.txt").read_text()
        words = text.split()
        self.followers: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for first, second, third in zip(words, words[1:], words[2:], strict=False):
            self.followers[first, second][third] += 1
            self.followers[(second,)][third] += 1
        self.beginnings = Counter(line.split()[0] for line in text.splitlines())

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[Token]:
        async for payload in payloads:
            asked = payload.parameters
            logprobs = asked.get("logprobs", False)
            count = asked.get("max_tokens", WORDS)
            if not 0 < count <= 1000:
                raise ModelError(f"max_tokens must be 1 to 1000, got {count}")
            drawn = random.Random(asked.get("seed"))
            said = str(StringCodec.decode_input(payload.inputs[0])[0]).split()
            prompt_tokens = len(said)
            for number in range(1, count + 1):
                word, logprob = self.next_word(said, drawn)
                said.append(word)
                last = number == count
                usage = Usage(prompt_tokens, number) if last else None
                yield Token(
                    f" {word}",
                    logprob=logprob if logprobs else None,
                    finish_reason="length" if last else None,
                    usage=usage,
                )
                await asyncio.sleep(PAUSE)

    def next_word(self, said: list[str], drawn: random.Random) -> tuple[str, float]:
        """Draw a word, and return it with its log probability.

        The distribution is taken from the longest context that occurs in the stories: two words, one word, or
        none.
        """
        choices = (
            self.followers.get(tuple(said[-2:])) or self.followers.get(tuple(said[-1:])) or self.beginnings
        )
        [word] = drawn.choices([*choices], [*choices.values()])
        return word, log(choices[word] / choices.total())
