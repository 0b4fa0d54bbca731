"""Models as Anthropic's clients list them."""

from inferstream.server.rest.dialects.anthropic.models import asks, model_info, model_page


def test_the_version_of_the_api_tells_whose_client_asks() -> None:
    assert asks([(b"accept", b"*/*"), (b"anthropic-version", b"2023-06-01")])
    assert not asks([(b"x-api-key", b"key")])


def test_a_model_has_the_time_of_its_load_in_utc() -> None:
    known = {
        "type": "model",
        "id": "m",
        "display_name": "m",
        "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active",
    }
    assert model_info("m", 1_700_000_000, None) == known
    assert model_info("m", 1_700_000_000, 2048) == {**known, "max_input_tokens": 2048}


def test_a_page_has_its_ends_and_none_without_models() -> None:
    page = model_page([model_info("b", 1, None), model_info("a", 2, None)])
    assert [model["id"] for model in page["data"]] == ["b", "a"]
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("b", "a", False)
    empty = model_page([])
    assert (empty["data"], empty["first_id"], empty["last_id"]) == ([], None, None)
