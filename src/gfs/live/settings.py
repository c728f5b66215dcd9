"""Settings of a live cluster: the [live] table of the TOML file that also holds the parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gfs.assembly.parameters import Parameters, present_settings, read_config_file
from gfs.domain.errors import InputError

Text = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(ge=0, le=1e6)]
LIVE_DEFAULTS: dict[str, Any] = {"resources": "on", "first_day": "1970-01-01"}
"""CPUs, memory and pods count; time 0 is that of Unix."""


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the words of a cluster become words of GFS, and limits and times of the controller.

    docs/reference/live.md says what each of them means.
    """

    scheduler: str = "gfs-plus"
    scheduler_name: Text = "gfs-scheduler"
    shadow_of: Text = "default-scheduler"
    resource: Text = "nvidia.com/gpu"
    model_label: Text = "nvidia.com/gpu.product"
    hp_classes: tuple[Text, ...] = ("gfs-hp",)
    spot_classes: tuple[Text, ...] = ("gfs-spot",)
    hp_from_priority: int | None = None
    spot_to_priority: int | None = None
    organization_label: Text = "gfs.dev/organization"
    organization_claims: bool = True
    ignored_resources: tuple[Text, ...] = ("ephemeral-storage",)
    guarantees: tuple[Annotated[float, Meta(gt=0, le=168)], ...] = (1.0, 2.0, 4.0)
    honour_budgets: bool = True  # an operator may not want it: users can write budgets for themselves

    longest_checkpoint_interval: Annotated[float, Meta(gt=0, le=1e6)] = 14400.0  # a task that saves rarely goes last
    longest_grace: Seconds = 600.0  # HP waits for it
    earlier_submission: Annotated[float, Meta(ge=0, le=1e8)] = 30 * 86400.0
    hang_timeout: Seconds = 120.0
    burst: Seconds = 0.02
    in_flight: Annotated[int, Meta(ge=1, le=10_000)] = 32
    message_interval: Seconds = 60.0
    event_interval: Seconds = 600.0
    resync_interval: Annotated[float, Meta(ge=1, le=1e6)] = 600.0
    snapshot_interval: Seconds = 60.0
    lease_name: Text = "gfs-scheduler"
    lease_namespace: Text = "kube-system"
    lease_seconds: Annotated[float, Meta(ge=1, le=3600)] = 15.0
    prometheus: str = ""
    prometheus_days: Annotated[float, Meta(ge=1, le=366)] = 42.0
    close_record: bool = False


def read_config(path: Path | None, settings: dict[str, str] | None = None) -> tuple[LiveSettings, Parameters]:
    """The [live] table and the parameters of a file, with `settings` of the command line on top of these.

    A `scheduler` above the tables, as `gfs plan` writes it, decides where the [live] table names none.
    """
    document, scheduler = read_config_file(path) if path is not None else ({}, "")
    table: Any = document.pop("live", {})
    where = f"{path}: " if path is not None else ""
    if scheduler and isinstance(table, dict):
        table = {"scheduler": scheduler, **table}
    try:
        live = msgspec.convert(table, LiveSettings)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}[live]: {error}") from error
    try:
        named = present_settings({**document, **(settings or {})})
        parameters = Parameters(**{**LIVE_DEFAULTS, **named})
    except InputError as error:
        raise InputError(f"{where}{error}") from error
    if parameters.grace_period <= 0:
        raise InputError(f"{where}grace_period = 0: real pods take time to stop; give the usual seconds, such as 30")
    if parameters.forecaster == "perfect":
        raise InputError(f"{where}forecaster = 'perfect' is for simulations: nobody knows a live cluster's future")
    return live, parameters
