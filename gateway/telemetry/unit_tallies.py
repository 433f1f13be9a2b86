"""What attempts took that is counted otherwise than in tokens."""

from prometheus_client.registry import CollectorRegistry

from gateway.telemetry.tallies import Tally
from gateway.units import Units


class UnitTallies:
    """Pictures, seconds of sound, characters, searches and documents, each under its name."""

    def __init__(self, registry: CollectorRegistry, labels: tuple[str, ...]) -> None:
        meaning = "Pictures made, seconds listened to, characters spoken, searches and documents ranked."
        self._units = Tally(registry, "headrace_units", meaning, (*labels, "unit"))
        self.tallies = (self._units,)

    def count(self, where: tuple[str, str], units: Units) -> None:
        """Counts what is known of one attempt."""
        for unit, amount in (
            ("image", units.images),
            ("audio_second", units.audio_s),
            ("character", units.characters),
            ("search", units.searches),
            ("document", units.documents),
        ):
            if amount:
                self._units.add((*where, unit), float(amount))
