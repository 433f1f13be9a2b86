"""What ik_llama.cpp and llama.cpp have in common in their C interface, over ctypes.

The two share an ancestor: the names of most functions and the first fields of a batch are the same. What differs
(parameter structs, log levels, sequence memory, whether the vocabulary's functions take the model or the vocabulary) is
in the two files beside this.
"""

import ctypes
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from embedded_engine.errors import LoadFailed
from embedded_engine.kernels.port import ContextShape, DecodeError, Logits, ModelFacts, Row

__all__ = ["NOT_TEXT", "Batch", "CKernels", "LogCallback", "log_to_python", "signature"]

_logger = logging.getLogger("embedded_engine.kernels")

LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)

_LOG_LEVELS = {3: logging.DEBUG, 4: logging.WARNING}
"""GGML_LOG_LEVEL_WARN and _ERROR of ggml.h, the same in both libraries."""

NOT_TEXT = 1 | 8
"""LLAMA_TOKEN_ATTR_UNKNOWN and _CONTROL of llama.h.

What `parse_special` makes of text, and what adds nothing to a text.
"""

_TOKEN_NONE = -1
_PIECE_BYTES = 256


def signature(library: ctypes.CDLL, name: str, result: object, *arguments: object) -> None:
    """Declare one C function; an undeclared one would cut pointers to 32 bits."""
    function = getattr(library, name)
    function.restype = result
    function.argtypes = list(arguments)


def log_to_python(level: int, text: bytes | None, _user_data: int | None) -> None:
    """What a `LogCallback` does: pass errors and warnings on to Python's logging, swallow the chatter.

    A library warns of what is none of our users' business, such as unused tokens in a vocabulary; hence one level
    lower.
    """
    if level in _LOG_LEVELS and text:
        _logger.log(_LOG_LEVELS[level], "%s", text.decode("utf-8", "replace").rstrip())


class Batch:
    """The arrays of a C batch, allocated once, filled for each call."""

    def __init__(self, rows: int) -> None:
        self.token = np.zeros(rows, np.int32)
        self.position = np.zeros(rows, np.int32)
        self.sequences_per_row = np.ones(rows, np.int32)
        self.sequence = np.zeros(rows, np.int32)
        self.wants_logits = np.zeros(rows, np.int8)
        self._sequence_pointers = (self.sequence.ctypes.data + 4 * np.arange(rows)).astype(np.uintp)

    def fill(self, rows: Sequence[Row]) -> None:
        """Write `rows` into the arrays."""
        n = len(rows)
        self.sequence[:n], self.token[:n], self.position[:n], self.wants_logits[:n] = np.array(rows, np.int32).T

    def struct(self, kind: type[ctypes.Structure], n_rows: int) -> ctypes.Structure:
        """The first `n_rows` rows as the library's own struct.

        Count, token, no embeddings, position, sequences, logits.
        """
        batch = kind(n_rows)
        arrays = (self.token, None, self.position, self.sequences_per_row, self._sequence_pointers, self.wants_logits)
        fields: Any = kind._fields_
        for array, (name, pointer) in zip(arrays, fields[1:], strict=False):  # ik_llama.cpp's batch has three more
            if array is not None:
                setattr(batch, name, array.ctypes.data_as(pointer))
        return batch


