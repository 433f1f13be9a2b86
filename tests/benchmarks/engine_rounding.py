"""How far is a row from exact arithmetic, alone and behind a neighbour in its lane?

    python tests/benchmarks/engine_rounding.py            a minute; the default model, Q8_0

A text is read alone, and behind neighbours of 1 to 40 tokens, and each row's logits are compared with those of the row
alone, and with those that the same weights give in double precision, computed here with numpy. Kernels round what they
multiply with weights to 8 bits: sums that were made in another order, and differ in the last bit, are now and then
rounded to another step, and the next layers make more of it. How much that is is told by the distance from exact
arithmetic, which a row has alone, too. A row that does not see its own cells alone would be further off.
"""

import argparse
import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from figures import table
from numpy.typing import NDArray
from speculation_prompts import PROMPTS

from embedded_engine.engine import Engine
from embedded_engine.kernels.choose import load_kernels
from embedded_engine.kernels.port import ContextShape, Kernels, Row
from embedded_engine.known_models import DEFAULT_MODEL
from embedded_engine.messages import ChatMessage, Generate, Text
from embedded_engine.models import default_model_dir
from embedded_engine.pull import pull_model
from embedded_engine.settings import EngineSettings

TEXT = (
    "The capital of France is Paris. A headrace is the channel that leads water from a river or a pond to the wheel of "
    "a mill. The miller opens a gate when there is corn to grind, and closes it when the pond runs low. In dry summers "
    "he waits for the night, lets the pond fill"
)
NEIGHBOUR = "river mill stone wheel water gate " * 20
MICRO_BATCH_ROWS = 31
ANSWERS, TOKENS, CALLERS = 16, 30, 8
OUT = Path(__file__).parent / "out" / "engine_rounding.json"

Matrix = NDArray[np.float64]

_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _LIST = 8, 9
"""Types of a GGUF file's metadata, as its specification numbers them."""

_F32, _Q8_0 = 0, 8
"""Types of tensors: a block of Q8_0 is a half-precision scale and 32 whole numbers of 8 bits."""


