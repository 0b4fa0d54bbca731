"""The state of one stream of a language model."""

from inferstream.plugins.llm.sampling import Sampling
from inferstream.plugins.llm.token_stream import TokenStream
from inferstream.plugins.text.detokenizer import Detokenizer


def test_stream_reads_prompt_before_generating() -> None:
    stream = TokenStream([1, 2, 3], 5, Sampling(), Detokenizer(str), single=False)
    assert (stream.unread, stream.written, stream.row) == (3, 0, -1)
    stream.read = 2
    assert stream.unread == 1
    stream.read = 3
    stream.tokens.append(9)
    stream.read += 1
    assert (stream.unread, stream.written) == (0, 1)


def test_chunks_are_joined_only_for_unary_client() -> None:
    assert TokenStream([1], 5, Sampling(), Detokenizer(str), single=True).pieces == []
    assert TokenStream([1], 5, Sampling(), Detokenizer(str), single=False).pieces is None
