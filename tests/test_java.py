"""Java: reports that Surefire 2.22.3 wrote of JUnit 5 tests, and the selection of tests by their ids."""

from __future__ import annotations

from pathlib import Path

from reflectloop.verification import reports, tools
from reflectloop.verification.result import Counts, DetectedCheck
from reflectloop.verification.tools.records import jvm

SUREFIRE = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="https://maven.apache.org/surefire/maven-surefire-plugin/xsd/surefire-test-report.xsd" name="shop.PriceTest" time="0.7" tests="10" errors="1" skipped="2" failures="2">
  <properties>
    <property name="java.version" value="17.0.15"/>
  </properties>
  <testcase name="breaks" classname="shop.PriceTest" time="0.161">
    <error message="broken" type="java.lang.IllegalStateException">java.lang.IllegalStateException: broken
	at shop.PriceTest.breaks(PriceTest.java:34)
</error>
  </testcase>
  <testcase name="elsewhere" classname="shop.PriceTest" time="0">
    <skipped message="Assumption failed: assumption is not true" type="org.opentest4j.TestAbortedException">org.opentest4j.TestAbortedException: Assumption failed: assumption is not true
	at shop.PriceTest.elsewhere(PriceTest.java:31)
</skipped>
  </testcase>
  <testcase name="totals{int, int, int}[1]" classname="shop.PriceTest" time="0.244">
    <failure message="expected: &lt;12&gt; but was: &lt;7&gt;" type="org.opentest4j.AssertionFailedError"><![CDATA[org.opentest4j.AssertionFailedError: expected: <12> but was: <7>
	at shop.PriceTest.totals(PriceTest.java:24)
]]></failure>
  </testcase>
  <testcase name="totals{int, int, int}[2]" classname="shop.PriceTest" time="0.001"/>
  <testcase name="halfHalves" classname="shop.PriceTest" time="0"/>
  <testcase name="later" classname="shop.PriceTest" time="0">
    <skipped message="later"/>
  </testcase>
  <testcase name="twice[1]" classname="shop.PriceTest" time="0"/>
  <testcase name="twice[2]" classname="shop.PriceTest" time="0"/>
  <testcase name="totalMultiplies" classname="shop.PriceTest" time="0.03">
    <failure message="expected: &lt;12&gt; but was: &lt;7&gt;" type="org.opentest4j.AssertionFailedError"><![CDATA[org.opentest4j.AssertionFailedError: expected: <12> but was: <7>
	at shop.PriceTest.totalMultiplies(PriceTest.java:16)
]]></failure>
  </testcase>
  <testcase name="inside" classname="shop.PriceTest$Inner" time="0.001"/>
</testsuite>
"""


def test_a_report_of_surefire_names_every_test_with_its_outcome() -> None:
    reading = reports.read(SUREFIRE, tool="maven")
    assert reading is not None
    assert dict(reading.tests) == {
        "shop.PriceTest::breaks": "error",
        "shop.PriceTest::elsewhere": "skipped",
        "shop.PriceTest::totals{int, int, int}[1]": "failed",
        "shop.PriceTest::totals{int, int, int}[2]": "passed",
        "shop.PriceTest::halfHalves": "passed",
        "shop.PriceTest::later": "skipped",
        "shop.PriceTest::twice[1]": "passed",
        "shop.PriceTest::twice[2]": "passed",
        "shop.PriceTest::totalMultiplies": "failed",
        "shop.PriceTest$Inner::inside": "passed",
    }
    assert reading.counts == Counts(passed=5, failed=2, errors=1, skipped=2)
    failed = next(detail for detail in reading.details if detail.test == "shop.PriceTest::totalMultiplies")
    assert "expected: <12> but was: <7>" in failed.error
    assert failed.line == 16


def test_a_report_with_failures_is_a_failure_whatever_maven_returned() -> None:
    for code in (0, 1):
        assert not reports.judge(reports.read(SUREFIRE, tool="maven"), exit_code=code, log="").ok


def test_invocations_of_a_test_with_parameters_are_selected_by_its_method() -> None:
    ids = ["shop.PriceTest::totals{int, int, int}[1]", "shop.PriceTest::totals{int, int, int}[2]", "a.B$C::inside"]
    maven, gradle = (next(tool for tool in jvm.TOOLS if tool.name == name) for name in ("maven", "gradle"))
    assert maven.select is not None
    assert gradle.select is not None
    assert maven.select.words(ids) == (
        "-Dtest=shop.PriceTest#totals*,a.B$C#inside",
        "-Dsurefire.failIfNoSpecifiedTests=false",
        "-DfailIfNoTests=false",
    )
    assert gradle.select.words(ids) == ("--tests", "shop.PriceTest.totals*", "--tests", "a.B$C.inside")
    assert maven.select.words(["a.B::twice[2]", "a.B::sums(int, int)[1]"]) == (
        "-Dtest=a.B#twice*,a.B#sums*",
        "-Dsurefire.failIfNoSpecifiedTests=false",
        "-DfailIfNoTests=false",
    )


def test_a_build_in_which_surefire_found_no_test_ran_none() -> None:
    line = "[INFO] " + "-" * 72
    goal = "[INFO] --- maven-surefire-plugin:2.22.3:test (default-test) @ shop ---"
    silent = f"[INFO] Compiling 1 source file\n[INFO] \n{goal}\n{line}\n[INFO] BUILD SUCCESS\n{line}\n"
    skipped = f"{goal}\n[INFO] Tests are skipped.\n{line}\n[INFO] BUILD SUCCESS\n{line}\n"
    ran = f"{goal}\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n{line}\n[INFO] BUILD SUCCESS\n{line}\n"
    said = [reports.judge(reports.read(text), exit_code=0, log=text).type for text in (silent, skipped, ran)]
    assert said == ["no_tests", "no_tests", "passed"]


def test_gradle_writes_into_a_folder_of_its_own_and_reads_packages_from_the_users(tmp_path: Path) -> None:
    check = DetectedCheck("gradle", "test", "gradle", ("gradle", "test"))
    prepared = tools.prepare(check, report=tmp_path / "report")
    assert f"--gradle-user-home={tmp_path / 'report.kept'}" in prepared.argv
    assert "--offline" in prepared.argv  # a check has no network
    assert prepared.env == {"GRADLE_RO_DEP_CACHE": "{home}/.gradle/caches"}
