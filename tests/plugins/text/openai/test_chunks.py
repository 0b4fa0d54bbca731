"""Usage and pieces that chat and completions share."""

from tests.plugins.text.test_text_dialect import Asking, words


async def test_usage_counts_each_prompt_once():
    async with Asking(words()) as asking:
        body = {"prompt": ["a b c", "d e"], "n": 2}
        whole = (await asking.post("/v1/completions", **body)).json()["usage"]
        last = (await asking.events("/v1/completions", stream_options={"include_usage": True}, **body))[-1]
        assert whole == last["usage"] == {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 15}
        assert (await asking.chat("a b c", n=2)).json()["usage"]["prompt_tokens"] == 3
