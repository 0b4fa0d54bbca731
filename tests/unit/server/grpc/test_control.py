"""The model that a request names."""

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.requests_pb2 import CancelRequest
from inferstream.server.grpc.control import get_model_name


def test_model_name_is_read_from_one_of_three_fields() -> None:
    assert get_model_name(pb.ModelReadyRequest(name="a")) == "a"
    assert get_model_name(pb.RepositoryModelLoadRequest(model_name="b")) == "b"
    assert get_model_name(pb.RepositoryModelLoadRequest(repository_name="c")) == "c"
    assert get_model_name(CancelRequest(id="d")) is None
