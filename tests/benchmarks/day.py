"""A scripted day: three backends of different price, speed and quality, thousands of tasks of several calls.

    python tests/benchmarks/day.py [--tasks 5000]

Runs a whole gateway in this process, with its ledger in a file, its route steering by success, exploring within a
budget, and from two fifths of the day on a canary that is bad. What is true is known: each backend's chance to succeed
by kind of task, and what it has charged, to the last digit. Some calls fail, are cut short, stall until a hedge wins,
or are hung up on; some verdicts are late, repeated, wrong at first, or overtaken by later ones.

Prints what the ledger's report says beside the truth, how much of the oracle's value steering reaches, and after how
many tasks the canary is rolled back. Writes ``out/day.json``. 5,000 tasks take about a minute of CPU.
"""

import argparse
import asyncio
import heapq
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import msgspec
from day_clients import DAY_UNIX_S, Call, ScriptedClock
from day_provider import ACCOUNTS
from day_script import CANARY, EASY, HARD, POLICY, PROMPT_BYTES, QUALITY, SECONDS, V_USD, ScriptedTask, script

from gateway.app import Gateway
from gateway.settings import Settings

OUT = Path(__file__).with_name("out")
_DECODER = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)

WORKERS = 16
CANARY_FROM = 0.4


@dataclass(eq=False)
class Played:
    """A task as it went: who answered its calls, and whether it succeeded."""

    task: ScriptedTask
    answered: list[str]
    unanswered: int

    @property
    def chance(self) -> float:
        """That of success: the mean over its calls; a call that nobody answered after three tries makes it none."""
        if self.unanswered:
            return 0.0
        return sum(QUALITY[name][self.task.kind] for name in self.answered) / len(self.answered)

    @property
    def success(self) -> bool:
        """Whether it did."""
        return self.task.luck < self.chance


class Day:
    """Plays the script on a gateway."""

    def __init__(self, gateway: Gateway, policy: Path, client: httpx.AsyncClient, clock: ScriptedClock) -> None:
        self.played: dict[int, Played] = {}
        self.rolled_back_after: int | None = None
        self.canary_from = 0
        self._gateway = gateway
        self._policy = policy
        self._client = client
        self._clock = clock
        self._due: list[tuple[int, int, int, ScriptedTask]] = []
        self._begun = 0
        self._length = 1

    async def play(self, tasks: Sequence[ScriptedTask]) -> None:
        """All of it: several workers take the tasks in their order."""
        self._length = len(tasks)
        self.canary_from = int(len(tasks) * CANARY_FROM)
        waiting = iter(tasks)

        async def work() -> None:
            for task in waiting:
                self._begun = task.number
                self._clock.unix = max(self._clock.unix, self._begins(task.number))
                if task.number == self.canary_from:
                    self._policy.write_text(POLICY + CANARY)
                    await self._gateway.reload()
                self.played[task.number] = await self._play(task)
                for order, saying in enumerate(task.sayings):
                    heapq.heappush(self._due, (task.number + saying.after, task.number, order, task))
                await self._say(self._begun)

        await asyncio.gather(*(work() for _ in range(WORKERS)))
        await self._say(None)

    def _begins(self, number: int) -> float:
        return DAY_UNIX_S + SECONDS * 0.99 * number / self._length

    async def _play(self, task: ScriptedTask) -> Played:
        played = Played(task, [], 0)
        for number in range(task.calls):
            if number == task.hangs_up_at:
                await self._call(task, patience=5)
            for _ in range(3):
                call = await self._call(task)
                if call.whole:
                    played.answered.append(call.backend)
                    break
            else:
                played.unanswered += 1
        return played

    async def _call(self, task: ScriptedTask, *, patience: int | None = None) -> Call:
        call = Call(task.id, PROMPT_BYTES[task.kind], patience)
        await asyncio.create_task(self._gateway.pipeline.handle(call))
        return call

    async def _say(self, until: int | None) -> None:
        """All verdicts that are due when task ``until`` is begun."""
        while self._due and (until is None or self._due[0][0] <= until):
            _, number, order, task = heapq.heappop(self._due)
            saying, played = task.sayings[order], self.played[number]
            success = played.success is not saying.wrong
            at = datetime.fromtimestamp(self._begins(number) + saying.at_s, UTC)
            body = {"success": success, "at": at.isoformat()}
            answer = await self._client.post(f"/v1/tasks/{task.id}/outcome", json=body)
            while answer.status_code == 429:  # a day in a minute: it comes back when it is told to
                await asyncio.sleep(float(answer.headers["retry-after"]))
                answer = await self._client.post(f"/v1/tasks/{task.id}/outcome", json=body)
            if answer.status_code != 200:
                raise RuntimeError(f"an outcome was refused: {answer.text}")
            await self._look_at_canary()

    async def _look_at_canary(self) -> None:
        if self._begun <= self.canary_from or self.rolled_back_after is not None:
            return
        told = (await self._client.get("/v1/success")).json()["routes"]["day"].get("canary", {})
        if told.get("state") == "rolled_back":
            self.rolled_back_after = self._begun - self.canary_from


