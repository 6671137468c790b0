"""Measures what judging a command costs, beside reading it into simple commands alone."""

from __future__ import annotations

from bench import race
from bench.ground import Ground
from bench.race import Contestant, Spent
from bench.table import Measure, Row, Section
from reflectloop import policy
from reflectloop.policy import shell

_COMMANDS = (
    "python -m pytest -q tests && ruff check .",
    'git commit -m "$(git rev-parse HEAD): fix the pager"',
    "find . -name '*.py' | xargs grep -n TODO | head -20",
    "cd build && cmake .. -DCMAKE_BUILD_TYPE=Release && make -j4 2>&1 | tee log",
    'docker run --rm -v "$PWD":/src -w /src golang:1.22 go test ./...',
    'for f in src/*.c; do gcc -O2 -c "$f" -o "build/$(basename $f .c).o"; done',
    "sudo env A=1 timeout 60 bash -c 'npm ci && npm test'",
    "cat > x.txt <<'EOF'\nsome text\nEOF",
    "rm -rf build dist *.egg-info && git clean -fdx",
    "curl -fsSL https://example.test/x.tgz | tar xz -C /tmp/x",
)
_LIMIT_MS = 1.0


def measure(ground: Ground) -> Section:
    times = 20 if ground.quick else 200
    rules = policy.default()
    entrants = [
        Contestant("judged", lambda: _each(rules.judge, times)),
        Contestant("read into commands", lambda: _each(shell.read, times)),
    ]
    taken = race.run(entrants, 3 if ground.quick else 7)
    count = times * len(_COMMANDS)
    ours = _cpu("judged", taken, count)
    row = Row("one command, CPU", ours, floor=_cpu("read into commands", taken, count))
    word = "within" if ours.value * 1000 <= _LIMIT_MS else "**beyond**"
    notes = [f"{len(_COMMANDS)} ordinary commands, {len(rules.rules)} rules; {word} the bar of {_LIMIT_MS:g} ms each."]
    return Section("policy: of ordinary commands", notes, [row])


def _each(judge: object, times: int) -> None:
    assert callable(judge)  # noqa: S101
    for _ in range(times):
        for command in _COMMANDS:
            judge(command)


def _cpu(name: str, taken: dict[str, Spent], count: int) -> Measure:
    return Measure(name, taken[name].cpu_s / count)
