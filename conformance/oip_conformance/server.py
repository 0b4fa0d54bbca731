"""The server under test: its REST and gRPC clients, and its models by their role in the test cases."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from .http import Answer, Http
from .messages import message
from .outcome import Difference, Skip, require, short
from .rpc import Rpc
from .tensors import DATATYPES

ROLES = {
    "identity": "returns its inputs of any datatype, in their order",
    "typed": "declares INPUT0 FP32 [-1] and INPUT1 BYTES [-1], and returns them as OUTPUT0 and OUTPUT1",
    "stream": "streams the words of text_input BYTES [1] as text_output BYTES [1], and fails at the word !fail",
    "text": "generates the words of its prompt as tokens, and fails at the word !fail",
}
UNKNOWN = "oip-no-such-model"


class Model:
    """A model of the server, with the inputs and outputs in its metadata."""

    def __init__(self, name: str, metadata: Mapping[str, Any]) -> None:
        self.name = name
        self.path = model_path(name)
        self.inputs = _datatypes(metadata.get("inputs"))
        self.outputs = _datatypes(metadata.get("outputs"))
        versions = metadata.get("versions")
        listed = versions if isinstance(versions, list) else []
        self.versions = [text for text in listed if isinstance(text, str) and text]

    @property
    def version(self) -> str:
        """An existing version of the model. Raises Skip if the metadata has none."""
        if not self.versions:
            raise Skip(f"the metadata of {self.name} name no versions")
        return self.versions[-1]

    def input_name(self, datatype: str, index: int = 0) -> str:
        """Return the name of an input of this datatype, or a default name if the model declares no inputs."""
        if not self.inputs:
            return f"INPUT{index}"
        names = [name for name, declared in self.inputs.items() if declared == datatype]
        if not names:
            raise Skip(f"{self.name} declares no input of {datatype}")
        return names[0]

    def input(
        self,
        datatype: str,
        values: Sequence[Any] | None = None,
        shape: Sequence[int] | None = None,
        index: int = 0,
    ) -> dict[str, Any]:
        """Build an input in JSON. The default values are the samples of the datatype."""
        data = list(DATATYPES[datatype].values) if values is None else list(values)
        name = self.input_name(datatype, index)
        return {"name": name, "datatype": datatype, "shape": list(shape or [len(data)]), "data": data}


class Server:
    """The server under test."""

    def __init__(self, http: Http, rpc: Rpc | None, names: Mapping[str, str]) -> None:
        self.http = http
        self._rpc = rpc
        self.names = names
        self._models: dict[str, Model] = {}

    @property
    def rpc(self) -> Rpc:
        """The gRPC client. Raises Skip if no address was given."""
        if self._rpc is None:
            raise Skip("no address of gRPC was given (--grpc)")
        return self._rpc

    @property
    def any(self) -> Model:
        """Any model, for cases that apply to all models."""
        for role in (*ROLES, *self.names):
            if role in self.names:
                return self.model(role)
        raise Skip(f"no model was named (--model), and none has the name of a role: {', '.join(_standard())}")

    def model(self, role: str) -> Model:
        """Return the model of a role. Raises Skip if the server has none."""
        if role not in self.names:
            raise Skip(f"no model of the role {role}, which {ROLES[role]} (--model {role}=NAME)")
        name = self.names[role]
        if name not in self._models:
            answer = self.http.get(model_path(name))
            metadata = answer.json() if answer.status == 200 else {}
            self._models[name] = Model(name, metadata if isinstance(metadata, dict) else {})
        return self._models[name]

    def infer(self, model: Model, inputs: Sequence[Any], **fields: Any) -> dict[str, Any]:
        """Return the response to an inference request in JSON, which must succeed."""
        return self.http.post(f"{model.path}/infer", {"inputs": inputs, **fields}).ok()

    def extensions(self) -> list[Any]:
        """Return the extensions in the server metadata."""
        answer = self.http.get("/v2")
        listed = answer.document().get("extensions") if answer.status == 200 else []
        return listed if isinstance(listed, list) else []


def model_path(name: str) -> str:
    """Return the URL path of a model."""
    return f"/v2/models/{quote(name, safe='')}"


def require_error(answer: Answer) -> Answer:
    """Return the response, which must be an error with a message."""
    require(answer.status >= 400, f"expected an error status, got {answer.status}: {short(answer.body)}")
    message = answer.document().get("error")
    require(
        isinstance(message, str) and bool(message), f"expected the string `error`, got {short(answer.body)}"
    )
    return answer


def outputs(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the outputs of a JSON response."""
    listed = response.get("outputs")
    if not isinstance(listed, list) or not all(isinstance(output, dict) for output in listed):
        raise Difference(f"expected a list of objects `outputs`, got {short(listed)}")
    return listed


