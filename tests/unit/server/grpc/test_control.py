"""The model that a request names."""

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.requests_pb2 import CancelRequest
from inferstream.server.grpc.control import model_named


def test_a_request_names_its_model_in_one_of_three_fields() -> None:
    assert model_named(pb.ModelReadyRequest(name="a")) == "a"
    assert model_named(pb.RepositoryModelLoadRequest(model_name="b")) == "b"
    assert model_named(pb.RepositoryModelLoadRequest(repository_name="c")) == "c"
    assert model_named(CancelRequest(id="d")) is None
