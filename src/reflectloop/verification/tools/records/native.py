"""C and C++: CMake with ctest, autotools, or meson; the test target of a Makefile if nothing else is detected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import code_blocks, record
from reflectloop.verification.tools.project import ProjectPart
from reflectloop.verification.tools.selectors import any_of

_TESTS = lazy(r"^\s*(enable_testing|include\s*\(\s*CTest|add_test|\w+_discover_tests)\b", re.IGNORECASE | re.MULTILINE)
_OFF = lazy(r"^\s*option\s*\(\s*(\w*TEST\w*)\s+\"[^\"]*\"\s+OFF\s*\)", re.IGNORECASE | re.MULTILINE)
_PYTHON_BUILD = lazy(r"^build-backend\s*=\s*[\"'](scikit_build|py_build_cmake|mesonpy)", re.MULTILINE)
# One check of two commands: the script is fixed, and the variable parts are its arguments.
_CMAKE = 'cmake -S . -B "$0" "$@" && cmake --build "$0" --parallel 2'
_MESON = 'meson setup "$0" "$@" && meson compile -C "$0"'
_MESON_TEST = lazy(r"^\s*test\s*\(", re.MULTILINE)
_MESON_OFF = lazy(r"option\s*\(\s*'(\w*tests?\w*)'[^()]*\bvalue\s*:\s*false", re.IGNORECASE)
_MESON_STATEMENT = lazy(
    r"^[ \t]*(if|elif|else|endif|foreach|endforeach)\b([^\n]*)|\b(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)",
    re.MULTILINE,
)
_MESON_STEERS = ("test", "add_test_setup", "subdir", "subdir_done")
_CONFIGURE = "{ [ -x configure ] || autoreconf -i; } && ./configure && make"
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_ENDINGS = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".txt", ".cmake")
_MOST_OUTPUT = "1000000"  # bytes of each test
_SOURCES = r"\.(c|cc|cpp|cxx|h|hpp|f90|s|S)$"

_COMMENT = lazy(r"#\[(=*)\[.*?\]\1\]|#[^\n]*", re.DOTALL)
_COMMAND = lazy(r"(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_STEERS = lazy(
    r"(?i)enable_testing|add_test|set_tests_properties|set_property|\w*discover_tests|add_custom_target|add_custom_command|"
    r"(?:add|target)_compile_(?:options|definitions)|add_definitions|configure_file|add_subdirectory|\w*add_(?:g|unit)?test\w*|ctest\w*|include"
)
_ABOUT_TESTS = lazy(r"(?i)test|check|ctest|gtest|catch|-W|-fsanitize|/W\d|lint|tidy")
_SWITCH = lazy(r"(?i)(?:set|option|unset)\(\s*\w*(?:BUILD|ENABLE|WITH|SKIP|DISABLE|RUN)\w*TEST")


def _find(part: ProjectPart) -> Iterator[DetectedCheck]:
    if part.first(["CMakeLists.txt"]):
        yield from _find_cmake(part)
    elif part.first(["configure.ac"]):
        yield part.check("autotools", "build", "autotools", ("sh", "-c", _CONFIGURE), "configure.ac exists")
        if part.first(["Makefile.am", "Makefile.in"]):
            yield part.check("make-check", "test", "make", ("make", "check"), "Makefile.am creates a check target")
    elif part.first(["meson.build"]):
        yield from _find_meson(part)


def _covers(part: ProjectPart, folder: str) -> bool:
    """Return True for folders below a CMake or autotools project, which it includes."""
    return folder.startswith("" if part.folder == "." else part.folder)


def _free(part: ProjectPart, name: str) -> bool:
    return bool(part.first([f"{name}/CMakeCache.txt"])) or not part.has_folder(name)


def _find_cmake(part: ProjectPart) -> Iterator[DetectedCheck]:
    testing = next((path for path in part.matching(r"(^|/)CMakeLists\.txt$") if _TESTS.search(part.text(path))), None)
    if testing is None and _PYTHON_BUILD.search(part.text("pyproject.toml")):
        return  # the build of a Python package configures it, with its own options
    folder = next((name for name in ("build", "_build") if _free(part, name)), "cmake-build")
    off = _OFF.findall(part.text("CMakeLists.txt"))
    options = tuple(f"-D{name}=ON" for name in dict.fromkeys(off))
    yield part.check("cmake", "build", "cmake", ("sh", "-c", _CMAKE, folder, *options), "CMakeLists.txt exists")
    if testing:
        yield part.check("ctest", "test", "ctest", ("ctest", "--test-dir", folder), f"{testing} adds tests")


def _find_meson(part: ProjectPart) -> Iterator[DetectedCheck]:
    makefile = part.first(_MAKEFILES)
    if makefile and _test_target(part, makefile) and "meson" not in part.text(makefile):
        yield from _find_make(part)  # it needs no further program
        return
    testing = next((path for path in part.matching(r"(^|/)meson\.build$") if _MESON_TEST.search(part.text(path))), None)
    if _PYTHON_BUILD.search(part.text("pyproject.toml")):
        return  # the build of a Python package configures it, with its own options
    folder = next((name for name in ("build", "_build") if not part.has_folder(name)), "meson-build")
    texts = part.text("meson_options.txt") + part.text("meson.options")
    options = tuple(f"-D{name}=true" for name in dict.fromkeys(_MESON_OFF.findall(texts)))
    yield part.check("meson", "build", "meson", ("sh", "-c", _MESON, folder, *options), "meson.build exists")
    if testing:
        yield part.check("meson-test", "test", "meson-test", ("meson", "test", "-C", folder), f"{testing} adds tests")


def _find_make(part: ProjectPart) -> Iterator[DetectedCheck]:
    name = part.first(_MAKEFILES)
    if name is None:
        return
    if any(part.matching(_SOURCES)):
        yield part.check("make", "build", "make", ("make",), f"{name} exists, and sources to compile")
    target = _test_target(part, name)
    if target:
        # A build that makes the tests runs them too, and would leave nothing to do.
        anew = ("-B",) if target in _made_by_default(part.text(name)) else ()
        command = ("make", *anew, target)
        yield part.check(f"make-{target}", "test", "make", command, f"{name} has the target {target}")


def _test_target(part: ProjectPart, makefile: str) -> str | None:
    targets = set(re.findall(r"^([\w.-]+)\s*:(?!=)", part.text(makefile), re.MULTILINE))
    return next((target for target in ("check", "test", "tests") if target in targets), None)


def _made_by_default(makefile: str) -> list[str]:
    """Return what the first target of a Makefile needs."""
    first = re.search(r"^(?!\.)[\w./%-]+[ \t]*:(?!=)(.*)$", makefile.replace("\\\n", " "), re.MULTILINE)
    return first[1].split() if first else []


def _select(tests: Sequence[str]) -> tuple[str, ...] | None:
    """Select tests of CMake's list by their names; None for a source file, since only the build knows its tests."""
    if any(test.lower().endswith(_ENDINGS) for test in tests):
        return None
    return ("-R", any_of(name for test in tests for name in _programs(test)))


