"""Kernels: ik_llama.cpp, from the wheel ik-llama-cpp-python.

The faster of the two on a CPU, above all for several rows in one call. The wheel's own ctypes module tells where its
shared library is and how its parameter structs are laid out, which changes from release to release; the functions we
declare ourselves.

Traps, each met with version 0.1.5:

* Flash attention aborts the process when one batch holds unrelated sequences: it is off.
* `llama_tokenize` and `llama_token_to_piece` take the model, not the vocabulary, and crash otherwise.
* A batch needs as many neighbouring free cells as it has rows: when it finds none, the cells are moved together once.
* Rows that are put behind a hole in the cells, because they do not fit into it, are computed wrongly: holes are closed
  before (`CellMemory.close_holes`).
* Some quantisations compute wrongly with 32 or more rows: `self_test.py` finds out.
"""

import ctypes
from typing import Any

from embedded_engine.errors import KernelsMissing, LoadFailed
from embedded_engine.kernels.c_api import (
    NOT_TEXT,
    POOLING_NONE,
    CKernels,
    LogCallback,
    declare,
    log_to_python,
    signature,
)
from embedded_engine.kernels.port import ContextShape

__all__ = ["IkLlamaKernels", "load"]

_REPACKED = {"Q8_0"}
"""Quantisations whose rows are interleaved at load.

Prompts and batches are then a fifth to a third faster, and what is computed is the same to the last bit. With others,
such as Q4_K_M, it is no longer the same alone and in a batch.
"""

_keep_alive: list[object] = []
"""C calls the log callback for as long as the process lives."""


def load(path: str) -> "IkLlamaKernels":
    """Load a model file.

    Raises:
        KernelsMissing: The wheel is not installed, or does not run on this machine.
        LoadFailed: The library refuses the file.
    """
    try:
        from ik_llama_cpp import _ctypes_api as api  # noqa: PLC0415 - importing it loads the shared library
    except (ImportError, OSError) as error:
        raise KernelsMissing(f"ik-llama-cpp-python is not usable here: {error}") from error
    library: ctypes.CDLL = api._lib  # noqa: SLF001 - the wheel has no public name for its library
    if not _keep_alive:
        _declare(library, api)
        _keep_alive.append(callback := LogCallback(log_to_python))
        library.llama_log_set(callback, None)
        library.llama_backend_init()
    kernels = IkLlamaKernels(library, api, _load_model(path, api, repack=False))
    if kernels.facts.quantisation in _REPACKED:
        kernels.close()
        kernels = IkLlamaKernels(library, api, _load_model(path, api, repack=True))
    return kernels


def _load_model(path: str, api: Any, *, repack: bool) -> int:
    params = api.llama_model_default_params()
    params.flash_attn = False
    params.repack_tensors = repack
    model: int | None = api.llama_model_load_from_file(path.encode(), params)
    if not model:
        raise LoadFailed(f"ik_llama.cpp cannot load {path}")
    return model


class IkLlamaKernels(CKernels):
    """A model computed by ik_llama.cpp."""

    name = "ik_llama"
    state_flags = (0,)

    def __init__(self, library: ctypes.CDLL, api: Any, model: int) -> None:
        self._api = api
        self.batch_struct = api.llama_batch
        super().__init__(library, model, vocabulary=model)

    def is_end(self, token: int) -> bool:
        """See `Kernels.is_end`."""
        return bool(self._library.llama_token_is_eog(self._model, token))

    def is_control(self, token: int) -> bool:
        """See `Kernels.is_control`."""
        return bool(self._library.llama_token_get_attr(self._model, token) & NOT_TEXT)

    def _remove(self, context: int, sequence: int, start: int) -> None:
        self._library.llama_kv_cache_seq_rm(context, sequence, start, -1)

    def _share(self, context: int, source: int, target: int, tokens: int) -> None:
        self._library.llama_kv_cache_seq_cp(context, source, target, 0, tokens)

    def _new_context(self, shape: ContextShape, *, embeds: bool) -> int | None:
        params = self._api.llama_context_default_params()
        params.n_ctx = shape.kv_tokens
        params.n_batch = shape.batch_rows
        params.n_ubatch = min(shape.micro_batch_rows, shape.batch_rows)
        params.n_seq_max = shape.sequences
        params.flash_attn = False
        params.embeddings = embeds
        params.pooling_type = POOLING_NONE
        context: int | None = self._api.llama_init_from_model(self._model, params)
        return context

    def _make_room(self, context: int) -> bool:
        self._library.llama_kv_cache_defrag(context)
        self._library.llama_kv_cache_update(context)
        return True

    def _free_model(self, model: int) -> None:
        self._library.llama_free_model(model)


def _declare(library: ctypes.CDLL, api: Any) -> None:
    declare(library)
    pointer, i32, flag = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool
    size = ctypes.c_size_t
    signature(library, "llama_decode", i32, pointer, api.llama_batch)
    signature(library, "llama_free_model", None, pointer)
    signature(library, "llama_token_is_eog", flag, pointer, i32)
    signature(library, "llama_token_get_attr", i32, pointer, i32)
    signature(library, "llama_kv_cache_seq_rm", flag, pointer, i32, i32, i32)
    signature(library, "llama_kv_cache_seq_cp", None, pointer, i32, i32, i32, i32)
    signature(library, "llama_state_seq_get_size", size, pointer, i32, i32)
    signature(library, "llama_state_seq_get_data", size, pointer, pointer, size, i32, i32)
    signature(library, "llama_state_seq_set_data", size, pointer, pointer, size, i32, i32)
    signature(library, "llama_kv_cache_defrag", None, pointer)
    signature(library, "llama_kv_cache_update", i32, pointer)
