"""The filters that every pool has. A filter of your own: its file, and its class in this list."""

from __future__ import annotations

from gfs.core.filters.base import Filter
from gfs.core.filters.nodes import NodeFilter
from gfs.core.filters.ports import PortFilter
from gfs.core.filters.topology import DomainFilter

FILTERS: list[type[Filter]] = [NodeFilter, PortFilter, DomainFilter]
