"""What can be set for a live cluster: the [live] table of the TOML file that also holds the parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gfs.assembly.parameters import Parameters, present_settings, read_config_file
from gfs.domain.errors import InputError

Text = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(ge=0, le=1e6)]
Whole = Annotated[int, Meta(ge=1, le=10_000)]


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How words of the cluster become words of GFS, and how patient the controller is."""

    scheduler: str = "gfs-plus"
    """Which of GFS's schedulers decides (`gfs schedulers`); none with leases."""
    scheduler_name: Text = "gfs-scheduler"
    """Pods with this `schedulerName` are ours to place."""
    shadow_of: Text = "default-scheduler"
    """The scheduler whose pods a shadow looks at."""
    resource: Text = "nvidia.com/gpu"
    """The resource name of GPUs."""
    model_label: Text = "nvidia.com/gpu.product"
    """The node label that names the GPU model."""
    hp_classes: tuple[Text, ...] = ("gfs-hp",)
    spot_classes: tuple[Text, ...] = ("gfs-spot",)
    hp_from_priority: int | None = None
    """Pods of other classes with at least this priority are HP."""
    spot_to_priority: int | None = None
    """Pods of other classes with at most this priority are spot."""
    organization_label: Text = "gfs.dev/organization"
    organization_claims: bool = True
    """Whether pods of a namespace that names no organization may name one by their own label."""
    ignored_resources: tuple[Text, ...] = ("ephemeral-storage",)
    """Resources that pods may ask for and that are not counted; pods that ask for any other are refused."""
    longest_checkpoint_interval: Annotated[float, Meta(gt=0, le=1e6)] = 14400.0
    """Seconds: a longer `gfs.dev/checkpoint-interval` counts as this, for who saves rarely is evicted last."""
    longest_grace: Seconds = 600.0
    """Seconds that a victim gets to stop at most, whatever its own grace period says: HP waits for it."""
    honour_budgets: bool = True
    """Whether victims that break no PodDisruptionBudget are preferred; users can write budgets for themselves."""
    earlier_submission: Annotated[float, Meta(ge=0, le=1e8)] = 30 * 86400.0
    """Seconds before its own creation that a bound pod's `gfs.dev/submitted` may lie; it is cut to that."""
    guarantees: tuple[Annotated[float, Meta(gt=0, le=168)], ...] = (1.0, 2.0, 4.0)
    """Guarantees on offer, in hours."""
    burst: Seconds = 0.02
    """Seconds between two instants at least: what comes together is handled together."""
    in_flight: Whole = 32
    """Requests in flight at most."""
    hang_timeout: Seconds = 120.0
    """Seconds after the end of its grace period from which on a victim hangs and another way is looked for."""
    message_interval: Seconds = 60.0
    """Seconds between two updates of a waiting pod's message in which only numbers have changed; longer each time."""
    event_interval: Seconds = 600.0
    """Seconds between two events that say the same of the same pod."""
    resync_interval: Annotated[float, Meta(ge=1, le=1e6)] = 600.0
    """Seconds after which every list is read again and compared, in case that an event was lost on its way."""
    prometheus: str = ""
    """Where a Prometheus answers that has kube-state-metrics, for demand of the time before; '': nowhere."""
    prometheus_days: Annotated[float, Meta(ge=1, le=366)] = 42.0
    """How many days of demand are read from it."""
    snapshot_interval: Seconds = 60.0
    """Seconds between two snapshots."""
    close_record: bool = False
    """Whether the cluster goes with the controller (a demonstration): what has not ended is recorded as withdrawn."""
    lease_name: Text = "gfs-scheduler"
    lease_namespace: Text = "kube-system"
    lease_seconds: Annotated[float, Meta(ge=1, le=3600)] = 15.0
    """After so long without a renewal another replica may lead."""


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


LIVE_DEFAULTS: dict[str, Any] = {"resources": "on", "first_day": "1970-01-01"}
"""CPUs, memory and pods count, and time 0 is that of Unix."""
