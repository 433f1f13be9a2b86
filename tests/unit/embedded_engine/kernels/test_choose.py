import sys

import pytest

from embedded_engine.errors import KernelsMissing
from embedded_engine.kernels import choose


@pytest.fixture
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither wheel can be imported."""
    for name in ("ik_llama_cpp", "ik_llama_cpp._ctypes_api", "xllamacpp"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("_nothing_installed")
@pytest.mark.parametrize("name", ["", "ik_llama", "llama_cpp"])
def test_without_kernels_the_extra_to_install_is_named(name: str) -> None:
    """A person can act on it."""
    with pytest.raises(KernelsMissing, match=r"pip install 'headrace\[engine\]'"):
        choose.load_kernels("model.gguf", name)


def test_an_unknown_name_is_answered_with_the_list() -> None:
    """A typo is not silently another library."""
    with pytest.raises(KernelsMissing, match="ik_llama, llama_cpp"):
        choose.load_kernels("model.gguf", "ik-llama")


def test_the_faster_kernels_are_tried_first() -> None:
    """The order is the preference."""
    assert ["ik_llama", "llama_cpp"] == list(choose.KERNELS)
