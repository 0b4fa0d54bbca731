"""Tensors of clients that a loader reads as more than numbers."""

import random

import httpx
import pytest

from tests.cve.audited import Audited
from tests.serving import fp32

CVES = ("CVE-2025-62164",)

DATATYPES = ("BOOL", "UINT8", "INT8", "INT64", "FP16", "FP32", "FP64", "BYTES", "BF16", "FP8", "SPARSE_COO")


@pytest.mark.parametrize("datatype", DATATYPES)
def test_tensor_length_matches_shape_or_is_refused(watched: Audited, datatype: str) -> None:
    random_ = random.Random(datatype)
    with httpx.Client(base_url=watched.url, timeout=20) as client:
        for _ in range(30):
            tail = random_.randbytes(random_.choice((0, 1, 7, 8, 64, 4096)))
            shape = [random_.choice((0, 1, 2, 8, 2**31, 2**62)) for _ in range(random_.randrange(4))]
            head = (
                b'{"inputs":[{"name":"x","datatype":"%b","shape":%b,"parameters":{"binary_data_size":%d}}]}'
            )
            head = head % (datatype.encode(), str(shape).encode(), len(tail))
            length = {"Inference-Header-Content-Length": str(len(head))}
            for model in ("echo", "arrays", "decoding"):
                found = client.post(f"/v2/models/{model}/infer", content=head + tail, headers=length)
                assert found.status_code in (200, 400), found.text


@pytest.mark.parametrize(
    "field", ["prompt_embeds", "input_embeds", "inputs_embeds", "serialized_named_tensors"]
)
def test_prompt_embeddings_are_not_loaded(watched: Audited, field: str) -> None:
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings"):
        body = {"model": "words", field: "gAN9cQAu", "prompt": None}
        assert httpx.post(f"{watched.url}{path}", json=body, timeout=20).status_code == 400
    assert watched.done("pickle.") == []


def test_surplus_number_is_refused(watched: Audited) -> None:
    assert watched.infer("echo", {"inputs": [{**fp32([1.0])["inputs"][0], "shape": [2]}]}).status_code == 400
