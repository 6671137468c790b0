"""Java and Kotlin: Maven or Gradle, with the project's wrapper if it has one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import code_blocks, record
from reflectloop.verification.tools.project import ProjectPart
from reflectloop.verification.tools.selectors import is_file, wanted

_TESTS = r"(^|/)src/(\w*[tT]est)/.+\.(java|kt|groovy|scala)$"
_GRADLE = ("settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts")
_ENDINGS = (".java", ".kt", ".groovy", ".scala")
_INVOCATION = lazy(r"[({\[]")  # `totals(int, int)[1]`, `totals{int, int}[1]`, `twice[2]`
_XML_COMMENT = lazy(r"<!--.*?-->", re.DOTALL)
_XML_JUDGES = lazy(
    r"surefire|failsafe|checkstyle|spotbugs|findbugs|pmd|jacoco|enforcer|compiler-plugin|spotless|pitest"
)
_XML_SWITCH = lazy(
    r"<((?:[\w.-]*(?:skip|test|Test|failIfNo|checkstyle|jacoco)[\w.-]*)|testSourceDirectory|argLine)>([^<]*)</"
)
_GRADLE_HEAD = lazy(
    r"(?i)\b(?:test\w*|check|jacoco\w*|checkstyle|detekt|ktlint|spotless|pmd|spotbugs|lint|lintOptions|sourceSets|"
    r"tasks\.\w+\([^)]*\)|withType[(<]\s*Test\W*|testOptions|allprojects|subprojects)[^{}\n;]{0,120}\{"
)
_GRADLE_LINE = lazy(
    r"(?i)\btest\.\w+|check\.dependsOn|ignoreFailures|useJUnit|useTestNG|enabled\s*=?\s*false|onlyIf|exclude|allWarningsAsErrors"
)


def _find(part: ProjectPart) -> Iterator[DetectedCheck]:
    tool, program, build_file = _build_tool(part)
    if build_file is None:
        return
    tested = next(part.matching(_TESTS), None)
    if tested:
        yield part.check(tool, "test", tool, (program, "test"), f"{build_file} exists, and {tested}")
    else:
        goal = "compile" if tool == "maven" else "assemble"
        yield part.check(f"{tool}-build", "build", tool, (program, goal), f"{build_file} exists")


def _covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    """Return True: the top-level build runs its modules' tests."""
    return True


def _build_tool(part: ProjectPart) -> tuple[str, str, str | None]:
    if part.first(["pom.xml"]):
        return "maven", _wrapper(part, "mvnw", "mvn"), "pom.xml"
    return "gradle", _wrapper(part, "gradlew", "gradle"), part.first(_GRADLE)


def _wrapper(part: ProjectPart, name: str, otherwise: str) -> str:
    return f"./{name}" if part.first([name]) else otherwise


def _select_maven(tests: Sequence[str]) -> tuple[str, ...]:
    # The second is for Surefire 3, the third for Surefire 2: a module without one of the tests is no failure.
    chosen = dict.fromkeys(_method(test, "#") for test in tests)
    return (f"-Dtest={','.join(chosen)}", "-Dsurefire.failIfNoSpecifiedTests=false", "-DfailIfNoTests=false")


def _select_gradle(tests: Sequence[str]) -> tuple[str, ...]:
    chosen = dict.fromkeys(_method(test, ".") for test in tests)
    return tuple(word for name in chosen for word in ("--tests", name))


def _method(test: str, joint: str) -> str:
    """Return a test as `-Dtest` and `--tests` name it; of a test with parameters, all its invocations."""
    part = wanted(test)
    owner = part.file or ""
    if is_file(owner):
        owner = PurePosixPath(owner).stem
    name = part.name or ""
    method = _INVOCATION.split(name, maxsplit=1)[0]
    return joint.join(word for word in (owner, method if method == name else f"{method}*") if word)


