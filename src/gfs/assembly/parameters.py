"""Every parameter of a run: its type, range, default and meaning, declared once.

The declarations below serve checking, `gfs parameters` and docs/reference/parameters.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

import msgspec
from msgspec import Meta
from msgspec import inspect as types

from gfs.assembly import aliases
from gfs.assembly.aliases import present_name, warn_once
from gfs.domain.errors import InputError
from gfs.domain.execution import ExecutionRules
from gfs.domain.units import DAY
from gfs.entry_points import find_offers
from gfs.files import read_toml

Value = str | float | bool
"""What a parameter can be in a file."""

QuotaName = Literal["", "none", "fixed", "forecast", "weekly-peak", "forecast-no-feedback", "adaptive"]
QUOTAS: tuple[str, ...] = get_args(QuotaName)[1:]
QUOTA_GROUP = "gfs.quotas"
"""The entry point group of quotas from outside."""
NEVER = 1e9
"""Seconds (32 years): the most of a parameter that waits for something; longer than any trace."""
TAKEN_OUT = {"admission": ("guarantee", "docs/decisions/0032-admission-by-likely-run-time.md")}
"""Parameters of earlier versions: the value that asks for what always happens now, and the page that says why."""
POOLS = "pools"
"""The one field that is no parameter: what single pools have of their own."""
EVERY_RUN = {
    "quota", "grace_period", "checkpoint_on_grace", "restart_overhead", "restart_overhead_large", "checkpoint_interval",
    "guarantee_hours", "tick", "first_day", "resources", "alpha",
}  # fmt: skip
"""Parameters that matter whatever the scheduler and its quota are."""


class PoolSettings(NamedTuple):
    """What one pool has of its own: the table [pools.MODEL] of a config file."""

    gpu_model: str
    scheduler: str = ""
    """Its name; empty: that of the cluster."""
    values: tuple[tuple[str, Value], ...] = ()
    """Parameters by name, in place of those of the cluster."""


def number(least: float, most: float, meaning: str) -> Meta:
    """A parameter that is a number, its bounds included."""
    return Meta(ge=least, le=most, description=meaning)


def about(meaning: str) -> Meta:
    """A parameter that is a word or a switch."""
    return Meta(description=meaning)


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What `--set key=value` and a TOML file can change."""

    quota: Annotated[QuotaName, about("how spot tasks are limited; empty: the scheduler's own choice")] = ""
    quota_share: Annotated[float, number(0, 1, "share of each pool's GPUs that spot tasks may hold (quota=fixed)")] = (
        0.35
    )
    grace_period: Annotated[float, number(0, DAY, "seconds between an eviction and the start of the HP pods")] = 30.0
    checkpoint_on_grace: Annotated[bool, about("evicted tasks save their progress in the grace period")] = False
    restart_overhead: Annotated[float, number(0, DAY, "seconds lost at a restart, tasks of up to 8 GPUs")] = 40.0
    restart_overhead_large: Annotated[float, number(0, DAY, "seconds lost at a restart, larger tasks")] = 60.0
    checkpoint_interval: Annotated[
        float, number(0.001, NEVER, "seconds of progress between two checkpoints, tasks without their own")
    ] = 3600.0
    guarantee_hours: Annotated[
        float,
        number(0.001, 8784, "H: hours promised to spot tasks without their own; at most 168 if the quota forecasts"),
    ] = 1.0
    hp_lease: Annotated[
        float, number(1, 30 * DAY, "seconds of an HP lease, a whole multiple of spot_lease (chronus)")
    ] = 1200.0
    spot_lease: Annotated[
        float, number(1, 30 * DAY, "seconds of a spot lease, and of a scheduling round (chronus)")
    ] = 300.0
    resume_overhead: Annotated[float, number(0, DAY, "seconds lost when a suspended task resumes (chronus)")] = 120.0
    lease_aging: Annotated[
        float, number(1, NEVER, "seconds of waiting that double a task's claim to a lease (chronus)")
    ] = 3600.0
    solver_seconds: Annotated[
        float, number(1e-9, 3600, "seconds the optimizer may take for one round's leases (chronus)")
    ] = 5.0
    tick: Annotated[float, number(1, 30 * DAY, "seconds between two updates of the spot quota")] = 300.0
    p: Annotated[
        float,
        number(
            0.5, 0.999, "probability that HP demand stays below its forecast; 1 - p: share of guarantees that may break"
        ),
    ] = 0.9
    theta: Annotated[
        float,
        number(0, NEVER, "seconds of spot waiting from which on feedback may raise the quota (quotas that forecast)"),
    ] = 3600.0
    eta_min: Annotated[
        float, number(0, 1000, "lower bound of eta, by which eviction feedback multiplies the forecast quota")
    ] = 0.1
    eta_max: Annotated[float, number(0.001, 1000, "upper bound of eta")] = 4.0
    aggregate: Annotated[
        Literal["sum-of-peaks", "independent", "total"],
        about("how the demand bounds of organizations add up; total: the forecaster's own sum"),
    ] = "sum-of-peaks"
    forecaster: Annotated[str, about("the model that forecasts HP demand (perfect: simulations only)")] = "orglinear"
    history_hours: Annotated[float, number(1, 8784, "hours of demand seen before the forecaster takes over")] = 24.0
    retrain_hours: Annotated[float, number(0.01, 8784, "least hours between two trainings of the forecaster")] = 24.0
    history_days: Annotated[
        float, number(28, 3660, "days of demand that forecasters learn from; older ones are dropped")
    ] = 182.0
    country: Annotated[str, about("country code of the public holidays, such as CN (needs first_day); empty: none")] = (
        ""
    )
    first_day: Annotated[str, about("date of the day that time 0 begins, YYYY-MM-DD; empty: not known")] = ""
    cluster: Annotated[str, about("name of the cluster, an attribute of its demand for the forecaster")] = ""
    starvation_timeout: Annotated[
        float, number(0, NEVER, "seconds a spot task waits before nodes are reserved for it (gfs-plus)")
    ] = 43200.0
    resources: Annotated[
        Literal["off", "on"], about("on: CPUs, memory and pods of nodes limit what fits, not only GPUs")
    ] = "off"
    alpha: Annotated[float, number(0, 1e6, "weight of useful GPU time in the objective")] = 0.5
    beta: Annotated[float, number(0, 1e6, "weight of wasted work in the preemption cost (gfs)")] = 0.5
    eviction_price: Annotated[
        float,
        number(
            0.001,
            1e6,
            "GPU-hours that a task's first eviction costs beside the work it loses; its n-th costs n times that"
            " (gfs-plus)",
        ),
    ] = 2.0
    gamma: Annotated[float, number(0, 1, "weight of the last hour in a node's eviction history (gfs)")] = 0.8
    m: Annotated[float, number(1, 1000, "how sharply a node's eviction history counts (gfs)")] = 3.0
    pools: tuple[PoolSettings, ...] = ()
    """What single pools have of their own (docs/reference/parameters.md#per-pool)."""

    def __post_init__(self) -> None:
        for name, item in _declared().items():
            item.checked(getattr(self, name), strict=True)
        _ = self.day  # a date, if there is one
        if self.eta_min > self.eta_max:
            raise InputError(f"eta_min = {self.eta_min:g}: must not be above eta_max = {self.eta_max:g}")
        rounds = self.hp_lease / self.spot_lease
        if rounds < 1 or abs(rounds - round(rounds)) > 1e-9:
            raise InputError(
                f"hp_lease = {self.hp_lease:g}: must be a whole multiple of spot_lease = {self.spot_lease:g}"
            )

    @property
    def day(self) -> date | None:
        """The day that time 0 begins, if it is known."""
        try:
            return date.fromisoformat(self.first_day) if self.first_day else None
        except ValueError:
            raise InputError(f"first_day = {_shown(self.first_day)}: must be a date such as 2024-09-30") from None

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
        """Names and values, in order; `pools` only where a pool has something of its own."""
        values = msgspec.structs.asdict(self)
        pools = values.pop("pools")
        own = {p.gpu_model: {**({"scheduler": p.scheduler} if p.scheduler else {}), **dict(p.values)} for p in pools}
        return {**values, "pools": own} if own else values

    def for_pool(self, gpu_model: str) -> tuple[Self, str]:
        """The parameters of one pool, and the scheduler that it has of its own if it has one."""
        if not self.pools:
            return self, ""
        own = next((pool for pool in self.pools if pool.gpu_model == gpu_model), PoolSettings(gpu_model))
        return msgspec.structs.replace(self, pools=(), **dict(own.values)), own.scheduler

    def changed(self, values: Mapping[str, Any]) -> Self:
        """These parameters with some values replaced; texts are read as the command line gives them."""
        return msgspec.structs.replace(self, **present_settings(values))

    @classmethod
    def given(cls, config: Path | str | None, settings: Mapping[str, Any]) -> tuple[Self, frozenset[str]]:
        """The parameters of a file, if there is one, with `settings` on top; and which of them were named."""
        base, named = (cls(), frozenset[str]()) if config is None else cls.named_in_toml(config)
        present = present_settings(settings)
        return msgspec.structs.replace(base, **present), named | present.keys()

    @classmethod
    def from_toml(cls, path: Path | str) -> Self:
        """Read parameters from a TOML file with `key = value` lines, also inside a [parameters] table."""
        return cls.named_in_toml(path)[0]

    @classmethod
    def named_in_toml(cls, path: Path | str) -> tuple[Self, frozenset[str]]:
        """The same, and which parameters the file names: it may name one with its default."""
        path = Path(path)
        document, _ = read_config_file(path)
        try:
            named = present_settings(document)
            return cls(**named), frozenset(named)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @staticmethod
    def describe() -> list[Declared]:
        """Every parameter with its default, what is allowed and its meaning, for help texts and documentation."""
        return list(_declared().values())


