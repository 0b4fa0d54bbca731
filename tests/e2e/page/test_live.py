"""The live view: charts of the traffic, the states of all models, and when it asks the server."""

import re
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.frontends import MANY
from tests.serving import Running, eventually

from .conftest import focus_is, until, write_models
from .test_accessibility import sound

Visit = Callable[..., Any]

NONE = "\N{EN DASH}"

FIGURE = "figure.line-chart:visible"


def open_server(served: Running, visit: Visit, **options: Any) -> Any:
    page = visit(f"{served.url}/?view=server", **options)
    page.get_by_role("heading", name="Server", exact=True).wait_for()
    return page


def chart(page: Any, title: str) -> Any:
    return page.locator(FIGURE).filter(has=page.get_by_role("heading", name=title, exact=True))


def row(page: Any, model: str) -> Any:
    return page.locator(".states tbody tr").filter(has=page.get_by_role("rowheader", name=model, exact=True))


def values(page: Any, title: str) -> list[str]:
    return chart(page, title).locator(".legend b").all_inner_texts()


def call(served: Running, model: str, arguments: dict[str, Any]) -> int:
    return httpx.post(f"{served.url}/v2/models/{model}/generate", json=arguments, timeout=20).status_code


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_charts_show_traffic_of_all_models_and_of_one(
    served: Running, visit: Visit, scheme: str, width: int
) -> None:
    page = open_server(served, visit, color_scheme=scheme, viewport={"width": width, "height": 844})
    row(page, "add").wait_for()
    page.get_by_label("Show", exact=True).select_option("add")

    def has_figures() -> bool:
        assert call(served, "add", {"a": 1}) == 200
        call(served, "refuse", {"number": 1})
        return values(page, "Requests per second")[0] not in ("0", NONE, "")

    eventually(has_figures)
    finished, errors = values(page, "Requests per second")
    assert (float(finished) > 0, errors) == (True, "0")
    assert values(page, "Latency (estimated)")[0].endswith("ms")
    assert chart(page, "Memory").count() == 0
    page.get_by_label("Show", exact=True).select_option("")
    assert float(values(page, "Requests per second")[1]) > 0
    assert float(values(page, "Error responses per second")[1]) > 0
    failure = row(page, "refuse").get_by_text("Last failed call, ").inner_text()
    assert re.fullmatch(r"Last failed call, .*: \w+Error: .+", failure)
    assert row(page, "add").get_by_text("Last failed call, ").is_hidden()
    errors_per_second = [row(page, name).locator("td").nth(2).inner_text() for name in ("add", "refuse")]
    assert (errors_per_second[0], float(errors_per_second[1]) > 0) == ("0", True)
    if width == 1280:
        assert page.locator(".states").evaluate("each => each.scrollWidth - each.clientWidth") <= 0
    assert values(page, "Memory")[0].endswith("MB")
    assert chart(page, "Latency (estimated)").locator(".ticks span").last.inner_text() == "0"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    sound(page)


def test_chart_is_read_with_keyboard_and_pointer(served: Running, visit: Visit) -> None:
    page = open_server(served, visit)
    slider = page.get_by_role("slider", name="Requests per second, time")
    eventually(lambda: page.locator(".line-plot .line-0").first.get_attribute("d").count("L") > 0)
    slider.focus()
    page.keyboard.press("Home")
    assert int(slider.get_attribute("aria-valuenow")) < 0
    assert f"s ago: finished {NONE}, with errors {NONE}" in slider.get_attribute("aria-valuetext")
    assert chart(page, "Requests per second").get_by_text("s ago").is_visible()
    page.keyboard.press("End")
    assert "finished 0" in slider.get_attribute("aria-valuetext")
    page.keyboard.press("Tab")
    assert slider.get_attribute("aria-valuenow") == "0"
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10)
    assert int(slider.get_attribute("aria-valuenow")) < 0
    page.mouse.move(0, 0)
    assert chart(page, "Requests per second").get_by_text("s ago").count() == 0


def test_escape_in_chart_returns_to_newest_values_and_stops_no_stream(served: Running, visit: Visit) -> None:
    page = visit(f"{served.url}/?model=ticks")
    page.get_by_label("prompt", exact=True).fill("go on")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".stream-text").get_by_text("go on 1 ").wait_for()
    page.get_by_role("link", name="Server", exact=True).click()
    slider = page.get_by_role("slider", name="Calls in progress, time")
    eventually(lambda: page.locator(".line-plot .line-0").first.get_attribute("d").count("L") > 0)
    slider.focus()
    page.keyboard.press("Home")
    assert int(slider.get_attribute("aria-valuenow")) < 0
    page.keyboard.press("Escape")
    assert slider.get_attribute("aria-valuenow") == "0"
    assert chart(page, "Calls in progress").get_by_text("s ago").count() == 0
    focus_is(page, "each.getAttribute('aria-label') === 'Calls in progress, time'")
    page.get_by_role("link", name="Models", exact=True).click()
    page.get_by_role("button", name="Stop").click()