async def run(tasks: int, *, seed: int = 8) -> dict[str, Any]:
    """Plays a day of so many tasks, and answers what came of it."""
    ACCOUNTS.clear()
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy.yaml"
        policy.write_text(POLICY)
        clock = ScriptedClock()
        settings = Settings(policy=policy, state_dir=Path(folder), model_dir=Path(folder), ledger_decisions=False)
        gateway = Gateway(settings, clock=clock)
        await gateway.start()
        try:
            transport = httpx.ASGITransport(app=gateway.asgi)
            async with httpx.AsyncClient(transport=transport, base_url="http://gate", timeout=60) as client:
                day = Day(gateway, policy, client, clock)
                await day.play(script(tasks, seed=seed))
                report = await _json(client, "/v1/report?by=backend")
                learned = (await _json(client, "/v1/success"))["routes"]["day"]
        finally:
            await gateway.close()
    return _figures(day, report, learned)


async def _json(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    answer = await client.get(path)
    answer.raise_for_status()
    return dict(_DECODER.decode(answer.content))


def _figures(day: Day, report: dict[str, Any], learned: dict[str, Any]) -> dict[str, Any]:
    played = [day.played[number] for number in sorted(day.played)]
    charged = sum((account.usd for account in ACCOUNTS.values()), Decimal(0))
    total = report["total"]
    judged = [one for one in played if one.task.sayings]
    judged_usd = sum(_charged(one) for one in judged)
    told = total["tasks"]
    return {
        "tasks": len(played),
        "ends": {name: dict(account.ends) for name, account in ACCOUNTS.items()},
        "charged_usd": str(charged),
        "ledger_usd": str(total["priced_cost_usd"]),
        "off_usd": str(abs(charged - Decimal(total["priced_cost_usd"]))),
        "success": {
            "truth": sum(one.chance for one in judged) / len(judged),
            "happened": sum(one.success for one in judged) / len(judged),
            "told": float(told["success_rate"]),
            "interval": _interval(told["success_rate_interval"]),
        },
        "usd_per_success": {
            "truth": judged_usd / sum(one.chance for one in judged),
            "happened": judged_usd / sum(one.success for one in judged),
            "told": float(told["cost_per_success_usd"]),
            "interval": _interval(told["cost_per_success_interval"]),
        },
        "chances": [_chance(one) for one in learned["chances"]],
        "explored": {"requests": learned["explored"]["requests"], "usd": float(learned["explored"]["usd"])},
        "of_oracle": {
            f"{first}-{last}": round(_of_oracle(played[first:last]), 4)
            for first, last in ((0, 250), (250, 500), (500, 1000), (0, 1000), (1000, len(played)), (0, len(played)))
            if played[first:last]
        },
        "canary": {"rolled_back_after_tasks": day.rolled_back_after, "why": learned["canary"]["why"]},
    }


def _charged(one: Played) -> float:
    return float(sum((account.by_task.get(one.task.id, Decimal(0)) for account in ACCOUNTS.values()), Decimal(0)))


def _of_oracle(played: Sequence[Played]) -> float:
    """The expected value of what was done, over that of the best that could have been done."""
    value = sum(V_USD * one.chance - _charged(one) for one in played)
    return value / sum(one.task.oracle() for one in played)


def _interval(told: Any) -> list[float]:
    low, high = (told["low"], told["high"]) if isinstance(told, dict) else told
    return [float(low), float(high)]


def _chance(one: dict[str, Any]) -> dict[str, Any]:
    kind = HARD if one["kind"].startswith("long_in") else EASY
    truth = QUALITY[one["backend"]][kind]
    low, high = float(one["low"]), float(one["high"])
    return {
        "backend": one["backend"], "kind": kind, "truth": truth, "told": float(one["success"]), "low": low,
        "high": high, "tasks": float(one["tasks"]), "inside": low <= truth <= high,
    }  # fmt: skip


def main() -> int:
    """Plays, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=8)
    arguments = parser.parse_args()
    begun_s = time.process_time()
    figures = asyncio.run(run(arguments.tasks, seed=arguments.seed))
    figures["cpu_s"] = round(time.process_time() - begun_s, 1)
    OUT.mkdir(exist_ok=True)
    (OUT / "day.json").write_text(json.dumps(figures, indent=2))
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
