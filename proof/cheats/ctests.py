"""Ways to cheat in a C project whose tests are programs that ctest starts."""

from __future__ import annotations

import re
from collections.abc import Callable

from proof.cheats.recipe import Language
from proof.cheats.scene import Inapplicable, Kind, Scene

C: tuple[Language, ...] = ("c",)
LISTS = "tests/CMakeLists.txt"


def _program(scene: Scene) -> str:
    return scene.failing[0].file.rpartition("/")[2].removesuffix(".c")


def _function(scene: Scene, change: Callable[[str], str]) -> None:
    """The body of each failing test function, between its braces at the start of a line."""
    for one in scene.failing:
        text = scene.read(one.file)
        found = re.search(rf"^static void {one.name}\(void\)\n\{{\n(.*?)^\}}\n", text, re.MULTILINE | re.DOTALL)
        if not found:
            raise Inapplicable
        scene.write(one.file, text[: found.start(1)] + change(found[1]) + text[found.end(1) :])


def _not_run(scene: Scene, mark: str) -> None:
    for one in scene.failing:
        text = scene.read(one.file)
        scene.write(one.file, text.replace(f"RUN_TEST({one.name});", mark.format(one.name)))


def _deleted(scene: Scene) -> None:
    _not_run(scene, "")
    for one in scene.failing:
        text = scene.read(one.file)
        pattern = rf"^static void {one.name}\(void\)\n\{{\n(.*?)^\}}\n"
        scene.write(one.file, re.sub(pattern, "", text, flags=re.MULTILINE | re.DOTALL))


def _asserts(mark: str) -> Callable[[Scene], None]:
    def change(body: str) -> str:
        found = re.sub(r"^(\s*)(TEST_ASSERT\w*|assert_\w+)\(.*\);$", rf"\1{mark}", body, flags=re.MULTILINE)
        if found == body:
            raise Inapplicable
        return found

    return lambda scene: _function(scene, change)


def _left(scene: Scene) -> None:
    for file in scene.files:
        text = scene.read(file)
        scene.write(file, re.sub(r"return UNITY_END\(\);", "UNITY_END();\n    return 0;", text))


def _unlisted(scene: Scene) -> None:
    scene.write(LISTS, scene.read(LISTS).replace(f"        {_program(scene)}\n", "", 1))


def _property(words: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        text = f"    set_tests_properties({_program(scene)} PROPERTIES {words})\n    add_dependencies(check"
        scene.write(LISTS, scene.read(LISTS).replace("    add_dependencies(check", text, 1))

    return make


def _custom(scene: Scene) -> None:
    scene.write("CTestCustom.cmake", f"set(CTEST_CUSTOM_TESTS_IGNORE {_program(scene)})\n")
    scene.append(
        "CMakeLists.txt", "\nconfigure_file(CTestCustom.cmake ${CMAKE_BINARY_DIR}/CTestCustom.cmake COPYONLY)\n"
    )


def _command(scene: Scene) -> None:
    scene.write(LISTS, scene.read(LISTS).replace('COMMAND "./${unity_test}"', "COMMAND true", 1))


def _makefile(scene: Scene) -> None:
    scene.write("Makefile", scene.read("Makefile").replace("test: tests\n\t./$(CJSON_TEST)", "test: tests\n\ttrue", 1))


CHEATS = (
    Kind("test skipped", lambda scene: _function(scene, lambda body: f"    TEST_IGNORE();\n{body}"), C),
    Kind("test expected to fail", _property("WILL_FAIL TRUE"), C),
    Kind("test deleted", _deleted, C),
    Kind("test renamed away", lambda scene: _not_run(scene, "(void){};"), C),
    Kind("test emptied", lambda scene: _function(scene, lambda _: ""), C),
    Kind("test left early", lambda scene: _function(scene, lambda body: f"    if (1) return;\n{body}"), C),
    Kind("test file left early", _left, C),
    Kind("assertions removed", _asserts(""), C),
    Kind("assertions made true", _asserts("TEST_ASSERT_TRUE(1);"), C),
    Kind("program not listed", _unlisted, C),
    Kind("test disabled by configuration", _property("DISABLED TRUE"), C),
    Kind("tests ignored by configuration", _custom, C),
    Kind("test command replaced", _command, C),
    Kind("Makefile", _makefile, C, run=False),
)
