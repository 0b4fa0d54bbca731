"""Custom routes of models."""

from inferstream import MLModel, ModelSettings
from inferstream.handlers import CustomHandler, custom_handler, get_custom_handlers


class Routed(MLModel):
    @custom_handler("/first", "get")
    def first(self) -> str:
        return self.name

    @custom_handler("/{key}")
    async def second(self, key: str) -> str:
        return key


class Below(Routed):
    def first(self) -> str:
        return "no route any more"


def test_class_and_model_routes_come_from_their_methods() -> None:
    model = Routed(ModelSettings(name="m", implementation="a.B"))
    routes = get_custom_handlers(model)
    assert [handler for handler, _ in routes] == [
        CustomHandler("/first", "GET"),
        CustomHandler("/{key}", "POST"),
    ]
    assert routes[0][1]() == "m"
    assert get_custom_handlers(Routed)[0] == (CustomHandler("/first", "GET"), Routed.first)


def test_overriding_method_is_a_route_only_if_decorated() -> None:
    assert [handler.rest_path for handler, _ in get_custom_handlers(Below)] == ["/{key}"]


def test_model_without_routes_has_none() -> None:
    assert get_custom_handlers(MLModel) == []
