"""Kernels: llama.cpp, from the wheel xllamacpp.

The fallback, for platforms without a wheel of ik_llama.cpp. xllamacpp is a binding of llama.cpp's server, but its
extension module exports llama.cpp's whole C interface, and that is what we call; the module itself is never
initialised. It needs the system's libgomp.

llama.cpp changes its parameter structs often and has no version in its C interface. So the defaults that it fills in
are compared with what its header says they are, field by field: another layout is refused instead of written over.
"""

import ctypes
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

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

__all__ = ["LlamaCppKernels", "load"]

_FLASH_ATTENTION_OFF = 0

_keep_alive: list[object] = []
"""C calls the log callback for as long as the process lives."""


class _ModelParams(ctypes.Structure):
    """Passed back as it came; more room than any layout needs."""

    _fields_: ClassVar = [("opaque", ctypes.c_uint64 * 64)]


class _ContextParams(ctypes.Structure):
    """`struct llama_context_params` of builds around b11549, up to the last field that we set."""

    _fields_: ClassVar = [
        ("n_ctx", ctypes.c_uint32),
        ("n_batch", ctypes.c_uint32),
        ("n_ubatch", ctypes.c_uint32),
        ("n_seq_max", ctypes.c_uint32),
        ("n_rs_seq", ctypes.c_uint32),
        ("n_outputs_max", ctypes.c_uint32),
        ("n_outputs_max_per_seq", ctypes.c_uint32),
        ("n_threads", ctypes.c_int32),
        ("n_threads_batch", ctypes.c_int32),
        ("ctx_type", ctypes.c_int32),
        ("rope_scaling_type", ctypes.c_int32),
        ("pooling_type", ctypes.c_int32),
        ("attention_type", ctypes.c_int32),
        ("flash_attn_type", ctypes.c_int32),
        ("rope_and_yarn", ctypes.c_float * 6),
        ("yarn_orig_ctx", ctypes.c_uint32),
        ("defrag_thold", ctypes.c_float),
        ("callback_pointers", ctypes.c_void_p * 2),
        ("type_k", ctypes.c_int32),
        ("type_v", ctypes.c_int32),
        ("abort_pointers", ctypes.c_void_p * 2),
        ("opaque_pointer", ctypes.c_void_p),
        ("embeddings", ctypes.c_bool),
        ("offload_kqv", ctypes.c_bool),
        ("no_perf", ctypes.c_bool),
        ("op_offload", ctypes.c_bool),
        ("swa_full", ctypes.c_bool),
        ("kv_unified", ctypes.c_bool),
        ("opaque", ctypes.c_uint64 * 48),
    ]


_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_threads": 4,
    "n_threads_batch": 4,
    "rope_scaling_type": -1,
    "pooling_type": -1,
    "attention_type": -1,
    "flash_attn_type": -1,
    "type_k": 1,
    "type_v": 1,
    "embeddings": False,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
    "kv_unified": False,
}


