"""What an engine is told when it starts."""

import os
from dataclasses import dataclass
from pathlib import Path

_MAX_THREADS = 16
"""Decoding is bound by memory bandwidth; past so many cores more threads only wait for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """One model, and how much of the machine it may use.

    Attributes:
        model_path: The GGUF file.
        model_name: What the model is called in `Ready`; empty: the file's name.
        sha256: The file's digest where it is known.
        context_tokens: Prompt and answer of one choice share this many tokens; 0: what the model was trained for.
        slots: How many choices run at once.
        kv_tokens: Cells of context memory for all of them together; 0: `slots` x `context_tokens`.
        threads: 0: the machine's physical cores, at most 16.
        step_tokens: Rows in one decode call; what running choices leave of it goes to prompts, so that a long prompt
            does not hold up a stream for longer than one such call.
        queue_limit: How many requests may wait for a slot.
        kernels: "ik_llama", "llama_cpp", or empty for the first that is installed.
    """

    model_path: str
    model_name: str = ""
    sha256: str | None = None
    context_tokens: int = 0
    slots: int = 8
    kv_tokens: int = 0
    threads: int = 0
    step_tokens: int = 128
    queue_limit: int = 64
    kernels: str = ""

    def __post_init__(self) -> None:
        for name in ("slots", "step_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("context_tokens", "kv_tokens", "threads", "queue_limit"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}")
        if self.step_tokens < self.slots:
            raise ValueError(f"step_tokens ({self.step_tokens}) must cover one row for each of {self.slots} slots")


def default_threads() -> int:
    """The physical cores this process may run on, at most 16.

    Hyper-threads share the vector units that decoding is made of.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text(encoding="ascii") if siblings.exists() else str(cpu))
    return max(1, min(_MAX_THREADS, len(cores)))
