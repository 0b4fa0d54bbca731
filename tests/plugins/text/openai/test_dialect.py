"""The models as OpenAI's and Anthropic's clients see them, and the names by which they are called."""

import pytest

from inferstream import App, Settings
from inferstream.ext.telemetry import Meters
from inferstream.plugins.text.openai.dialect import PATHS, PREFIXES, OpenAI
from tests.plugins.text.test_text_dialect import Asking, words

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_text_models_are_listed_with_versions_and_others_by_name(prefix: str) -> None:
    numbers = App()

    @numbers.model
    def add(a: int) -> int:
        return a

    async with Asking(words(), words("v", parameters={"version": "3"}), numbers) as asking:
        listed = (await asking.get(f"{prefix}/models")).json()
        assert {model["id"]: model["root"] for model in listed["data"]} == {
            "words": "words",
            "v": "v",
            "v:3": "v",
        }
        assert listed["models"] == ["add", "v", "words"]


async def test_model_is_retrieved_by_name_and_version() -> None:
    async with Asking(words("v", parameters={"version": "3"})) as asking:
        for name in ("v", "v:3"):
            found = (await asking.get(f"/v1/models/{name}")).json()
            assert (found["id"], found["root"], found["ready"]) == (name, "v", True)
        for name in ("v:4", "other", "other:3"):
            missing = await asking.get(f"/v1/models/{name}")
            assert (missing.status_code, "not found" in missing.json()["error"]["message"]) == (404, True)


async def test_anthropic_clients_get_own_format() -> None:
    headers = {"anthropic-version": "2023-06-01"}
    async with Asking(words()) as asking:
        page = (await asking.client.get("/v1/models", headers=headers)).json()
        assert (page["first_id"], page["has_more"]) == ("words", False)
        one = (await asking.client.get("/v1/models/words", headers=headers)).json()
        assert (one["type"], one["id"]) == ("model", "words")
        missing = await asking.client.get("/v1/models/other", headers=headers)
        assert (missing.status_code, missing.json()["type"]) == (404, "error")


async def test_tgi_model_names_select_default_model() -> None:
    async with Asking(words()) as asking:
        for name, status in (("tgi", 200), ("dummy", 200), ("words", 200), ("other", 404)):
            assert (await asking.chat(model=name)).status_code == status
    async with Asking(words(), words("tgi")) as asking:
        answered = await asking.chat(model="tgi")
        assert answered.json()["model"] == "tgi"


async def test_body_without_model_gets_openai_error() -> None:
    async with Asking(words()) as asking:
        refused = await asking.client.post(CHAT, json={"messages": []})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "model"


def test_each_path_is_listed_with_its_requirements() -> None:
    paths = OpenAI(None, Settings(), Meters()).described()  # type: ignore[arg-type]
    for prefix in PREFIXES:
        for action, path in PATHS.items():
            sent = paths[prefix + action]["post"]["requestBody"]["content"]["application/json"]
            assert sent["schema"]["required"] == ["model", path.field]
            streams = "text/event-stream" in paths[prefix + action]["post"]["responses"]["200"]["content"]
            assert streams is (action != "/embeddings")
