"""Where a newer price list comes from: genai-prices' data at its address, in a file, or in the installed package."""

import json
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from importlib import import_module, metadata
from pathlib import Path
from urllib.error import URLError
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, UnknownHandler

from gateway.errors import ConfigurationError
from gateway.prices.genai import Json, plain, price_file
from gateway.prices.published import PriceFile

ADDRESS = "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main/prices/new_data/v2/data.json"
PACKAGE = "package"

_MOST_BYTES = 64 * 1024 * 1024
_TIMEOUT_S = 30.0


def fetch_prices(source: str, *, made_on: date) -> PriceFile:
    """The price file that is made of ``source``: an ``https`` address, a path, or ``package``.

    Raises:
        ConfigurationError: it cannot be had, or is none.
    """
    try:
        if source == PACKAGE:
            return price_file(_of_package(), origin=f"genai-prices {metadata.version('genai-prices')}", made_on=made_on)
        content = _downloaded(source) if source.startswith("https://") else Path(source).read_bytes()
        if len(content) > _MOST_BYTES:
            raise ConfigurationError(f"is longer than {_MOST_BYTES} bytes", file=source)
        return price_file(json.loads(content, parse_float=Decimal), origin="genai-prices", made_on=made_on)
    except (ImportError, metadata.PackageNotFoundError) as error:
        raise ConfigurationError("genai-prices is not installed", hint="pip install genai-prices") from error
    except (OSError, URLError, ValueError) as error:
        raise ConfigurationError(f"no prices: {error}", file=source) from error


def _of_package() -> Iterable[Json]:
    return [plain(provider) for provider in import_module("genai_prices.data").providers]


def _downloaded(address: str) -> bytes:
    """What lies there. Over HTTPS alone, through the proxy that the environment names; no redirect is followed."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPSHandler(), UnknownHandler()):
        opener.add_handler(handler)
    answer = opener.open(address, timeout=_TIMEOUT_S)
    if answer is None:
        raise OSError("nobody knows how to fetch this address")
    with answer:
        if answer.status != 200:  # noqa: PLR2004  # HTTP's own number for "here it is"
            raise OSError(f"the answer was {answer.status}")
        return bytes(answer.read(_MOST_BYTES + 1))
