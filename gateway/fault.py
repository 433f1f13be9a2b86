"""The root of the error tree, which ``gateway.errors`` draws, and the one branch that no client ever meets."""

from collections.abc import Iterable
from typing import ClassVar

from gateway.types import Status


class HeadraceError(Exception):
    """The root. ``message`` is for people, may quote the client's field names, and holds no secret and no prompt.

    ``final`` tells that sending the same again cannot help, though the status may sound as if it could.
    """

    http_status: int = 500
    status: ClassVar[Status] = Status.BUG
    type: ClassVar[str] = "server_error"
    code: str | None = "internal_error"
    retryable: ClassVar[bool] = False
    blames_backend: ClassVar[bool] = False
    rest_s: ClassVar[float] = 0.0
    final: bool = False

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.retry_after_s = message, param, retry_after_s


class ConfigurationError(HeadraceError):
    """The policy file or the environment is wrong, at ``where``; ``hint`` is a way out, ``bare`` the message alone.

    ``beside`` are other mistakes that were found at the same time; none of them has any beside itself.
    """

    code = "configuration_error"

    def __init__(self, message: str, *, file: str = "", where: str = "", hint: str = "") -> None:
        self.bare = message
        self.beside: tuple[ConfigurationError, ...] = ()
        place = ": ".join(part for part in (file, where) if part)
        super().__init__("".join((f"{place}: " if place else "", message, f" ({hint})" if hint else "")))
        self.file, self.where, self.hint = file, where, hint

    @property
    def all(self) -> tuple["ConfigurationError", ...]:
        """This one and those beside it."""
        return (self, *self.beside)

    def within(self, file: str, *, part: str = "") -> "ConfigurationError":
        """The same in a file, at ``where`` below ``part`` of it, without those beside it."""
        where = ".".join(path for path in (part, self.where) if path)
        return ConfigurationError(self.bare, file=file, where=where, hint=self.hint)

    def with_others(self, others: Iterable["ConfigurationError"]) -> "ConfigurationError":
        """The same, with others beside it."""
        error = self.within(self.file)
        error.beside = tuple(others)
        return error


def place_of(error: BaseException) -> str:
    """Where it was raised: file and line, which may go into a log where its text may not."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else "?"
