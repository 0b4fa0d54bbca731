"""Inputs and outputs of the tasks of pipelines."""

from inferstream.plugins.llm.pipelines.tasks import declare_inputs, declare_outputs


def test_task_declares_same_tensors_as_mlserver() -> None:
    shown = [
        (each.name, each.datatype, each.parameters.content_type)
        for each in declare_inputs("image-classification")
    ]
    assert shown == [
        ("inputs", "BYTES", "str"),
        ("inputs", "BYTES", "base64"),
        ("inputs", "BYTES", "pillow_image"),
    ]
    assert [each.name for each in declare_inputs("question-answering")] == ["context", "question"]
    assert [each.name for each in declare_outputs("feature-extraction")] == ["outputs"]
    assert declare_inputs("depth-estimation") == declare_outputs("fill-mask") == []
