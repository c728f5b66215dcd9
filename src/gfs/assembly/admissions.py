"""The admission parts there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gfs.assembly.context import Context
from gfs.assembly.quotas import GUARANTEES
from gfs.core.ports import Admission
from gfs.policies.admission import ByGuarantee
from gfs.policies.gfs.likely_run import ByLikelyRun
from gfs.policies.gfs.run_times import RunTimes


def build_admission(context: Context) -> tuple[Admission, Context]:
    """The admission the parameters ask for, and what the quota is to be made from: it may ask for more lengths."""
    return _ADMISSIONS[context.parameters.admission](context)


def _by_guarantee(context: Context) -> tuple[Admission, Context]:
    return ByGuarantee(), context


def _by_likely_run(context: Context) -> tuple[Admission, Context]:
    """Quotas for the guarantees that occur, and for the usual ones that are shorter than the longest of them."""
    longest = max(context.guarantees)
    hours = tuple(sorted({*context.guarantees, *(hours for hours in GUARANTEES if hours < longest)}))
    times = RunTimes(hours)
    admission = ByLikelyRun(times, hours)
    context.observers.extend((times, admission))
    return admission, replace(context, guarantees=hours)


_ADMISSIONS: dict[str, Callable[[Context], tuple[Admission, Context]]] = {
    "guarantee": _by_guarantee,
    "likely": _by_likely_run,
}
