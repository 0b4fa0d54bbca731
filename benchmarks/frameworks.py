"""An ONNX graph and a TorchScript module, beside MLServer with the model code that its users write for them.

Torch is measured where this environment has it: `.venv/models/bin/python -m benchmarks.frameworks`.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from . import load
from .servers import MLSERVER, Target, install_mlserver, start_mlserver, start_ours, stop, tree_cpu

CALLERS = 32
BATCHING = {"max_batch_size": 32, "max_batch_time": 0.002}
FEATURES, HIDDEN, CLASSES = 4, 64, 3

CODE = {
    "onnx": """
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
from pathlib import Path

class Served(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        path = str(Path(__file__).parent / "model.onnx")
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload):
        rows = self.decode(payload.inputs[0], default_codec=NumpyCodec)
        (scores,) = self._session.run(["scores"], {"rows": rows})
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output(name="scores", payload=scores)]
        )
""",
    "torch": """
import torch
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
from pathlib import Path

class Served(MLModel):
    async def load(self) -> bool:
        torch.set_num_threads(1)
        self._module = torch.jit.load(str(Path(__file__).parent / "model.pt")).eval()
        return True

    async def predict(self, payload):
        rows = self.decode(payload.inputs[0], default_codec=NumpyCodec)
        with torch.inference_mode():
            scores = self._module(torch.from_numpy(rows)).numpy()
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output(name="scores", payload=scores)]
        )
""",
}
"""Model code for MLServer, which has no runtime for either format."""

RUNTIMES = {
    "onnx": "inferstream.plugins.frameworks.onnx.OnnxModel",
    "torch": "inferstream.plugins.frameworks.torch.TorchModel",
}
SETTINGS = {
    "onnx": {},
    "torch": {"outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, CLASSES]}]},
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    options.add_argument("--rounds", type=int, default=5, help="measurements of each cell, interleaved")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    kinds = ["onnx", "torch"] if find_spec("torch") else ["onnx"]
    install(kinds)
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        targets: dict[str, list[Target]] = {}
        for kind in kinds:
            targets[kind] = start(Path(folder) / kind, kind, {cpus[0]})
        os.sched_setaffinity(0, {cpus[-1]})
        try:
            with asyncio.Runner(loop_factory=load.wakeful_loop) as runner:
                figures = measure(runner, targets, given.rounds, given.seconds)
        finally:
            stop([target for each in targets.values() for target in each])
    show(figures)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


def install(kinds: list[str]) -> None:
    """MLServer's environment, with the frameworks."""
    install_mlserver()
    needed = {"onnx": "onnxruntime", "torch": "torch"}
    subprocess.run(
        [str(MLSERVER / "bin" / "pip"), "install", "-q", *(needed[kind] for kind in kinds)], check=True
    )


def start(folder: Path, kind: str, cpus: set[int]) -> list[Target]:
    """This server and MLServer with one artefact, with one thread for each run."""
    os.environ["OMP_NUM_THREADS"] = "1"
    ours, theirs, code = folder / "ours", folder / "theirs", folder / "code"
    for place in (ours / "doubler", theirs, code / "doubler"):
        place.mkdir(parents=True)
        if place is not theirs:
            artefact(kind, place)
    write(ours, {"implementation": RUNTIMES[kind], **SETTINGS[kind]})
    write(code, {"implementation": "served.Served"})
    (code / "doubler" / "served.py").write_text(CODE[kind])
    return [start_ours(cpus, "inferstream", 0, ours), start_mlserver(cpus, theirs, code)]


def write(folder: Path, settings: dict) -> None:
    (folder / "doubler" / "model-settings.json").write_text(
        json.dumps({"name": "doubler", **settings, **BATCHING})
    )


def artefact(kind: str, folder: Path) -> None:
    """A network of one hidden layer."""
    draw = np.random.default_rng(0)
    first, last = (
        draw.standard_normal(shape).astype(np.float32) for shape in ((FEATURES, HIDDEN), (HIDDEN, CLASSES))
    )
    if kind == "onnx":
        from onnx import TensorProto, helper, numpy_helper, save

        nodes = [
            helper.make_node("MatMul", ["rows", "first"], ["sums"]),
            helper.make_node("Relu", ["sums"], ["hidden"]),
            helper.make_node("MatMul", ["hidden", "last"], ["scores"]),
        ]
        tensors = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])
            for name, width in (("rows", FEATURES), ("scores", CLASSES))
        ]
        weights = [numpy_helper.from_array(array, name) for name, array in (("first", first), ("last", last))]
        graph = helper.make_graph(nodes, "network", tensors[:1], tensors[1:], weights)
        save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
            folder / "model.onnx",
        )
        return
    import torch

    layers = torch.nn.Linear(FEATURES, HIDDEN, bias=False), torch.nn.Linear(HIDDEN, CLASSES, bias=False)
    module = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])
    with torch.no_grad():
        layers[0].weight.copy_(torch.from_numpy(first.T))
        layers[1].weight.copy_(torch.from_numpy(last.T))
    torch.jit.script(module).save(folder / "model.pt")


def measure(
    runner: asyncio.Runner, targets: dict[str, list[Target]], rounds: int, seconds: float
) -> dict[str, dict[str, dict[str, float]]]:
    """Medians over the rounds: microseconds of CPU of a request, and requests in a second."""
    cells: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for index in range(rounds + 1):
        for kind, each in targets.items():
            for target in each:
                before = tree_cpu(target.process.pid)
                length = seconds if index else 1.0  # the first round warms up
                answered = runner.run(load.rest_infer(target.ports["rest"], CALLERS, length))
                cpu = tree_cpu(target.process.pid) - before
                if index:
                    cells.setdefault((kind, target.name), []).append(
                        (cpu / answered * 1e6, answered / length)
                    )
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for (kind, name), found in cells.items():
        cpus, rates = zip(*found, strict=True)
        figures.setdefault(kind, {})[name] = {
            "cpu_us": round(statistics.median(cpus), 1),
            "lowest": round(min(cpus), 1),
            "highest": round(max(cpus), 1),
            "per_second": round(statistics.median(rates)),
        }
    return figures


def show(figures: dict[str, dict[str, dict[str, float]]]) -> None:
    table = Table("artefact", "server", "CPU a request, µs", "spread", "requests a second", "ratio")
    for kind, servers in figures.items():
        for name, each in servers.items():
            ratio = each["cpu_us"] / servers["MLServer"]["cpu_us"]
            table.add_row(
                kind,
                name,
                f"{each['cpu_us']}",
                f"{each['lowest']} to {each['highest']}",
                f"{each['per_second']:,}",
                f"{ratio:.2f}",
            )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
