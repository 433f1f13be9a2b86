"""What an engine is told when it starts."""

import os
from dataclasses import dataclass
from pathlib import Path

DEFAULT_CONTEXT_TOKENS = 4096
"""Every lane has a whole context set aside, at 10 to 200 kB a token: more must be asked for."""

DEFAULT_LANES = 4
"""Eight sequences of a few hundred tokens do best in two to four lanes; more help long ones only, and cost memory."""

_NOT_NEGATIVE = (
    *("context_tokens", "lanes", "kv_tokens", "threads", "queue_limit"),
    *("prefix_cache_bytes", "prefix_spill_bytes"),
)

_LEAST_CONTEXT_TOKENS = 8
"""In a shorter one there is nothing to measure, and no room for a prompt and an answer."""

_MAX_THREADS = 16
"""Decoding is bound by memory bandwidth; past so many cores more threads only wait for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """One model, and how much of the machine it may use.

    Attributes:
        model_path: The GGUF file.
        model_name: What the model is called in `Ready`; empty: the file's name.
        sha256: The file's digest where it is known.
        context_tokens: Prompt and answer of one choice share this many tokens; 0: what the model was trained for, at
            most 4096.
        slots: How many choices run at once.
        lanes: Memories that the choices are spread over; 0: 4, or `slots` where that is less. A row costs time for
            every cell of its lane, a lane a pass over the weights.
        kv_tokens: Cells of all lanes together; 0: for half the slots, each with a whole context. A lane has room for
            one whole context at least. A request is admitted when there are cells for its prompt and a little more;
            when a lane runs full the least urgent choice waits for others to end.
        threads: 0: the machine's physical cores but one, at most 16.
        step_tokens: Rows in one decode call. What running choices leave of it goes to prompts, so that a long prompt
            does not hold up a stream for longer than one such call.
        micro_batch_rows: Rows that the kernels compute at once. Up to 31 rows ik_llama.cpp computes each bit for bit as
            if it were alone; more are some 15 % faster on prompts, and no longer the same to the last bit.
        queue_limit: How many requests may wait for a slot.
        prefix_cache_bytes: Memory in which computed prefixes wait for prompts that begin like them; 0: none are kept.
        prefix_spill_bytes: The same in files, for what the memory has no room for.
        prefix_spill_directory: Where the files are, which nobody can see; empty: where temporary files are.
        kernels: "ik_llama", "llama_cpp", or empty for the first that is installed.
        speculation: Whether tokens are drafted and verified together, which changes how fast an answer comes and
            nothing in it. A request may say no for itself.
        draft_model_path: A second GGUF file of the same vocabulary, much smaller than the first, that drafts; empty:
            none, which is best for models of up to some 300 million weights.
        chat_template: A file with a Jinja template in place of the model file's own; empty: none.
    """

    model_path: str
    model_name: str = ""
    sha256: str | None = None
    context_tokens: int = 0
    slots: int = 8
    lanes: int = 0
    kv_tokens: int = 0
    threads: int = 0
    step_tokens: int = 62
    micro_batch_rows: int = 31
    queue_limit: int = 256
    prefix_cache_bytes: int = 256 * 1024 * 1024
    prefix_spill_bytes: int = 0
    prefix_spill_directory: str = ""
    kernels: str = ""
    speculation: bool = True
    draft_model_path: str = ""
    chat_template: str = ""

    def __post_init__(self) -> None:
        for name in ("slots", "step_tokens", "micro_batch_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}")
        if 0 < self.context_tokens < _LEAST_CONTEXT_TOKENS:
            raise ValueError(f"context_tokens must be 0 or at least {_LEAST_CONTEXT_TOKENS}, not {self.context_tokens}")
        if self.step_tokens < self.slots:
            raise ValueError(f"step_tokens ({self.step_tokens}) must cover one row for each of {self.slots} slots")


def default_threads() -> int:
    """The physical cores this process may run on less one, at least 1 and at most 16.

    Hyper-threads share the vector units that decoding is made of. And decoding waits at hundreds of barriers a token:
    with a thread on every core, whatever else runs (a gateway does) stops them all. On two busy cores two threads read
    prompts at a twentieth of one thread's speed.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text(encoding="ascii") if siblings.exists() else str(cpu))
    return max(1, min(_MAX_THREADS, len(cores) - 1))
