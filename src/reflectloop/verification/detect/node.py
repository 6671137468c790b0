"""JavaScript and TypeScript: the scripts of a package.json, or else the runners and linters it configures."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import PurePosixPath

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import KIND_ORDER, DetectedCheck, Kind
from reflectloop.verification.tools.commands import call, script_name, split
from reflectloop.verification.tools.project import PackageScripts, ProjectPart, at, listed, table
from reflectloop.verification.tools.record import NodeTool, RunnerCall
from reflectloop.verification.tools.registry import by_name, tools

MANIFESTS = (r"^package\.json$",)
_LOCKS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
}
_LISTED = lazy(r"^\s*-\s*[\"']?([^\"'\s#]+)", re.MULTILINE)
_REACHES = lazy(r"\b(turbo|nx|lerna|wsrun|moon|rush|ultra)\b|--workspaces|-ws\b|\s-r\b|--recursive|foreach|--filter")
# A script that only starts the same script of every member.
_RECURSES = lazy(
    r"(?:npx\s+)?(?:pnpm(?:\s+-\S+)*\s+(?:-r|--recursive)(?:\s+-\S+)*(?:\s+run)?|pnpm(?:\s+run)?\s+(?:-r|--recursive)(?:\s+run)?|"
    r"yarn\s+workspaces(?:\s+foreach(?:\s+-\S+)*)?\s+run|npm\s+(?:run\s+)?(?:-ws|--workspaces)(?:\s+--if-present)?(?:\s+run)?|"
    r"lerna\s+run)\s+(?P<name>[\w:.-]+)(?:\s+--?(?:stream|if-present|parallel|aggregate-output))*|"
    r"npm\s+(?:run\s+)?(?P<last>[\w:.-]+)\s+(?:-ws|--workspaces)(?:\s+--if-present)?"
)
_SCRIPTS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("build", ("build",)),
    ("lint", ("lint", "eslint")),
    ("type", ("typecheck", "type-check", "check-types", "check:types", "types:check", "tsc")),
    ("test", ("test", "test:ci", "test:run", "test:unit", "tests")),
)
_EMPTY = lazy(r"no test specified|^\s*(echo\b[^&|;]*|true|exit 0|:)?\s*$")
_WATCHES = r"--watch(All)?\b(?!=false)"
_FIX_FLAGS = frozenset(["--fix", "--write", "--apply"])  # a check must not change files
_WITHOUT_HOOKS = ("--ignore-scripts",)
_PNPM_WITHOUT_HOOKS = ("--config.enable-pre-post-scripts=false",)  # yarn and bun have no such option
_MAKES = lazy(
    r"\b(?:build|compile|transpile|tsc|babel|swc|rollup|webpack|esbuild|bundle|generate|codegen|gen|prepare|copy|cp|mkdir|"
    r"dist|make|node-gyp)\b"
)
_DEPTH = 4


def find(part: ProjectPart) -> Iterator[DetectedCheck]:
    packed = _packed(part)
    checks = list(_scripted(part, packed))
    left = {
        kind
        for kind, names in _SCRIPTS
        if any(_left_to_members(part, name, kind, packed.scripts.get(name, "")) for name in names)
    }
    for kind in KIND_ORDER:
        if kind not in left and all(check.kind != kind for check in checks):
            checks += _configured(part, packed, kind, {check.tool for check in checks})
    yield from checks


def covers(part: ProjectPart, folder: str) -> bool:
    """Return True if the top-level tests run those of a workspace member."""
    below = str(PurePosixPath(folder).relative_to(part.folder))
    if not any(fnmatch(below, pattern) for pattern in _members(part)):
        return False
    tests = [check for check in find(part) if check.kind == "test"]
    line = str(at(part.json("package.json"), "scripts", "test") or "")
    return any(_reaches_members(check.tool) for check in tests) or bool(tests and _REACHES.search(line))


def _left_to_members(part: ProjectPart, name: str, kind: Kind, line: str) -> bool:
    """Return True for a script that only starts that of every member: members are checked by their own scripts.

    Their reports can be read, and each has its own packages. A build is left alone, since its order matters.
    """
    recurses = _RECURSES.fullmatch(line.strip()) if kind != "build" else None
    names = {names for _, names in _SCRIPTS if name in names}
    wanted = (recurses["name"] or recurses["last"]) if recurses else None
    return bool(_members(part)) and any(wanted in group for group in names)


def _configured(
    part: ProjectPart, packed: PackageScripts, kind: str, detected: Collection[str]
) -> Iterator[DetectedCheck]:
    """Yield the check of the first tool of a kind that the project configures without a script."""
    for tool in tools():
        if isinstance(tool.detect, NodeTool) and tool.kind == kind and tool.name not in detected:
            check = tool.detect.find(part, packed)
            if check:
                yield check
                return


def _reaches_members(name: str) -> bool:
    tool = by_name().get(name)
    return tool is not None and isinstance(tool.detect, NodeTool) and tool.detect.reaches_members


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


# Scripts --------------------------------------------------------------------------------------------------------------


def _scripted(part: ProjectPart, packed: PackageScripts) -> Iterator[DetectedCheck]:
    commands: set[tuple[str, ...]] = set()
    for kind, names in _SCRIPTS:
        usable = (name for name in names if _usable(packed.scripts.get(name, "")))
        name = next((name for name in usable if not _left_to_members(part, name, kind, packed.scripts[name])), None)
        for check in _of_script(part, packed, name, kind) if name else ():
            if check.command not in commands:
                commands.add(check.command)
                yield check


def _usable(line: str) -> bool:
    return not _EMPTY.search(line) and not _watches().search(line)


@cache
def _watches() -> re.Pattern[str]:
    return re.compile("|".join([_WATCHES, *(tool.call.watches for tool in tools() if tool.call.watches)]))


def _of_script(part: ProjectPart, packed: PackageScripts, name: str, kind: Kind) -> list[DetectedCheck]:
    row = _row(part, packed, name, kind, _DEPTH)
    if row:
        return row
    first = _prepared(part, packed, packed.scripts.get(f"pre{name}", ""), f"the script pre{name}", _DEPTH)
    return [*first, _opaque(part, packed, name, kind)]


def _row(part: ProjectPart, packed: PackageScripts, name: str, kind: Kind | None, depth: int) -> list[DetectedCheck]:
    """Return the checks a script consists of, with its hooks, or none if a part is not understood."""
    before, after = (packed.scripts.get(f"{when}{name}", "") for when in ("pre", "post"))
    plain = call(packed.scripts.get(name, ""))
    if plain and not (before or after or _FIX_FLAGS & {*plain.arguments} or _only_measures(plain)):
        return [_plain(part, packed, name, plain, kind)]
    first = list(_prepared(part, packed, before, f"the script pre{name}", depth))
    main = _pieces(part, packed, packed.scripts.get(name, ""), f"the script {name}", kind, depth)
    if not main and plain:
        main = [_plain(part, packed, name, plain, kind)]
    # A command after the tests that is not understood is an audit or an upload, not a check.
    return [*first, *main, *_pieces(part, packed, after, f"the script post{name}", None, depth)] if main else []


def _only_measures(plain: RunnerCall) -> bool:
    """Return True if nyc runs the tool, loading nothing: it writes a cache into node_modules, which is read-only."""
    around = plain.lead[: plain.begins]
    return "nyc" in around and not {"-r", "--require"} & {word.partition("=")[0] for word in around}


def _prepared(part: ProjectPart, packed: PackageScripts, line: str, source: str, depth: int) -> Iterator[DetectedCheck]:
    """Yield what a hook before a script runs: checks and builds; anything else, such as a download, is left out."""
    for piece in line.split("&&") if line else ():
        argv = split(piece.strip()) or ()
        checks = _piece(part, packed, piece.strip(), source, None, depth) if depth else []
        script = script_name(argv)
        if checks:
            yield from checks
        elif script and script in packed.scripts and _MAKES.search(f"{script} {packed.scripts[script]}"):
            yield _opaque(part, packed, script, "build")
        elif not script and _MAKES.search(piece):
            reason = f"package.json: {source} runs {piece.strip()}"
            yield part.check("npm-prepare", "build", "npm", ("sh", "-c", piece.strip()), reason)


def _pieces(
    part: ProjectPart, packed: PackageScripts, line: str, source: str, kind: Kind | None, depth: int
) -> list[DetectedCheck]:
    groups = [_piece(part, packed, piece.strip(), source, kind, depth) for piece in line.split("&&")] if depth else [[]]
    return [check for checks in groups for check in checks] if all(groups) else []


def _piece(
    part: ProjectPart, packed: PackageScripts, line: str, source: str, kind: Kind | None, depth: int
) -> list[DetectedCheck]:
    argv = split(line) or ()
    script = script_name(argv)
    if script:
        usable = script in packed.scripts and "--" not in argv
        return _row(part, packed, script, kind, depth - 1) if usable else []
    tool_call = call(argv)
    other = _other(argv)
    reason = f"package.json: {source} runs {line}"
    if tool_call and not (by_name()[tool_call.tool].call.needs_shell and "*" in line):
        return [
            part.check(tool_call.tool, _kind(part, tool_call, kind), tool_call.tool, _read_only(tool_call.bare), reason)
        ]
    return [part.check(argv[0], other, "npm", _read_only(argv), reason)] if other else []


def _read_only(argv: tuple[str, ...]) -> tuple[str, ...]:
    tool = by_name().get(argv[0])
    if tool and tool.call.check_flag:
        return tuple(tool.call.check_flag if argument in _FIX_FLAGS else argument for argument in argv)
    return tuple(argument for argument in argv if argument not in _FIX_FLAGS)


def _other(argv: tuple[str, ...]) -> Kind | None:
    """Return the kind of a tool that has no report reader but is known as a check, or None."""
    tool = by_name().get(argv[0]) if argv else None
    return tool.kind if tool and tool.call.npm_program else None


def _kind(part: ProjectPart, tool_call: RunnerCall, requested: Kind | None) -> Kind:
    tool = by_name()[tool_call.tool]
    return tool.kind_of_call(part, tool_call.arguments, requested) if tool.kind_of_call else tool.kind


def _plain(
    part: ProjectPart, packed: PackageScripts, name: str, tool_call: RunnerCall, asked: Kind | None
) -> DetectedCheck:
    reason = f"package.json: the script {name} is {packed.scripts[name]}"
    return part.check(tool_call.tool, _kind(part, tool_call, asked), tool_call.tool, _run(packed, name), reason)


def _opaque(part: ProjectPart, packed: PackageScripts, name: str, kind: Kind) -> DetectedCheck:
    argv = split(packed.scripts[name]) or ()
    known = argv[0] if _other(argv) else f"{packed.manager}-{name}"
    return part.check(known, kind, "npm", _run(packed, name), f"package.json has the script {name}")


def _run(packed: PackageScripts, name: str) -> tuple[str, ...]:
    """Return the command that runs a script, without its hooks: what they check is a check of its own."""
    hooked = f"pre{name}" in packed.scripts or f"post{name}" in packed.scripts
    if packed.manager == "npm":
        return (*(("npm", "test") if name == "test" else ("npm", "run", name)), *(_WITHOUT_HOOKS if hooked else ()))
    return (packed.manager, *(_PNPM_WITHOUT_HOOKS if hooked and packed.manager == "pnpm" else ()), "run", name)
