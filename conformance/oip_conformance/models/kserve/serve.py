"""A KServe Python server with the models for the test cases. It does not support V2 streams."""

import uuid

from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer


class Identity(Model):
    """Returns its inputs, of any datatype, in order."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.load()

    def load(self) -> bool:
        self.ready = True
        return True

    async def predict(self, payload: InferRequest, headers: dict[str, str] | None = None) -> InferResponse:
        return self.respond(payload, {tensor.name: tensor.name for tensor in payload.inputs})

    def respond(self, payload: InferRequest, names: dict[str, str]) -> InferResponse:
        """Build a response with one output per entry of `names`, which maps input names to output names."""
        tensors = {tensor.name: tensor for tensor in payload.inputs}
        outputs = []
        for given, name in names.items():
            tensor = tensors[given]
            output = InferOutput(name=name, shape=tensor.shape, datatype=tensor.datatype)
            output.set_data_from_numpy(tensor.as_numpy(), binary_data=payload.use_binary_outputs)
            outputs.append(output)
        return InferResponse(
            response_id=payload.id or str(uuid.uuid4()),
            model_name=self.name,
            infer_outputs=outputs,
            use_binary_outputs=payload.use_binary_outputs,
            requested_outputs=payload.request_outputs,
        )


class Typed(Identity):
    """Declares its inputs and outputs, and returns INPUT0 as OUTPUT0 and INPUT1 as OUTPUT1."""

    async def predict(self, payload: InferRequest, headers: dict[str, str] | None = None) -> InferResponse:
        return self.respond(payload, {"INPUT0": "OUTPUT0", "INPUT1": "OUTPUT1"})

    def get_input_types(self) -> list[dict]:
        return _tensors("INPUT")

    def get_output_types(self) -> list[dict]:
        return _tensors("OUTPUT")


def _tensors(prefix: str) -> list[dict]:
    return [
        {"name": f"{prefix}{n}", "datatype": kind, "shape": [-1]} for n, kind in enumerate(("FP32", "BYTES"))
    ]


if __name__ == "__main__":
    ModelServer().start([Identity("oip-identity"), Typed("oip-typed")])
