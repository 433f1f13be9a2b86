"""Kernels: ik_llama.cpp, from the wheel ik-llama-cpp-python.

The faster of the two on a CPU, above all for several rows in one call. The wheel's own ctypes module tells where its
shared library is and how its parameter structs are laid out, which changes from release to release; the functions we
declare ourselves.

Traps, each met with version 0.1.5:

* Flash attention aborts the process when one batch holds unrelated sequences: it is off.
* `llama_tokenize` and `llama_token_to_piece` take the model, not the vocabulary, and crash otherwise.
* A batch needs as many neighbouring free cells as it has rows, or a part of it stays behind in the cells and it fails.
* To find the last cell in use the library looks at every 32nd, from the end on, and only where that one is used at the
  31 above it. Where it is free, in a hole, all cells above are left out of attention, the row's own among them, and
  logits are off by 5 to 30 without an error. So no row is computed as long as there is a hole.
* `llama_kv_cache_defrag` moves some hundred runs of cells at most, and says nothing of the rest; nor does it keep the
  cells of a sequence in the order of their positions, so that cutting the end off one sequence alone may leave a hole.
* Some quantisations compute wrongly with 32 or more rows: `self_test.py` finds out.
"""

import ctypes
from typing import Any, ClassVar

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
from embedded_engine.kernels.port import ContextShape, DecodeError

__all__ = ["IkLlamaKernels", "load"]

_REPACKED = {"Q8_0"}
"""Quantisations whose rows are interleaved at load.

Prompts and batches are then a fifth to a third faster, and what is computed is the same to the last bit. With others,
such as Q4_K_M, it is no longer the same alone and in a batch.
"""


class _View(ctypes.Structure):
    """`struct llama_kv_cache_view`: where a context has free cells."""

    _fields_: ClassVar = [
        ("n_cells", ctypes.c_int32),
        ("n_seq_max", ctypes.c_int32),
        ("token_count", ctypes.c_int32),
        ("used_cells", ctypes.c_int32),
        ("max_contiguous", ctypes.c_int32),
        ("max_contiguous_idx", ctypes.c_int32),
        ("cells", ctypes.c_void_p),
        ("cells_sequences", ctypes.c_void_p),
    ]


def _has_holes(view: _View) -> bool:
    """Whether any free cell is not behind the last one in use."""
    free = view.n_cells - view.used_cells
    return free > 0 and (view.max_contiguous_idx, view.max_contiguous) != (view.used_cells, free)


def _is_empty(view: _View) -> bool:
    return (view.used_cells, view.max_contiguous_idx) == (0, 0) and view.max_contiguous == view.n_cells > 0


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
    moving_threads: ClassVar[int] = 1
    """Of many runs of cells each is a few small copies a layer, after each of which all threads would wait."""

    def __init__(self, library: ctypes.CDLL, api: Any, model: int) -> None:
        self._api = api
        self.batch_struct = api.llama_batch
        self._may_have_holes: set[int] = set()
        self._has_cells = not library.llama_model_is_recurrent(model)
        super().__init__(library, model, vocabulary=model)

    def is_end(self, token: int) -> bool:
        """See `Kernels.is_end`."""
        return bool(self._library.llama_token_is_eog(self._model, token))

    def is_control(self, token: int) -> bool:
        """See `Kernels.is_control`."""
        return bool(self._library.llama_token_get_attr(self._model, token) & NOT_TEXT)

    def _remove(self, context: int, sequence: int, start: int) -> None:
        self._library.llama_kv_cache_seq_rm(context, sequence, start, -1)
        self._may_have_holes.add(context)

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
        if context and self._has_cells and not _is_empty(self._look(context)):
            raise LoadFailed("this release of ik_llama.cpp describes its cells in another layout than we know")
        return context

    def _close_holes(self, context: int) -> None:
        if context not in self._may_have_holes:
            return
        if self._has_cells and _has_holes(self._look(context)):
            self._library.llama_set_n_threads(context, self.moving_threads, self.moving_threads)
            try:
                self._move_together(context)
            finally:
                self._library.llama_set_n_threads(context, self._shape.threads, self._shape.threads)
        self._may_have_holes.discard(context)

    def _move_together(self, context: int) -> None:
        for _ in range(self._shape.kv_tokens):
            self._library.llama_kv_cache_defrag(context)
            self._library.llama_kv_cache_update(context)
            if not _has_holes(self._look(context)):
                return
        raise DecodeError("ik_llama.cpp does not move its cells together")

    def _look(self, context: int) -> _View:
        view: _View = self._library.llama_kv_cache_view_init(context, 1)
        self._library.llama_kv_cache_view_update(context, ctypes.byref(view))
        self._library.llama_kv_cache_view_free(ctypes.byref(view))
        return view

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
    signature(library, "llama_kv_cache_view_init", _View, pointer, i32)
    signature(library, "llama_kv_cache_view_update", None, pointer, ctypes.POINTER(_View))
    signature(library, "llama_kv_cache_view_free", None, ctypes.POINTER(_View))
