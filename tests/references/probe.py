"""What the table of translations asks every provider."""

from dataclasses import dataclass, field
from typing import Any

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """``name`` is the field as the table shows it. The request has ``fields``; ``beside`` is what it has without it."""

    name: str
    fields: Fields
    beside: Fields = field(default_factory=dict)
