"""Extract from CMake, Maven, Gradle and Vite files, by text, the commands and blocks that control checks."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CMAKE_COMMENT = re.compile(r"#\[(=*)\[.*?\]\1\]|#[^\n]*", re.DOTALL)
_CMAKE_COMMAND = re.compile(r"(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_CMAKE_STEERS = re.compile(
    r"(?i)enable_testing|add_test|set_tests_properties|set_property|\w*discover_tests|add_custom_target|add_custom_command|"
    r"(?:add|target)_compile_(?:options|definitions)|add_definitions|configure_file|add_subdirectory|\w*add_(?:g|unit)?test\w*|ctest\w*|include"
)
_CMAKE_ABOUT_TESTS = re.compile(r"(?i)test|check|ctest|gtest|catch|-W|-fsanitize|/W\d|lint|tidy")
_CMAKE_SWITCH = re.compile(r"(?i)(?:set|option|unset)\(\s*\w*(?:BUILD|ENABLE|WITH|SKIP|DISABLE|RUN)\w*TEST")
_XML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_XML_JUDGES = re.compile(
    r"surefire|failsafe|checkstyle|spotbugs|findbugs|pmd|jacoco|enforcer|compiler-plugin|spotless|pitest"
)
_XML_SWITCH = re.compile(
    r"<((?:[\w.-]*(?:skip|test|Test|failIfNo|checkstyle|jacoco)[\w.-]*)|testSourceDirectory|argLine)>([^<]*)</"
)
_CODE_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_GRADLE_HEAD = re.compile(
    r"(?i)\b(?:test\w*|check|jacoco\w*|checkstyle|detekt|ktlint|spotless|pmd|spotbugs|lint|lintOptions|sourceSets|"
    r"tasks\.\w+\([^)]*\)|withType[(<]\s*Test\W*|testOptions|allprojects|subprojects)[^{}\n;]{0,120}\{"
)
_GRADLE_LINE = re.compile(
    r"(?i)\btest\.\w+|check\.dependsOn|ignoreFailures|useJUnit|useTestNG|enabled\s*=?\s*false|onlyIf|exclude|allWarningsAsErrors"
)
_VITE_TEST = re.compile(r"\btest\s*:\s*\{")


def _numbered(kind: str, items: Iterable[str]) -> dict[str, object]:
    """Count equal items, under keys that begin with their kind."""
    counted: dict[str, object] = {}
    for item in items:
        key = f"{kind} {' '.join(item.split())}"
        counted[key] = int(str(counted.get(key, 0))) + 1
    return counted


def cmake(text: str) -> dict[str, object]:
    """Return the commands about tests, each with the conditions around it."""
    conditions: list[str] = []
    commands: list[str] = []
    for name, arguments in _CMAKE_COMMAND.findall(_CMAKE_COMMENT.sub("", text)):
        lowered = name.lower()
        if lowered in {"if", "while", "foreach", "function", "macro"}:
            conditions.append(arguments)
        elif lowered.startswith("end") and conditions:
            conditions.pop()
        elif lowered in {"else", "elseif"} and conditions:
            conditions[-1] += f" {lowered} {arguments}"
        elif _steers(lowered, arguments):
            commands.append(" if ".join((f"{lowered}({arguments})", *conditions)))
    return _numbered("command", commands)


def _steers(name: str, arguments: str) -> bool:
    if name == "return" or _CMAKE_SWITCH.match(f"{name}({arguments}"):
        return True
    return bool(_CMAKE_STEERS.fullmatch(name) and _CMAKE_ABOUT_TESTS.search(name + arguments))


def maven(text: str) -> dict[str, object]:
    plain = _XML_COMMENT.sub("", text)
    pieces = [piece.partition("</plugin>") for piece in plain.split("<plugin>")]
    plugins = [inner for inner, closed, _ in pieces[1:] if closed and _XML_JUDGES.search(inner)]
    rest = pieces[0][0] + "".join(after if closed else inner for inner, closed, after in pieces[1:])
    switches = {f"property {name}": value.strip() for name, value in _XML_SWITCH.findall(rest) if "version" not in name}
    without_versions = [re.sub(r"<version>[^<]*</version>", "", plugin) for plugin in plugins]
    return {**_numbered("plugin", without_versions), **switches}


def without_comments(text: str) -> str:
    return _CODE_COMMENT.sub(lambda match: match[1] or " ", text)


def gradle(text: str) -> dict[str, object]:
    plain = without_comments(text)
    blocks = [plain[head.start() : _closing(plain, head.end())] for head in _GRADLE_HEAD.finditer(plain)]
    loose = [line for line in plain.splitlines() if _GRADLE_LINE.search(line)]
    return {**_numbered("block", blocks), **_numbered("line", loose)}


def vite(text: str) -> dict[str, object]:
    plain = without_comments(text)
    return _numbered(
        "block", (plain[head.start() : _closing(plain, head.end())] for head in _VITE_TEST.finditer(plain))
    )


def _closing(text: str, start: int) -> int:
    """Return the index after the brace that closes the block, or the end of the text."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.end()
    return len(text)
