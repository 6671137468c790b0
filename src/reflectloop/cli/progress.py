"""Shows the progress of a run: live on a terminal, plain lines elsewhere, events for programs."""

from __future__ import annotations

import json
import time
from collections import deque
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from reflectloop import secrets
from reflectloop.cli.render import harmless, print_raw
from reflectloop.engine.run import recovery
from reflectloop.plan.load import LoadedPlan
from reflectloop.state import events
from reflectloop.state.journal import JournalEntry
from reflectloop.system import terminal

_SHOWN = 4


def plain(data: bytes) -> list[str]:
    """Return output as lines of text, without colours and other control sequences."""
    return terminal.plain(data.replace(b"\r", b"\n")).decode("utf-8", "replace").split("\n")


class Events:
    """Prints the journal as JSON lines on standard output."""

    def waits(self, why: str) -> None:
        pass

    def begins(self, loaded: LoadedPlan, run_id: str) -> None:
        pass

    def happened(self, entry: JournalEntry) -> None:
        print_raw(secrets.current_detector().redact(json.dumps(entry.as_json())))

    def command(self, step_id: str, words: str) -> None:
        pass

    def output(self, step_id: str, data: bytes) -> None:
        pass

    def warning(self, step_id: str, words: str) -> None:
        pass


class PlainProgress:
    """Prints a line for each step that ends."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.titles: dict[str, str] = {}
        self.total = 0
        self.finished = 0

    def waits(self, why: str) -> None:
        self.write(Text(f"waiting: {why}", style="dim"))

    def begins(self, loaded: LoadedPlan, run_id: str) -> None:
        self.titles = {step.id: step.title for step in loaded.plan.steps}
        self.total = len(self.titles)
        self.write(Text.assemble((f"{loaded.plan.title}", "bold"), f"  {run_id}, {self.total} step(s)"))

    def write(self, line: Text) -> None:
        line.plain = secrets.current_detector().redact(harmless(line.plain))
        self.console.print(line, highlight=False, soft_wrap=True)

    def happened(self, entry: JournalEntry) -> None:
        match entry.event:
            case events.StepStarted(step_id=name):
                self.started(name)
            case events.FixTried(step_id=name) as fix:
                self.write(Text(f"  {name}  {recovery.tried(fix.payload())}", style="dim"))
            case events.StepFinished() as ended:
                self.finished += 1
                self.ended(ended)

    def started(self, name: str) -> None:
        pass

    def ended(self, event: events.StepFinished) -> None:
        mark, style = ("✓", "green") if event.success else ("✗", "bold red")
        seconds = f"{event.duration_ms / 1000:.1f} s"
        tail = "" if event.success else f"  {event.error_code}, exit {event.exit_code}"
        name = f"{event.step_id}  {self.titles.get(event.step_id, '')}".rstrip()
        place = f"[{self.finished}/{self.total}]"
        self.write(Text.assemble((f"{mark} ", style), (place, "dim"), f" {name}", (f"  {seconds}{tail}", "dim")))

    def command(self, step_id: str, words: str) -> None:
        pass

    def output(self, step_id: str, data: bytes) -> None:
        pass

    def warning(self, step_id: str, words: str) -> None:
        self.write(Text.assemble(("! ", "yellow"), (f"{step_id}  {words.splitlines()[0]}", "dim")))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class _Running(NamedTuple):
    since: float
    spinner: Spinner
    words: str = ""


class Terminal(PlainProgress):
    """Prints finished steps and, below them, the running commands with their time and last lines of output."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.running: dict[str, _Running] = {}
        self.lines: deque[str] = deque(maxlen=_SHOWN)
        self.partial = b""
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def started(self, name: str) -> None:
        self.running[name] = _Running(time.monotonic(), Spinner("dots"))
        self.lines.clear()

    def ended(self, event: events.StepFinished) -> None:
        self.running.pop(event.step_id, None)
        super().ended(event)

    def command(self, step_id: str, words: str) -> None:
        if step_id in self.running:
            shown = secrets.current_detector().redact(words.splitlines()[0])
            self.running[step_id] = self.running[step_id]._replace(words=shown)
        self.lines.clear()
        self.partial = b""

    def output(self, step_id: str, data: bytes) -> None:  # noqa: ARG002
        # Only the last lines are shown, so a large output is not split into lines before them.
        *complete, self.partial = (self.partial + data)[-8192:].split(b"\n")
        for line in complete[-_SHOWN:]:
            self.lines.extend(text for text in plain(line) if text.strip())

    def render(self) -> RenderableType:
        width = self.console.width - 14
        # A copy: steps of a batch start and end in other threads.
        shown = list(self.running.items())
        for name, step in shown:
            step.spinner.update(text=Text(f"{name}  {step.words}"[:width] + f"  {time.monotonic() - step.since:.0f} s"))
        more = [Text(f"and {len(shown) - _SHOWN} more", style="dim")] if len(shown) > _SHOWN else []
        lines = (Text(f"    {line[:width]}", style="dim") for line in list(self.lines))
        return Group(*(step.spinner for _, step in shown[:_SHOWN]), *more, *lines)
