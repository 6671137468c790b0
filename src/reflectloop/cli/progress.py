"""Shows the progress of runs and verifications: live on a terminal, plain lines elsewhere, events for programs."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from reflectloop import languages, secrets
from reflectloop.cli import render
from reflectloop.cli.render import echo, harmless, paint, plain, print_raw, shown_title, without_name
from reflectloop.engine.run.request import NullObserver
from reflectloop.state import events
from reflectloop.state.journal import JournalEntry
from reflectloop.verification.progress import RunningCheck, duration

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.spinner import Spinner

    from reflectloop.engine.run.request import RunObserver
    from reflectloop.plan.load import LoadedPlan

_SHOWN = 4
PREPARING = "preparing"
JUDGING = "judging the change"
NEXT_RUN = "preparing the next run"


@contextlib.contextmanager
def observe(*, events: bool = False) -> Iterator[RunObserver]:
    """Yield the observer for the way the user wants progress shown. With `--json` nothing is shown."""
    if render.wants_json():
        yield NullObserver()
    elif events:
        yield Events()
    elif sys.stderr.isatty():
        from rich.console import Console

        shown = Terminal(Console(stderr=True))
        with shown.live:
            yield shown
    else:
        yield PlainProgress()


class Events(NullObserver):
    """Prints the journal as JSON lines on standard output."""

    def happened(self, entry: JournalEntry) -> None:
        print_raw(secrets.current_detector().redact(json.dumps(entry.as_json())))


class PlainProgress(NullObserver):
    """Prints a line for each step that ends, and for each run of a check that begins or ends."""

    def __init__(self) -> None:
        self.titles: dict[str, str] = {}
        self.finished: set[str] = set()

    def write(self, line: str) -> None:
        echo(line, err=True)

    def waits(self, why: str) -> None:
        self.write(paint("dim", f"waiting: {why}"))

    def say(self, line: str) -> None:
        """Print a line about the work that goes on."""
        self.write(line)

    def begins(self, loaded: LoadedPlan, run_id: str, done: Collection[str] = ()) -> None:
        self.titles = {step.id: step.title for step in loaded.plan.steps}
        self.finished = set(done)
        before = f", {len(done)} done before" if done else ""
        self.write(f"{paint('bold', shown_title(loaded.plan.title))}  {run_id}, {len(self.titles)} step(s){before}")

    def happened(self, entry: JournalEntry) -> None:
        match entry.event:
            case events.StepStarted(step_id=name):
                self.started(name)
            case events.FixTried(step_id=name) as fix:
                from reflectloop.engine.run import recovery

                self.write(paint("dim", f"  {name}  {recovery.fix_attempt(fix.payload())}"))
            case events.StepFinished() as ended:
                self.finished.add(ended.step_id)
                self.ended(ended)

    def started(self, name: str) -> None:
        pass

    def ended(self, event: events.StepFinished) -> None:
        mark = paint("green", "✓") if event.success else paint("red", "✗")
        seconds = f"{event.duration_ms / 1000:.1f} s"
        tail = "" if event.success else f"  {event.error_code}, exit {event.exit_code}"
        name = f"{event.step_id}  {self.titles.get(event.step_id, '')}".rstrip()
        place = paint("dim", f"[{len(self.finished)}/{len(self.titles)}]")
        self.write(f"{mark} {place} {name}{paint('dim', f'  {seconds}{tail}')}")

    def warning(self, step_id: str, words: str) -> None:
        self.write(f"{paint('yellow', '!')} {paint('dim', f'{step_id}  {words.splitlines()[0]}')}")

    def check_started(self, run: RunningCheck) -> None:
        expected = f" (about {run.expected})" if run.expected else ""
        self.write(f"{paint('dim', '·')} {run.title}{expected}")

    def check_ended(self, run: RunningCheck, summary: str, duration_ms: int, *, ok: bool) -> None:
        mark = paint("green", "✓") if ok else paint("yellow", "✗")  # red would say that the change is at fault
        shown = without_name(run.name, summary)
        self.write(f"{mark} {run.name} {run.place}: {shown}{paint('dim', f'  {duration_ms / 1000:.1f} s')}")


class _Running(NamedTuple):
    since: float
    spinner: Spinner
    words: str = ""


class Terminal(PlainProgress):
    """Prints what ended and, below it, what goes on: its time, its tests and its last lines of output."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.live import Live

        super().__init__()
        self.console, self.clock = console, clock
        self.running: dict[str, _Running] = {}
        self.checks: dict[int, RunningCheck] = {}  # those that run, by number; some run side by side
        self.lines: deque[str] = deque(maxlen=_SHOWN)
        self.partial = b""
        self.idle = self._begin(PREPARING)
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=8, transient=True)

    def _begin(self, words: str) -> _Running:
        from rich.spinner import Spinner

        return _Running(self.clock(), Spinner("dots"), words)

    def write(self, line: str) -> None:
        from rich.text import Text

        text = Text.from_ansi(secrets.current_detector().redact(harmless(languages.line(line))))
        self.console.print(text, highlight=False, soft_wrap=True)

    def say(self, line: str) -> None:
        super().say(line)
        self.idle = self._begin(" ".join(line.split()))

    def begins(self, loaded: LoadedPlan, run_id: str, done: Collection[str] = ()) -> None:
        super().begins(loaded, run_id, done)
        if len(self.finished) == len(self.titles):
            self.idle = self._begin(JUDGING)

    def started(self, name: str) -> None:
        self.running[name] = self._begin("")
        self.lines.clear()

    def ended(self, event: events.StepFinished) -> None:
        self.running.pop(event.step_id, None)
        super().ended(event)
        if len(self.finished) == len(self.titles):
            self.idle = self._begin(JUDGING)
            self._forget_output()

    def command(self, step_id: str, words: str) -> None:
        if step_id in self.running:
            shown = secrets.current_detector().redact(words.splitlines()[0])
            self.running[step_id] = self.running[step_id]._replace(words=shown)
        self._forget_output()

    def check_started(self, run: RunningCheck) -> None:
        self.checks[run.number] = run
        self.idle = self._begin(run.title)
        self._forget_output()

    def check_ended(self, run: RunningCheck, summary: str, duration_ms: int, *, ok: bool) -> None:
        super().check_ended(run, summary, duration_ms, ok=ok)
        self.checks.pop(run.number, None)
        if not self.checks:
            self.idle = self._begin(NEXT_RUN)
            self._forget_output()

    def _forget_output(self) -> None:
        self.lines.clear()
        self.partial = b""

    def output(self, name: str, data: bytes) -> None:  # noqa: ARG002
        # Only the last lines are shown, so a large output is not split into lines before them.
        *complete, self.partial = (self.partial + data)[-8192:].split(b"\n")
        for line in complete[-_SHOWN:]:
            self.lines.extend(text for text in plain(line) if text.strip())

    def render(self) -> RenderableType:
        """Return the part below the lines that ended: never empty, so that a person sees that work goes on."""
        from rich.console import Group
        from rich.text import Text

        width = self.console.width - 14
        # A copy: steps of a batch start and end in other threads.
        shown = list(self.running.items())
        for name, step in shown:
            step.spinner.update(text=Text(f"{name}  {step.words}"[:width] + f"  {self.clock() - step.since:.0f} s"))
        spinners = [step.spinner for _, step in shown[:_SHOWN]]
        if not shown:
            self.idle.spinner.update(text=Text(self.status()[: self.console.width - 3]))
            spinners = [self.idle.spinner]
        more = [Text(languages.line(f"and {len(shown) - _SHOWN} more"), style="dim")] if len(shown) > _SHOWN else []
        lines = (Text(f"    {line[:width]}", style="dim") for line in list(self.lines))
        return Group(*spinners, *more, *lines)

    def status(self) -> str:
        """Return a line about the check that runs, or about the work between two checks."""
        passed = self.clock() - self.idle.since
        running = list(self.checks.values())
        facts = running[-1].facts(passed) if running else [self.idle.words, duration(passed)]
        return secrets.current_detector().redact(", ".join(languages.line(fact) for fact in facts))
