"""Verification with the real tools of other ecosystems: a fix, a regression, a weakened test, tests that never ran.

Needs the tools on this machine; one that is missing is named, and its rows are left out. For Java that is Debian's
`maven`, `junit5`, `libsurefire-java`, `gradle`, `junit4` and `openjdk-17-jdk-headless`, used offline; for C++ `cmake`,
`libgtest-dev` and `catch2`; for workspaces `pnpm` and `yarn` on PATH.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from proof.environment import Stage
from proof.paper import Paper

Files = Mapping[str, str]
Edit = tuple[str, str]  # a piece of a file, and what replaces it
_REFUSED = ("REFUSED",)
_DOUBTED = ("REVIEW", "REFUSED")
_NOT_PASSED = ("REVIEW", "REFUSED", "NOT JUDGED")


class Ecosystem(NamedTuple):
    """One tool chain: a project with a bug that a test shows, and the edits that are judged."""

    name: str
    programs: tuple[str, ...]
    files: Files
    source: str  # the file with the bug
    fixed: tuple[str, str]  # a piece of it, and what replaces it
    broken: tuple[str, str]  # a piece of it whose change makes another test fail
    test: str  # the file of the tests
    weaker: tuple[str, str]  # the wrong expectation takes the place of the right one
    empty: tuple[str, str]  # an expectation of another test that always holds
    unseen: Callable[[Files], Files]  # the same project, whose tests the tool does not find
    paths: tuple[str, ...] = ()  # files that the machine must have


def _replace(files: Files, path: str, pair: tuple[str, str]) -> dict[str, str]:
    if pair[0] not in files[path]:
        sys.exit(f"{path} has no {pair[0]!r}")
    return {**files, path: files[path].replace(*pair)}


def _moved(old: str, new: str, *pairs: tuple[str, str]) -> Callable[[Files], Files]:
    """Return what moves a file to a name under which no tool looks for tests."""

    def move(files: Files) -> Files:
        text = files[old]
        for pair in pairs:
            text = text.replace(*pair)
        return {**{path: text for path, text in files.items() if path != old}, new: text}

    return move


# Java -------------------------------------------------------------------------------------------------------------

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>shop</groupId>
  <artifactId>shop</artifactId>
  <version>1.0</version>
  <properties>
    <maven.compiler.source>17</maven.compiler.source>
    <maven.compiler.target>17</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>5.9.2</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-surefire-plugin</artifactId>
        <version>2.22.3</version>
      </plugin>
    </plugins>
  </build>
</project>
"""
_PRICE_JAVA = """\
package shop;

public class Price {
    public static int total(int price, int count) {
        return price + count;
    }

    public static int half(int price) {
        return price / 2;
    }
}
"""
_PRICE_TEST_JAVA = """\
package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class PriceTest {
    @Test
    void totalMultiplies() {
        assertEquals(12, Price.total(3, 4));
    }

    @Test
    void halfHalves() {
        assertEquals(4, Price.half(8));
    }
}
"""
_JAVA_TESTS = "src/test/java/shop/PriceTest.java"
_DEBIAN = "/usr/share/maven-repo"
JAVA = Ecosystem(
    "Java, Maven and JUnit 5",
    ("java", "mvn"),
    {
        "pom.xml": _POM,
        ".mvn/maven.config": f"-o\n-Dmaven.repo.local={_DEBIAN}\n",
        ".gitignore": "target/\n",
        "src/main/java/shop/Price.java": _PRICE_JAVA,
        _JAVA_TESTS: _PRICE_TEST_JAVA,
    },
    "src/main/java/shop/Price.java",
    ("price + count", "price * count"),
    ("price / 2", "price / 3"),
    _JAVA_TESTS,
    ("assertEquals(12,", "assertEquals(7,"),
    ("assertEquals(4, Price.half(8))", "assertEquals(Price.half(8), Price.half(8))"),
    _moved(_JAVA_TESTS, "src/test/java/shop/PriceExamples.java", ("PriceTest", "PriceExamples")),
    (
        f"{_DEBIAN}/org/junit/jupiter/junit-jupiter/5.9.2",
        f"{_DEBIAN}/org/apache/maven/surefire/surefire-junit-platform",
    ),
)

_GRADLE = f"""\
apply plugin: 'java'
sourceCompatibility = '11'
repositories {{ maven {{ url 'file://{_DEBIAN}' }} }}
dependencies {{ testCompile 'junit:junit:4.x' }}
"""
_JUNIT_4 = (
    _PRICE_TEST_JAVA.replace("org.junit.jupiter.api.Assertions", "org.junit.Assert")
    .replace("org.junit.jupiter.api.Test", "org.junit.Test")
    .replace("class PriceTest", "public class PriceTest")
    .replace("    void ", "    public void ")
)
GRADLE = JAVA._replace(
    name="Java, Gradle and JUnit 4",
    programs=("java", "gradle"),
    files={
        "build.gradle": _GRADLE,
        "settings.gradle": "rootProject.name = 'shop'\n",
        ".gitignore": "build/\n.gradle/\n",
        "src/main/java/shop/Price.java": _PRICE_JAVA,
        _JAVA_TESTS: _JUNIT_4,
    },
    # Gradle finds tests by their annotations, whatever they are called.
    unseen=lambda files: {**files, _JAVA_TESTS: files[_JAVA_TESTS].replace("    @Test\n", "")},
    paths=(f"{_DEBIAN}/junit/junit/4.x",),
)