def only_output(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output of a JSON response, which must have exactly one."""
    listed = outputs(response)
    require(len(listed) == 1, f"expected one output, got {len(listed)}")
    return listed[0]


def flat(data: Any) -> list[Any]:
    """Flatten nested lists in row-major order."""
    if not isinstance(data, list):
        raise Difference(f"expected a list `data`, got {short(data)}")
    return [value for part in data for value in (flat(part) if isinstance(part, list) else [part])]


def raw_request(model: Model, *datatypes: str, **fields: Any) -> Any:
    """Build a gRPC request with the sample values of the datatypes, in raw contents."""
    request = message("ModelInferRequest")(model_name=model.name, **fields)
    for index, name in enumerate(datatypes):
        values = DATATYPES[name].values
        request.inputs.add(name=model.input_name(name, index), datatype=name, shape=[len(values)])
        request.raw_input_contents.append(DATATYPES[name].pack(values))
    return request


def typed_request(model: Model, *datatypes: str, **fields: Any) -> Any:
    """Build a gRPC request with the sample values of the datatypes, in typed contents."""
    request = raw_request(model, *datatypes, **fields)
    del request.raw_input_contents[:]
    for tensor in request.inputs:
        datatype = DATATYPES[tensor.datatype]
        assert datatype.field is not None
        values = [value.encode() if isinstance(value, str) else value for value in datatype.values]
        getattr(tensor.contents, datatype.field).extend(values)
    return request


def rpc_values(response: Any, index: int = 0) -> list[Any]:
    """Return the values of a gRPC output, from its raw or typed contents."""
    if index >= len(response.outputs):
        raise Difference(f"expected an output {index}, got {len(response.outputs)} outputs")
    output = response.outputs[index]
    datatype = DATATYPES.get(output.datatype)
    if datatype is None:
        raise Difference(f"unknown datatype {output.datatype!r} of output {output.name}")
    if response.raw_output_contents:
        if index >= len(response.raw_output_contents):
            raise Difference(f"no raw contents for output {output.name}")
        return datatype.unpack(response.raw_output_contents[index])
    values = list(getattr(output.contents, datatype.field)) if datatype.field else []
    return [value.decode() if isinstance(value, bytes) else value for value in values]


def names_of_models(http: Http, given: Sequence[str]) -> dict[str, str]:
    """Return the model names by role.

    These are the `given` models, as `NAME` or `ROLE=NAME`, and existing models with the default name of a
    role. If there are none, all ready models are returned.
    """
    names: dict[str, str] = {}
    for text in given:
        role, equals, name = text.partition("=")
        names[role if equals else text] = name if equals else text
    for role, name in _standard().items():
        if role not in names and http.get(model_path(name)).status == 200:
            names[role] = name
    if not names:
        answer = http.call("POST", "/v2/repository/index", b"{}")
        listed = answer.json() if answer.status == 200 else []
        names = {entry["name"]: entry["name"] for entry in listed if entry.get("state") in ("READY", None)}
    return names


def _standard() -> dict[str, str]:
    return {role: f"oip-{role}" for role in ROLES}


def _datatypes(tensors: Any) -> dict[str, str]:
    listed = tensors if isinstance(tensors, list) else []
    return {
        tensor["name"]: tensor["datatype"]
        for tensor in listed
        if isinstance(tensor, dict) and "datatype" in tensor
    }