def read_config_file(path: Path | str) -> tuple[dict[str, Any], str]:
    """The parameters of a TOML file, also those inside a [parameters] table, and the scheduler that it names if any."""
    document = read_toml(Path(path))
    values, scheduler = document.pop("parameters", {}), document.pop("scheduler", "")
    if not isinstance(values, dict):
        raise InputError(f"{path}: 'parameters' must be a table of key = value lines")
    if not isinstance(scheduler, str):
        raise InputError(f"{path}: scheduler = {_shown(scheduler)}: must be a name; gfs schedulers lists them")
    return {**document, **values}, scheduler


class Declared(NamedTuple):
    """One parameter as it is declared above."""

    name: str
    type: Any
    default: Any
    allowed: str
    """'0 to 1', 'true or false', 'off, on'; empty for any text."""
    meaning: str
    every_run: bool
    """Whether it matters whatever the scheduler and its quota are."""

    def checked(self, value: Any, *, strict: bool) -> Any:
        """The value in the parameter's type; `strict` off reads texts of the command line."""
        given = value
        if not strict and isinstance(self.default, float) and isinstance(value, str):
            with suppress(ValueError):
                value = float(value)  # also takes '.5', which is no JSON number
        try:
            return msgspec.convert(value, self.type, strict=strict)
        except msgspec.ValidationError:
            if (
                self.name == "quota"
                and isinstance(value, str)
                and any(o.name == value for o in find_offers(QUOTA_GROUP))
            ):
                return value
            kind = {float: "a number from ", str: "" if self.allowed else "text"}.get(type(self.default), "")
            one_of = "one of " if isinstance(self.default, str) and self.allowed else ""
            raise InputError(f"{self.name} = {_shown(given)}: must be {one_of}{kind}{self.allowed}") from None


