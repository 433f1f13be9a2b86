"""A provider's card as it stands in YAML: unknown keys, odd words and findings without evidence are refused."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gateway.card import Card

_WORD = re.compile(r"[a-z0-9][a-z0-9_.+-]{0,31}")
_MOST_CHARACTERS = 500
_REFUSE_TYPING_ERRORS: Mapping[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCard(Card):
    """See ``Card``."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _REFUSE_TYPING_ERRORS

    def __post_init__(self) -> None:
        if self.precision and _WORD.fullmatch(self.precision) is None:
            raise ValueError("`precision` must be a word in small letters, as bf16, fp8 or q8_0")
        for name in ("engine", "speculation", "evidence"):
            if len(getattr(self, name)) > _MOST_CHARACTERS:
                raise ValueError(f"`{name}` must have at most {_MOST_CHARACTERS} characters")
        if self.equivalence in {"measured", "verified"} and not self.evidence.strip():
            raise ValueError(f"`evidence` must say who {self.equivalence} it, and how; without, it is `claimed`")
