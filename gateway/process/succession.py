"""From the backends of one world to those of the next, which keeps the same objects where nothing has changed."""

from collections.abc import Mapping

from gateway.errors import ConfigurationError
from gateway.ports import Backend, Surroundings


def those_not_in(backends: Mapping[str, Backend], others: Mapping[str, Backend]) -> dict[str, Backend]:
    """The backends that are none of the ``others``; one of the same name may be another one."""
    known = {id(backend) for backend in others.values()}
    return {name: backend for name, backend in backends.items() if id(backend) not in known}


async def start_one(name: str, backend: Backend, surroundings: Surroundings) -> None:
    """Starts the backend of that name.

    Raises:
        ConfigurationError: it cannot be started; its place in the policy file begins with ``backends`` and the name.
    """
    try:
        await backend.start(name, surroundings)
    except ConfigurationError as error:
        where = ".".join(part for part in ("backends", name, error.where) if part)
        raise ConfigurationError(error.bare, file=error.file, where=where, hint=error.hint) from error


async def start_all(backends: Mapping[str, Backend], surroundings: Surroundings) -> None:
    """Starts them all, or none.

    Raises:
        ConfigurationError: one cannot be started; those that were are closed again.
    """
    try:
        for name, backend in backends.items():
            await start_one(name, backend, surroundings)
    except ConfigurationError:
        for backend in backends.values():
            await backend.close()
        raise