def present_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under their present names, each checked: what is unknown, wrong or gone is an error."""
    declared = _declared()
    settings: dict[str, Any] = {}
    for given, value in values.items():
        if given == POOLS:
            settings[POOLS] = _pool_settings(value)
            continue
        if given in TAKEN_OUT:
            _check_taken_out(given, str(value))
            continue
        name = present_name("parameter", given, aliases.PARAMETERS)
        if name not in declared:
            raise InputError(f"unknown parameter {_shown(given)}{_suggest(given, declared)}")
        if name in settings:
            raise InputError(f"{given}: the old name of {name}, which is given, too; leave one of them out")
        if isinstance(value, str):
            value = present_name(f"{name} =", value, aliases.VALUES.get(name, {}))
        elif isinstance(value, date):
            value = value.isoformat()  # TOML has dates of its own
        settings[name] = declared[name].checked(value, strict=not isinstance(value, str))
    return settings


def _pool_settings(tables: Any) -> tuple[PoolSettings, ...]:
    """The tables [pools.MODEL], checked, by GPU model."""
    if isinstance(tables, tuple):
        return tables
    if not isinstance(tables, Mapping):
        raise InputError(f"pools: what single pools have stands in a config file, such as [{POOLS}.A100]")
    found = []
    for model, table in tables.items():
        where = f"[{POOLS}.{model}]"
        if not isinstance(table, Mapping):
            raise InputError(f"{where}: must be a table of key = value lines")
        scheduler = table.get("scheduler", "")
        if not isinstance(scheduler, str):
            raise InputError(f"{where} scheduler = {_shown(scheduler)}: must be a name in quotes")
        try:
            values = present_settings({name: value for name, value in table.items() if name != "scheduler"})
            Parameters(**values)
        except InputError as error:
            raise InputError(f"{where} {error}") from error
        if whole := [name for name in values if name == POOLS or name in EVERY_RUN - {"quota"}]:
            raise InputError(f"{where} {whole[0]}: holds for the whole cluster; write it above the tables of pools")
        found.append(PoolSettings(model, scheduler, tuple(values.items())))
    return tuple(sorted(found))


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """Turn `key=value` texts into a mapping; of one key given twice the last value counts."""
    values = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set {_shown(text)}: write it as key=value, for example --set quota_share=0.4")
        values[name.strip()] = value.strip()
    return values


@cache
def _declared() -> dict[str, Declared]:
    info = types.type_info(Parameters)
    assert isinstance(info, types.StructType)
    hints = {item.name: item.type for item in msgspec.structs.fields(Parameters)}
    found = {}
    for item in info.fields:
        if item.name == POOLS:
            continue
        assert isinstance(item.type, types.Metadata)
        meaning = (item.type.extra_json_schema or {})["description"]
        found[item.name] = Declared(
            item.name,
            hints[item.name],
            item.default,
            _allowed(hints[item.name], item.type.type),
            meaning,
            item.name in EVERY_RUN,
        )
    return found


def _allowed(hint: Any, kind: types.Type) -> str:
    if isinstance(kind, types.FloatType):
        return f"{kind.ge:,g} to {kind.le:,.10g}"
    if isinstance(kind, types.LiteralType):
        return ", ".join(word for word in get_args(get_args(hint)[0]) if word)  # in the order declared
    return "true or false" if isinstance(kind, types.BoolType) else ""


def _check_taken_out(name: str, value: str) -> None:
    """An old file may still name a parameter that is gone, but not ask for what is gone with it."""
    remaining, page = TAKEN_OUT[name]
    if value != remaining:
        raise InputError(
            f"{name} = {_shown(value)}: was taken out in this version; {page} says why. Leave the line out"
        )
    warn_once(f"parameter {name} was taken out in this version and is ignored: it is always {remaining} now")


def _shown(value: Any) -> str:
    """A value in a message: numbers short, texts in quotes, long ones cut."""
    try:
        text = f"{value:g}" if isinstance(value, float) else repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _suggest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=2)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return "; gfs parameters lists them all"
