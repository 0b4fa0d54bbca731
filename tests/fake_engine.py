"""A fake engine of the protocol vllm.grpc.engine. It tells a story, and notes what it is asked.

Each text is the story from where the prompt ends, so that a text continues if the prompt holds the beginning of the
story. Files in the folder `control` change what it does, while they are there:

- `hang`: send nothing more, after as many tokens as the file says. `unhealthy`: say so. `quiet`: do not answer health checks.
- `refuse`: end each call with the status in the file. `reason`: end texts with the reason in the file.
- `abort`: remove the file and abort the request, after as many tokens as it says.
- `die`: remove the file and exit, after as many tokens as it says.
"""

import argparse
import asyncio
import hashlib
import io
import json
import os
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from inferstream.plugins.llm.engine.protos import vllm_engine as protos

STORY = "Once upon a time, über alles 🙂 a naïve 日本語 rocket 🚀 flew to the moon and back."

TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'robot' %}{{ raise_exception('no robots') }}{% endif %}"
    "<{{ message['role'] }}>{{ message['content'] }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
END = 0
CONTEXT = 512


def write_tokenizer(folder: Path, template: str | None = TEMPLATE) -> Path:
    """A byte-level tokenizer, in which a character may be split over several tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["</s>", "<assistant>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["one two three four five once upon a time the moon and back"], trainer)
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    config = {"eos_token": "</s>", **({} if template is None else {"chat_template": template})}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def load_tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


class FakeEngine:
    """The servicer. `pace` is the time between two tokens in seconds, `size` the number of tokens in a message."""

    def __init__(
        self,
        tokenizer: Path,
        control: Path,
        story: str = STORY,
        pace: float = 0,
        size: int = 1,
        seqs: int = 0,
    ) -> None:
        self.tokenizer, self.control, self.pace, self.size, self.seqs = tokenizer, control, pace, size, seqs
        self.story: list[int] = [*load_tokenizer(tokenizer).encode(story, add_special_tokens=False).ids, END]
        self.usage = 0.25
        self.sent = 0
        control.mkdir(parents=True, exist_ok=True)

    def note(self, event: str, **values: Any) -> None:
        with (self.control / "events").open("a") as file:
            file.write(json.dumps({"event": event, **values}) + "\n")

    def read(self, name: str) -> str | None:
        try:
            return (self.control / name).read_text()
        except FileNotFoundError:
            return None

    def position(self, ids: list[int]) -> int:
        """The number of tokens of the story at the end of these."""
        return next(
            (n for n in range(min(len(self.story), len(ids)), 0, -1) if ids[-n:] == self.story[:n]), 0
        )

    def tokens(self, request: Any) -> Iterator[tuple[int, bool]]:
        """The tokens of an answer, and whether each is the last one for its value."""
        sampling, ids = request.sampling_params, [*request.tokenized.input_ids]
        at = self.position(ids)
        for count in range(1, sampling.max_tokens + 1):
            token = self.story[at % len(self.story)]
            if token == END and (sampling.ignore_eos or count <= sampling.min_tokens):
                at += 1
                token = self.story[at % len(self.story)]
            at += 1
            ends = (token == END and not sampling.ignore_eos) or token in sampling.stop_token_ids
            yield token, ends
            if ends:
                return

    async def generate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        sampling, ids = request.sampling_params, [*request.tokenized.input_ids]
        self.note(
            "generate",
            ids=ids,
            stream=request.stream,
            **MessageToDict(sampling, preserving_proto_field_name=True),
        )
        if (code := self.read("refuse")) is not None:
            await context.abort(grpc.StatusCode[code.strip()], f"refused with {code}\nin /a/secret/path")
        event = "cancelled"
        try:
            async for message in self.messages(request):
                yield message
            event = "done"
        finally:
            self.note(event, id=request.request_id)

    async def messages(self, request: Any) -> AsyncIterator[Any]:
        given, reason, sampling = [*request.tokenized.input_ids], "length", request.sampling_params
        written: list[int] = []
        waiting: list[int] = []
        for token, ends in self.tokens(request):
            while (count := self.read("hang")) is not None and len(written) >= int(count or 0):
                await asyncio.sleep(0.01)
            if (count := self.read("die")) is not None and len(written) >= int(count):
                (self.control / "die").unlink()
                os._exit(9)
            if (count := self.read("abort")) is not None and len(written) >= int(count):
                (self.control / "abort").unlink()
                aborted = protos.Generated()
                aborted.complete.finish_reason = "abort"
                yield aborted
                return
            if self.pace:
                await asyncio.sleep(self.pace)
            written.append(token)
            waiting.append(token)
            reason = "stop" if ends else "length"
            if request.stream and (len(waiting) == self.size or ends or len(written) == sampling.max_tokens):
                yield self.chunk(request, waiting, first=len(waiting) == len(written))
                waiting = []
        complete = protos.Generated()
        complete.complete.output_ids.extend(written[-1:] if request.stream else written)
        complete.complete.finish_reason = (self.read("reason") or reason).strip()
        complete.complete.prompt_tokens = len(given)
        complete.complete.cached_tokens = 3
        yield complete

    def chunk(self, request: Any, tokens: list[int], first: bool) -> Any:
        sampling, message = request.sampling_params, protos.Generated()
        chunk = message.chunk
        chunk.token_ids.extend(tokens)
        chunk.prompt_tokens, chunk.cached_tokens = len(request.tokenized.input_ids), 3
        if sampling.HasField("logprobs"):
            for token in tokens:
                chunk.output_logprobs.token_ids.append(token)
                chunk.output_logprobs.token_logprobs.append(-0.5)
                if sampling.logprobs:
                    top = chunk.output_logprobs.top_logprobs.add()
                    others = [(token, -0.5), (token + 1, -0.25), (token + 2, -2.0)][: sampling.logprobs]
                    top.token_ids.extend(each for each, _ in others)
                    top.values.extend(value for _, value in others)
        if first and sampling.HasField("prompt_logprobs"):
            for at, token in enumerate(request.tokenized.input_ids):
                chunk.input_logprobs.token_ids.append(token)
                value = chunk.input_logprobs.token_logprobs.add()
                if at:
                    value.value = -1.0
        return message

    async def health(self, _: Any, context: Any) -> Any:
        while self.read("quiet") is not None:
            await asyncio.sleep(0.01)
        sick = self.read("unhealthy") is not None
        return protos.Health(healthy=not sick, message="sick" if sick else "fine")

    async def model_info(self, *_: Any) -> Any:
        facts = json.loads(self.read("model") or "{}")
        known = {
            "is_generation": True,
            "max_context_length": CONTEXT,
            "vocab_size": 300,
            "model_type": "fake",
        }
        return protos.ModelInfo(**{**known, "eos_token_ids": [END], **facts})

    async def server_info(self, *_: Any) -> Any:
        return protos.ServerInfo(max_num_seqs=self.seqs)

    async def loads(self, *_: Any) -> Any:
        return protos.Loads(loads=[{"num_running_reqs": 1, "token_usage": self.usage}])

    async def send_tokenizer(self, *_: Any) -> AsyncIterator[Any]:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for path in sorted(self.tokenizer.iterdir()):
                if path.name != "absent":
                    archive.write(path, path.name)
        damaged = self.read("archive")
        data = damaged.encode() if damaged else buffer.getvalue()
        digest = hashlib.sha256(data).hexdigest()
        for at in range(0, len(data), 1000):
            last = at + 1000 >= len(data)
            yield protos.TokenizerPart(data=data[at : at + 1000], sha256=digest if last else "")

    def server(self) -> grpc.aio.Server:
        """A server without a port."""
        server = grpc.aio.server()
        write = lambda message: message.SerializeToString()  # noqa: E731
        stream, unary = grpc.unary_stream_rpc_method_handler, grpc.unary_unary_rpc_method_handler
        empty = protos.Empty.FromString
        handlers = {
            "Generate": stream(self.generate, protos.Generate.FromString, write),
            "GetTokenizer": stream(self.send_tokenizer, empty, write),
            "HealthCheck": unary(self.health, empty, write),
            "GetModelInfo": unary(self.model_info, empty, write),
            "GetServerInfo": unary(self.server_info, empty, write),
            "GetLoads": unary(self.loads, empty, write),
        }
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("vllm.grpc.engine.VllmEngine", handlers)]
        )
        return server


def events(control: Path, *names: str) -> list[dict[str, Any]]:
    """What an engine has noted."""
    path = control / "events"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [each for each in found if not names or each["event"] in names]


async def main(kind: type[FakeEngine] = FakeEngine) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("control", type=Path)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--seqs", type=int, default=0)
    given = parser.parse_args()
    engine = kind(given.tokenizer, given.control, pace=given.pace, size=given.size, seqs=given.seqs)
    server = engine.server()
    assert server.add_insecure_port(given.address)
    await server.start()
    engine.note("started", pid=os.getpid())
    await server.wait_for_termination()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
