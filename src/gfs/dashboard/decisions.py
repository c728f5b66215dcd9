"""The decision log as columns of a recording: all at once, or note by note as a cluster runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gfs.dashboard.names import Names, plain
from gfs.dashboard.wire import NONE, ExpectedColumns, ForecastColumns, OptionColumns, SpotNodeColumns
from gfs.telemetry.decisions import AnyNote, EvictionNote, ExpectedNote, ForecastNote, NodeNote


class DecisionColumns:
    """Columns that grow by notes; what a note says of tasks and nodes that nobody knows is left out."""

    def __init__(self, models: Names, organizations: Names, tasks: Mapping[str, int], nodes: Mapping[str, int]) -> None:
        """The positions of all names; new models and organizations are added to them."""
        self._models, self._organizations, self._tasks, self._nodes = models, organizations, tasks, nodes
        self.forecasts = ForecastColumns([], [], [], [], [])
        self.spot_nodes = SpotNodeColumns([], [], [], [])
        self.expected = ExpectedColumns([], [], [], [])
        self.options = OptionColumns([], [], [], [], [], [], [])

    def add(self, note: AnyNote) -> None:
        """One more note."""
        match note:
            case ForecastNote():
                for name, expected, bound in zip(note.organizations, note.expected, note.bound, strict=True):
                    where = self._models[note.gpu_model], self._organizations[name]
                    _append(self.forecasts, note.time, *where, expected, bound)
            case NodeNote() if note.node in self._nodes:
                task = self._tasks.get(note.reserved_for, NONE)
                _append(self.spot_nodes, note.time, self._nodes[note.node], int(note.closed), task)
            case ExpectedNote() if note.task in self._tasks:
                _append(self.expected, note.time, self._tasks[note.task], note.start, int(note.known))
            case EvictionNote() if note.task in self._tasks:
                task = self._tasks[note.task]
                for option in note.options:
                    victims = [self._tasks[name] for name in option.victims if name in self._tasks]
                    at = self._nodes.get(option.node, NONE)
                    _append(self.options, note.time, task, at, victims, option.cost, option.waste, int(option.chosen))

    def all(self) -> dict[str, Any]:
        """By the names that a recording has for them."""
        names = ("forecasts", "spot_nodes", "expected", "options")
        return {name: getattr(self, name) for name in names}


def _append(columns: Any, *row: Any) -> None:
    """Whole numbers are written without '.0'."""
    for name, value in zip(columns.__struct_fields__, row, strict=True):
        getattr(columns, name).append(plain([value])[0] if isinstance(value, float) else value)