def _pom(text: str) -> dict[str, object]:
    """Return the plugins and properties of a pom.xml that control checks."""
    plain = _XML_COMMENT.sub("", text)
    pieces = [piece.partition("</plugin>") for piece in plain.split("<plugin>")]
    plugins = [inner for inner, closed, _ in pieces[1:] if closed and _XML_JUDGES.search(inner)]
    rest = pieces[0][0] + "".join(after if closed else inner for inner, closed, after in pieces[1:])
    switches = {f"property {name}": value.strip() for name, value in _XML_SWITCH.findall(rest) if "version" not in name}
    without_versions = [re.sub(r"<version>[^<]*</version>", "", plugin) for plugin in plugins]
    return {**code_blocks.numbered("plugin", without_versions), **switches}


def _build_gradle(text: str) -> dict[str, object]:
    """Return the blocks and lines of a build.gradle that control checks."""
    plain = code_blocks.without_comments(text)
    heads = _GRADLE_HEAD.finditer(plain)
    blocks = [plain[head.start() : code_blocks.closing(plain, head.end())] for head in heads]
    loose = [line for line in plain.splitlines() if _GRADLE_LINE.search(line)]
    return {**code_blocks.numbered("block", blocks), **code_blocks.numbered("line", loose)}


_SYNTAX = record.TestSyntax(
    ("java", "kt", "scala", "groovy"),
    r"@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b(?:\([^)]*\))?\s*(?:@\w+(?:\([^)]*\))?\s{0,99}){0,8}(?:(?:public|private|protected|internal|final|static|open|suspend|override)\s+)*(?:[\w<>\[\].]+|fun)\s+`?(?P<name>[^`(]+?)`?\s*\(",
    r"@(?:Disabled|Ignore|DisabledIf\w*|EnabledIf\w*|DisabledOn\w*|EnabledOn\w*)\b|\bassume(?:True|False|That)\s*\(|enabled\s*=\s*false|\bthrow\s+SkipException",
    r"\bassert\w*\s*\(|\bverify\s*\(|\bfail\s*\(|expected\s*=\s*\w+|\.should\w*\s*\(|\bshould\w+\b|expectThrows\s*\(",
    r"assertNotNull|assertTrue|assertNotEquals|isNotNull|isInstanceOf|contains\w*\(|isTrue\(",
    r"assertEquals|assertSame|assertArrayEquals|isEqualTo|assertThrows|assertIterableEquals|containsExactly",
)

