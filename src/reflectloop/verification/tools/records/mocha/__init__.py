"""Mocha."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reflectloop.verification.tools import javascript, record
from reflectloop.verification.tools.json_values import dicts, table, text_of
from reflectloop.verification.tools.selectors import by_pattern


def _json(root: Mapping[str, Any]) -> Iterator[record.TestEntry]:
    for key, outcome in (("passes", "passed"), ("failures", "failed"), ("pending", "skipped")):
        for test in dicts(root.get(key)):
            error = table(test.get("err"))
            yield record.TestEntry(
                outcome,
                text_of(test.get("fullTitle")) or text_of(test.get("title")),
                file=text_of(test.get("file")),
                message=text_of(error.get("message")),
                text=text_of(error.get("stack")),
            )


def _mochawesome(root: Mapping[str, Any]) -> Iterator[record.TestEntry]:
    waiting = list(dicts(root.get("results")))
    while waiting:
        suite = waiting.pop()
        waiting.extend(dicts(suite.get("suites")))
        for test in dicts(suite.get("tests")):
            error = table(test.get("err"))
            yield record.TestEntry(
                "passed" if test.get("pass") else "failed" if test.get("fail") else "skipped",
                text_of(test.get("fullTitle")),
                file=text_of(suite.get("file")),
                message=text_of(error.get("message")),
                text=text_of(error.get("estack")),
            )


TOOLS = (
    record.Tool(
        name="mocha",
        kind="test",
        precedence=30,
        call=record.Call(programs=("mocha", "_mocha", "ts-mocha")),
        run=record.Run(
            format="mocha-json",
            place="file",
            arguments=("--reporter={beside}/report.cjs", "--no-bail"),
            env={"NODE_OPTIONS": "--require {beside}/report.cjs"},
            reporter=Path(__file__).with_name("report.cjs"),
            valued=frozenset(
                record.words(
                    "-r --require -g --grep -f --fgrep -t --timeout --config -u --ui --file --import -R --reporter -O "
                    "--reporter-option --reporter-options"
                )
            ),
        ),
        select=by_pattern("--grep"),
        endings=javascript.ENDINGS,
        detect=record.NodeTool(find=javascript.configured("mocha", r"^\.mocharc\.", ("mocha",))),
        output=record.Output(
            kinds=(("test", "mocha"),),
            text=record.TextFormat(
                "mocha",
                (" passing (", " failing"),
                r"^ +\d+ passing \(.*\)$|^ +\d+ (?:pending|failing)$",
                way="joined",
                cases=(
                    (rf"^\s+[✔✓√] (?P<test>.+?){javascript.TIME}$", "passed"),
                    (r"^\s+\d+\) (?P<test>.+[^:])$", "failed"),
                    (r"^\s+- (?P<test>.+)$", "skipped"),
                ),
                scope=r"^\s+(?P<test>[^\s\d+-].*)$",
                closing=r"^\s+\d+ passing \(",
                stacked=True,
                block=r"^\s{2}\d+\) (?P<test>.+)$",
            ),
            json=(
                record.JsonFormat(frozenset({"stats", "passes", "failures"}), _json),
                record.JsonFormat(frozenset({"stats", "results"}), _mochawesome),
            ),
            junit_names=("mocha",),
        ),
        files=record.Files(
            runner=".mocharc* mocha.opts",
            executables="mocha",
            package_keys="mocha",
            commands="mocha",
            script_names="mocha",
            parts=(record.PartReader(r"\.mocharc", "jsonc"),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(r"(?:.*\.)?spec", "including"),
                record.SettingRule(r"(?:.*\.)?forbidOnly", "strict_when_true"),
                record.SettingRule(
                    r"(?:mocha\.)?(?:extensions?|timeout|ui|reporter\S*|recursive|color|slow|package|parallel|jobs|"
                    r"watch-files|full-trace|diff|check-leaks)",
                    "harmless",
                ),
            ),
            stricter=("-R",),
            valued_flags=record.words(
                "-R --reporter -r --require -t --timeout -u --ui -g --grep -f --fgrep --config --file --import"
            ),
            narrows=(r"--grep\S*", "-g", "--invert", "-r", r"--require\S*", r"--import\S*"),
            imports=("mocha",),
            javascript_names=("mocha",),
            javascript_variables=(r"MOCHA_\w+",),
        ),
    ),
)
