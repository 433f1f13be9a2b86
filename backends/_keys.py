"""The keys of one backend: which of them goes with the next call, and which rest because the upstream refused them."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

from gateway.errors import UpstreamError, UpstreamRateLimited, UpstreamUnauthorised
from gateway.ports import Clock

KeyNames = str | tuple[str, ...]
"""``api_key_env`` in YAML: the name of one environment variable, or a list of several."""

_log = logging.getLogger(__name__)


def key_names(given: KeyNames) -> tuple[str, ...]:
    """The variables' names, one by one; none where there is no key.

    Raises:
        ValueError: one is there twice, or is empty.
    """
    names = ((given,) if given else ()) if isinstance(given, str) else given
    if not all(names):
        raise ValueError("`api_key_env` has an empty name")
    if len(set(names)) < len(names):
        raise ValueError("`api_key_env` names one twice")
    return names


class Key:
    """One key. ``name`` is its variable's, which is all that is ever told of it."""

    __slots__ = ("in_flight", "name", "rests_until_s", "secret", "used")

    def __init__(self, name: str, secret: str) -> None:
        self.name = name
        self.secret = secret
        self.in_flight = 0
        self.used = 0
        self.rests_until_s = -inf


class KeyRing:
    """Healthy keys share the load: the one with the fewest calls under way is next, then the one used least lately.

    A key rests when the upstream refuses it: after a 429 for the time that the upstream names, or else for that of the
    error's class, after a 401, 402 or 403 for no less than that. Which keys rest is known to this process alone.

    Args:
        backend: its name in the policy file, for the log.
        keys: the variables' names and what they hold.
        clock: the time.
    """

    def __init__(self, backend: str, keys: Sequence[tuple[str, str]], *, clock: Clock) -> None:
        self._backend = backend
        self._keys = [Key(name, secret) for name, secret in keys]
        self._clock = clock
        self._uses = 0

    @contextmanager
    def key(self) -> Iterator[Key]:
        """A key for one call. An error that blames it lets it rest, and says whether another one is well.

        Where none is, the error asks for as long a wait as it takes until the first of them is back; else for none.
        """
        key = self._next()
        try:
            yield key
        except (UpstreamUnauthorised, UpstreamRateLimited) as error:
            self._refused(key, error)
            raise
        finally:
            key.in_flight -= 1

    def _next(self) -> Key:
        now_s = self._clock.now_s()
        well = [key for key in self._keys if key.rests_until_s <= now_s]
        if well:
            key = min(well, key=lambda one: (one.in_flight, one.used))
        else:  # somebody has to find out whether it is well again
            key = min(self._keys, key=lambda one: one.rests_until_s)
        self._uses += 1
        key.used = self._uses
        key.in_flight += 1
        return key

    def _refused(self, key: Key, error: UpstreamError) -> None:
        now_s = self._clock.now_s()
        rest_s = error.rest_s if error.retry_after_s is None else error.retry_after_s
        if isinstance(error, UpstreamUnauthorised):
            rest_s = max(rest_s, error.rest_s)
        key.rests_until_s = max(key.rests_until_s, now_s + rest_s)
        _log.warning("%s: the key in %s rests for %.3g s (%s)", self._backend, key.name, rest_s, error.code)
        soonest_s = min(one.rests_until_s for one in self._keys)
        error.another_key = any(one.rests_until_s <= now_s for one in self._keys if one is not key)
        error.retry_after_s = None if error.another_key else max(soonest_s - now_s, 0.0)
