"""What a model file says of itself, read through the C interface that both libraries have."""

import ctypes

from embedded_engine.kernels.port import ModelFacts

__all__ = ["read_facts"]

_TOKEN_NONE = -1
_TEXT_BYTES = 256


def read_facts(library: ctypes.CDLL, model: int) -> ModelFacts:
    """The facts of a loaded model."""
    vocabulary: int = library.llama_model_get_vocab(model)
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    library.llama_model_desc(model, buffer, _TEXT_BYTES)
    template: bytes | None = library.llama_model_chat_template(model, None)
    bos, eos = library.llama_vocab_bos(vocabulary), library.llama_vocab_eos(vocabulary)
    return ModelFacts(
        description=buffer.value.decode("utf-8", "replace"),
        quantisation=_FILE_TYPES.get(_metadata(library, model, "general.file_type") or "", "unknown"),
        context_tokens=library.llama_n_ctx_train(model),
        vocabulary_tokens=library.llama_vocab_n_tokens(vocabulary),
        chat_template=template.decode("utf-8", "replace") if template else None,
        bos_token=None if bos == _TOKEN_NONE else bos,
        eos_token=None if eos == _TOKEN_NONE else eos,
        adds_bos=bool(library.llama_vocab_get_add_bos(vocabulary)),
        forgets_tails=not (library.llama_model_is_recurrent(model) or library.llama_model_is_hybrid(model)),
    )


def _metadata(library: ctypes.CDLL, model: int, key: str) -> str | None:
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    length = library.llama_model_meta_val_str(model, key.encode(), buffer, _TEXT_BYTES)
    return buffer.value.decode("utf-8", "replace") if length >= 0 else None


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