def test_page_polls_every_two_seconds_only_while_view_is_visible(served: Running, visit: Visit) -> None:
    page = visit("about:blank")
    polls: list[float] = []
    page.on("request", lambda request: request.url.endswith("/page/live") and polls.append(time.monotonic()))
    page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => window.isHidden ?? false })")
    page.goto(f"{served.url}/?model=add")
    page.get_by_role("heading", name="add", exact=True).wait_for()
    assert polls == []
    page.get_by_role("link", name="Server", exact=True).click()
    eventually(lambda: page.evaluate("1") and len(polls) == 3)
    assert all(later - earlier > 1.5 for earlier, later in pairwise(polls))
    page.evaluate("window.isHidden = true")
    page.wait_for_timeout(2500)
    assert len(polls) == 3
    page.evaluate("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    eventually(lambda: page.evaluate("1") and len(polls) == 4)
    page.locator(".sidebar").get_by_role("link", name="greet").click()
    page.get_by_role("heading", name="greet", exact=True).wait_for()
    page.wait_for_timeout(2500)
    assert len(polls) == 4
    assert page.locator("server-view").is_hidden()
    page.go_back()
    page.get_by_role("heading", name="Server", exact=True).wait_for()
    eventually(lambda: page.evaluate("1") and len(polls) == 5)


def test_running_stream_goes_on_behind_the_view(served: Running, visit: Visit) -> None:
    page = visit(f"{served.url}/?model=ticks")
    page.get_by_label("prompt", exact=True).fill("go on")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".stream-text").get_by_text("go on 1 ").wait_for()
    page.get_by_role("link", name="Server", exact=True).click()
    eventually(lambda: values(page, "Calls in progress") == ["1", "0", "1"])
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Models", exact=True).click()
    page.get_by_role("button", name="Stop").click()
    assert page.title().startswith("ticks")


def test_models_are_loaded_and_unloaded(served: Running, visit: Visit) -> None:
    page = open_server(served, visit)
    broken = row(page, "broken")
    assert "has no class Missing" in broken.inner_text()
    broken.get_by_role("button", name="Load broken").click()
    eventually(lambda: broken.locator(".state").inner_text() == "failed")
    assert "has no class Missing" in broken.locator(".fault").inner_text()
    page.on("dialog", lambda dialog: dialog.accept())
    people = row(page, "people")
    people.get_by_role("button", name="Unload people").click()
    people.get_by_text("not loaded", exact=True).wait_for()
    until(page, "() => document.activeElement.ariaLabel === 'Load people'")
    people.get_by_role("button", name="Load people").click()
    people.get_by_role("button", name="Reload people").wait_for()
    assert people.locator(".state").inner_text() == "ready"
    assert row(page, "versions version 1").count() == 1


def test_failed_reload_and_lost_server_show_at_each_model(served: Running, visit: Visit) -> None:
    page = visit("about:blank")
    reason = "line 3: invalid syntax; the old version goes on serving."
    index = [{"name": "add", "version": "", "state": "READY", "reason": reason}]
    page.route("**/v2/repository/index", lambda route: route.fulfill(json=index))
    page.goto(f"{served.url}/?view=server")
    row(page, "add").get_by_text("reload failed", exact=True).wait_for()
    assert row(page, "add").locator(".fault").inner_text() == reason
    page.unroute("**/v2/repository/index")
    page.reload()
    eventually(lambda: row(page, "add").locator(".state").inner_text() == "ready")
    page.route("**/*", lambda route: route.abort())
    page.get_by_text("The server cannot be reached.").wait_for()
    states = page.locator(".states .state")
    eventually(lambda: {*states.all_inner_texts()} == {"not reachable"}, 20)
    assert page.get_by_role("button", name="Reload add").is_disabled()
    assert "not reachable" in page.locator(".sidebar").get_by_role("link", name="add").first.inner_text()


@pytest.fixture
def doubled(tmp_path: Path) -> Iterator[Running]:
    running = Running(write_models(tmp_path / "models"), "--frontends", "2")
    yield running
    assert running.stop() == 0, running.text()


def count_errors(served: Running) -> list[tuple[float, float]]:
    """The rejected and the failed requests of each front end."""
    processes = httpx.get(f"{served.url}/page/live", timeout=20).json()["processes"]
    own = [next(numbers for name, _, numbers, *_ in process if not name) for process in processes]
    return [(numbers["client_errors"][0], numbers["server_errors"][0]) for numbers in own]


def test_grpc_errors_of_all_front_ends_are_in_the_chart(doubled: Running, visit: Visit) -> None:
    number = {"name": "number", "datatype": "INT64", "shape": [1], "contents": {"int64_contents": [1]}}
    page = open_server(doubled, visit)
    eventually(lambda: values(page, "Error responses per second") == ["0", "0"])
    codes = []
    for _ in range(MANY):
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(doubled.grpc, options=options) as channel:
            stub = GRPCInferenceServiceStub(channel)
            for name in ("missing", "refuse"):
                with pytest.raises(grpc.RpcError) as failure:
                    stub.ModelInfer(ModelInferRequest(model_name=name, inputs=[number]), timeout=20)
                codes.append(failure.value.code().name)
    assert set(codes) == {"NOT_FOUND", "INTERNAL"}
    counts = count_errors(doubled)
    assert len(counts) == 2
    assert all(rejected > 0 and failed > 0 for rejected, failed in counts)
    assert [sum(each) for each in zip(*counts, strict=True)] == [MANY, MANY]
    eventually(lambda: all(float(each) > 0 for each in values(page, "Error responses per second")))


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Running]:
    running = Running(write_models(tmp_path / "models"), INFERSTREAM_METRICS_ENDPOINT="")
    yield running
    assert running.stop() == 0, running.text()


def test_server_without_metrics_names_the_setting(quiet: Running, visit: Visit) -> None:
    page = open_server(quiet, visit)
    page.get_by_text("The metrics of this server are off. To turn them on, set metrics_endpoint.").wait_for()
    assert page.locator(FIGURE).count() == 0
    row(page, "add").get_by_text("ready", exact=True).wait_for()
