"""Errors of requests to the API server: `ApiError`, or a more precise one."""

from __future__ import annotations

from gfs.domain.errors import GfsError


class ApiError(GfsError):
    """The request failed: rights are missing, the request is wrong, or as below."""


class NotFound(ApiError):  # noqa: N818 (it is what it is called)
    """404: The object is not there."""


class Conflict(ApiError):  # noqa: N818
    """409: The object has changed, is there already, or is bound already."""


class Gone(ApiError):  # noqa: N818
    """410: The resource version is too old: list again."""


class TooMany(ApiError):  # noqa: N818
    """429: The server did nothing: try again after `retry_after` seconds."""

    def __init__(self, message: str = "", retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(ApiError):  # noqa: N818
    """5xx, or no answer: The server may have carried the request out nevertheless."""


class NotLeading(ApiError):  # noqa: N818
    """Not sent: this replica may not write now. Another one leads, or may soon."""


class Outdated(ApiError):  # noqa: N818
    """Not sent: the reason for the request is gone."""


def problem_of(status: int, message: str, retry_after: str | None = None) -> ApiError:
    """Returns the error for an HTTP status."""
    if status == 429:
        seconds = float(retry_after) if retry_after and retry_after.isdigit() else 1.0
        return TooMany(message, min(seconds, 60.0))
    if status >= 500:
        return Unavailable(message)
    return {404: NotFound, 409: Conflict, 410: Gone}.get(status, ApiError)(message)
