"""The quota parts there are; any scheduler can be given any of them."""

from __future__ import annotations

from collections.abc import Callable

from gfs.assembly.context import Context
from gfs.core.ports import Quota
from gfs.quota.fixed import FixedQuota
from gfs.quota.unlimited import UnlimitedQuota


def build_quota(context: Context, own: str) -> Quota:
    """The quota the parameters ask for, or else the scheduler's own."""
    return _QUOTAS[context.parameters.quota or own](context)


def _fixed(context: Context) -> Quota:
    return FixedQuota(context.pool, context.parameters.quota_share, context.guarantees)


_QUOTAS: dict[str, Callable[[Context], Quota]] = {
    "none": lambda context: UnlimitedQuota(),
    "fixed": _fixed,
}