def _programs(test: str) -> Iterator[str]:
    """Yield the names in CMake's list that an id may begin with: `suite` and `suite::case` for `suite::case`."""
    parts = test.split("::")
    yield from ("::".join(parts[:end]) for end in range(1, len(parts) + 1))


def _cmake_lists(text: str) -> dict[str, object]:
    """Return the commands about tests, each with the conditions around it."""
    conditions: list[str] = []
    commands: list[str] = []
    for name, arguments in _COMMAND.findall(_COMMENT.sub("", text)):
        lowered = name.lower()
        if lowered in {"if", "while", "foreach", "function", "macro"}:
            conditions.append(arguments)
        elif lowered.startswith("end") and conditions:
            conditions.pop()
        elif lowered in {"else", "elseif"} and conditions:
            conditions[-1] += f" {lowered} {arguments}"
        elif _steers(lowered, arguments):
            commands.append(" if ".join((f"{lowered}({arguments})", *conditions)))
    return code_blocks.numbered("command", commands)


def _steers(name: str, arguments: str) -> bool:
    if name == "return" or _SWITCH.match(f"{name}({arguments}"):
        return True
    return bool(_STEERS.fullmatch(name) and _ABOUT_TESTS.search(name + arguments))


def _meson_lists(text: str) -> dict[str, object]:
    """Return the calls of a meson.build that add tests or leave some out, each with the conditions around it."""
    conditions: list[str] = []
    commands: list[str] = []
    for word, rest, name, arguments in _MESON_STATEMENT.findall(re.sub(r"#[^\n]*", "", text)):
        if word in ("if", "foreach"):
            conditions.append(rest.strip())
        elif word.startswith("end") and conditions:
            conditions.pop()
        elif word in ("elif", "else") and conditions:
            conditions[-1] += f" {word} {rest.strip()}"
        elif name in _MESON_STEERS or (name == "option" and "test" in arguments):
            commands.append(" if ".join((f"{name}({' '.join(arguments.split())})", *conditions)))
    return code_blocks.numbered("command", commands)


