"""Writes archives of TorchServe as its archiver does."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path


def archive(
    path: Path,
    handler: str,
    files: Mapping[str, str | bytes],
    config: str | None = None,
    **model: str,
) -> Path:
    """A `.mar` with these files beside its manifest; `config` is its settings in YAML."""
    described = {"modelName": path.stem, "modelVersion": "1.0", "handler": handler, **model}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        if config is not None:
            described["configFile"] = "model-config.yaml"
            opened.writestr("model-config.yaml", config)
        manifest = {
            "createdOn": "26/11/2026",
            "runtime": "python",
            "model": described,
            "archiverVersion": "0.12.0",
        }
        opened.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        for name, content in files.items():
            opened.writestr(name, content)
    return path


ECHO = """
def handle(data, context):
    if data is None:
        return None
    answers = []
    for row, parts in enumerate(data):
        value = parts.get("data", parts.get("body"))
        context.set_response_header(row, "x-seen", str(context.get_request_header(row, "x-said")))
        if value in (b"418", b"201"):
            context.set_response_status(code=int(value), phrase="as asked", idx=row)
            context.set_response_header(row, "x-number", 1)
        answers.append(value if isinstance(value, (str, bytes, bytearray)) else {"value": value})
    return answers
"""
"""A function. It answers what it gets."""

BATCHED = """
class Counting:
    def __init__(self):
        self.initialized = False
        self.rows = 0

    def initialize(self, context):
        self.most = context.system_properties["batch_size"]
        self.factor = context.model_yaml_config["handler"]["factor"]
        self.initialized = True

    def handle(self, data, context):
        said = [context.get_request_header(row, "x-said") for row in range(len(data))]
        return [
            {"rows": len(data), "most": self.most, "value": self.factor * row["body"]["value"], "said": each}
            for row, each in zip(data, said)
        ]
"""
"""A class. Its answers say how many rows there were."""

BATCHING = """
minWorkers: 1
batchSize: 4
maxBatchDelay: 2000
handler:
  factor: 3
"""

STREAMING = """
from ts.handler_utils.utils import send_intermediate_predict_response

def handle(data, context):
    if type(data) is list:
        if data[0].get("data") == b"refuse":
            context.set_response_status(code=409)
            return ["refused"]
        for i in range(3):
            send_intermediate_predict_response(
                [f"piece {i} "], context.request_ids, "Intermediate Prediction success", 200, context
            )
        return ["last"]
"""
"""A function that answers in pieces."""

NET = """
import torch

class Doubling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, values):
        return values * self.scale
"""
"""A model file."""

TENSORS = """
import torch
from ts.torch_handler.base_handler import BaseHandler

class Numbers(BaseHandler):
    def preprocess(self, data):
        rows = [row.get("data") or row.get("body") for row in data]
        return torch.tensor([row["values"] for row in rows], dtype=torch.float32)

    def postprocess(self, data):
        return [{"doubled": row} for row in data.tolist()]
"""
"""A subclass of BaseHandler."""
