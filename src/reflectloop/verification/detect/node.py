"""JavaScript and TypeScript: the scripts of a package.json, or else the runners and linters it configures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import islice
from pathlib import PurePosixPath

from reflectloop.verification.detect.node_scripts import PackageScripts, scripted
from reflectloop.verification.detect.part import ProjectPart, at, listed, table
from reflectloop.verification.result import DetectedCheck

MANIFESTS = (r"^package\.json$",)
_LOCKS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
}
_TEST_FILE = r"(^|/)(test-[^/]+|[^/]+[._-](test|spec)|test|(__tests__|tests?)/[^/]+)(?<!\.d)\.[cm]?[jt]sx?$"
_NODE_TEST = re.compile(r"""["']node:test["']""")
_LOOKED_AT = 40
_LISTED = re.compile(r"^\s*-\s*[\"']?([^\"'\s#]+)", re.MULTILINE)
_RUNNERS = (
    ("vitest", r"^vitest\.(config|workspace)\.", ("vitest", "run")),
    ("jest", r"^jest\.config\.", ("jest",)),
    ("mocha", r"^\.mocharc\.", ("mocha",)),
    ("ava", r"^ava\.config\.", ("ava",)),
    ("tap", r"^\.taprc$", ("tap",)),
)
_ESLINT = r"^(eslint\.config\.[cm]?[jt]s|\.eslintrc(\.(json|ya?ml|[cm]?js))?)$"
_REACHES = re.compile(
    r"\b(turbo|nx|lerna|wsrun|moon|rush|ultra)\b|--workspaces|-ws\b|\s-r\b|--recursive|foreach|--filter"
)


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    packed = _packed(part)
    checks = list(scripted(part, packed))
    kinds = {check.kind for check in checks}
    tools = {check.tool for check in checks}
    if "test" not in kinds:
        checks += _runner(part, packed)
    if "lint" not in kinds:
        checks += _eslint(part, packed)
    if "type" not in kinds and "tsc" not in tools:
        checks += _types(part, packed)
    yield from checks


def covers(part: ProjectPart, folder: str) -> bool:
    """Return True if the top-level tests run those of a workspace member."""
    below = str(PurePosixPath(folder).relative_to(part.folder))
    if not any(fnmatch(below, pattern) for pattern in _members(part)):
        return False
    tests = [check for check in found(part) if check.kind == "test"]
    line = str(at(part.json("package.json"), "scripts", "test") or "")
    return any(check.tool in ("jest", "vitest") for check in tests) or bool(tests and _REACHES.search(line))


def _packed(part: ProjectPart) -> PackageScripts:
    manifest, top_manifest = part.json("package.json"), part.top.json("package.json")
    manager = at(manifest, "packageManager") or at(top_manifest, "packageManager") or ""
    locked = part.first(_LOCKS) or part.top.first(_LOCKS)
    program = str(manager).split("@")[0] or (_LOCKS[locked] if locked else "npm")
    needs = [table(package, key) for package in (manifest, top_manifest) for key in ("devDependencies", "dependencies")]
    scripts = {name: line for name, line in table(manifest, "scripts").items() if isinstance(line, str)}
    return PackageScripts(
        manifest, scripts, program, frozenset(name for dependencies in needs for name in dependencies)
    )


def _members(part: ProjectPart) -> list[str]:
    manifest = part.json("package.json")
    members = listed(manifest, "workspaces") or listed(manifest, "workspaces", "packages")
    members = members or _LISTED.findall(part.text("pnpm-workspace.yaml"))
    return [str(member).removeprefix("./").rstrip("/") for member in members]


def _runner(part: ProjectPart, packed: PackageScripts) -> Iterator[DetectedCheck]:
    tests = list(part.matching(_TEST_FILE))
    for tool, pattern, command in _RUNNERS:
        name = next(part.matching(pattern), None)
        if name or tool in packed.manifest or (tests and tool in packed.needs):
            yield part.check(tool, "test", tool, command, f"{name} exists" if name else f"package.json names {tool}")
            return
    for path in islice(tests, _LOOKED_AT):
        if _NODE_TEST.search(part.text(path)):
            yield part.check("node-test", "test", "node-test", ("node", "--test"), f"{path} uses node:test")
            return


def _eslint(part: ProjectPart, packed: PackageScripts) -> Iterator[DetectedCheck]:
    name = next(part.matching(_ESLINT), None)
    if name or "eslintConfig" in packed.manifest:
        reason = f"{name} exists" if name else "package.json has eslintConfig"
        yield part.check("eslint", "lint", "eslint", ("eslint", "."), reason)


def _types(part: ProjectPart, packed: PackageScripts) -> Iterator[DetectedCheck]:
    config = part.json("tsconfig.json")
    only_references = config.get("references") and config.get("files") == []
    if part.first(["tsconfig.json"]) and "typescript" in packed.needs and not only_references:
        yield part.check("tsc", "type", "tsc", ("tsc", "--noEmit"), "tsconfig.json exists")
