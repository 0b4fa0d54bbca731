"""What a request is given on its way in."""

from inferstream.dataplane.call import identify
from inferstream.types import InferenceRequest


def test_a_model_may_set_parameters_on_a_request_that_came_without() -> None:
    request = InferenceRequest(inputs=[])
    identify(request, {"name": "value"})
    assert request.parameters is not None
    request.parameters.seen = True
    assert dict(request.parameters.items()) == {"seen": True}