class Gguf:
    """A model file: its metadata, and its tensors in full."""

    def __init__(self, path: str) -> None:
        self._raw = Path(path).read_bytes()
        self._at = 8
        tensors, entries = self._take("<QQ")
        self.metadata = {self._text(): self._value(*self._take("<I")) for _ in range(entries)}
        found = [self._tensor() for _ in range(tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        start = -(-self._at // alignment) * alignment
        self.tensors = {name: self._read(shape, kind, start + at) for name, shape, kind, at in found}

    def _take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self._raw, self._at)
        self._at += struct.calcsize(form)
        return values

    def _text(self) -> str:
        (length,) = self._take("<Q")
        self._at += length
        return self._raw[self._at - length : self._at].decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind == _LIST:
            inner, count = self._take("<IQ")
            return [self._value(inner) for _ in range(count)]
        return self._take(f"<{_SCALARS[kind]}")[0]

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._text()
        shape = self._take(f"<{self._take('<I')[0]}Q")
        kind, at = self._take("<IQ")
        return name, shape[::-1], kind, at

    def _read(self, shape: tuple[int, ...], kind: int, at: int) -> Matrix:
        count = int(np.prod(shape))
        if kind == _F32:
            return np.frombuffer(self._raw, np.float32, count, at).astype(np.float64).reshape(shape)
        assert kind == _Q8_0, f"tensors of type {kind} are not read here"
        blocks = np.frombuffer(self._raw, np.uint8, count // 32 * 34, at).reshape(-1, 34)
        scales = blocks[:, :2].copy().view(np.float16).astype(np.float64)
        return (scales * blocks[:, 2:].view(np.int8)).reshape(shape)


class Exact:
    """A model of the Llama family in double precision."""

    def __init__(self, path: str) -> None:
        file = Gguf(path)
        self._tensors = file.tensors
        of = {name.removeprefix("llama."): value for name, value in file.metadata.items()}
        self._layers, self._heads = of["block_count"], of["attention.head_count"]
        self._kv_heads, self._width = of["attention.head_count_kv"], of["embedding_length"]
        self._epsilon, self._base = of["attention.layer_norm_rms_epsilon"], of["rope.freq_base"]

    def logits(self, tokens: list[int]) -> Matrix:
        """Of each row, shape (len(tokens), vocabulary)."""
        x = self._tensors["token_embd.weight"][tokens]
        for layer in range(self._layers):
            x = x + self._attention(layer, self._norm(x, f"blk.{layer}.attn_norm"))
            x = x + self._feed_forward(layer, self._norm(x, f"blk.{layer}.ffn_norm"))
        last = self._tensors.get("output.weight", self._tensors["token_embd.weight"])
        logits: Matrix = self._norm(x, "output_norm") @ last.T
        return logits

    def _norm(self, x: Matrix, name: str) -> Matrix:
        scale = np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + self._epsilon)
        return np.asarray(x / scale * self._tensors[f"{name}.weight"])

    def _linear(self, x: Matrix, name: str) -> Matrix:
        return x @ self._tensors[f"{name}.weight"].T

    def _attention(self, layer: int, x: Matrix) -> Matrix:
        n, size = len(x), self._width // self._heads
        query, key, value = (
            self._linear(x, f"blk.{layer}.attn_{name}").reshape(n, heads, size)
            for name, heads in (("q", self._heads), ("k", self._kv_heads), ("v", self._kv_heads))
        )
        query, key = self._turned(query), np.repeat(self._turned(key), self._heads // self._kv_heads, axis=1)
        scores = np.einsum("ihd,jhd->hij", query, key) / np.sqrt(size) + np.triu(np.full((n, n), -np.inf), 1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        seen = np.einsum("hij,jhd->ihd", weights, np.repeat(value, self._heads // self._kv_heads, axis=1))
        return self._linear(seen.reshape(n, self._width), f"blk.{layer}.attn_output")

    def _turned(self, x: Matrix) -> Matrix:
        size = x.shape[-1]
        angles = (np.arange(len(x))[:, None] * self._base ** (-np.arange(0, size, 2) / size))[:, None, :]
        even, odd, turned = x[..., 0::2], x[..., 1::2], np.empty_like(x)
        turned[..., 0::2] = even * np.cos(angles) - odd * np.sin(angles)
        turned[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
        return np.asarray(turned)

    def _feed_forward(self, layer: int, x: Matrix) -> Matrix:
        gate = self._linear(x, f"blk.{layer}.ffn_gate")
        up = self._linear(x, f"blk.{layer}.ffn_up")
        return self._linear(gate / (1 + np.exp(-gate)) * up, f"blk.{layer}.ffn_down")


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most-cells", type=int, default=40, help="of a neighbour (40)")
    most = parser.parse_args().most_cells
    path = pull_model(DEFAULT_MODEL, default_model_dir(), say=print, progress=lambda _done, _total: None).path
    measured: dict[str, dict[str, float]] = {}
    exact = None
    for name in ("ik_llama", "llama_cpp"):
        kernels = load_kernels(path, name)
        kernels.open_context(
            ContextShape(kv_tokens=256, sequences=2, threads=1, batch_rows=64, micro_batch_rows=MICRO_BATCH_ROWS)
        )
        tokens = kernels.tokenize(TEXT, add_special=True, parse_special=False)
        exact = Exact(path).logits(tokens) if exact is None else exact
        alone = _rows(kernels, tokens)
        beside = {cells: _behind(kernels, tokens, cells) for cells in range(1, most + 1)}
        measured[f"{name}: alone, from exact"] = _distance([alone], exact)
        measured[f"{name}: behind neighbours, from exact"] = _distance(list(beside.values()), exact)
        eighths = [rows for cells, rows in beside.items() if cells % 8 == 0]
        others = [rows for cells, rows in beside.items() if cells % 8]
        measured[f"{name}: behind 8, 16 ... cells, from alone"] = _distance(eighths, alone)
        measured[f"{name}: behind other numbers of cells, from alone"] = _distance(others, alone)
        kernels.close()
    same = {name: _same_in_company(path, temperature) for name, temperature in (("greedy", 0.0), ("sampled", 1.0))}
    columns = ("largest", "largest_of_a_median_row", "root_mean_square", "likeliest_differs")
    print(table(("logits", *columns), [(name, *(f"{row[c]:.3f}" for c in columns)) for name, row in measured.items()]))
    for name, count in same.items():
        print(f"{count} of {ANSWERS} {name} answers of {TOKENS} tokens are the same with {CALLERS} callers at once")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"logits": measured, "same": same}, indent=1) + "\n", encoding="utf-8")
    return 0


def _same_in_company(path: str, temperature: float) -> int:
    """How many answers are those of one caller alone."""
    engine = Engine(EngineSettings(model_path=path, context_tokens=512, slots=CALLERS, threads=1))
    asked = [prompt for prompts in PROMPTS.values() for prompt in prompts][::2][:ANSWERS]
    told: dict[str, Any] = {"max_tokens": TOKENS, "temperature": temperature}
    requests = [
        Generate(id=number, messages=(ChatMessage(role="user", content=prompt),), seed=number, **told)
        for number, prompt in enumerate(asked)
    ]
    alone = {request.id: _said(engine, [request])[request.id] for request in requests}
    together = _said(engine, requests)
    engine.close()
    return sum(alone[number] == text for number, text in together.items())


def _said(engine: Engine, requests: list[Generate]) -> dict[int, str]:
    texts = {request.id: "" for request in requests}
    for request in requests:
        engine.submit(engine.prepare(request))
    while engine.busy:
        for event in engine.step():
            if isinstance(event, Text):
                texts[event.id] += event.text
    return texts


def _rows(kernels: Kernels, tokens: list[int]) -> Matrix:
    logits = []
    for start in range(0, len(tokens), MICRO_BATCH_ROWS):
        part = tokens[start : start + MICRO_BATCH_ROWS]
        kernels.decode([Row(0, token, start + at, wants_logits=True) for at, token in enumerate(part)])
        logits += [kernels.logits(row).astype(np.float64) for row in range(len(part))]
    kernels.remove(0)
    return np.stack(logits)


def _behind(kernels: Kernels, tokens: list[int], cells: int) -> Matrix:
    neighbour = kernels.tokenize(NEIGHBOUR, add_special=False, parse_special=False)[:cells]
    kernels.decode([Row(1, token, at, wants_logits=False) for at, token in enumerate(neighbour)])
    rows = _rows(kernels, tokens)
    kernels.remove(1)
    return rows


def _distance(measured: list[Matrix], reference: Matrix) -> dict[str, float]:
    differences = np.abs(np.stack(measured) - reference)
    return {
        "largest": float(differences.max()),
        "largest_of_a_median_row": float(np.median(differences.max(axis=-1))),
        "root_mean_square": float(np.sqrt(np.mean(np.square(differences)))),
        "likeliest_differs": float(np.mean(np.stack(measured).argmax(axis=-1) != reference.argmax(axis=-1))),
    }


if __name__ == "__main__":
    sys.exit(main())