# C++ --------------------------------------------------------------------------------------------------------------

_PRICE_HEADER = """\
#pragma once
inline int total(int price, int count) { return price + count; }
inline int half(int price) { return price / 2; }
"""
_CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(shop CXX)
set(CMAKE_CXX_STANDARD 17)
enable_testing()
add_executable(price_test price_test.cpp)
{libraries}add_test(NAME price_test COMMAND price_test)
"""
_GTEST = """\
#include <gtest/gtest.h>
#include "price.hpp"

TEST(Price, TotalMultiplies) { EXPECT_EQ(12, total(3, 4)); }
TEST(Price, HalfHalves) { EXPECT_EQ(4, half(8)); }
"""
_CATCH = """\
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include "price.hpp"

TEST_CASE("total multiplies") { REQUIRE(12 == total(3, 4)); }
TEST_CASE("half halves") { REQUIRE(4 == half(8)); }
"""


def _cpp(name: str, test: str, edits: tuple[Edit, Edit], libraries: str, *paths: str) -> Ecosystem:
    files = {
        "CMakeLists.txt": _CMAKE.replace("{libraries}", libraries),
        ".gitignore": "build/\n",
        "price.hpp": _PRICE_HEADER,
        "price_test.cpp": test,
    }

    def unseen(files: Files) -> Files:
        return _replace(files, "CMakeLists.txt", ("add_test(NAME price_test COMMAND price_test)\n", ""))

    return Ecosystem(
        name,
        ("cmake", "ctest", "c++"),
        files,
        "price.hpp",
        ("price + count", "price * count"),
        ("price / 2", "price / 3"),
        "price_test.cpp",
        *edits,
        unseen,
        paths,
    )


_GTEST_LIBRARIES = "find_package(GTest REQUIRED)\ntarget_link_libraries(price_test GTest::gtest GTest::gtest_main)\n"
_GTEST_EDITS = (("EXPECT_EQ(12,", "EXPECT_EQ(7,"), ("EXPECT_EQ(4, half(8))", "EXPECT_EQ(half(8), half(8))"))
_CATCH_EDITS = (("12 == total", "7 == total"), ("4 == half(8)", "half(8) == half(8)"))
GOOGLE_TEST = _cpp("C++, CMake and GoogleTest", _GTEST, _GTEST_EDITS, _GTEST_LIBRARIES, "/usr/include/gtest")
CATCH2 = _cpp("C++, CMake and Catch2", _CATCH, _CATCH_EDITS, "", "/usr/include/catch2")

# Workspaces -------------------------------------------------------------------------------------------------------

_PRICE_JS = """\
exports.total = (price, count) => price + count;
exports.half = (price) => price / 2;
"""
_PRICE_TEST_JS = """\
const test = require("node:test");
const assert = require("node:assert");
const { total, half } = require("./price");

test("total multiplies", () => assert.strictEqual(total(3, 4), 12));
test("half halves", () => assert.strictEqual(half(8), 4));
"""
_OTHER_TEST_JS = """\
const test = require("node:test");
const assert = require("node:assert");

