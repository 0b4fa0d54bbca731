import pytest

from inferstream import Finished, MetadataTensor, MLModel, ModelSettings, StepModel, Token, Usage
from inferstream.errors import InvalidOutput
from inferstream.testing import run
from inferstream.tokens import TokenWriter

DECLARED = [
    MetadataTensor(name="score", datatype="FP32", shape=[1]),
    MetadataTensor(name="words", datatype="BYTES", shape=[1, 1]),
]


def written(item, declared=()):
    return TokenWriter("m", "1", declared).write(item)


def test_text_fills_the_first_declared_text_output():
    tensor = written("hello", DECLARED).outputs[0]
    assert (tensor.name, tensor.shape, tensor.datatype, tensor.data.flat()) == (
        "words",
        [1, 1],
        "BYTES",
        ["hello"],
    )


def test_model_without_declared_output_gets_a_text_output():
    response = written(b"\xc3")
    assert (response.outputs[0].name, response.outputs[0].shape) == ("text", [1])
    assert response.outputs[0].data.flat() == [b"\xc3"]
    assert response.parameters is None


def test_token_fields_other_than_text_are_parameters():
    token = Token(
        "a",
        7,
        -0.5,
        top_logprobs={"a": -0.5, "b": -1.0},
        finish_reason="length",
        usage=Usage(3, 4),
        tool_calls=[{"index": 0}],
    )
    assert dict(written(token).parameters.items()) == {
        "token_id": 7,
        "logprob": -0.5,
        "finish_reason": "length",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "top_logprobs": '{"a":-0.5,"b":-1.0}',
        "tool_calls": '[{"index":0}]',
    }


def test_other_values_are_not_text():
    assert written(3) is None
    assert written(None) is None


def test_unsendable_token_names_the_model():
    with pytest.raises(InvalidOutput, match="Model m answered a Token whose text is 3"):
        written(Token(3))
    with pytest.raises(InvalidOutput, match="cannot be written as JSON"):
        written(Token("a", tool_calls=[{"a": object()}]))


class Words(MLModel):
    """Yields what a model of text may yield."""

    async def predict(self, payload):
        return "whole"

    async def predict_stream(self, payloads):
        async for _ in payloads:
            yield "a"
            yield b"\xc3"
            yield Token("b", 1, finish_reason="stop")


class Steps(StepModel):
    def admit(self, request):
        return ["a", Token("b")]

    def step(self, states):
        return [
            [state.pop(0), state[0]] if len(state) == 2 else Finished(Token("c", 3), "d") for state in states
        ]


def texts(responses):
    return [response.outputs[0].data.flat()[0] for response in responses]


def test_models_may_return_and_yield_text():
    with run(Words) as app:
        assert texts([app.infer("Words", prompt="x")]) == ["whole"]
        responses = app.stream("Words", prompt="x")
    assert texts(responses) == ["a", b"\xc3", "b"]
    assert responses[0].model_name == "Words"
    assert responses[0].id == responses[2].id
    assert responses[2].parameters.get("finish_reason") == "stop"


def test_steps_may_emit_text():
    with run(Steps) as app:
        assert texts(app.stream("Steps", prompt="x")) == ["a", "b", "c", "d"]


def test_declared_text_output_keeps_its_name():
    settings = ModelSettings(
        name="words",
        implementation=Words,
        outputs=[{"name": "said", "datatype": "BYTES", "shape": [1, 1]}],
        input_validation="strict",
    )
    with run(Words(settings)) as app:
        assert app.infer("words", prompt="x").outputs[0].name == "said"
