import sys

import pytest

from embedded_engine.errors import KernelsMissing
from embedded_engine.kernels import choose


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither wheel can be imported."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("ik_llama_cpp", "xllamacpp"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [])


@pytest.mark.usefixtures("nothing_installed")
def test_without_kernels_the_extra_to_install_is_named() -> None:
    """A person can act on it."""
    with pytest.raises(KernelsMissing, match=r"pip install 'headrace\[engine\]'"):
        choose.load_kernels("model.gguf")


def test_an_unknown_name_is_answered_with_the_list() -> None:
    """A typo is not silently another library."""
    with pytest.raises(KernelsMissing, match="ik_llama, llama_cpp"):
        choose.load_kernels("model.gguf", "ik-llama")


def test_the_faster_kernels_are_tried_first() -> None:
    """The order is the preference."""
    assert ["ik_llama", "llama_cpp"] == list(choose.KERNELS)
