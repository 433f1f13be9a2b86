"""What is counted otherwise than in tokens of text: pictures, seconds of sound, characters, searches, documents."""

from decimal import Decimal
from enum import StrEnum

from msgspec import Struct


class Work(StrEnum):
    """What is done in a request that is passed on."""

    READING = "reading"
    DRAWING = "drawing"
    LISTENING = "listening"
    SPEAKING = "speaking"
    RANKING = "ranking"


class Units(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a request that is passed on takes, or has taken. ``None`` is what nobody said, which is not zero.

    ``work`` is what is done, and so which prices by the piece are for it. ``images`` are pictures that were made, of
    ``size`` (``1024x1024``) and ``quality``, empty where nobody said. ``audio_s`` is sound that was listened to, in
    seconds; ``characters`` is text that was spoken. ``searches`` are search units as a reranker counts them,
    ``documents`` what it put in order. ``counted`` tells that the tokens beside it (``Usage``) are the upstream's own:
    of these ``audio_tokens`` and ``image_tokens`` of the prompt, and ``output_audio_tokens`` and
    ``output_image_tokens`` of the answer were no text. ``elsewhere``: another model worked, too, whose price is not
    known here.
    """

    work: Work = Work.READING
    images: int | None = None
    size: str = ""
    quality: str = ""
    audio_s: Decimal | None = None
    characters: int | None = None
    searches: int | None = None
    documents: int | None = None
    counted: bool = False
    audio_tokens: int = 0
    image_tokens: int = 0
    output_audio_tokens: int = 0
    output_image_tokens: int = 0
    elsewhere: bool = False

    def words(self) -> str:
        """As the ledger has it: ``images=2 size=1024x1024 quality=hd``, ``audio_s=12.48``; empty for nothing."""
        counts = [(name, getattr(self, name)) for name in _COUNTS]
        told = [(name, count) for name, count in counts if count is not None]
        told += [(name, text) for name in _WORDS if (text := getattr(self, name))]
        told += [(name, tokens) for name in _TOKENS if (tokens := getattr(self, name))]
        return " ".join(f"{name}={value}" for name, value in told)


_COUNTS = ("images", "audio_s", "characters", "searches", "documents")
_WORDS = ("size", "quality")
_TOKENS = ("audio_tokens", "image_tokens", "output_audio_tokens", "output_image_tokens")