class _Batch(ctypes.Structure):
    _fields_: ClassVar = [
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


def load(path: str) -> "LlamaCppKernels":
    """Load a model file.

    Raises:
        KernelsMissing: The wheel is not installed, does not run here, or has another layout than we know.
        LoadFailed: The library refuses the file.
    """
    library = _library()
    model = library.llama_model_load_from_file(path.encode(), library.llama_model_default_params())
    if not model:
        raise LoadFailed(f"llama.cpp cannot load {path}")
    return LlamaCppKernels(library, model)


class LlamaCppKernels(CKernels):
    """A model computed by llama.cpp."""

    name = "llama_cpp"
    batch_struct = _Batch

    def __init__(self, library: ctypes.CDLL, model: int) -> None:
        super().__init__(library, model, vocabulary=library.llama_model_get_vocab(model))

    def is_end(self, token: int) -> bool:
        """See `Kernels.is_end`."""
        return bool(self._library.llama_vocab_is_eog(self._vocabulary, token))

    def is_control(self, token: int) -> bool:
        """See `Kernels.is_control`."""
        return bool(self._library.llama_vocab_get_attr(self._vocabulary, token) & NOT_TEXT)

    def _remove(self, context: int, sequence: int, start: int) -> None:
        self._library.llama_memory_seq_rm(self._library.llama_get_memory(context), sequence, start, -1)

    def _share(self, context: int, source: int, target: int, tokens: int) -> None:
        self._library.llama_memory_seq_cp(self._library.llama_get_memory(context), source, target, 0, tokens)

    def _new_context(self, shape: ContextShape, *, embeds: bool) -> int | None:
        params = self._library.llama_context_default_params()
        params.n_ctx = shape.kv_tokens
        params.n_batch = shape.batch_rows
        params.n_ubatch = min(shape.micro_batch_rows, shape.batch_rows)
        params.n_seq_max = shape.sequences
        params.n_outputs_max_per_seq = 0  # as many as the batch has rows; the default allows one
        params.flash_attn_type = _FLASH_ATTENTION_OFF
        params.kv_unified = True  # sequences share the cells, so that a short one leaves its room to a long one
        params.embeddings = embeds
        params.pooling_type = POOLING_NONE
        context: int | None = self._library.llama_init_from_model(self._model, params)
        return context

    def _close_holes(self, context: int) -> None:
        """Nothing to do: a batch may lie scattered over the free cells, and is computed rightly there."""

    def _free_model(self, model: int) -> None:
        self._library.llama_model_free(model)


def _library() -> ctypes.CDLL:
    spec = find_spec("xllamacpp")
    folders = spec.submodule_search_locations if spec else None
    found = [file for folder in folders or () for file in Path(folder).glob("xllamacpp*.so")]
    if not found:
        raise KernelsMissing("xllamacpp is not installed")
    try:
        library = ctypes.CDLL(str(found[0]))
        _declare(library)
    except (OSError, AttributeError) as error:
        raise KernelsMissing(f"xllamacpp is not usable here: {error}") from error
    _check_layout(library)
    if not _keep_alive:
        _keep_alive.append(callback := LogCallback(log_to_python))
        library.llama_log_set(callback, None)
        library.llama_backend_init()
    return library


def _check_layout(library: ctypes.CDLL) -> None:
    params = library.llama_context_default_params()
    unexpected = [f"{name} is {got}" for name, value in _DEFAULTS.items() if (got := getattr(params, name)) != value]
    if unexpected:
        raise KernelsMissing(
            f"this release of xllamacpp has another layout of its parameters than we know ({', '.join(unexpected)})"
        )


def _declare(library: ctypes.CDLL) -> None:
    declare(library)
    pointer, i32, flag, text = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_char_p
    signature(library, "llama_model_default_params", _ModelParams)
    signature(library, "llama_context_default_params", _ContextParams)
    signature(library, "llama_model_load_from_file", pointer, text, _ModelParams)
    signature(library, "llama_model_free", None, pointer)
    signature(library, "llama_init_from_model", pointer, pointer, _ContextParams)
    signature(library, "llama_get_memory", pointer, pointer)
    signature(library, "llama_decode", i32, pointer, _Batch)
    signature(library, "llama_vocab_is_eog", flag, pointer, i32)
    signature(library, "llama_vocab_get_attr", i32, pointer, i32)
    signature(library, "llama_memory_seq_rm", flag, pointer, i32, i32, i32)
    signature(library, "llama_state_seq_get_size", ctypes.c_size_t, pointer, i32)
    signature(library, "llama_state_seq_get_data", ctypes.c_size_t, pointer, pointer, ctypes.c_size_t, i32)
    signature(library, "llama_state_seq_set_data", ctypes.c_size_t, pointer, pointer, ctypes.c_size_t, i32)
    signature(library, "llama_memory_seq_cp", None, pointer, i32, i32, i32, i32)
