"""The guards of one stream that look while it passes, one after the other."""

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

from gateway.errors import HeadraceError
from gateway.guard import WindowGuard
from gateway.guard_mark import Action, GuardMark
from gateway.guarding.hearing import Hearing, refusal
from gateway.guarding.window import Window
from gateway.rules.guards import GuardRule
from gateway.wire.stream_texts import Passing


class _Watch:
    """One of them. ``window`` is ``None`` once it has failed, and lets pass what comes."""

    __slots__ = ("found", "rule", "took_s", "window")

    def __init__(self, rule: GuardRule, guard: WindowGuard, hit: Callable[["_Watch"], None]) -> None:
        self.rule = rule
        self.found = False
        self.took_s = 0.0
        self.window: Window | None = Window(
            guard,
            hit=partial(hit, self),
            replaces=rule.guard.actions == (Action.REDACT,),
            most_bytes=rule.most_bytes,
        )


class StreamWindows:
    """Those of ``rules``; what they did is noted with ``hearing`` when the stream is over, or ends here."""

    __slots__ = ("_hearing", "_watches")

    def __init__(self, rules: Sequence[GuardRule], hearing: Hearing) -> None:
        self._hearing = hearing
        self._watches = [_Watch(one, one.guard, self._hit) for one in rules if isinstance(one.guard, WindowGuard)]

    def feed(self, passing: Passing) -> list[Passing]:
        """The events that go out now.

        Raises:
            GuardBlocked: the rest of the stream must not pass.
            GuardSilent: a guard that has to look cannot hold as much as it would have to.
        """
        return self._through([passing], self._watches)

    def end(self) -> list[Passing]:
        """There is nothing more; the rest goes out. Raises as ``feed`` does."""
        out: list[Passing] = []
        for at, watch in enumerate(self._watches):
            rest = self._look(watch, Window.end)
            out += self._through(rest, self._watches[at + 1 :])
        for watch in self._watches:
            self._note(watch, self._action(watch))
        self._watches = []
        return out

    def _through(self, passings: list[Passing], watches: Sequence[_Watch]) -> list[Passing]:
        for watch in watches:
            passings = [out for one in passings for out in self._look(watch, partial(_feed, one), one)]
        return passings

    def _look(
        self, watch: _Watch, step: Callable[[Window], list[Passing]], unseen: Passing | None = None
    ) -> list[Passing]:
        window = watch.window
        if window is None:
            return [] if unseen is None else [unseen]
        began_s = perf_counter()
        try:
            return step(window)
        except HeadraceError:
            raise
        except Exception as error:  # noqa: BLE001  # somebody's own guard may raise anything
            watch.window = None
            self._hearing.unheard(watch.rule, error)
            return window.let_through()
        finally:
            watch.took_s += perf_counter() - began_s

    def _hit(self, watch: _Watch) -> None:
        watch.found = True
        if watch.rule.guard.actions == (Action.BLOCK,):
            raise refusal(watch.rule, self._note(watch, Action.BLOCK))

    def _action(self, watch: _Watch) -> Action:
        return watch.rule.guard.actions[0] if watch.found else Action.ALLOW

    def _note(self, watch: _Watch, action: Action) -> GuardMark:
        mark = GuardMark(guard=watch.rule.name, stage=watch.rule.stage, action=action, took_s=watch.took_s)
        if watch.window is not None:
            self._hearing.marks.append(mark)
        return mark


def _feed(passing: Passing, window: Window) -> list[Passing]:
    return window.feed(passing)
