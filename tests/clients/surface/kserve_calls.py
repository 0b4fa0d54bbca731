"""Calls every public method of KServe's clients, and writes what came of each as one line of JSON.

It runs in an environment of KServe's own: `python kserve_calls.py URL GRPC_ADDRESS`.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

ROWS = [[1.0, 2.0]]


def request() -> InferRequest:
    given = InferInput("x", [1, 2], "FP32")
    given.set_data_from_numpy(np.array(ROWS, np.float32), binary_data=False)
    return InferRequest(model_name="echo", infer_inputs=[given])


async def v1(url: str) -> dict[str, Any]:
    client = InferenceRESTClient(RESTConfig(protocol="v1"))
    body = {"instances": ROWS}
    answers = {
        "infer": await client.infer(url, body, model_name="echo"),
        "explain": await client.explain(url, "echo", body),
        "is_model_ready": await client.is_model_ready(url, "echo"),
        "is_server_live": await client.is_server_live(url),
    }
    try:
        answers["is_server_ready"] = await client.is_server_ready(url)
    except Exception as error:  # V1 has no such question
        answers["is_server_ready"] = type(error).__name__
    answers["close"] = await client.close()
    return answers


async def v2(url: str) -> dict[str, Any]:
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    answer = await client.infer(url, request(), model_name="echo")
    answers = {
        "infer": answer.outputs[0].as_numpy().tolist(),
        "is_model_ready": await client.is_model_ready(url, "echo"),
        "is_server_live": await client.is_server_live(url),
        "is_server_ready": await client.is_server_ready(url),
    }
    try:
        answers["explain"] = await client.explain(url, "echo", {})
    except Exception as error:  # V2 has no such question
        answers["explain"] = type(error).__name__
    answers["close"] = await client.close()
    return answers


async def grpc(address: str) -> dict[str, Any]:
    client = InferenceGRPCClient(address)
    answer = await client.infer(request())
    return {
        "infer": answer.outputs[0].as_numpy().tolist(),
        "is_model_ready": await client.is_model_ready("echo"),
        "is_server_live": await client.is_server_live(),
        "is_server_ready": await client.is_server_ready(),
        "close": await client.close(),
    }


def methods(client: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")]


async def main(url: str, address: str) -> dict[str, Any]:
    calls: dict[str, tuple[type, Callable[[str], Awaitable[dict[str, Any]]], str]] = {
        "v1": (InferenceRESTClient, v1, url),
        "v2": (InferenceRESTClient, v2, url),
        "grpc": (InferenceGRPCClient, grpc, address),
    }
    return {
        name: {"methods": methods(client), "answers": await call(target)}
        for name, (client, call, target) in calls.items()
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
