"""Registries of metrics under MLServer's names."""

import pytest

from inferstream.ext.hosting import install_aliases

install_aliases()

from collections.abc import Iterator

from prometheus_client import Counter, Histogram

install_aliases()


def test_registered_metrics_are_found() -> None:
    from mlserver.metrics import REGISTRY, log, register
    from mlserver.metrics.errors import InvalidModelContext, MetricNotFound

    metric = register("test_names_metric", "A metric")
    assert REGISTRY["test_names_metric"] is metric
    assert "test_names_metric" in REGISTRY
    with pytest.raises(MetricNotFound):
        REGISTRY.get("no_such_metric")
    with pytest.raises(InvalidModelContext):
        log(test_names_metric=1)


@pytest.fixture
def served_counter() -> Iterator[Counter]:
    from mlserver.metrics import REGISTRY

    counter = Counter("test_details_counted", "A counter", registry=REGISTRY)
    yield counter
    REGISTRY.unregister(counter)


def test_registry_finds_metrics_by_name(served_counter: Counter) -> None:
    from mlserver.metrics import REGISTRY
    from mlserver.metrics.errors import MetricNotFound
    from mlserver.metrics.registry import MetricsRegistry

    own = MetricsRegistry()
    histogram = Histogram("test_details_own", "A histogram", registry=own)
    assert own["test_details_own"] is histogram
    assert "test_details_counted" not in own
    assert "test_details_own" not in REGISTRY
    assert REGISTRY.get("test_details_counted") is served_counter
    with pytest.raises(MetricNotFound):
        own["test_details_counted"]


def test_served_registry_exposes_and_unregisters_metrics() -> None:
    from mlserver.metrics import REGISTRY
    from prometheus_client import REGISTRY as SHOWN

    counter = Counter("test_details_shown", "A counter", registry=REGISTRY)
    for registry in (REGISTRY, SHOWN):
        assert registry.get_sample_value("test_details_shown_total") == 0
    REGISTRY.unregister(counter)
    for registry in (REGISTRY, SHOWN):
        assert registry.get_sample_value("test_details_shown_total") is None
