"""The state of one stream of a language model."""

from inferstream.runtimes.sampling import Sampling
from inferstream.runtimes.transformers.stream import TokenStream
from inferstream.text.detokenizer import Detokenizer


def test_a_stream_reads_its_prompt_and_then_writes() -> None:
    stream = TokenStream([1, 2, 3], 5, Sampling(), Detokenizer(str), single=False)
    assert (stream.unread, stream.written, stream.row) == (3, 0, -1)
    stream.read = 2
    assert stream.unread == 1
    stream.read = 3
    stream.tokens.append(9)
    stream.read += 1
    assert (stream.unread, stream.written) == (0, 1)


def test_only_a_client_of_one_response_has_its_pieces_gathered() -> None:
    assert TokenStream([1], 5, Sampling(), Detokenizer(str), single=True).pieces == []
    assert TokenStream([1], 5, Sampling(), Detokenizer(str), single=False).pieces is None
