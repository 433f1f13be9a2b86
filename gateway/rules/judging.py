"""What a route does with answers once they are whole: who judges them, and how many."""

from dataclasses import dataclass
from hashlib import blake2s

from gateway.judgement import Judge

_LOTS = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Judges by the names that the policy file has for them: ``every`` one must pass an answer, or any.

    ``sample`` of the requests are judged, 0 to 1.
    """

    judges: tuple[tuple[str, Judge], ...]
    every: bool = True
    sample: float = 1.0

    @property
    def name(self) -> str:
        """All of them in a word, as the source of their verdict."""
        return ("+" if self.every else "|").join(name for name, _ in self.judges)


def drawn(request_id: str, purpose: str, share: float) -> bool:
    """Whether a request is among the ``share`` that is drawn for ``purpose``: always the same for the same id."""
    if share >= 1:
        return True
    lot = blake2s(f"{purpose}\0{request_id}".encode(), digest_size=8).digest()
    return int.from_bytes(lot, "big") < share * _LOTS
