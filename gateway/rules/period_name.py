"""The word for a period in the policy file, such as ``day`` or ``6h``."""

from typing import Annotated

from pydantic import AfterValidator

from gateway.limits.calendar import read_period


def _checked(text: str) -> str:
    read_period(text)
    return text


PeriodName = Annotated[str, AfterValidator(_checked)]
"""What ``read_period`` can read; anything else is an error where it stands."""
