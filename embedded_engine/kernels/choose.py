"""Picks the library that computes the model."""

import logging

from embedded_engine.errors import KernelsMissing
from embedded_engine.kernels import ik_llama, llama_cpp
from embedded_engine.kernels.port import Kernels

__all__ = ["KERNELS", "load_kernels"]

_logger = logging.getLogger(__name__)

KERNELS = {"ik_llama": ik_llama.load, "llama_cpp": llama_cpp.load}
"""By name, the preferred first.

ik_llama.cpp decodes one row faster, and batches and prompts two to three times as fast; and what it computes in a
micro-batch of up to 31 rows is the same to the last bit as row by row.
"""


def load_kernels(path: str, name: str = "") -> Kernels:
    """Load a model file with the named kernels, or with the first that are installed.

    Raises:
        KernelsMissing: There are no kernels of that name, or none are installed.
        LoadFailed: The library refuses the file.
    """
    if name and name not in KERNELS:
        raise KernelsMissing(f"there are no kernels named {name!r}; known are {', '.join(KERNELS)}")
    reasons = []
    for load in [KERNELS[name]] if name else KERNELS.values():
        try:
            return load(path)
        except KernelsMissing as error:
            reasons.append(str(error))
            _logger.debug("skipped: %s", error)
    raise KernelsMissing(f"no kernels to compute a model with: pip install 'headrace[engine]' ({'; '.join(reasons)})")
