"""Inputs and outputs of the tasks of pipelines."""

from inferstream.runtimes.pipelines.tasks import inputs_of_task, outputs_of_task


def test_a_task_declares_what_mlservers_runtime_declares() -> None:
    shown = [
        (each.name, each.datatype, each.parameters.content_type)
        for each in inputs_of_task("image-classification")
    ]
    assert shown == [
        ("inputs", "BYTES", "str"),
        ("inputs", "BYTES", "base64"),
        ("inputs", "BYTES", "pillow_image"),
    ]
    assert [each.name for each in inputs_of_task("question-answering")] == ["context", "question"]
    assert [each.name for each in outputs_of_task("feature-extraction")] == ["outputs"]
    assert inputs_of_task("depth-estimation") == outputs_of_task("fill-mask") == []