TOOLS = (
    record.Tool(
        name="maven",
        kind="test",
        precedence=60,
        call=record.Call(programs=("mvn", "mvnw")),
        run=record.Run(
            format="junit",
            place="own",
            arguments=("--batch-mode", "--no-transfer-progress", "--fail-at-end"),
            own="**/target/surefire-reports/TEST-*.xml",
        ),
        select=record.Selector(_select_maven, replaces=False),
        endings=_ENDINGS,
        detect=record.Ecosystem(
            manifests=(r"^pom\.xml$", r"^(build|settings)\.gradle(\.kts)?$"), find=_find, covers=_covers
        ),
        output=record.Output(
            kinds=(("build", "maven mvn"), ("test", "surefire")),
            text=record.TextFormat(
                "surefire",
                ("Tests run: ", "No tests to run.", "Tests are skipped.", "surefire-plugin:", "surefire:"),
                r"^(?:\[\w+\] )? *Tests run: \d+, Failures: \d+, Errors: \d+(?:, Skipped: \d+)? *$",
                cases=(
                    (r"^\[ERROR\] (?P<test>[\w.$]+\.\w+) .*<<< FAILURE!$", "failed"),
                    (r"^\[ERROR\] (?P<test>[\w.$]+\.\w+) .*<<< ERROR!$", "error"),
                ),
                block=r"^\[ERROR\] (?P<test>[\w.$]+\.\w+) .*<<< (?:FAILURE|ERROR)!$",
                ends=r"^\[INFO\]|^\[ERROR\] Tests run",
                # Surefire says nothing of tests that it did not find: its goal is the last line before the end.
                empty=(
                    r"^\[INFO\] (?:No tests to run|Tests are skipped)\.$|"
                    r"^\[INFO\] --- (?:maven-)?surefire(?:-plugin)?:[\w.-]+:test .*\n(?:\[INFO\] *\n)?"
                    r"\[INFO\] -{20,}\n\[INFO\] BUILD SUCCESS"
                ),
            ),
            signs=r"^\[(?:ERROR|INFO)\] (?:BUILD FAILURE|COMPILATION ERROR|BUILD SUCCESS)",
            clean=r"\[INFO\] BUILD SUCCESS",
        ),
        files=record.Files(
            runner="junit-platform.properties testng*.xml maven.config jvm.config",
            mixed_runner="pom.xml",
            scripts="mvnw*",
            folders=(".mvn",),
            tests=(
                "*test.java *tests.java *testcase.java *it.java *test.kt *tests.kt *test.scala *spec.scala "
                "*suite.scala *test.groovy *spec.groovy"
            ),
            capital_endings="java kt scala groovy",
            executables="java javac mvn kotlinc ant",
            commands="mvn",
            parts=(record.PartReader(r"pom\.xml", "text", select=_pom),),
        ),
        tampering=record.Tampering(
            loosens=(r"-DskipTests", r"-Dmaven\.test\.(?:skip|failure\.ignore)"),
            syntax=_SYNTAX,
            source_signs=(
                record.SourceSign(
                    r"Class\.forName\(\s*\"org\.(?:junit|testng)|surefire",
                    "asks whether JUnit is present",
                    ("java", "kt", "scala", "groovy"),
                ),
            ),
            silences_line=("@SuppressWarnings", r"@Suppress\("),
        ),
    ),
    record.Tool(
        name="gradle",
        kind="test",
        precedence=59,
        call=record.Call(programs=("gradle", "gradlew")),
        run=record.Run(
            format="junit",
            place="own",
            # Its own folder must be writable; packages that the user's has are read from there.
            arguments=("--no-daemon", "--continue", "--offline", "--gradle-user-home={kept}"),
            own="**/build/test-results/*/TEST-*.xml",
            env={"GRADLE_RO_DEP_CACHE": "{home}/.gradle/caches"},
        ),
        select=record.Selector(_select_gradle, replaces=False),
        endings=_ENDINGS,
        output=record.Output(
            kinds=(("build", "gradle"),),
            text=record.TextFormat(
                "gradle",
                (" tests completed", " test completed"),
                r"^\d+ tests? completed.*$",
                cases=(
                    (r"^(?P<test>\w[\w.$]* > .+) PASSED$", "passed"),
                    (r"^(?P<test>\w[\w.$]* > .+) FAILED$", "failed"),
                    (r"^(?P<test>\w[\w.$]* > .+) SKIPPED$", "skipped"),
                ),
                block=r"^(?P<test>\w[\w.$]* > .+) FAILED$",
                ends=r"^$",
            ),
            signs=r"^BUILD (?:FAILED|SUCCESSFUL) in |^FAILURE: Build failed with an exception",
            clean=r"BUILD SUCCESSFUL in .*",
        ),
        files=record.Files(
            runner="gradle.properties",
            mixed_runner="build.gradle build.gradle.kts",
            scripts="gradlew*",
            artefact_folders=".gradle",
            dependencies="gradle.lockfile libs.versions.toml gradle-wrapper.properties",
            executables="gradle",
            commands="gradle|gradlew",
            parts=(record.PartReader(r"build\.gradle(?:\.kts)?", "text", select=_build_gradle),),
        ),
        tampering=record.Tampering(loosens=(r"-x\s+test\b",), narrows=(r"--tests?\b\S*",)),
    ),
    record.Tool(
        name="testng",
        kind="test",
        output=record.Output(
            kinds=(("test", "testng"),),
            xml=(record.XmlFormat("testng-results", "testng", "test-method", ("status",), ("signature", "name"), ()),),
        ),
    ),
    record.Tool(
        name="checkstyle",
        kind="lint",
        files=record.Files(lint="checkstyle*.xml spotbugs*.xml findbugs*.xml pmd*.xml detekt*.yml"),
    ),
)
