"""What ik_llama.cpp and llama.cpp have in common in their C interface, over ctypes.

The two share an ancestor: the names of most functions and the first fields of a batch are the same. What differs
(parameter structs, log levels, sequence memory, whether the vocabulary's functions take the model or the vocabulary) is
in the two files beside this.
"""

import ctypes
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedded_engine.errors import LoadFailed
from embedded_engine.kernels.batch import Batch
from embedded_engine.kernels.model_facts import read_facts
from embedded_engine.kernels.port import ContextShape, DecodeError, Logits, Row, SavedCells

__all__ = ["NOT_TEXT", "POOLING_NONE", "CKernels", "LogCallback", "log_to_python", "signature"]

_logger = logging.getLogger("embedded_engine.kernels")

LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)

_LOG_LEVELS = {3: logging.DEBUG, 4: logging.WARNING}
"""GGML_LOG_LEVEL_WARN and _ERROR of ggml.h, the same in both libraries."""

NOT_TEXT = 1 | 8
"""LLAMA_TOKEN_ATTR_UNKNOWN and _CONTROL of llama.h.

What `parse_special` makes of text, and what adds nothing to a text.
"""

POOLING_NONE = 0
"""LLAMA_POOLING_TYPE_NONE of llama.h."""

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


class _Lane(NamedTuple):
    """A context of the library, and the batch that it is given."""

    context: int
    batch: Batch


