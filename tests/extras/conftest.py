"""Tests that need an extra; a file is skipped where its extra is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks these tests. Warnings of libraries are not ours to fix: here, and only here, they are no errors."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.extra)
            item.add_marker(pytest.mark.filterwarnings("default"))
