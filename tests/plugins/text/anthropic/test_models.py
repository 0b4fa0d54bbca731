"""Models as Anthropic's clients list them."""

from inferstream.plugins.text.anthropic.models import is_anthropic_request, model_info, model_page


def test_version_header_identifies_anthropic_client() -> None:
    assert is_anthropic_request([(b"accept", b"*/*"), (b"anthropic-version", b"2023-06-01")])
    assert not is_anthropic_request([(b"x-api-key", b"key")])


def test_model_creation_time_is_load_time_in_utc() -> None:
    known = {
        "type": "model",
        "id": "m",
        "display_name": "m",
        "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active",
    }
    assert model_info("m", 1_700_000_000, None) == known
    assert model_info("m", 1_700_000_000, 2048) == {**known, "max_input_tokens": 2048}


def test_page_has_first_and_last_id_or_none() -> None:
    page = model_page([model_info("b", 1, None), model_info("a", 2, None)])
    assert [model["id"] for model in page["data"]] == ["b", "a"]
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("b", "a", False)
    empty = model_page([])
    assert (empty["data"], empty["first_id"], empty["last_id"]) == ([], None, None)
