"""What plug-ins know of a model, found by its type, and what of it is left out."""

import sys
from types import ModuleType

import pytest

from inferstream import ModelSettings
from inferstream.dataplane import facets
from inferstream.dataplane.facets import Facets, TextFacts
from inferstream.errors import InvalidSettings
from inferstream.extensions.entries import FACETS, OURS, Plugin
from inferstream.plugins.text import extension
from inferstream.plugins.text.inputs import SAMPLING, SPECIAL
from inferstream.plugins.text.interface import TextInterface
from inferstream.signature import Signature
from inferstream.types import MetadataTensor

TEXT = MetadataTensor(name="text", datatype="BYTES", shape=[1])
SIGNATURE = Signature(inputs=(TEXT,), outputs=(TEXT,), streams=True)
SETTINGS = ModelSettings(implementation="m.M", name="m")


class Base:
    pass


class Labels(Base):
    pass


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch):
    """Lets the package `other` bring a facet beside ours."""

    def bring(**factories: object) -> None:
        module = ModuleType("brought_facets")
        vars(module).update(factories)
        monkeypatch.setitem(sys.modules, "brought_facets", module)
        plugins = [Plugin("other", FACETS, name, f"brought_facets:{name}", "other") for name in factories]
        monkeypatch.setattr(
            facets, "load_group", lambda group, strict: [(plugin, plugin.load()) for plugin in plugins]
        )

    return bring


def test_facet_is_found_by_its_type_and_base_types(brought) -> None:
    labels = Labels()
    brought(one=lambda signature, settings: labels, none=lambda signature, settings: None)
    assert Facets(strict=True).of(SIGNATURE, SETTINGS) == {Labels: labels, Base: labels}


def test_text_facet_is_the_text_interface() -> None:
    found = Facets(strict=True).of(SIGNATURE, SETTINGS)
    facts = found[TextFacts]
    assert isinstance(facts, TextInterface)
    assert found[TextInterface] is facts
    assert (facts.operation, facts.makes_texts, facts.prompt) == ("text_completion", True, TEXT)
    assert Facets(strict=True).of(SIGNATURE, SETTINGS.model_copy(update={"openai": False})) == {}


def test_failing_facet_is_skipped(brought, caplog: pytest.LogCaptureFixture) -> None:
    brought(broken=lambda signature, settings: 1 // 0, one=lambda signature, settings: Labels())
    assert Labels in Facets(strict=False).of(SIGNATURE, SETTINGS)
    assert 'extension "other", facets "broken"' in caplog.text
    with pytest.raises(InvalidSettings, match="ZeroDivisionError"):
        Facets(strict=True).of(SIGNATURE, SETTINGS)


def test_failing_builtin_facet_fails_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Facets(strict=False)
    made._factories = [(Plugin(OURS, FACETS, "a", "b:c", "d"), lambda signature, settings: 1 // 0)]
    with pytest.raises(ZeroDivisionError):
        made.of(SIGNATURE, SETTINGS)


def test_optional_text_inputs_are_filled_by_protocols() -> None:
    assert {*extension.optional_inputs} == SPECIAL | SAMPLING