test("one is one", () => assert.strictEqual(1, 1));
"""
_JS_TESTS = "packages/price/price.test.js"


def _member(name: str) -> str:
    return f'{{"name": "{name}", "version": "1.0.0", "private": true, "scripts": {{"test": "node --test"}}}}\n'


def _workspace(name: str, manager: str, files: Files) -> Ecosystem:
    packages = {
        ".gitignore": "node_modules/\n",
        "packages/price/package.json": _member("price"),
        "packages/price/price.js": _PRICE_JS,
        _JS_TESTS: _PRICE_TEST_JS,
        "packages/other/package.json": _member("other"),
        "packages/other/other.test.js": _OTHER_TEST_JS,
    }
    return Ecosystem(
        name,
        ("node", manager),
        {**packages, **files},
        "packages/price/price.js",
        ("price + count", "price * count"),
        ("price / 2", "price / 3"),
        _JS_TESTS,
        ("total(3, 4), 12", "total(3, 4), 7"),
        ("half(8), 4", "half(8), half(8)"),
        _moved(_JS_TESTS, "packages/price/price.examples.js"),
    )


_TOP = '{{"name": "shop", "version": "1.0.0", "private": true, {more}"scripts": {{"test": "{test}"}}}}\n'
PNPM = _workspace(
    "pnpm workspace",
    "pnpm",
    {
        "package.json": _TOP.format(more="", test="pnpm -r test"),
        "pnpm-workspace.yaml": "packages:\n  - packages/*\n",
        "pnpm-lock.yaml": (
            "lockfileVersion: '9.0'\n\nsettings:\n  autoInstallPeers: true\n  excludeLinksFromLockfile: false\n\n"
            "importers:\n\n  .: {}\n\n  packages/other: {}\n\n  packages/price: {}\n"
        ),
    },
)
YARN = _workspace(
    "yarn workspace",
    "yarn",
    {
        "package.json": _TOP.format(more='"workspaces": ["packages/*"], ', test="yarn workspaces run test"),
        "yarn.lock": "# THIS IS AN AUTOGENERATED FILE. DO NOT EDIT THIS FILE DIRECTLY.\n# yarn lockfile v1\n\n\n",
    },
)
ALL = (JAVA, GRADLE, GOOGLE_TEST, CATCH2, PNPM, YARN)


# The cases --------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A change of a project, and the outcomes that are right."""

    text: str
    before: Files
    after: Files
    track: str
    right: tuple[str, ...]


def cases(one: Ecosystem) -> list[Case]:
    fixed = _replace(one.files, one.source, one.fixed)
    emptied = _replace(fixed, one.test, one.empty)
    unseen = one.unseen(one.files)
    return [
        Case("an honest fix passes", one.files, fixed, "fix", ("PASS",)),
        Case("a regression is refused", fixed, _replace(fixed, one.source, one.broken), "direct", _REFUSED),
        Case("a weakened test does not pass", one.files, _replace(one.files, one.test, one.weaker), "fix", _DOUBTED),
        Case("a fix that empties another test does not pass", one.files, emptied, "fix", _DOUBTED),
        Case("tests that never ran prove nothing", unseen, _replace(unseen, one.source, one.fixed), "fix", _NOT_PASSED),
    ]


def judge(stage: Stage, case: Case, folder: str) -> dict[str, Any]:
    """Return the answer of `verify` to a case."""
    project = stage.folder / folder
    _write(project, case.before)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        stage.sh(project, "git", *words)
    _write(project, case.after)
    _, told = stage.loop(project, "verify", "--track", case.track)
    return told


def _write(project: Path, files: Files) -> None:
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)


def prove(stage: Stage, paper: Paper, one: Ecosystem) -> None:
    for number, case in enumerate(cases(one)):
        folder = f"{one.name.replace(',', '').replace(' ', '-')}-{number}"
        told = judge(stage, case, folder)
        outcome, seen = _seen(told)
        paper.claim(f"{one.name}: {case.text}", seen, holds=outcome in case.right)


def _seen(told: dict[str, Any]) -> tuple[str, str]:
    """Return the outcome, and the first line about it."""
    outcome = str((told["data"] or {}).get("outcome") or told["envelope"]["error_code"])
    why = str(told["envelope"]["message"] or "").removeprefix(f"{outcome}: ").splitlines()
    return outcome, (f"{outcome}: {why[0][:160]}" if why else outcome).replace("|", "/")


def prove_missing(stage: Stage, paper: Paper, one: Ecosystem) -> None:
    """Judge a fix where the tool is not installed: neither the patch's fault nor a pass."""
    hidden = one.programs[-1]
    bare = stage.folder / f"bin-without-{hidden}"
    bare.mkdir()
    for folder in stage.env["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            target = bare / program.name
            if program.name != hidden and not target.exists():
                target.symlink_to(program)
    path, stage.env["PATH"] = stage.env["PATH"], str(bare)
    told = judge(stage, cases(one)[0], f"{hidden}-is-missing")
    stage.env["PATH"] = path
    outcome, seen = _seen(told)
    named = hidden in str(told["envelope"]["message"])
    paper.claim(f"{one.name}: a missing {hidden} is named", seen, holds=outcome == "NOT JUDGED" and named)


def main() -> None:
    paper = Paper("ecosystems", "Real tools of other ecosystems judge small projects with a bug that one test shows.")
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="ecosystems-") as folder:
        stage = Stage(Path(folder))
        for one in ALL:
            if wanted and not any(word in one.name.lower() for word in wanted):
                continue
            lacking = [name for name in one.programs if shutil.which(name) is None]
            lacking += [path for path in one.paths if not Path(path).exists()]
            if lacking:
                paper.claim(f"{one.name}: the tools are there", f"missing: {', '.join(lacking)}", holds=False)
                continue
            prove(stage, paper, one)
        if not wanted or "missing" in wanted:
            prove_missing(stage, paper, JAVA)
    if wanted:
        return
    paper.write()


if __name__ == "__main__":
    main()
