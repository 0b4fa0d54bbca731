import pytest

from inferstream import MetadataTensor, ModelSettings
from inferstream.errors import Unsupported
from inferstream.ext.runtimes import Signature
from inferstream.plugins.text.interface import build_text_interface


def tensor(name, datatype="BYTES", shape=(1,), **parameters):
    return MetadataTensor(name=name, datatype=datatype, shape=list(shape), parameters=parameters or None)


PROMPT, TEXT = tensor("prompt"), tensor("text")


def interface(inputs=(PROMPT,), outputs=(TEXT,), streams=True, **settings):
    signature = Signature(tuple(inputs) or None, tuple(outputs) or None, streams=streams)
    return build_text_interface(signature, ModelSettings(implementation="m.M", name="m", **settings))


def test_string_input_and_output_make_text_model():
    found = interface()
    assert (found.prompt.name, found.generates, found.embeds, found.listed) == ("prompt", True, False, True)


def test_string_input_and_float_output_make_embedding_model():
    found = interface(outputs=[tensor("vector", "FP32", [-1, 8])])
    assert (found.generates, found.embeds) == (False, True)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([tensor("x", "FP32")], [TEXT]),
        ([PROMPT], [tensor("y", "INT64")]),
        ([PROMPT, tensor("values", "FP32")], [TEXT]),
        ([tensor("picture", content_type="base64")], [TEXT]),
        ([PROMPT], [tensor("labels", content_type="hg_json")]),
    ],
    ids=["no text in", "no text out", "another input is needed", "another content in", "another content out"],
)
def test_other_models_accept_no_text(inputs, outputs):
    assert interface(inputs, outputs) is None


def test_optional_inputs_are_ignored():
    assert interface([PROMPT, tensor("values", "FP32", optional=True)]) is not None


def test_undeclared_model_is_unlisted_but_callable():
    found = interface([], [])
    assert (found.prompt.name, found.listed) == ("prompt", False)
    assert interface([], [], streams=False) is None
    assert interface([], [], streams=False, openai=True).listed


def test_setting_hides_model():
    assert interface(openai=False) is None


def test_request_has_prompt_in_declared_rank_and_sampling_parameters():
    request = interface([tensor("p", shape=[-1, 1])]).build_request(["hi"], {}, {"seed": 3})
    assert [(each.name, each.shape, each.data.flat()) for each in request.inputs] == [("p", [1, 1], ["hi"])]
    assert dict(request.parameters.items()) == {"seed": 3}


def test_declared_sampling_inputs_become_tensors():
    declared = [tensor("max_tokens", "INT32"), PROMPT, tensor("stream", "BOOL")]
    request = interface(declared).build_request(["hi"], {}, {"max_tokens": 3, "seed": 1})
    assert {each.name: each.data.flat() for each in request.inputs} == {"prompt": ["hi"], "max_tokens": [3]}
    assert dict(request.parameters.items()) == {"seed": 1}


def test_special_inputs_are_not_prompts():
    found = interface([tensor("messages"), tensor("images", shape=[-1])])
    assert found.prompt is None
    assert found.takes("messages")
    request = found.build_request(None, {"messages": ["[]"], "images": [b"1", b"2"]}, {})
    assert {each.name: each.shape for each in request.inputs} == {"messages": [1], "images": [2]}
    with pytest.raises(Unsupported):
        found.build_request(["hi"], {}, {})


def test_requests_have_separate_parameters():
    found = interface()
    sent = {"top_k": 1}
    for _ in range(2):
        parameters = found.build_request(["a"], {}, sent).parameters
        assert parameters.get("seen") is None
        parameters.__pydantic_extra__["seen"] = True
