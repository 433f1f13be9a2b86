"""The prices that providers publish, out of a file: the one that is shipped, or a newer one that was fetched.

The file is JSON under zstd, made of genai-prices' data by ``headrace prices update``. Of each provider it has the
models in the order in which they are matched. Nothing is read before somebody asks for a price, and of the providers
only those that are asked for are taken apart.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import zstandard
from msgspec import Raw, Struct

from gateway.price import Price

_MOST_NAMES = 1024
"""Clients choose the names of models."""

_SHIPPED = Path(__file__).with_name("published.json.zst")

_MOST_FILE_BYTES = 64 * 1024 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PublishedPrice(Price):
    """A price off a provider's list."""

    source: ClassVar[str] = "published"


class Dated(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A price, and the day (``2026-11-30``, UTC) from which it holds; empty for ever."""

    price: PublishedPrice
    since: str = ""


class ListedModel(Struct, frozen=True, kw_only=True):
    """A model on a list: which names are its own, and its prices in the order in which they came."""

    id: str
    match: Sequence[Any]
    prices: tuple[Dated, ...]

    def price_on(self, day: date) -> PublishedPrice:
        """The price on that day."""
        held = [dated.price for dated in self.prices if dated.since <= day.isoformat()]
        return held[-1] if held else self.prices[0].price


class PriceFile(Struct, frozen=True, kw_only=True):
    """The whole file. ``origin`` says what it was made of, ``made_on`` when."""

    made_on: str
    origin: str
    providers: dict[str, Raw]
    fallbacks: dict[str, tuple[str, ...]] = {}


_FILE = msgspec.json.Decoder(PriceFile)
_MODELS = msgspec.json.Decoder(tuple[ListedModel, ...])


class PublishedPrices:
    """Prices by provider and model. ``file`` goes before what is shipped, where it is there."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._read: PriceFile | None = None
        self._models: dict[str, tuple[ListedModel, ...]] = {}
        self._found: dict[tuple[str, str], PublishedPrice | None] = {}

    @property
    def origin(self) -> str:
        """What the prices were made of, and when."""
        read = self._opened()
        return f"{read.origin}, {read.made_on}"

    @property
    def providers(self) -> Sequence[str]:
        """The names of those with a list."""
        return sorted(self._opened().providers)

    def find(self, provider: str, model: str) -> PublishedPrice | None:
        """What the provider asks for the model today, ``None`` where its list does not have it."""
        key = (provider, model)
        if key not in self._found:
            if len(self._found) >= _MOST_NAMES:
                self._found.clear()
            self._found[key] = self._look(provider, model.lower())
        return self._found[key]

    def _look(self, provider: str, model: str) -> PublishedPrice | None:
        today = datetime.now(UTC).date()
        for name in (provider, *self._opened().fallbacks.get(provider, ())):
            for listed in self._listed(name):
                if matches(listed.match, model):
                    return listed.price_on(today)
        return None

    def _listed(self, provider: str) -> tuple[ListedModel, ...]:
        if provider not in self._models:
            raw = self._opened().providers.get(provider)
            self._models[provider] = _MODELS.decode(raw) if raw is not None else ()
        return self._models[provider]

    def _opened(self) -> PriceFile:
        if self._read is None:
            self._read = _read(self._file)
        return self._read


def _read(file: Path | None) -> PriceFile:
    if file is not None and file.is_file():
        try:
            return read_price_file(file.read_bytes())
        except (OSError, ValueError) as error:
            _log.error("the price list %s cannot be read, the one that was shipped is used: %s", file, error)
    return _FILE.decode(_unpressed(_SHIPPED.read_bytes()))


def read_price_file(content: bytes) -> PriceFile:
    """A price file, every model of it read: what is wrong with it must not come up in the middle of a request.

    Raises:
        ValueError: it is none.
    """
    try:
        read = _FILE.decode(_unpressed(content))
        for raw in read.providers.values():
            _MODELS.decode(raw)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise ValueError(f"this is no price file: {error}") from error
    return read


def price_file_bytes(file: PriceFile) -> bytes:
    """The content of a price file."""
    return zstandard.ZstdCompressor(level=19).compress(msgspec.json.encode(file))


def _unpressed(content: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(content, max_output_size=_MOST_FILE_BYTES)


def matches(clause: Sequence[Any], name: str) -> bool:
    """Whether ``name``, in lower case, is meant by a clause: ``["starts_with", "gpt-"]``, ``["or", [...], [...]]``."""
    kind, *wanted = clause
    if kind == "or":
        return any(matches(inner, name) for inner in wanted)
    if kind == "and":
        return all(matches(inner, name) for inner in wanted)
    return CLAUSES[kind](name, wanted[0])


CLAUSES: Mapping[str, Callable[[str, str], bool]] = {
    "equals": lambda name, text: name == text.lower(),
    "starts_with": lambda name, text: name.startswith(text.lower()),
    "ends_with": lambda name, text: name.endswith(text.lower()),
    "contains": lambda name, text: text.lower() in name,
    "regex": lambda name, text: re.search(text, name) is not None,
}
"""What a clause about a name can be, besides ``or`` and ``and``."""
