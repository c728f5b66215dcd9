"""What installed distributions offer to GFS by entry points: schedulers, quotas, forecasters.

An offer is imported only when it is asked for; a distribution that is broken does not disturb the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gfs.domain.errors import InputError
from gfs.domain.text import one_line

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that an installed distribution offers. To know whether it can be used, load it."""

    distribution: str
    """Name and version: 'gfs-roomy 0.1.0'."""
    entry_point: EntryPoint

    @property
    def name(self) -> str:
        """What it is called."""
        return self.entry_point.name

    @property
    def source(self) -> str:
        """Where it comes from, for people: 'gfs-roomy 0.1.0 (entry point roomy = gfs_roomy:ROOMY)'."""
        return f"{self.distribution} (entry point {self.name} = {self.entry_point.value})"

    def import_it(self) -> Any:
        """The object; raises InputError with one line if it cannot be imported."""
        try:
            return self.entry_point.load()
        except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
            if isinstance(error, SystemExit) and type(error) is not SystemExit:
                raise  # a signal ends this process
            raise InputError(one_line(error)) from error


def find_offers(group: str) -> list[Offer]:
    """What is offered, by name. Reads the metadata of all installed distributions, but imports none of them."""
    from importlib.metadata import distributions  # takes a while, and most runs need no plug-in

    found: list[Offer] = []
    seen: set[str] = set()
    for distribution in distributions():
        try:
            name, offers = _offers(distribution, group)
        except Exception:  # metadata that cannot be read: of which plug-in, if any, nobody can tell
            continue
        # As with imports, the first of that name on the path counts.
        found += offers if name not in seen else ()
        seen.add(name)
    return sorted(found, key=lambda offer: (offer.name, offer.source))


def _offers(distribution: Distribution, group: str) -> tuple[str, list[Offer]]:
    """What a distribution offers, under its normalized name; '' for one that has nothing."""
    if group not in (distribution.read_text("entry_points.txt") or ""):
        return "", []
    name = distribution.metadata["Name"]
    entries = distribution.entry_points.select(group=group)
    return re.sub(r"[-_.]+", "-", name).lower(), [Offer(f"{name} {distribution.version}", entry) for entry in entries]


def the_offer(kind: str, name: str, offers: list[Offer]) -> Offer | None:
    """The one of this name, if there is any; two are an error."""
    mine = [offer for offer in offers if offer.name == name]
    if len(mine) > 1:
        sources = " and ".join(offer.source for offer in mine)
        raise InputError(f"{kind} {name!r} is offered more than once: by {sources}; uninstall all but one")
    return mine[0] if mine else None
