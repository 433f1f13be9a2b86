"""Ollama's ``options``: how tokens are drawn, and how a model is loaded. Their types, and what they are in a chat."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.conversation import Sampling

_MOST = 2**53
_Whole = Annotated[int, Meta(ge=-_MOST, le=_MOST)] | Annotated[float, Meta(ge=-_MOST, le=_MOST)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]
_Share = Annotated[float, Meta(ge=0, le=1)]

CARRIED: Mapping[str, str] = MappingProxyType(
    {
        "frequency_penalty": "frequency_penalty",
        "min_p": "min_p",
        "num_predict": "max_tokens",
        "presence_penalty": "presence_penalty",
        "repeat_penalty": "repetition_penalty",
        "seed": "seed",
        "stop": "stop",
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
    }
)
"""Options that a chat has a field for, by that field's name."""

OF_THE_MACHINE = frozenset(
    {
        "draft_num_predict",
        "embedding_only",
        "f16_kv",
        "logits_all",
        "low_vram",
        "main_gpu",
        "num_batch",
        "num_ctx",
        "num_gpu",
        "num_keep",
        "num_thread",
        "numa",
        "use_mlock",
        "use_mmap",
        "vocab_only",
    }
)
"""How Ollama loads a model into its machine: other providers have loaded theirs. No answer depends on it, but where a
prompt is longer than the window that this makes (``WINDOW``): Ollama cuts it then, others serve it whole or refuse."""

WINDOW = "num_ctx"

NEUTRAL: Mapping[str, Any] = MappingProxyType(
    {"mirostat": 0, "penalize_newline": False, "repeat_last_n": 64, "tfs_z": 1, "typical_p": 1}
)
"""Values by which an option asks for nothing: Ollama's own defaults."""


class Options(msgspec.Struct, kw_only=True):
    """Those that mean something to us; whole numbers may come with a point, and are cut there."""

    num_predict: _Whole | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_k: _Whole | None = None
    top_p: _Share | None = None
    min_p: _Share | None = None
    seed: _Whole | None = None
    stop: tuple[str, ...] | None = None
    repeat_penalty: Annotated[float, Meta(gt=0)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None

    @property
    def max_tokens(self) -> int | None:
        """The limit of the answer; zero and less mean that there is none."""
        return int(self.num_predict) if self.num_predict is not None and self.num_predict >= 1 else None

    @property
    def drawn_seed(self) -> int | None:
        """The seed; less than zero is how Ollama says that there is none."""
        return int(self.seed) if self.seed is not None and self.seed >= 0 else None

    @property
    def drawn_from(self) -> int | None:
        """How many tokens are drawn from at most."""
        return None if self.top_k is None else int(self.top_k)

    def sampling(self) -> Sampling:
        """How tokens are drawn."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.drawn_from,
            min_p=self.min_p,
            seed=self.drawn_seed,
            stop=self.stop or (),
        )

    def penalises(self) -> bool:
        """Whether any penalty is asked for."""
        return bool(self.presence_penalty or self.frequency_penalty or self.repeat_penalty not in {None, 1.0})

    def chat_fields(self) -> dict[str, Any]:
        """The fields of a chat that say the same."""
        told = {name: getattr(self, name) for name in CARRIED}
        told |= {"num_predict": self.max_tokens, "seed": self.drawn_seed, "top_k": self.drawn_from}
        told["stop"] = list(self.stop or ()) or None
        if self.repeat_penalty == 1:
            told["repeat_penalty"] = None
        return {CARRIED[name]: value for name, value in told.items() if value is not None}


def lost_options(given: Mapping[str, Any]) -> list[str]:
    """Options by which an answer would be another one, and that have no place in a chat; by their paths."""
    known = CARRIED.keys() | OF_THE_MACHINE
    asked = {name: value for name, value in given.items() if name not in known and value is not None}
    return [f"options.{name}" for name, value in asked.items() if name not in NEUTRAL or value != NEUTRAL[name]]
