"""Rust: cargo's tests or nextest, and clippy if the project configures it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.hints import hints, of_tool
from reflectloop.verification.tools.project import ProjectPart, at, listed, table

_TESTED = lazy(r"#\[(\w+::)*(test|rstest|test_case|quickcheck)\b|\bproptest!|^\s*//[/!] ```\w*$", re.MULTILINE)
# An example in documentation is named by its item: its line changes with every edit above it.
_TEST = r"(?P<test>.+?)(?: \(line \d+\))?(?: - (?:should panic|compile(?: fail)?))?"
_ENV = {"CARGO_TERM_COLOR": "never"}
_KEYS = frozenset({"lib", "test", "bench", "bin", "lints", "profile", "patch", "replace"})
_PACKAGE_KEYS = frozenset({"autotests", "autobenches", "autoexamples", "build"})


def _find(part: ProjectPart) -> Iterator[DetectedCheck]:
    manifest = part.toml("Cargo.toml")
    if not manifest:
        return
    scope = ("--workspace",) if "workspace" in manifest else ()
    lint = _clippy(part, manifest)
    if lint:
        yield part.check("clippy", "lint", "clippy", ("cargo", "clippy", *scope, "--all-targets"), lint)
    nextest = _nextest(part)
    if nextest:
        yield part.check("nextest", "test", "nextest", ("cargo", "nextest", "run", *scope), nextest)
        return
    tested = next((path for path in part.matching(r"\.rs$") if _TESTED.search(part.text(path))), None)
    if tested:
        yield part.check("cargo-test", "test", "cargo-test", ("cargo", "test", *scope), f"{tested} has tests")
    else:
        yield part.check("cargo-build", "build", "cargo-build", ("cargo", "build", *scope), "Cargo.toml exists")


def _covers(part: ProjectPart, folder: str) -> bool:
    """Return True for workspace members and path dependencies below the workspace."""
    workspace = at(part.toml("Cargo.toml"), "workspace")
    if workspace is None:
        return False
    below = str(PurePosixPath(folder).relative_to(part.folder))
    members = [str(member).rstrip("/") for member in listed(workspace, "members")]
    return any(fnmatch(below, pattern) for pattern in (*members, *_paths(part.toml("Cargo.toml"))))


def _paths(manifest: dict[str, Any]) -> Iterator[str]:
    tables = [table(manifest, name) for name in ("dependencies", "dev-dependencies", "build-dependencies")]
    tables.append(table(manifest, "workspace", "dependencies"))
    for needs in tables:
        for dependency in needs.values():
            if isinstance(at(dependency, "path"), str):
                yield str(PurePosixPath(dependency["path"]))


def _clippy(part: ProjectPart, manifest: dict[str, Any]) -> str | None:
    name = part.first(("clippy.toml", ".clippy.toml"))
    if name:
        return f"{name} exists"
    if at(manifest, "lints", "clippy") or at(manifest, "workspace", "lints", "clippy"):
        return "Cargo.toml has lints for clippy"
    runs = of_tool(hints(part), "clippy")
    return f"{runs.source} runs clippy" if runs else None


def _nextest(part: ProjectPart) -> str | None:
    name = part.first((".config/nextest.toml",))
    if name:
        return f"{name} exists"
    runs = of_tool(hints(part), "nextest")
    return f"{runs.source} runs nextest" if runs else None


def _select(tests: Sequence[str]) -> tuple[str, ...] | None:
    return None if any(test.endswith(".rs") for test in tests) else ("--", "--exact", *tests)


def _select_nextest(tests: Sequence[str]) -> tuple[str, ...] | None:
    if any(test.endswith(".rs") for test in tests):
        return None
    return ("-E", " | ".join(f"test(={test})" for test in tests))


def _steering(document: Mapping[str, Any]) -> Mapping[str, object]:
    parts: dict[str, object] = {key: value for key, value in document.items() if key in _KEYS}
    parts["package"] = {key: value for key, value in document.get("package", {}).items() if key in _PACKAGE_KEYS}
    workspace = document.get("workspace", {})
    parts["workspace"] = {key: value for key, value in workspace.items() if key in {"lints", "exclude"}}
    return parts


def _members(document: Mapping[str, Any]) -> Mapping[str, object]:
    workspace = document.get("workspace", {})
    return {"workspace": {key: value for key, value in workspace.items() if key in {"members", "default-members"}}}


def _read_tests(events: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    from reflectloop.verification.tools.records.cargo import report  # noqa: PLC0415 - a parser is loaded when a log is read

    return report.read_tests(events)


def _read_messages(events: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    from reflectloop.verification.tools.records.cargo import report  # noqa: PLC0415

    return report.read_messages(events)


_SYNTAX = record.TestSyntax(
    ("rs",),
    r"#\[(?:\w+::)*(?:test|rstest|test_case|quickcheck|proptest)\b[^\]\n]*\]\s{0,99}(?:#\[[^\]\n]*\]\s{0,99}){0,8}(?:pub\s+)?(?:async\s+)?fn\s+(?P<name>\w+)",
    r"#\[ignore\b|#\[should_panic|#\[cfg\((?!test\b)[^\]\n]*\]?|#\[cfg_attr\([^\]]*ignore",
    r"\b(?:debug_)?assert\w*!\s*\(|\bpanic!\s*\(|#\[should_panic[^\]]*\]|\bprop_assert\w*!\s*\(",
    r"\bassert!|assert_ne!|should_panic\]",
    r"\bassert_eq!|should_panic\(expected",
)

TOOLS = (
    record.Tool(
        name="cargo-test",
        kind="test",
        precedence=70,
        call=record.Call(programs=("cargo test", "cargo t"), toolchain=True),
        run=record.Run(arguments=("--no-fail-fast",), env=_ENV, leading=True),
        select=record.Selector(_select),
        endings=(".rs",),
        detect=record.Ecosystem(manifests=(r"^Cargo\.toml$",), find=_find, covers=_covers),
        output=record.Output(
            text=record.TextFormat(
                "cargo",
                ("test result: ",),
                r"^test result: \w+\. .*$",
                way="all",
                cases=(
                    (rf"^test {_TEST} \.\.\. ok$", "passed"),
                    (rf"^test {_TEST} \.\.\. FAILED$", "failed"),
                    (rf"^test {_TEST} \.\.\. ignored", "skipped"),
                ),
                scope=r"^\s+(?:Running .*deps/|Doc-tests )(?P<test>[\w-]+?)(?:-[0-9a-f]{16}\))?$",
                flat=True,
                block=rf"^---- {_TEST} stdout ----$",
                ends=r"^failures:$|^test result:",
            ),
            events=(
                record.EventFormat(
                    lambda event: event.get("type") in {"suite", "test"} and "event" in event, _read_tests
                ),
            ),
        ),
        files=record.Files(
            runner="tarpaulin.toml",
            mixed_runner="cargo.toml",
            folders=(".cargo",),
            tests="*_test.rs *_tests.rs tests.rs",
            dependencies="cargo.lock",
            executables="cargo rustc",
            commands="cargo (?:test|nextest|clippy|fmt|check)",
            parts=(record.PartReader(r"cargo\.toml", "toml", select=_steering, beside=_members),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(r"package\.build", "loosening"),
                record.SettingRule(r"workspace\.members", "including"),
                record.SettingRule(r"workspace\.default-members", "members"),
                record.SettingRule(r"(?:test|bench|lib)(?:\[[^\]]*\])?\.harness", "strict_by_default"),
                record.SettingRule(
                    r"profile\.(?!test).*|patch\..*|replace\..*|bin|lib\.(?:name|path|doc-scrape-examples|doc|bench|crate-type|proc-macro)",
                    "harmless",
                ),
            ),
            narrows=(r"--allow-\S*", r"--cap-lints\S*", "-A"),
            valued_flags=record.words(
                "--features -F --test --package --target --manifest-path --example --bench --bin"
            ),
            stricter=("--all-features", "--workspace", "--all-targets", "--locked", "--frozen"),
            syntax=_SYNTAX,
            source_signs=(
                record.SourceSign(
                    r"\bcfg!\(\s*test\s*\)|#\[cfg\(not\(test\)\)\]", "behaves differently under cargo test", ("rs",)
                ),
            ),
            variables=(r"RUST_TEST_\w+",),
        ),
    ),
    record.Tool(
        name="nextest",
        kind="test",
        call=record.Call(programs=("cargo nextest run",), toolchain=True),
        run=record.Run(arguments=("--no-fail-fast",), env=_ENV, leading=True),
        select=record.Selector(_select_nextest),
        endings=(".rs",),
        output=record.Output(
            kinds=(("test", "nextest"),),
            text=record.TextFormat(
                "nextest",
                ("Nextest run", "Summary ["),
                r"^ +Summary \[.*\] .*$",
                cases=(
                    (r"^\s+PASS \[.*?\] (?:\(.*?\) )?(?P<test>\S.*)$", "passed"),
                    (r"^\s+(?:FAIL|TIMEOUT|SIG\w+|ABORT) \[.*?\] (?:\(.*?\) )?(?P<test>\S.*)$", "failed"),
                ),
                block=r"^--- STDERR:\s+(?P<test>.+?) ---$",
                ends=r"^\s+(?:PASS|FAIL|Summary) ",
            ),
            junit_names=("nextest",),
        ),
        files=record.Files(runner="nextest.toml", paths=(".config/nextest",), executables="cargo-nextest"),
        tampering=record.Tampering(narrows=("-E",)),
    ),
    record.Tool(
        name="clippy",
        kind="lint",
        call=record.Call(programs=("cargo clippy",), toolchain=True),
        run=record.Run(format="cargo-json", arguments=("--message-format=json",), env=_ENV, leading=True),
        files=record.Files(
            lint="clippy.toml .clippy.toml rustfmt.toml .rustfmt.toml deny.toml", executables="rustfmt clippy-driver"
        ),
        tampering=record.Tampering(silences_file=(r"#!\[allow\(",), silences_line=(r"#\[allow\(",)),
    ),
    record.Tool(
        name="cargo-build",
        kind="build",
        precedence=-10,
        call=record.Call(programs=("cargo build", "cargo check"), toolchain=True),
        run=record.Run(format="cargo-json", arguments=("--message-format=json",), env=_ENV, leading=True),
        output=record.Output(
            kinds=(("build", "cargo"),),
            events=(
                record.EventFormat(
                    lambda event: event.get("reason") in {"compiler-message", "build-finished", "compiler-artifact"},
                    _read_messages,
                ),
            ),
            clean=r" +Finished `?\w+`? .*target\(s\) in .*",
        ),
    ),
)
