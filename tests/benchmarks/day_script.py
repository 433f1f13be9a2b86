"""What happens on the scripted day: tasks, what their clients do, and what they say of them, and when."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

V_USD = 0.05
"""What a success is worth on the day's route."""

SECONDS = 86_400.0
EASY, HARD = "easy", "hard"
PROMPT_BYTES = MappingProxyType({EASY: 800, HARD: 6000})

QUALITY: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "cheap": {EASY: 0.92, HARD: 0.40},
        "middle": {EASY: 0.93, HARD: 0.50},
        "strong": {EASY: 0.95, HARD: 0.92},
        "fresh": {EASY: 0.25, HARD: 0.20},
    }
)
"""The chance that a task succeeds all of whose requests a backend answers. ``fresh`` is the canary."""

USD_PER_CALL = MappingProxyType(
    {
        "cheap": {EASY: (200 * 0.2 + 20 * 0.6) / 1e6, HARD: (1500 * 0.2 + 20 * 0.6) / 1e6},
        "middle": {EASY: (200 * 1 + 20 * 3) / 1e6, HARD: (1500 * 1 + 20 * 3) / 1e6},
        "strong": {EASY: (200 * 5 + 20 * 15) / 1e6, HARD: (1500 * 5 + 20 * 15) / 1e6},
    }
)

POLICY = """
backends:
  cheap:
    use: "day_provider:DayProvider"
    input_usd_per_mtok: 0.2
    output_usd_per_mtok: 0.6
    first_token_s: 0.005
    fails: 0.02
    cuts: 0.01
  middle: {use: "day_provider:DayProvider", input_usd_per_mtok: 1, output_usd_per_mtok: 3, first_token_s: 0.01}
  strong:
    use: "day_provider:DayProvider"
    input_usd_per_mtok: 5
    output_usd_per_mtok: 15
    first_token_s: 0.015
    fails: 0.005
    stalls: 0.01
  fresh: {use: "day_provider:DayProvider", input_usd_per_mtok: 1, output_usd_per_mtok: 3, first_token_s: 0.01}
routes:
  day:
    models: [assistant]
    targets: [cheap/m, middle/m, strong/m]
    classify: {use: by_length, message_tokens: 0}
    cost: [money, waiting, risk, success]
    worth: {usd_per_success: 0.05, usd_per_second: 0.0001}
    explore: {usd: 2, per: day, share: 0.5}
    hedge: {quantile: 0.98, most_requests: 0.02, most_spend: 0.02}
"""
CANARY = "    canary: {to: fresh/m, share: 0.1}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """What a client says of a task, after so many more tasks were begun; ``at_unix_s`` is what it gives as the time."""

    after: int
    wrong: bool
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTask:
    """A task: its calls, at which of them the client hangs up and asks again, and what is said of it in which order.

    ``luck`` is below the chance of success where the task succeeds.
    """

    number: int
    kind: str
    calls: int
    hangs_up_at: int | None
    luck: float
    sayings: tuple[Saying, ...]

    @property
    def id(self) -> str:
        """Its name."""
        return f"task-{self.number}"

    def oracle(self) -> float:
        """The value of the best choice, in US dollars, by who knows all chances and no call goes wrong."""
        return max(V_USD * QUALITY[name][self.kind] - self.calls * usd[self.kind] for name, usd in USD_PER_CALL.items())


def script(tasks: int, *, seed: int = 8) -> list[ScriptedTask]:
    """The day's tasks in their order.

    Half are easy. One in a hundred hangs up on a call. Of the verdicts a fifth are late, some of them by hours; one in
    twenty is said twice, one in twenty is wrong at first and put right later, one in fifty comes after one that was
    made later. One task in ten gets none.
    """
    dice = Random(seed)  # noqa: S311  # a script's dice
    made = []
    for number in range(tasks):
        calls = dice.choice((1, 2, 3, 4))
        made.append(
            ScriptedTask(
                number=number,
                kind=dice.choice((EASY, HARD)),
                calls=calls,
                hangs_up_at=dice.randrange(calls) if dice.random() < 0.01 else None,
                luck=dice.random(),
                sayings=_sayings(dice),
            )
        )
    return made


def _sayings(dice: Random) -> tuple[Saying, ...]:
    lot = dice.random()
    if lot < 0.1:
        return ()
    late = int(dice.expovariate(1 / 150)) if dice.random() < 0.2 else 0
    first = Saying(after=late, wrong=False, at_s=-20.0)
    if lot < 0.15:
        return (first, Saying(after=late + dice.randrange(1, 50), wrong=False, at_s=-20.0))
    if lot < 0.2:
        put_right = Saying(after=late + dice.randrange(1, 200), wrong=False, at_s=-10.0)
        return (Saying(after=late, wrong=True, at_s=-20.0), put_right)
    if lot < 0.22:
        overtaken = Saying(after=late + 5, wrong=True, at_s=-30.0)
        return (first, overtaken)
    return (first,)
