"""Starts the server on the examples, streams answers over REST and over gRPC, asks the iris model, stops."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
from httpx_sse import connect_sse

from inferstream.codecs import StringCodec
from inferstream.protos.converters import ModelInferRequestConverter, ModelInferResponseConverter
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.types import InferenceRequest

EXAMPLES = Path(__file__).parent.parent / "examples"
QUESTION = "What is the capital of France?"
PROMPTS = ("the old man", "in the morning", "the fish")


def main() -> int:
    command = [sys.executable, "-m", "inferstream", "start", str(EXAMPLES)]
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    print("$ server start ./examples")
    with subprocess.Popen([*command, *ports], stderr=subprocess.PIPE, text=True) as server:
        try:
            rest, rpc = read_banner(server)
            print("\nREST, server-sent events, as they arrive:\n ", end="")
            show(words_over_rest(rest))
            print("\ngRPC, the same model:\n ", end="")
            show(words_over_grpc(rpc))
            print("\nchar-lm, three prompts in the same steps:")
            for prompt, text in write_together(rest):
                print(f"  {prompt}{text}")
            print("\niris, scikit-learn:")
            print(f"  {predict_iris(rest)}")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(20)
    print(f"\nserver stopped with exit code {server.returncode}")
    return server.returncode


def read_banner(server: subprocess.Popen[str]) -> tuple[str, str]:
    """The addresses the server printed; it prints them when its models are ready."""
    assert server.stderr is not None
    rest = ""
    for line in server.stderr:
        print(" ", line, end="")
        if found := re.match(r"REST +(http://[\d.:]+)", line):
            rest = found[1]
        if found := re.match(r"gRPC +(\S+)", line):
            return rest, found[1]
    raise SystemExit("the server did not start")


def show(words: Iterator[str]) -> None:
    started = time.monotonic()
    for word in words:
        print(f" {word.strip()} ({time.monotonic() - started:.1f} s)", end="", flush=True)
    print()


def question() -> InferenceRequest:
    return InferenceRequest(id="demo", inputs=[StringCodec.encode_input("prompt", [QUESTION])])


def words_over_rest(url: str) -> Iterator[str]:
    body = json.loads(question().model_dump_json())
    with (
        httpx.Client(timeout=30) as client,
        connect_sse(client, "POST", f"{url}/v2/models/text-model/generate_stream", json=body) as source,
    ):
        for event in source.iter_sse():
            yield json.loads(event.data)["outputs"][0]["data"][0]


def words_over_grpc(address: str) -> Iterator[str]:
    request = ModelInferRequestConverter.from_types(question(), model_name="text-model")
    with grpc.insecure_channel(address) as channel:
        for message in GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request])):
            response = ModelInferResponseConverter.to_types(message)
            yield StringCodec.decode_output(response.outputs[0])[0] or ""


def write_together(url: str) -> Iterator[tuple[str, str]]:
    """Texts that one model writes at once, a letter of each at a time."""

    def write(prompt: str) -> str:
        body = {"prompt": prompt, "length": 60}
        with (
            httpx.Client(timeout=30) as client,
            connect_sse(client, "POST", f"{url}/v2/models/char-lm/generate_stream", json=body) as source,
        ):
            return "".join(json.loads(event.data)["text"] for event in source.iter_sse())

    with ThreadPoolExecutor() as pool:
        yield from zip(PROMPTS, pool.map(write, PROMPTS), strict=True)


def predict_iris(url: str) -> str:
    flower = {"name": "features", "shape": [1, 4], "datatype": "FP64", "data": [5.1, 3.5, 1.4, 0.2]}
    answer = httpx.post(f"{url}/v2/models/iris/infer", json={"inputs": [flower]}, timeout=30).json()
    species, probabilities = (output["data"] for output in answer["outputs"])
    return f"species {species[0]}, probabilities {[round(value, 3) for value in probabilities]}"


if __name__ == "__main__":
    sys.exit(main())
