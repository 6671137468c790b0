"""The test runner of Node.js, and Bun's, AVA, tap and tape."""

from __future__ import annotations

from itertools import islice

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import javascript, record
from reflectloop.verification.tools.project import PackageScripts, ProjectPart
from reflectloop.verification.tools.selectors import by_pattern, files_alone

_IMPORTED = lazy(r"""["']node:test["']""")
_LOOKED_AT = 40  # number of test files read


def _find(part: ProjectPart, packed: PackageScripts) -> DetectedCheck | None:  # noqa: ARG001
    for path in islice(part.matching(javascript.TEST_FILE), _LOOKED_AT):
        if _IMPORTED.search(part.text(path)):
            return part.check("node-test", "test", "node-test", ("node", "--test"), f"{path} uses node:test")
    return None


TOOLS = (
    record.Tool(
        name="node-test",
        kind="test",
        call=record.Call(node_options=("--test",), needs_shell=True),
        run=record.Run(
            format="junit",
            place="file",
            arguments=(
                "--test-reporter=spec",
                "--test-reporter-destination=stdout",
                "--test-reporter=junit",
                "--test-reporter-destination={report}",
            ),
            leading=True,
            valued=frozenset(["-r", "--require", "--import", "--loader", "--experimental-loader"]),
            options_variable="NODE_OPTIONS",  # node would take added arguments for test files
        ),
        select=by_pattern("--test-name-pattern", joined=True),
        endings=javascript.ENDINGS,
        detect=record.NodeTool(find=_find),
        output=record.Output(
            kinds=(("test", "node"),),
            text=record.TextFormat(
                "node",
                ("ℹ tests ",),
                r"^ℹ (?:pass|fail|cancelled|skipped|todo) \d+$",
                way="joined",
                cases=(
                    (r"^\s*[✔✖] (?P<test>.+?)(?: \([\d.]+ms\))? # (?:TODO|SKIP).*$", "skipped"),
                    (rf"^\s*✔ (?P<test>.+?){javascript.TIME}$", "passed"),
                    (rf"^\s*✖ (?!failing tests)(?P<test>.+?){javascript.TIME}$", "failed"),
                    (rf"^\s*﹣ (?P<test>.+?){javascript.TIME} # .*$", "skipped"),
                ),
                scope=r"^\s*▶ (?P<test>.+?)(?: \([\d.]+ms\))?$",
                block=r"^\s*✖ (?!failing tests)(?P<test>.+?)(?: \([\d.]+ms\))?$",
                ends=r"^ℹ tests |^\s*[▶✔﹣] ",
                closing=r"^✖ failing tests:$",
            ),
        ),
        files=record.Files(executables="node", commands="node --test"),
        tampering=record.Tampering(javascript_variables=("NODE_TEST_CONTEXT",)),
    ),
    record.Tool(
        name="bun-test",
        kind="test",
        call=record.Call(programs=("bun test",)),
        run=record.Run(format="junit", place="file", arguments=("--reporter=junit", "--reporter-outfile={report}")),
        output=record.Output(
            kinds=(("test", "bun"),),
            text=record.TextFormat(
                "bun",
                ("bun test",),
                r"^ *\d+ (?:pass|fail|skip|todo)$",
                way="joined",
                cases=(
                    (r"^\(pass\) (?P<test>.+?)(?: \[.*\])?$", "passed"),
                    (r"^\(fail\) (?P<test>.+?)(?: \[.*\])?$", "failed"),
                ),
            ),
        ),
        files=record.Files(runner="bunfig.toml", executables="bun"),
    ),
    record.Tool(
        name="ava",
        kind="test",
        precedence=20,
        call=record.Call(programs=("ava",)),
        run=record.Run(format="tap", arguments=("--tap",)),
        endings=javascript.ENDINGS,
        detect=record.NodeTool(find=javascript.configured("ava", r"^ava\.config\.", ("ava",))),
        output=record.Output(kinds=(("test", "ava"),)),
        files=record.Files(runner="ava.config.*", executables="ava", package_keys="ava", commands="ava"),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(r"(?:ava\.)?files", "including", first=True),
                record.SettingRule(
                    r"(?:ava\.)?(?:concurrency|timeout|workerThreads|verbose|cache|serial|extensions|"
                    r"typescript|environmentVariables|babel|tap|utilizeParallelBuilds|sortTestFiles|watchMode)(?:\..*)?",
                    "harmless",
                ),
            )
        ),
    ),
    record.Tool(
        name="tap",
        kind="test",
        precedence=10,
        call=record.Call(programs=("tap",)),
        run=record.Run(format="tap", arguments=("--reporter=tap",)),
        endings=javascript.ENDINGS,
        detect=record.NodeTool(find=javascript.configured("tap", r"^\.taprc$", ("tap",))),
        output=record.Output(kinds=(("test", "tap"),)),
        files=record.Files(
            runner=".taprc",
            executables="tap",
            package_keys="tap",
            commands="tap",
            parts=(record.PartReader(r"\.taprc", "yaml"),),
        ),
    ),
    record.Tool(
        name="tape",
        kind="test",
        call=record.Call(programs=("tape",)),
        run=record.Run(format="tap", valued=frozenset(["-r", "--require", "-i", "--ignore"])),
        select=record.Selector(files_alone),
        endings=javascript.ENDINGS,
        output=record.Output(tap_comments=True),
    ),
    record.Tool(
        name="uvu",
        kind="test",
        call=record.Call(programs=("uvu",)),
        run=record.Run(valued=frozenset(["-r", "--require", "-i", "--ignore", "-C", "--cwd"])),
        endings=javascript.ENDINGS,
        output=record.Output(
            kinds=(("test", "uvu"),),
            text=record.TextFormat(
                "uvu",
                ("Total:",),
                r"^ *Total: +\d+\n *Passed: +\d+$",  # the total has no skipped tests
                cases=((r'^ +FAIL +(?P<test>.*".+")$', "failed"),),
                block=r'^ +FAIL +(?P<test>.*".+")$',
            ),
        ),
    ),
)
