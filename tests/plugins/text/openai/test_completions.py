"""`/v1/completions`."""

from tests.plugins.text.test_text_dialect import Asking, words


async def test_token_offsets_start_at_beginning_of_text():
    async with Asking(words()) as asking:
        body = {"prompt": "aa b", "logprobs": 0, "echo": True}
        events = await asking.events("/v1/completions", **body)
        streamed = [event["choices"][0]["logprobs"] for event in events]
        assert [found["text_offset"] for found in streamed if found] == [[4], [7]]
        [choice] = (await asking.post("/v1/completions", **body)).json()["choices"]
        assert choice["logprobs"]["text_offset"] == [4, 7]
        assert choice["text"][4:7] == choice["logprobs"]["tokens"][0] == "aa "
