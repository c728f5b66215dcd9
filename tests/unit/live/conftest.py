"""Builders of API objects are at hand for all tests of the live package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
