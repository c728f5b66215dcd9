"""What an API server may answer instead of doing what it was asked.

ApiError                  anything below
├── NotFound              404: the object is not there
├── Conflict              409: it has changed, is there already, or is bound already
├── Gone                  410: the resource version is too old: list again
├── Forbidden             401, 403: the rights are missing
├── Invalid               400, 422 and the like: the request itself is wrong
├── TooMany               429: come back later; nothing was done
├── ServerTrouble         5xx: something may or may not have been done
├── Unreachable           no answer: something may or may not have been done
├── NotLeading            we may not write now: another replica leads, or may soon
└── Outdated              not sent: what it was to do is not right any more
"""

from __future__ import annotations

from gfs.domain.errors import GfsError


class ApiError(GfsError):
    """An API server did not do what it was asked."""

    uncertain = False
    """Whether it may have been done nevertheless."""

    def __init__(self, message: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NotFound(ApiError):  # noqa: N818 (it is what it is called)
    """The object is not there."""


class Conflict(ApiError):  # noqa: N818
    """The object has changed, is there already, or is bound already."""


class Gone(ApiError):  # noqa: N818
    """The resource version is too old: list again."""


class Forbidden(ApiError):  # noqa: N818
    """The rights are missing."""


class Invalid(ApiError):  # noqa: N818
    """The request itself is wrong."""


class TooMany(ApiError):  # noqa: N818
    """Nothing was done: come back later."""

    def __init__(self, message: str = "", status: int = 429, retry_after: float = 1.0) -> None:
        super().__init__(message, status)
        self.retry_after = retry_after


class ServerTrouble(ApiError):  # noqa: N818
    """The server failed: something may or may not have been done."""

    uncertain = True


class Unreachable(ApiError):  # noqa: N818
    """There was no answer: something may or may not have been done."""

    uncertain = True


class NotLeading(ApiError):  # noqa: N818
    """We may not write now: another replica leads, or may soon."""


class Outdated(ApiError):  # noqa: N818
    """Not sent: what it was to do is not right any more."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone,
}  # fmt: skip


def problem_of(status: int, message: str, retry_after: str | None = None) -> ApiError:
    """The error for an HTTP status."""
    if status == 429:
        seconds = float(retry_after) if retry_after and retry_after.isdigit() else 1.0
        return TooMany(message, retry_after=min(seconds, 60.0))
    if status >= 500:
        return ServerTrouble(message, status)
    return _BY_STATUS.get(status, Invalid)(message, status)
