"""Ruby: rspec, or minitest through rake; rubocop if it is configured."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflectloop.verification.detect.part import ProjectPart
from reflectloop.verification.result import DetectedCheck

MANIFESTS = (r"^(Gemfile|Rakefile)$", r"\.gemspec$")
_TASK = re.compile(r"Rake::TestTask|Minitest::TestTask|\btask\s+:?[\"']?test\b")


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    lead = ("bundle", "exec") if part.first(["Gemfile"]) else ()
    if part.first([".rubocop.yml"]):
        yield part.check("rubocop", "lint", "rubocop", (*lead, "rubocop"), ".rubocop.yml exists")
    specs = part.first([".rspec"]) or next(part.matching(r"^spec/.+_spec\.rb$"), None)
    if specs:
        yield part.check("rspec", "test", "rspec", (*lead, "rspec"), f"{specs} belongs to rspec")
    rakefile = part.first(["Rakefile", "rakefile", "Rakefile.rb"])
    if rakefile and _TASK.search(part.text(rakefile)):
        yield part.check("rake", "test", "rake", (*lead, "rake", "test"), f"{rakefile} has a task for tests")


def covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    return False