class CKernels(ABC):
    """A model and its lanes behind the C interface; a subclass says where the two libraries differ."""

    name: str
    batch_struct: type[ctypes.Structure]
    state_flags: tuple[int, ...] = ()
    """What the functions that save and restore a sequence want last."""

    def __init__(self, library: ctypes.CDLL, model: int, vocabulary: int) -> None:
        self._library = library
        self._model: int | None = model
        self._vocabulary = vocabulary
        self._shape: ContextShape
        self._lanes: list[_Lane] = []
        self._reader: _Lane | None = None
        self._logits_at: list[tuple[int, int]] = []
        self.facts = read_facts(library, model)

    @abstractmethod
    def _new_context(self, shape: ContextShape, *, embeds: bool) -> int | None:
        """The library's context, or None when it refuses; for hidden states or for logits."""

    @abstractmethod
    def _close_holes(self, context: int) -> None:
        """See `Kernels.compact`, within a context."""

    @abstractmethod
    def _remove(self, context: int, sequence: int, start: int) -> None:
        """See `Kernels.remove`, within a context."""

    @abstractmethod
    def _share(self, context: int, source: int, target: int, tokens: int) -> None:
        """See `Kernels.share`, within a context."""

    @abstractmethod
    def is_end(self, token: int) -> bool:
        """See `Kernels.is_end`."""

    @abstractmethod
    def is_control(self, token: int) -> bool:
        """See `Kernels.is_control`."""

    def open_context(self, shape: ContextShape) -> None:
        """See `Kernels.open_context`."""
        self._close_contexts()
        self._shape = shape
        self._lanes = [self._open_lane(shape) for _ in range(shape.lanes)]

    def close(self) -> None:
        """See `Kernels.close`."""
        self._close_contexts()
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
        sequences = self._shape.sequences
        by_lane: dict[int, list[Row]] = {}
        self._logits_at = []
        for row in rows:
            lane, sequence = divmod(row.sequence, sequences)
            mine = by_lane.setdefault(lane, [])
            self._logits_at.append((lane, len(mine)))
            mine.append(row if lane == 0 else row._replace(sequence=sequence))
        for lane, mine in by_lane.items():
            self._decode(self._lanes[lane], mine)

    def logits(self, row: int) -> Logits:
        """See `Kernels.logits`."""
        lane, index = self._logits_at[row]
        pointer = self._library.llama_get_logits_ith(self._lanes[lane].context, index)
        if not pointer:
            raise DecodeError(f"{self.name} has no logits for row {row}")
        return np.ctypeslib.as_array(pointer, (self.facts.vocabulary_tokens,))

    def remove(self, sequence: int, start: int = 0) -> None:
        """See `Kernels.remove`."""
        lane, local = divmod(sequence, self._shape.sequences)
        self._remove(self._lanes[lane].context, local, start)

    def share(self, source: int, target: int, tokens: int) -> None:
        """See `Kernels.share`."""
        lane, local = divmod(source, self._shape.sequences)
        self._share(self._lanes[lane].context, local, target % self._shape.sequences, tokens)

    def save(self, sequence: int) -> SavedCells:
        """See `Kernels.save`."""
        lane, local = divmod(sequence, self._shape.sequences)
        context, flags = self._lanes[lane].context, self.state_flags
        saved = np.empty(self._library.llama_state_seq_get_size(context, local, *flags), np.uint8)
        written: int = self._library.llama_state_seq_get_data(context, saved.ctypes.data, saved.size, local, *flags)
        return saved[:written]

    def restore(self, sequence: int, saved: SavedCells) -> bool:
        """See `Kernels.restore`."""
        lane, local = divmod(sequence, self._shape.sequences)
        context = self._lanes[lane].context
        set_data, arguments = self._library.llama_state_seq_set_data, (saved.ctypes.data, saved.size, local)
        self._close_holes(context)
        if set_data(context, *arguments, *self.state_flags):
            return True
        self._remove(context, local, 0)
        return False

    def compact(self, lane: int) -> None:
        """See `Kernels.compact`."""
        self._close_holes(self._lanes[lane].context)

    def hidden_states(self, tokens: Sequence[int], start: int) -> NDArray[np.float32]:
        """See `Kernels.hidden_states`."""
        if self._reader is None:
            shape = replace(self._shape, sequences=1)
            self._reader = self._open_lane(shape, embeds=True)
        context = self._reader.context
        if start == 0:
            self._remove(context, 0, 0)
        self._decode(self._reader, [Row(0, token, start + at, wants_logits=True) for at, token in enumerate(tokens)])
        width: int = self._library.llama_model_n_embd(self._model)
        states = np.empty((len(tokens), width), np.float32)
        for index in range(len(tokens)):
            pointer = self._library.llama_get_embeddings_ith(context, index)
            if not pointer:
                raise DecodeError(f"{self.name} has no hidden state for row {index}")
            states[index] = np.ctypeslib.as_array(pointer, (width,))
        return states

    @abstractmethod
    def _free_model(self, model: int) -> None:
        """Free the model; the function has another name in each library."""

    def _open_lane(self, shape: ContextShape, *, embeds: bool = False) -> _Lane:
        context = self._new_context(shape, embeds=embeds)
        if not context:
            raise LoadFailed(
                f"{self.name} could not make a context of {shape.kv_tokens} tokens; is there enough memory?"
            )
        self._library.llama_set_n_threads(context, shape.threads, shape.threads)
        return _Lane(context, Batch(shape.batch_rows))

    def _decode(self, lane: _Lane, rows: Sequence[Row]) -> None:
        self._close_holes(lane.context)
        lane.batch.fill(rows)
        batch = lane.batch.struct(self.batch_struct, len(rows))
        status: int = self._library.llama_decode(lane.context, batch)
        if status != 0:
            reason = "no room in the context" if status == 1 else f"status {status}"
            raise DecodeError(f"{self.name} failed to decode {len(rows)} rows: {reason}")

    def _close_contexts(self) -> None:
        for lane in (*self._lanes, *([self._reader] if self._reader else [])):
            self._library.llama_free(lane.context)
        self._lanes, self._reader = [], None


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
    signature(library, "llama_model_is_recurrent", flag, pointer)
    signature(library, "llama_model_is_hybrid", flag, pointer)
    signature(library, "llama_tokenize", i32, pointer, text, i32, tokens, i32, flag, flag)
    signature(library, "llama_token_to_piece", i32, pointer, i32, text, i32, i32, flag)
    signature(library, "llama_get_logits_ith", logits, pointer, i32)
    signature(library, "llama_get_embeddings_ith", logits, pointer, i32)
    signature(library, "llama_model_n_embd", i32, pointer)