_SYNTAX = record.TestSyntax(
    ("c", "cc", "cpp", "cxx"),
    r"\b(?:TEST|TEST_F|TEST_P|TYPED_TEST|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE|START_TEST)\s*\(\s*(?P<name>[^)]*)\)|"
    r"^(?:[A-Za-z_]\w*[\s*&]{1,80}){1,4}(?!(?:if|for|while|switch|return|catch)\b)(?P<function>[A-Za-z_]\w*)\s*\([^;{}()]*\)\s*(?=\{)",
    r"\bGTEST_SKIP\s*\(|\bDISABLED_\w+|\bSKIP\s*\(|\bTEST_(?:IGNORE|PASS)\w*\s*\(|\bdoctest::(?:skip|may_fail|should_fail|expected_failures)\b|"
    r"^[ \t]*#[ \t]*if[ \t]+(?:0|false)\b|^[ \t]*IGNORE_TEST\s*\(",
    r"\b(?:ASSERT|EXPECT|CHECK|REQUIRE|TEST_ASSERT|TEST_FAIL|FAIL|ck_assert|cr_assert|BOOST_CHECK|BOOST_REQUIRE|BOOST_TEST|CU_ASSERT|TEST_EQUAL)\w*\s*\(|"
    r"\b(?:static_)?assert\w*\s*\(|\breturn\s+(?:UNITY_END|RUN_ALL_TESTS|cmocka_run_group_tests\w*|srunner_ntests_failed)\s*\(|"
    r"\bif\s*\([^{}\n;]{1,300}\)\s*\{?\s*(?:return\s+-?[1-9]|exit\s*\(\s*[1-9E]|abort\s*\()",
    r"_NE\b|_TRUE|_NEAR|NO_THROW|ANY_THROW|_GE\b|_LE\b|NOT_NULL|_WITHIN",
    r"_EQ\b|_STREQ|EQUAL|_THROW\b|==",
    tags=r"\[(?:\.[^\]]*|!?hide|!mayfail|!shouldfail)\]",
)

