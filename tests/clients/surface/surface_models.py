"""Models that answer every client; copied into the folder that the tests serve."""

from collections.abc import AsyncIterator, Iterator

from inferstream import App, MLModel
from inferstream.types import InferenceRequest, InferenceResponse, ResponseOutput

app = App()


class Echo(MLModel):
    """Answers its inputs; a stream answers each request. Its explanation is a row longer."""

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        outputs = [
            ResponseOutput(name=each.name, shape=each.shape, datatype=each.datatype, data=each.data)
            for each in payload.inputs
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[InferenceResponse]:
        for payload in payloads:
            yield self.predict(payload)

    def explain(self, payload: InferenceRequest) -> InferenceResponse:
        return self.predict(payload)


@app.model
async def words(prompt: str) -> AsyncIterator[str]:
    """The words of the prompt."""
    for index, word in enumerate(prompt.split()):
        yield f" {word}" if index else word


@app.model
def embed(text: list[str]) -> list[list[float]]:
    """A vector for each text."""
    return [[float(len(each)), 1.0] for each in text]


@app.model
def rank(query: str, documents: list[str]) -> list[float]:
    """How many words of the query each document has."""
    return [float(len(set(query.split()) & set(document.split()))) for document in documents]


@app.model
def hear(audio: bytes, task: str = "transcribe") -> str:
    """The length of a file."""
    return f"{len(audio)} {task}"


@app.model
def speak(text: str) -> Iterator[bytes]:
    """The text as bytes."""
    yield text.encode()


@app.model
async def city(prompt: str, response_format: str = "") -> AsyncIterator[str]:
    """An object of the schema that the tests ask for."""
    yield '{"city": "Bern"}'


@app.model
def draw(prompt: str) -> bytes:
    """A file that is no image."""
    return b"\x89PNG" + prompt.encode()
