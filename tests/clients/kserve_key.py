"""Calls an echo through KServe's clients with a key and without, and writes what they got as one line of JSON."""

import asyncio
import json
import sys

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig


async def main(grpc_address: str, url: str, key: str) -> dict[str, object]:
    value = np.arange(3, dtype=np.float32)
    given = InferInput("x", [3], "FP32")
    given.set_data_from_numpy(value, binary_data=False)
    request = InferRequest(model_name="echo", infer_inputs=[given])
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    found: dict[str, object] = {}
    async with InferenceGRPCClient(grpc_address) as client:
        answer = await client.infer(request, headers=[("authorization", f"Bearer {key}")])
        found["grpc"] = answer.outputs[0].as_numpy().tolist()
        try:
            await client.infer(request)
        except grpc.RpcError as error:
            found["grpc without"] = error.code().name
    answer = await rest.infer(url, request, model_name="echo", headers={"Authorization": f"Bearer {key}"})
    found["rest"] = answer.outputs[0].as_numpy().tolist()
    try:
        await rest.infer(url, request, model_name="echo")
    except httpx.HTTPStatusError as error:
        found["rest without"] = error.response.status_code
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