TOOLS = (
    record.Tool(
        name="cmake",
        kind="build",
        precedence=50,
        call=record.Call(programs=("cmake",)),
        run=record.Run(),
        detect=record.Ecosystem(
            manifests=(r"^CMakeLists\.txt$", r"^configure\.ac$", r"^meson\.build$"), find=_find, covers=_covers
        ),
        output=record.Output(kinds=(("build", "cmake ninja"),), signs=r"^CMake (?:Error|Warning)"),
        files=record.Files(
            mixed_runner="cmakelists.txt cmakepresets.json",
            dependencies="conanfile.* vcpkg.json",
            executables="cmake ninja",
            parts=(record.PartReader(r"cmakelists\.txt", "text", select=_cmake_lists),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(
                    r"command (?:enable_testing|add_subdirectory|add_test|\w*discover_tests|"
                    r"\w*add_(?:g|unit)?test\w*)\(.*",
                    "registered",
                    first=True,
                ),
                record.SettingRule(
                    r"command (?:set|option)\(.*\b(?:ON|TRUE|1)\b.*|command include\(.*[Tt]est.*|"
                    r"command option\((?!.*\b(?:OFF|FALSE|0)\b).*",
                    "registered",
                    first=True,
                ),
                record.SettingRule(r"command return\(.*", "loosening", first=True),
                record.SettingRule(
                    r"command (?:target_(?:compile|link|include|precompile)\w*|message|find_package)\(.*|"
                    r"command set_property\(TARGET .*",
                    "harmless",
                    first=True,
                ),
                record.SettingRule(
                    r"command set_tests_properties\(.*\b(?:DISABLED|WILL_FAIL|SKIP_\w+)\b.*", "loosening", first=True
                ),
                record.SettingRule(r"command set_tests_properties\((?!.*_EXPRESSION\b).*", "harmless", first=True),
            )
        ),
    ),
    record.Tool(
        name="ctest",
        kind="test",
        call=record.Call(programs=("ctest",)),
        run=record.Run(
            format="junit",
            place="file",
            arguments=(
                *("--output-junit", "{report}", "--output-on-failure", "--no-tests=error"),
                # The output of a program names its cases.
                *("--test-output-size-passed", _MOST_OUTPUT, "--test-output-size-failed", _MOST_OUTPUT),
            ),
        ),
        select=record.Selector(_select, replaces=False),
        endings=_ENDINGS,
        output=record.Output(
            kinds=(("test", "ctest"),),
            text=record.TextFormat(
                "ctest",
                ("% tests passed", "No tests were found"),
                r"^\d+% tests passed, .*$",
                cases=(
                    (r"^\s*\d+/\d+ Test\s+#\d+: (?P<test>\S+) \.+\s+Passed", "passed"),
                    (r"^\s*\d+/\d+ Test\s+#\d+: (?P<test>\S+) \.+\**(?:Skipped|Not Run \(Disabled)", "skipped"),
                    (r"^\s*\d+/\d+ Test\s+#\d+: (?P<test>\S+) \.+\**(?:Failed|Exception|Timeout|Not Run)", "failed"),
                ),
                empty=r"^No tests were found!!!$",
            ),
            xml=(record.XmlFormat("Site", "ctest", "Test", ("Status",), ("Name",), (), not_started="Unable to find"),),
            junit_names=("ctest",),
            runs_programs=True,
        ),
        files=record.Files(
            runner="ctesttestfile.cmake ctestconfig.cmake ctestcustom.cmake*",
            tests=(
                "*_test.c *_test.cc *_test.cpp *_test.cxx *_tests.c *_tests.cc *_tests.cpp *_unittest.cc "
                "*_unittest.cpp test_*.c test_*.cc test_*.cpp test.c test.cc test.cpp test.cxx tests.c tests.cc "
                "tests.cpp tests.cxx unittest.c unittest.cc unittest.cpp unittests.c unittests.cc unittests.cpp"
            ),
            executables="ctest",
            commands="ctest",
        ),
        tampering=record.Tampering(
            syntax=_SYNTAX, variables=(r"CTEST_\w+", "DASHBOARD_TEST_FROM_CTEST"), silences_line=("NOLINT",)
        ),
    ),
    record.Tool(name="autotools", kind="build", run=record.Run()),
    record.Tool(
        name="meson",
        kind="build",
        run=record.Run(),
        files=record.Files(
            mixed_runner="meson.build meson_options.txt meson.options",
            executables="meson",
            parts=(record.PartReader(r"meson\.build|meson_options\.txt|meson\.options", "text", select=_meson_lists),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(r"command test\(.*should_fail *: *true.*", "loosening", first=True),
                record.SettingRule(r"command subdir_done\(.*", "loosening", first=True),
                record.SettingRule(r"command (?:test|subdir|option)\(.*", "registered", first=True),
            )
        ),
    ),
    record.Tool(
        name="meson-test",
        kind="test",
        call=record.Call(programs=("meson test",)),
        # It writes its report after the last test has ended, over whatever lies there.
        run=record.Run(
            format="junit",
            place="own",
            arguments=("--no-rebuild", "--print-errorlogs"),
            own="**/meson-logs/testlog.junit.xml",
        ),
        endings=_ENDINGS,
        output=record.Output(
            kinds=(("test", "meson"),),
            text=record.TextFormat(
                "meson-test",
                ("Full log written to", "No tests defined."),
                r"^(?:Ok|Fail|Skipped|Timeout|Expected Fail|Unexpected Pass) *: +\d+ *$",
                way="joined",
                cases=(
                    (r"^ *\d+/\d+ (?P<test>\S.*?) +OK +[\d.]+s", "passed"),
                    (r"^ *\d+/\d+ (?P<test>\S.*?) +SKIP +[\d.]+s", "skipped"),
                    (r"^ *\d+/\d+ (?P<test>\S.*?) +(?:FAIL|ERROR|TIMEOUT|UNEXPECTEDPASS) +[\d.]+s", "failed"),
                ),
                empty=r"^No tests defined\.$",
            ),
            runs_programs=True,
        ),
        files=record.Files(commands="meson test"),
    ),
    record.Tool(
        name="make",
        kind="test",
        precedence=45,
        call=record.Call(programs=("make",)),
        run=record.Run(),
        detect=record.Ecosystem(manifests=(), find=_find_make, covers=_covers, last_resort=True),
        output=record.Output(kinds=(("build", "make"),), signs=r"^make(?:\[\d+\])?: \*\*\* "),
        files=record.Files(executables="make gmake", commands="make (?:test|check|lint)"),
    ),
    record.Tool(
        name="clang-tidy",
        kind="lint",
        files=record.Files(lint=".clang-tidy .clang-format .cppcheck*", executables="clang-tidy"),
    ),
)
