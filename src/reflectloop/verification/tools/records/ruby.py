"""Ruby: rspec, or minitest through rake; rubocop if it is configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.json_values import dicts, number_of, table, text_of
from reflectloop.verification.tools.project import ProjectPart
from reflectloop.verification.tools.selectors import unchanged

_TASK = lazy(r"Rake::TestTask|Minitest::TestTask|\btask\s+:?[\"']?test\b")


def _find(part: ProjectPart) -> Iterator[DetectedCheck]:
    lead = ("bundle", "exec") if part.first(["Gemfile"]) else ()
    if part.first([".rubocop.yml"]):
        yield part.check("rubocop", "lint", "rubocop", (*lead, "rubocop"), ".rubocop.yml exists")
    specs = part.first([".rspec"]) or next(part.matching(r"^spec/.+_spec\.rb$"), None)
    if specs:
        yield part.check("rspec", "test", "rspec", (*lead, "rspec"), f"{specs} belongs to rspec")
    rakefile = part.first(["Rakefile", "rakefile", "Rakefile.rb"])
    if rakefile and _TASK.search(part.text(rakefile)):
        yield part.check("rake", "test", "rake", (*lead, "rake", "test"), f"{rakefile} has a task for tests")


def _covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    return False


def _json(root: Mapping[str, Any]) -> Iterator[record.TestEntry]:
    for example in dicts(root.get("examples")):
        file = text_of(example.get("file_path"))
        error = table(example.get("exception"))
        yield record.TestEntry(
            text_of(example.get("status")),
            text_of(example.get("full_description")),
            file=file,
            message=text_of(error.get("message")),
            text=text_of(error.get("backtrace")),
            at_file=file,
            at_line=number_of(example.get("line_number")),
        )


def _failed_outside(root: Mapping[str, Any]) -> bool:
    return bool(number_of(table(root.get("summary")).get("errors_outside_of_examples_count")))


_SYNTAX = record.TestSyntax(
    ("rb",),
    r"^\s*(?:[xf]?(?:it|specify|example|scenario)\s*\(?\s*(?P<quote>['\"])(?P<name>(?:\\.|(?!(?P=quote)).)*)(?P=quote)|def\s+(?P<method>test_\w+)|[xf]?test\s+['\"](?P<words>[^'\"]*)['\"])",
    r"^\s*(?:xit|xdescribe|xcontext|xspecify|fit|fdescribe|fcontext|skip|pending)\b|,\s*(?::?(?:skip|pending|focus))(?:\s*(?::|=>)\s*true|\b)",
    r"^\s*(?:expect|assert\w*|refute\w*|is_expected|must_\w+|flunk|[\w.@\[\]()]+\.(?:should|must_\w+))\b.*$",
    r"be_truthy|be_present|not_tobe_nil|not_toeq|assert_not_nil|include\(|be_a\b|respond_to|be_kind_of",
    r"(?<!not_)toeq|eql\(|match_array|assert_equal|must_equal|contain_exactly|raise_error\(",
    braces=False,
)

TOOLS = (
    record.Tool(
        name="rspec",
        kind="test",
        precedence=30,
        call=record.Call(programs=("rspec",)),
        run=record.Run(
            format="rspec-json",
            place="file",
            arguments=("--format", "progress", "--format", "json", "--out", "{report}"),
        ),
        select=record.Selector(unchanged),
        endings=(".rb",),
        detect=record.Ecosystem(manifests=(r"^(Gemfile|Rakefile)$", r"\.gemspec$"), find=_find, covers=_covers),
        output=record.Output(
            kinds=(("test", "rspec"),),
            text=record.TextFormat(
                "rspec",
                (" examples, ", " example, ", "0 examples"),
                r"^\d+ examples?, \d+ failures?.*$",
                cases=((r"^rspec (?P<test>\S+) # ", "failed"),),
                block=r"^\s{2}\d+\) (?P<test>.+)$",
                ends=r"^Finished in |^Failed examples:$",
                unloaded=r"^An error occurred while loading .*$",
            ),
            json=(record.JsonFormat(frozenset({"examples", "summary"}), _json, incomplete=_failed_outside),),
            junit_names=("rspec",),
        ),
        files=record.Files(
            runner=".rspec .rspec-local .simplecov",
            hooks="spec_helper.rb rails_helper.rb test_helper.rb",
            tests="*_spec.rb *_test.rb test_*.rb",
            dependencies="gemfile gemfile.lock *.gemspec",
            executables="rspec ruby bundle",
            commands="rspec",
        ),
        tampering=record.Tampering(
            syntax=_SYNTAX,
            source_signs=(record.SourceSign(r"defined\?\(?\s*(?:RSpec|Minitest)", "asks whether it is under test"),),
            variables=(r"RSPEC_\w+",),
        ),
    ),
    record.Tool(
        name="rake",
        kind="test",
        call=record.Call(programs=("rake",)),
        run=record.Run(),
        endings=(".rb",),
        output=record.Output(
            kinds=(("test", "minitest"),),
            text=record.TextFormat(
                "minitest",
                (" runs, ", " tests, "),
                r"^\d+ (?:runs|tests), \d+ assertions, .*$",
                block=r"^(?:\s+\d+\) )?(?:Failure|Error):\s*(?P<test>.*)$",
                ends=r"^bin/rails|^rake test|^\d+ runs,",
            ),
        ),
        files=record.Files(scripts="rakefile *.rake", executables="rake minitest", commands="minitest|rake"),
    ),
    record.Tool(
        name="rubocop",
        kind="lint",
        precedence=72,
        call=record.Call(programs=("rubocop",)),
        run=record.Run(format="rubocop-json", place="file", arguments=("--format", "json", "--out", "{report}")),
        output=record.Output(
            findings_keys="metadata files summary",
            signs=r"^\d+ files? inspected, \d+ offenses?|^\d+ files? inspected, no offenses",
            clean=r"\d+ files? inspected, no offenses detected",
        ),
        files=record.Files(lint=".rubocop*.yml .standard.yml", executables="rubocop", commands="rubocop"),
        tampering=record.Tampering(
            settings=(record.SettingRule(r"AllCops\.DisabledByDefault", "loose_when_true", first=True),),
            silences_file=(r"#\s*rubocop:disable\s+all",),
            silences_line=("rubocop:disable",),
        ),
    ),
    record.Tool(name="sorbet", kind="type", output=record.Output(kinds=(("type", "sorbet"),))),
)
