"""Every number a run can be given, with the paper's defaults (docs/reference/parameters.md)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from difflib import get_close_matches
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, Self

from gfs.domain.errors import InputError
from gfs.domain.execution import ExecutionRules
from gfs.files import read_toml

QUOTAS = ("none", "fixed", "forecast", "weekly-peak", "open-loop", "adaptive")
CHOICES = {
    "quota": ("", *QUOTAS),
    "aggregate": ("sum-of-peaks", "independent", "total"),
    "resources": ("off", "on"),
}
"""Parameters that are one of some words."""
TAKEN_OUT = {"admission": ("guarantee", "docs/concepts/gfs-plus.md")}
"""Parameters of earlier versions: the value that asks for what always happens now, and where it says why."""


def _number(default: float, meaning: str, least: float, most: float = float("inf")) -> Any:
    return field(default=default, metadata={"meaning": meaning, "least": least, "most": most})


def _text(default: str, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True, slots=True)
class Parameters:
    """What `--set key=value` and a TOML file can change."""

    quota: str = _text("", f"spot quota: {', '.join(QUOTAS)}; empty = the scheduler's own choice")
    quota_share: float = _number(0.35, "share of each pool that spot tasks may hold (quota=fixed)", 0.0, 1.0)
    grace_period: float = _number(30.0, "seconds an eviction takes before HP pods start", 0.0)
    checkpoint_on_grace: bool = field(
        default=False, metadata={"meaning": "victims save their progress in the grace period"}
    )
    restart_overhead: float = _number(40.0, "seconds lost at a restart, tasks of up to 8 GPUs", 0.0)
    restart_overhead_large: float = _number(60.0, "seconds lost at a restart, larger tasks", 0.0)
    checkpoint_interval: float = _number(3600.0, "seconds between checkpoints, tasks that do not say", 1e-3)
    guarantee_hours: float = _number(1.0, "guarantee H in hours, spot tasks that do not say", 1e-3)
    hp_lease: float = _number(1200.0, "seconds of an HP lease (chronus); a multiple of spot_lease", 1e-3)
    spot_lease: float = _number(300.0, "seconds of a spot lease (chronus)", 1e-3)
    resume_overhead: float = _number(120.0, "seconds lost when a suspended task resumes (chronus)", 0.0)
    lease_patience: float = _number(3600.0, "waiting that doubles a claim to a lease, seconds (chronus)", 1.0)
    solver_seconds: float = _number(5.0, "seconds a program for the next leases may take (chronus)", 1e-9)
    tick: float = _number(300.0, "seconds between two looks at the quota", 1e-3)
    p: float = _number(0.9, "probability that HP demand stays below its forecast bound", 0.5, 0.999)
    theta: float = _number(3600.0, "seconds of spot waiting from which on the quota may grow", 0.0)
    eta_min: float = _number(0.1, "the least that eviction feedback makes of the forecast inventory", 0.0)
    eta_max: float = _number(4.0, "the most that eviction feedback makes of the forecast inventory", 1e-3)
    aggregate: str = _text(
        "sum-of-peaks",
        "how organizations' bounds add up: sum-of-peaks, independent, or total (the forecaster's own)",
    )
    forecaster: str = _text("orglinear", "who forecasts HP demand; gfs forecast evaluate compares them")
    history_hours: float = _number(24.0, "hours of demand seen before the forecaster takes over", 1.0)
    retrain_hours: float = _number(24.0, "hours between two trainings of the forecaster", 1e-2)
    history_days: float = _number(182.0, "days of demand that forecasters learn from; older ones are dropped", 28.0)
    country: str = _text("", "whose public holidays count, such as CN (needs first_day); empty = none")
    first_day: str = _text("", "date of the day that time 0 begins, YYYY-MM-DD; empty = not known")
    patience: float = _number(43200.0, "seconds a spot task waits until cards are kept for it (gfs-plus)", 0.0)
    resources: str = _text("off", "on: CPUs, memory and pods of nodes limit what fits, not only cards")
    alpha: float = _number(0.5, "weight of useful GPU time in the objective", 0.0)
    beta: float = _number(0.5, "weight of wasted work in the preemption cost", 0.0)
    gamma: float = _number(0.8, "weight of the last hour in a node's eviction history", 0.0, 1.0)
    m: float = _number(3.0, "how sharply eviction history counts (circuit breaker)", 1.0)

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                choices = ", ".join(word for word in words if word)
                raise InputError(f"{name} = {getattr(self, name)!r}: unknown; choose one of {choices}")
        _check_day(self.first_day)
        for item in fields(self):
            value = getattr(self, item.name)
            if "least" in item.metadata:
                if not isfinite(value):
                    raise InputError(f"{item.name} = {value}: must be a finite number")
                least, most = item.metadata["least"], item.metadata["most"]
                if not least <= value <= most:
                    upper = f" and {most:g}" if most != float("inf") else ""
                    word = "between" if upper else "at least"
                    raise InputError(f"{item.name} = {value:g}: must be {word} {least:g}{upper}")

        if self.eta_min > self.eta_max:
            raise InputError(f"eta_min = {self.eta_min:g}: must not be above eta_max = {self.eta_max:g}")
        rounds = self.hp_lease / self.spot_lease
        if rounds < 1 or abs(rounds - round(rounds)) > 1e-9:
            raise InputError(
                f"hp_lease = {self.hp_lease:g}: must be a whole multiple of spot_lease = {self.spot_lease:g}"
            )

    @property
    def rules(self) -> ExecutionRules:
        """The time model these parameters describe."""
        return ExecutionRules(
            grace_period=self.grace_period,
            restart_overhead=self.restart_overhead,
            restart_overhead_large=self.restart_overhead_large,
            resume_overhead=self.resume_overhead,
            checkpoint_on_grace=self.checkpoint_on_grace,
        )

    def to_dict(self) -> dict[str, Any]:
        """Names and values, in order."""
        return asdict(self)

    def changed(self, values: Mapping[str, Any]) -> Self:
        """These parameters with some values replaced; texts are read as the command line gives them."""
        types = {item.name: item for item in fields(self)}
        given: dict[str, Any] = {}
        for name, value in values.items():
            if name in TAKEN_OUT:
                _check_taken_out(name, str(value))
                continue
            if name not in types:
                raise InputError(f"unknown parameter {name!r}{_suggest(name, types)}")
            given[name] = _parsed(name, value, types[name].default)
        return replace(self, **given)

    @classmethod
    def from_toml(cls, path: Path | str) -> Self:
        """Read parameters from a TOML file with `key = value` lines, also inside a [parameters] table."""
        return cls.named_in_toml(path)[0]

    @classmethod
    def named_in_toml(cls, path: Path | str) -> tuple[Self, frozenset[str]]:
        """The same, and which parameters the file names: it may name one with its usual value."""
        path = Path(path)
        document = read_toml(path)
        values = document.pop("parameters", {})
        if not isinstance(values, dict):
            raise InputError(f"{path}: 'parameters' must be a table of key = value lines")
        named = {**document, **values}
        try:
            return cls().changed(named), frozenset(named) - TAKEN_OUT.keys()
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @staticmethod
    def describe() -> list[tuple[str, str, str]]:
        """(name, default, meaning) of every parameter, for help texts."""
        return [(i.name, str(i.default) or "-", i.metadata["meaning"]) for i in fields(Parameters)]


def _check_taken_out(name: str, value: str) -> None:
    """A file from before may go on naming a parameter that is gone, but not ask for what is gone with it."""
    remaining, page = TAKEN_OUT[name]
    if value != remaining:
        raise InputError(f"{name} = {value!r}: was taken out in this version; {page} says why. Leave the line out")
    _say_once(f"parameter {name} was taken out in this version and is passed over: it is always {remaining} now")


@cache
def _say_once(warning: str) -> None:
    """One line, however many runs are given the same."""
    logging.getLogger("gfs").warning(warning)


def _check_day(text: str) -> None:
    try:
        if text:
            date.fromisoformat(text)
    except ValueError:
        raise InputError(f"first_day = {text!r}: must be a date such as 2024-09-30") from None


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """Turn `key=value` texts into a mapping."""
    values = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set {text!r}: write it as key=value, for example --set quota_share=0.4")
        values[name.strip()] = value.strip()
    return values


def _parsed(name: str, value: Any, default: Any) -> Any:
    if isinstance(default, bool):
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        known = words.get(str(value).lower())
        if known is None:
            raise InputError(f"{name} = {value!r}: must be true or false")
        return known
    if isinstance(default, float):
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise InputError(f"{name} = {value!r}: must be a number") from None
        if number != number:
            raise InputError(f"{name} = {value!r}: must be a number")
        return number
    return str(value)


def _suggest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=2)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; known are {', '.join(known)}"
