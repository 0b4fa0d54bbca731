import pytest

from inferstream import MetadataTensor, ModelSettings
from inferstream.errors import Unsupported
from inferstream.signature import Signature
from inferstream.text.interface import text_interface


def tensor(name, datatype="BYTES", shape=(1,), **parameters):
    return MetadataTensor(name=name, datatype=datatype, shape=list(shape), parameters=parameters or None)


PROMPT, TEXT = tensor("prompt"), tensor("text")


def interface(inputs=(PROMPT,), outputs=(TEXT,), streams=True, **settings):
    signature = Signature(tuple(inputs) or None, tuple(outputs) or None, streams=streams)
    return text_interface(signature, ModelSettings(implementation="m.M", name="m", **settings))


def test_texts_in_and_out_make_a_text_model():
    found = interface()
    assert (found.prompt.name, found.generates, found.embeds, found.listed) == ("prompt", True, False, True)


def test_texts_in_and_floats_out_make_an_embedding_model():
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
def test_other_models_take_no_text(inputs, outputs):
    assert interface(inputs, outputs) is None


def test_optional_inputs_do_not_matter():
    assert interface([PROMPT, tensor("values", "FP32", optional=True)]) is not None


def test_a_model_that_declares_nothing_is_not_listed_but_may_be_asked():
    found = interface([], [])
    assert (found.prompt.name, found.listed) == ("prompt", False)
    assert interface([], [], streams=False) is None
    assert interface([], [], streams=False, openai=True).listed


def test_a_setting_hides_a_model():
    assert interface(openai=False) is None


def test_a_request_has_the_prompt_in_the_declared_rank_and_sampling_as_parameters():
    request = interface([tensor("p", shape=[-1, 1])]).request(["hi"], {}, {"seed": 3})
    assert [(each.name, each.shape, each.data.flat()) for each in request.inputs] == [("p", [1, 1], ["hi"])]
    assert dict(request.parameters.items()) == {"seed": 3}


def test_declared_sampling_inputs_get_tensors():
    declared = [tensor("max_tokens", "INT32"), PROMPT, tensor("stream", "BOOL")]
    request = interface(declared).request(["hi"], {}, {"max_tokens": 3, "seed": 1})
    assert {each.name: each.data.flat() for each in request.inputs} == {"prompt": ["hi"], "max_tokens": [3]}
    assert dict(request.parameters.items()) == {"seed": 1}


def test_special_inputs_are_no_prompt():
    found = interface([tensor("messages"), tensor("images", shape=[-1])])
    assert found.prompt is None
    assert found.takes("messages")
    request = found.request(None, {"messages": ["[]"], "images": [b"1", b"2"]}, {})
    assert {each.name: each.shape for each in request.inputs} == {"messages": [1], "images": [2]}
    with pytest.raises(Unsupported):
        found.request(["hi"], {}, {})


def test_requests_do_not_share_their_parameters():
    found = interface()
    sent = {"top_k": 1}
    for _ in range(2):
        parameters = found.request(["a"], {}, sent).parameters
        assert parameters.get("seen") is None
        parameters.__pydantic_extra__["seen"] = True
