"""Results as tables of Arrow, pandas or Polars. Neither pandas nor Polars is imported before somebody asks for it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import pyarrow as pa

from gfs.domain.errors import InputError


class Frames:
    """Something that is a table, or several of them."""

    __slots__ = ()

    @abstractmethod
    def to_arrow(self, table: str = "") -> pa.Table:
        """The table of this name, or the main one."""

    def to_pandas(self, table: str = "") -> Any:
        """The same as a data frame of pandas, which must be installed."""
        found = self.to_arrow(table)
        try:
            return found.to_pandas()
        except ImportError as error:
            raise InputError("pandas is not installed: pip install pandas, or take to_arrow()") from error

    def to_polars(self, table: str = "") -> Any:
        """The same as a data frame of Polars, which must be installed."""
        found = self.to_arrow(table)
        try:
            import polars
        except ImportError as error:
            raise InputError("Polars is not installed: pip install polars, or take to_arrow()") from error
        return polars.from_arrow(found)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The main table, for any library that speaks Arrow: `polars.DataFrame(result)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)
