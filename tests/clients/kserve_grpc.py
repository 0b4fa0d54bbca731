"""Calls an echo through KServe's client for gRPC, and writes what it got as one line of JSON."""

import asyncio
import json
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferInput, InferRequest


async def main(address: str) -> dict[str, object]:
    async with InferenceGRPCClient(address) as client:
        value = np.arange(6, dtype=np.float32).reshape(2, 3)
        given = InferInput("x", [2, 3], "FP32")
        given.set_data_from_numpy(value, binary_data=True)
        found = await client.infer(InferRequest(model_name="echo", infer_inputs=[given]))
        responses = await asyncio.gather(
            *(client.infer(InferRequest(model_name="echo", infer_inputs=[given])) for _ in range(50))
        )
        return {
            "live": await client.is_server_live(),
            "ready": await client.is_server_ready(),
            "model": await client.is_model_ready("echo"),
            "same": bool(np.array_equal(found.outputs[0].as_numpy(), value)),
            "responses": len(responses),
        }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
