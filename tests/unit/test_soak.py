"""The soak's judgement: which ends of calls it takes for lost, and what it takes for kept."""

from scripts.soak.holdings import SLOPE, grown, slopes
from scripts.soak.http import DOORS
from scripts.soak.site import Ask, Site

ASK = Ask("near", "whole", 3, 1, 0)


def test_non_ok_outcomes_need_an_explanation() -> None:
    site = Site("", 0, 0)
    site.note("rest", "near", "ok")
    site.note("rest", "near", "504", "504")
    site.note("rest", "killed", "503", said="The worker process that ran this request ended by SIGKILL.")
    assert not site.unexplained
    site.note("rest", "kept", "503", said="The worker process that ran this request ended by SIGKILL.")
    site.note("rest", "killed", "503", said="The server is stopping.")
    site.note("rest", "near", "504")
    assert site.unexplained.total() == 3
    assert site.calls == 6


def test_response_with_missing_doubled_or_cut_word_is_lost() -> None:
    assert ASK.end("#0 x #1 x #2 x ") == "ok"
    assert ASK.end("#0 x #2 x ") == ASK.end("#0 x #1 x #1 x #2 x ") == ASK.end("#0 x #1 x ") == "wrong"
    stream = DOORS["openai stream"]
    words = 'data: {"choices":[{"delta":{"content":"#0 x #1 x #2 x "}}]}\n\n'
    assert stream.end(ASK, 200, words + "data: [DONE]\n\n") == "ok"
    assert stream.end(ASK, 200, words) == "cut off"
    failed = 'data: {"error":{"message":"a","type":"server_error","code":"timeout"}}\n\n'
    assert stream.end(ASK, 200, words + failed) == "timeout"


def test_counts_may_not_grow_and_memory_only_slightly() -> None:
    assert grown({"tasks": 1, "KiB": 1}, {"tasks": 1, "KiB": 9}) == {}
    assert grown({"tasks": 1}, {"tasks": 2, "inferstream.A": 1}) == {"tasks": 1, "inferstream.A": 1}
    calls = [number * 1_000_000 for number in range(8)]
    flat = [{"KiB": 1000, "KiB of kept workers": 1000 + SLOPE * number} for number in range(8)]
    assert slopes(flat, calls)[1] == []
    rising = [{"KiB": 1000 + 3 * SLOPE * number, "KiB of kept workers": 1000} for number in range(8)]
    assert slopes(rising, calls)[1] == ["KiB"]
