"""The two models of RouteLLM's tables as backends, and a judge of stated quality, for a policy file of a benchmark.

backends: {weak: {use: "mmlu_models:Answering", model: weak}}
routes: {mmlu: {cascade: [{targets: [weak], judge: [{use: "mmlu_models:Checking", right: 0.9}]}, ...]}}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2s

from mmlu import ANSWER_TOKENS, PRICES, STRONG, WEAK, Question, tokens_of

from gateway.facts import BackendFacts, ModelFacts
from gateway.judgement import Answer, Judgement, failed, passed
from gateway.ports import Sink, Surroundings
from gateway.price import Price, Usage
from gateway.types import Call, ChatRequest, Finish, Operation
from gateway.wire.openai_answer import Answered, whole_answer

MODELS: Mapping[str, str] = {"weak": WEAK, "strong": STRONG}
QUESTIONS: dict[str, Question] = {}
"""The questions that are asked, by their words."""

_LOTS = 2**64


def catches(prompt: str, right: float) -> bool:
    """Whether a judge that is right in this share of all cases is right in this one: the same lot for each quality."""
    return int.from_bytes(blake2s(prompt.encode(), digest_size=8).digest(), "big") < right * _LOTS


@dataclass(frozen=True)
class Answering:
    """Says ``right`` or ``wrong``, as the table has it, and counts tokens as the table's prices are reckoned."""

    model: str

    async def start(self, name: str, world: Surroundings) -> None:
        """Nothing to open."""

    async def send(self, call: Call, sink: Sink) -> Finish:
        """Answers at once."""
        prompt = call.request.messages[0].text()
        said = "right" if QUESTIONS[prompt].right[MODELS[self.model]] else "wrong"
        usage = Usage(prompt_tokens=tokens_of(prompt), output_tokens=ANSWER_TOKENS)
        sink.begin(streamed=False)
        await sink.push(whole_answer(Operation.CHAT, "a", call.model, 0, [Answered(said, "stop")], usage))
        return await sink.end()

    def facts(self) -> BackendFacts:
        """One model, at its price."""
        input_usd, output_usd = PRICES[MODELS[self.model]]
        price = Price(input_usd_per_mtok=Decimal(str(input_usd)), output_usd_per_mtok=Decimal(str(output_usd)))
        return BackendFacts(models={self.model: ModelFacts(price=price)}, operations=frozenset({Operation.CHAT}))

    async def close(self) -> None:
        """Nothing to give back."""


@dataclass(frozen=True)
class Checking:
    """Is right in a share ``right`` of all cases, about right answers and wrong ones alike."""

    right: float

    def judge(self, request: ChatRequest, answer: Answer) -> Judgement:
        """Passes what it takes for right."""
        good = answer.choices[0].text == "right"
        return passed() if good == catches(request.messages[0].text(), self.right) else failed("taken_for_wrong")
