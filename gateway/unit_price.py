"""What is asked for pictures, sound, spoken text and ranked documents, and for tokens that are no text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from gateway.units import Units, Work

_SECONDS_PER_MINUTE = 60
_MILLION = Decimal(1_000_000)
_PICO_USD = Decimal("1e-12")

ImageUsd = Decimal | Mapping[str, Decimal]


@dataclass(frozen=True, kw_only=True)
class UnitPrice:
    """The part of a price that is for what is not counted in tokens of text; ``None`` where it has none for that.

    ``image_usd`` is for each picture that is made: one amount, or several by ``1024x1024``, ``hd`` or ``1024x1024 hd``;
    the longest that fits holds, then ``any``. ``audio_usd_per_minute`` is for sound that is listened to,
    ``speech_usd_per_mchar`` for a million characters that are spoken, ``search_usd`` for a reranker's search unit,
    ``document_usd`` for a document that is ranked. Tokens of sound and of pictures cost what text does where they have
    no price of their own.
    """

    audio_input_usd_per_mtok: Decimal | None = None
    audio_output_usd_per_mtok: Decimal | None = None
    image_input_usd_per_mtok: Decimal | None = None
    image_output_usd_per_mtok: Decimal | None = None
    image_usd: ImageUsd | None = field(default=None, hash=False)
    audio_usd_per_minute: Decimal | None = None
    speech_usd_per_mchar: Decimal | None = None
    search_usd: Decimal | None = None
    document_usd: Decimal | None = None

    @property
    def by_units(self) -> bool:
        """Whether anything is paid by the piece, the minute or the character."""
        amounts = (self.audio_usd_per_minute, self.speech_usd_per_mchar, self.search_usd, self.document_usd)
        return bool(self.image_usd) or any(amounts)

    @property
    def by_media_tokens(self) -> bool:
        """Whether tokens of sound or pictures have a price of their own."""
        spoken = self.audio_input_usd_per_mtok or self.audio_output_usd_per_mtok
        return bool(spoken or self.image_input_usd_per_mtok or self.image_output_usd_per_mtok)

    def amounts(self, units: Units) -> Iterator[Decimal | None]:
        """In US dollars, for each thing that is paid by the piece in such work, exact: add up, then round.

        ``None`` where nobody said how much of it there was.
        """
        work = units.work
        if self.image_usd and work is Work.DRAWING:
            each = self._each_image_usd(units)
            yield None if units.images is None or each is None else units.images * each
        if self.audio_usd_per_minute and work is Work.LISTENING:
            yield None if units.audio_s is None else units.audio_s * self.audio_usd_per_minute / _SECONDS_PER_MINUTE
        if self.speech_usd_per_mchar and work is Work.SPEAKING:
            yield None if units.characters is None else units.characters * self.speech_usd_per_mchar / _MILLION
        if self.search_usd and work is Work.RANKING:
            yield None if units.searches is None else units.searches * self.search_usd
        if self.document_usd and work is Work.RANKING:
            yield None if units.documents is None else units.documents * self.document_usd

    def media_usd(self, units: Units, *, input_pico: int, output_pico: int) -> Decimal:
        """What tokens of sound and pictures cost beyond what as many of text do, at so many pico-dollars a token."""
        text_in, text_out = input_pico * _PICO_USD, output_pico * _PICO_USD
        return sum(
            (
                tokens * (usd_per_mtok / _MILLION - text)
                for tokens, usd_per_mtok, text in (
                    (units.audio_tokens, self.audio_input_usd_per_mtok, text_in),
                    (units.image_tokens, self.image_input_usd_per_mtok, text_in),
                    (units.output_audio_tokens, self.audio_output_usd_per_mtok, text_out),
                    (units.output_image_tokens, self.image_output_usd_per_mtok, text_out),
                )
                if tokens and usd_per_mtok is not None
            ),
            Decimal(0),
        )

    def _each_image_usd(self, units: Units) -> Decimal | None:
        if isinstance(self.image_usd, Decimal):
            return self.image_usd
        known = self.image_usd or {}
        names = (f"{units.size} {units.quality}", units.size, units.quality, "any")
        return next((known[name] for name in names if name in known), None)
