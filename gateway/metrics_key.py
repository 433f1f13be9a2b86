"""Who may read the metrics, which speak of all routes and backends: the operator, and no tenant."""

import hashlib
import hmac

from gateway.door import Door
from gateway.errors import Forbidden
from gateway.exchange import RawHeaders


class MetricsKey:
    """The operator's key to ``/metrics``; where there is none and no tenant has a key either, everybody may read.

    Args:
        key: the secret itself.
    """

    def __init__(self, key: str | None) -> None:
        self._digest = None if key is None else hashlib.sha256(key.encode()).hexdigest()

    def check(self, door: Door, headers: RawHeaders) -> None:
        """Lets the operator pass.

        Raises:
            HeadersTooLarge: the header block is over the limit.
            Unauthenticated: no key, or one that nobody has.
            Forbidden: a tenant's.
        """
        if self._digest is None and not door.locked:
            return
        shown = door.shown(headers)
        if self._digest is not None and hmac.compare_digest(shown, self._digest):
            return
        door.known(shown)
        raise Forbidden("metrics are the operator's to read, with the key of HEADRACE_METRICS_KEY")