class CKernels(ABC):
    """A model and its context behind the C interface; a subclass says where the two libraries differ."""

    name: str
    batch_struct: type[ctypes.Structure]

    def __init__(self, library: ctypes.CDLL, model: int, vocabulary: int) -> None:
        self._library = library
        self._model: int | None = model
        self._vocabulary = vocabulary
        self._context: int | None = None
        self._batch = Batch(1)
        self.facts = self._read_facts()

    @abstractmethod
    def _new_context(self, shape: ContextShape) -> int | None:
        """The library's context, or None when it refuses."""

    @abstractmethod
    def _make_room(self) -> bool:
        """Move the used cells together after a batch found no place; False where the library cannot."""

    @abstractmethod
    def remove(self, sequence: int, start: int = 0) -> None:
        """See `Kernels.remove`."""

    @abstractmethod
    def share(self, source: int, target: int, tokens: int) -> None:
        """See `Kernels.share`."""

    @abstractmethod
    def is_end(self, token: int) -> bool:
        """See `Kernels.is_end`."""

    @abstractmethod
    def is_control(self, token: int) -> bool:
        """See `Kernels.is_control`."""

    def open_context(self, shape: ContextShape) -> None:
        """See `Kernels.open_context`."""
        self._close_context()
        context = self._new_context(shape)
        if not context:
            raise LoadFailed(
                f"{self.name} could not make a context of {shape.kv_tokens} tokens; is there enough memory?"
            )
        self._context = context
        self._library.llama_set_n_threads(context, shape.threads, shape.threads)
        self._batch = Batch(shape.batch_rows)

    def close(self) -> None:
        """See `Kernels.close`."""
        self._close_context()
        if self._model:
            self._free_model(self._model)
            self._model = None

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """See `Kernels.tokenize`."""
        raw = text.encode()
        room = len(raw) + 8
        for _ in range(2):  # the library answers with minus the length it needs
            tokens = np.empty(room, np.int32)
            count: int = self._library.llama_tokenize(
                *(self._vocabulary, raw, len(raw)),
                *(tokens.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)), room, add_special, parse_special),
            )
            if count >= 0:
                return [int(token) for token in tokens[:count]]
            room = -count
        raise ValueError(f"{self.name} cannot tokenize a text of {len(raw)} bytes")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """See `Kernels.piece`."""
        room = _PIECE_BYTES
        for _ in range(2):  # as in tokenize
            buffer = ctypes.create_string_buffer(room)
            count: int = self._library.llama_token_to_piece(self._vocabulary, token, buffer, room, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            room = -count
        raise ValueError(f"{self.name} has no text for token {token}")

    def decode(self, rows: Sequence[Row]) -> None:
        """See `Kernels.decode`."""
        self._batch.fill(rows)
        batch = self._batch.struct(self.batch_struct, len(rows))
        status: int = self._library.llama_decode(self._context, batch)
        if status == 1 and self._make_room():
            status = self._library.llama_decode(self._context, batch)
        if status != 0:
            reason = "no room in the context" if status == 1 else f"status {status}"
            raise DecodeError(f"{self.name} failed to decode {len(rows)} rows: {reason}")

    def logits(self, row: int) -> Logits:
        """See `Kernels.logits`."""
        pointer = self._library.llama_get_logits_ith(self._context, row)
        if not pointer:
            raise DecodeError(f"{self.name} has no logits for row {row}")
        return np.ctypeslib.as_array(pointer, (self.facts.vocabulary_tokens,))

    @abstractmethod
    def _free_model(self, model: int) -> None:
        """Free the model; the function has another name in each library."""

    def _close_context(self) -> None:
        if self._context:
            self._library.llama_free(self._context)
            self._context = None

    def _read_facts(self) -> ModelFacts:
        library, vocabulary = self._library, library_vocabulary(self._library, self._model)
        buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        library.llama_model_desc(self._model, buffer, _PIECE_BYTES)
        template: bytes | None = library.llama_model_chat_template(self._model, None)
        bos, eos = library.llama_vocab_bos(vocabulary), library.llama_vocab_eos(vocabulary)
        return ModelFacts(
            description=buffer.value.decode("utf-8", "replace"),
            quantisation=_quantisation(self._metadata("general.file_type")),
            context_tokens=library.llama_n_ctx_train(self._model),
            vocabulary_tokens=library.llama_vocab_n_tokens(vocabulary),
            chat_template=template.decode("utf-8", "replace") if template else None,
            bos_token=None if bos == _TOKEN_NONE else bos,
            eos_token=None if eos == _TOKEN_NONE else eos,
            adds_bos=bool(library.llama_vocab_get_add_bos(vocabulary)),
        )

    def _metadata(self, key: str) -> str | None:
        buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        length = self._library.llama_model_meta_val_str(self._model, key.encode(), buffer, _PIECE_BYTES)
        return buffer.value.decode("utf-8", "replace") if length >= 0 else None


def library_vocabulary(library: ctypes.CDLL, model: int | None) -> int:
    """The handle that functions named `llama_vocab_...` take in both libraries."""
    handle: int = library.llama_model_get_vocab(model)
    return handle


def declare(library: ctypes.CDLL) -> None:
    """Declare the functions that have one signature in both libraries."""
    pointer, i32, text, size, flag = ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool
    tokens, logits = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_float)
    signature(library, "llama_backend_init", None)
    signature(library, "llama_log_set", None, LogCallback, pointer)
    signature(library, "llama_free", None, pointer)
    signature(library, "llama_set_n_threads", None, pointer, i32, i32)
    signature(library, "llama_model_get_vocab", pointer, pointer)
    signature(library, "llama_model_desc", i32, pointer, text, size)
    signature(library, "llama_model_chat_template", text, pointer, text)
    signature(library, "llama_model_meta_val_str", i32, pointer, text, text, size)
    signature(library, "llama_n_ctx_train", i32, pointer)
    signature(library, "llama_vocab_n_tokens", i32, pointer)
    signature(library, "llama_vocab_bos", i32, pointer)
    signature(library, "llama_vocab_eos", i32, pointer)
    signature(library, "llama_vocab_get_add_bos", flag, pointer)
    signature(library, "llama_tokenize", i32, pointer, text, i32, tokens, i32, flag, flag)
    signature(library, "llama_token_to_piece", i32, pointer, i32, text, i32, i32, flag)
    signature(library, "llama_get_logits_ith", logits, pointer, i32)


_FILE_TYPES = {
    "0": "F32",
    "1": "F16",
    "2": "Q4_0",
    "3": "Q4_1",
    "7": "Q8_0",
    "8": "Q5_0",
    "9": "Q5_1",
    "10": "Q2_K",
    "11": "Q3_K_S",
    "12": "Q3_K_M",
    "13": "Q3_K_L",
    "14": "Q4_K_S",
    "15": "Q4_K_M",
    "16": "Q5_K_S",
    "17": "Q5_K_M",
    "18": "Q6_K",
    "32": "BF16",
}
"""`general.file_type` of a GGUF file, as numbered by `enum llama_ftype` of both libraries' llama.h."""


def _quantisation(file_type: str | None) -> str:
    return _FILE_TYPES.get(file_type or "", "unknown")
