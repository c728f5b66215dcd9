"""Where it listens: on loopback unless told otherwise."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from gfs.cli.live import DEFAULT_HTTP
from gfs.domain.address import parse_address
from gfs.domain.errors import InputError
from gfs.live.history import demand_query, read_demand
from gfs.live.prometheus import Series, check_url
from gfs.live.settings import LiveSettings


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (DEFAULT_HTTP, ("127.0.0.1", 8080)),
        (":9000", ("127.0.0.1", 9000)),
        ("0.0.0.0:9000", ("0.0.0.0", 9000)),
        ("[::1]:9000", ("::1", 9000)),
    ],
)
def test_addresses(address: str, place: tuple[str, int]) -> None:
    assert parse_address(address) == place


@pytest.mark.parametrize("address", ["9000x", "localhost", ":", "host:99999"])
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(InputError, match="give host and port"):
        parse_address(address)


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://prometheus", "http://", ""])
def test_what_is_no_prometheus_is_named(url: str) -> None:
    with pytest.raises(InputError, match="give its address"):
        check_url(url)


def test_names_are_those_of_kube_state_metrics() -> None:
    settings = LiveSettings(resource="amd.com/gpu", model_label="amd.com/gpu.product-name", hp_classes=("a.b", "c"))
    query = demand_query(settings, by_model=True)
    assert 'resource="amd_com_gpu"' in query
    assert "label_amd_com_gpu_product_name" in query
    assert r'priority_class=~"a\\.b|c"' in query
    assert "kube_node_labels" not in demand_query(settings, by_model=False)


class NoNodes:
    """A server that has series of pods, but not `kube_node_info`."""

    async def query_range(self, query: str, start: float, end: float, step: float) -> Series:
        return [] if "kube_node_info" in query else [({"namespace": "lab"}, [(start, 4.0)])]


def test_no_demand_is_known_of_a_time_in_which_no_node_was_seen() -> None:
    settings = LiveSettings(prometheus_days=1)
    past = asyncio.run(read_demand(NoNodes(), settings, {"A100"}, lambda home, label: home, 1000))  # type: ignore[arg-type]
    assert not past.pools


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "live.md").read_text()
    settings = page.partition("## Settings")[2].partition("## Why a pod waits")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", settings, re.M)) == set(LiveSettings.__struct_fields__)
