"""Define what a record of a tool holds; every part is optional, and engines use the parts a tool has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck, Kind, Outcome
from reflectloop.verification.tools.project import PackageScripts, ProjectPart

# Location of the report: a file or folder the engine names, a file the tool names next to it, files the tool
# writes into the project, or standard output.
Place = Literal["file", "folder", "beside", "own", "output"]


ASSIGNED = lazy(r"[A-Za-z_]\w*=")  # a variable set before a command


def words(text: str) -> tuple[str, ...]:
    """Split a list of names that is written as text."""
    return tuple(text.split())


@dataclass(frozen=True, kw_only=True)
class Call:
    """The commands that count as a call of the tool."""

    programs: tuple[str, ...] = ()  # program and subcommand, such as "go test"
    modules: tuple[str, ...] = ()  # what follows `python -m`
    python_scripts: tuple[str, ...] = ()  # what follows `python`, such as "manage.py test"
    node_options: tuple[str, ...] = ()  # options that make `node` itself the tool
    toolchain: bool = False  # `+NAME` may follow the program
    python_program: str = ""  # the executable that a Python environment has for it
    python_module: bool = False  # `python -m` starts it too, if the executable is missing
    npm_program: bool = False  # recognised as a step of a package.json script, but has no report reader
    needs_shell: bool = False  # does not expand `*` itself
    watches: str = ""  # pattern of calls that never end
    check_flag: str = ""  # flag that takes the place of the flag that writes files


@dataclass(frozen=True, kw_only=True)
class Run:
    """The arguments and variables with which the tool writes a report."""

    format: str | None = None  # None: plain text on its output
    place: Place = "output"
    # "{report}" is the requested path, "{kept}" a folder next to it for the tool, "{beside}" the parent of both.
    arguments: tuple[str, ...] = ()
    # By the end of a word in the project's command, the argument that the tool would refuse beside it.
    refused_beside: Mapping[str, str] | None = None
    own: str = ""  # name or pattern of a report that the tool names
    env: Mapping[str, str] | None = None  # as in `arguments`; "{home}" is the user's home folder
    stand_in: Path | None = None  # a file that runs the tool's module and writes a report
    reporter: Path | None = None  # a file, `{beside}/NAME`, that the tool loads and that writes `report` beside it
    leading: bool = False  # its options must precede its positional arguments
    valued: frozenset[str] = frozenset()  # options whose value is the next argument
    options_variable: str = ""  # variable that passes the arguments where a script runs the tool
    # Returns options for the check's folder and the installed node_modules folders.
    local_options: Callable[[Path, Sequence[Path]], tuple[str, ...]] | None = None


class Selector(NamedTuple):
    """A tool's way to select tests."""

    words: Callable[[Sequence[str]], tuple[str, ...] | None]
    replaces: bool = True  # the selection replaces what the command names


class TextFormat(NamedTuple):
    """The patterns that describe one runner's text output.

    `sums`, `unloaded` and `empty` are searched in the whole text, so none may begin with white space that crosses
    lines; the others are searched line by line.
    """

    name: str
    marks: tuple[str, ...]  # one of these must occur, or the runner is not considered
    sums: str  # the totals line
    way: Literal["last", "all", "joined"] = "last"  # one totals line; one per part; one spread over lines
    folded: tuple[str, str] = ("", "")  # a pattern spanning two lines, and its one-line replacement
    cases: tuple[tuple[str, Outcome], ...] = ()
    scope: str = ""  # a line that names the suite of the tests below it
    flat: bool = False  # a scope line applies until the next one, whatever its indentation
    closing: str = ""  # the line after which tests are listed a second time
    block: str = ""  # the first line of a failure's text
    ends: str = ""  # the line after the last failure
    stacked: bool = False  # a failure's name spans several lines; the last ends with a colon
    unloaded: str = ""  # a line that reports tests that could not be loaded
    empty: str = ""  # a line that reports that there were no tests


class TestEntry(NamedTuple):
    """One test of a JSON report; the reader of reports builds its id and the text of its failure."""

    outcome: str  # the tool's word for it
    name: str = ""
    scope: str = ""
    file: str = ""  # a part of the id
    id: str = ""  # the tool's own id, instead of one built from file, scope and name
    message: str = ""
    text: str = ""  # the long text of a failure
    at_file: str | None = None
    at_line: int | None = None
    unloaded: bool = False  # the file could not be loaded, so its tests are unknown


class JsonFormat(NamedTuple):
    """A report that is one JSON document, recognised by its keys."""

    keys: frozenset[str]  # keys of the document, or of every entry if the document is a list
    read: Callable[[Any], Iterator[TestEntry]]
    tool: Callable[[Mapping[str, Any]], str] | None = None  # if the document tells which of two tools wrote it
    listed: bool = False  # the document is a list
    incomplete: Callable[[Mapping[str, Any]], bool] | None = None  # True if tests could not be loaded


class EventFormat(NamedTuple):
    """A report of one JSON object per line."""

    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[list[dict[str, Any]]], Any]  # returns a ReportBuilder


class XmlFormat(NamedTuple):
    """The element and attributes in which an XML report writes a test's name and outcome."""

    root: str
    tool: str
    item: str
    outcome: tuple[str, ...]  # attribute names; the first one present is used; none: judged by the inner elements
    name: tuple[str, ...] = ("fullname", "name")
    scope: tuple[str, ...] = ("classname", "type")
    not_started: str = ""  # text in a test that counts as not run, by which it failed to start


@dataclass(frozen=True, kw_only=True)
class Output:
    """Readers and patterns of the tool's reports and logs."""

    kinds: tuple[tuple[Kind, str], ...] = ()  # kinds of check, each with the names reports use for it
    text: TextFormat | None = None
    # Reads a log that patterns cannot describe; called with the text and its lines, returns a RunnerReading.
    read_text: Callable[[str, list[str]], Any] | None = None
    json: tuple[JsonFormat, ...] = ()
    events: tuple[EventFormat, ...] = ()
    xml: tuple[XmlFormat, ...] = ()
    junit_names: tuple[str, ...] = ()  # parts of the names of suites, in lower case
    dotted_junit_ids: bool = False  # its JUnit names are dotted, from which its ids are built
    findings_keys: str = ""  # keys of a JSON report of findings
    signs: str = ""  # pattern of its output
    errors_only: bool = False  # a message without a level is an error, though a build's may be a warning
    clean: str = ""  # pattern of the line that says there are no findings
    none_collected: int | None = None  # exit code if no test was collected
    # Returns the tests that a log calls passed, if the report calls a test skipped of which one part was.
    passed_in_log: Callable[[str], frozenset[str]] | None = None
    contains_tap: bool = False  # its text contains the TAP of other programs, so its own reader is asked before TAP's
    tap_comments: bool = False  # its TAP names each test in a comment above the assertions
    runs_programs: bool = False  # each test in its report is a program, whose output may name cases


class PartReader(NamedTuple):
    """A reader of the part of a configuration file that controls checks."""

    names: str  # pattern of the file's name, in lower case
    format: Literal["toml", "ini", "json", "jsonc", "yaml", "text"]
    prefix: str = ""  # put before every key
    # Picks the part from the parsed document, or from the text; None: all of it.
    select: Callable[[Any], Mapping[str, object]] | None = None
    # Picks what is compared, too, but may change together with sources, so that it is not taken from base.
    beside: Callable[[Any], Mapping[str, object]] | None = None


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files by which the tool is steered or fed, as names separated by spaces, in lower case."""

    runner: str = ""  # configures a test runner, and nothing else
    lint: str = ""  # configures a linter or type checker, and nothing else
    mixed_runner: str = ""  # a part of it controls checks
    mixed_lint: str = ""
    hooks: str = ""  # loaded automatically before or around the checks
    scripts: str = ""  # runs checks
    folders: tuple[str, ...] = ()  # names of folders of configuration
    paths: tuple[str, ...] = ()  # beginnings of paths of configuration, in any folder
    snapshots: str = ""
    artefacts: str = ""  # written by the tool
    artefact_folders: str = ""
    tests: str = ""  # collected by name alone, in any folder
    capital_endings: str = ""  # endings for which a test is named like `FooTest`, and case counts
    dependencies: str = ""  # declares which packages are installed
    modules: str = ""  # importable; a new module of that name would be imported instead
    executables: str = ""  # a file of that name could run instead
    package_keys: str = ""  # keys of package.json
    pyproject: str = ""  # patterns of tables below [tool] of pyproject.toml
    pyproject_nested: str = ""  # the table inside its table that has the settings
    ini_sections: str = ""  # pattern of sections of setup.cfg and tox.ini
    commands: str = ""  # pattern of a command that runs checks, where the plain programs are not enough
    script_names: str = ""  # names of scripts and targets that run it
    parts: tuple[PartReader, ...] = ()


class SettingRule(NamedTuple):
    """The judge of settings whose keys match a pattern."""

    keys: str
    judge: str  # name of a judge of `tampering.settings`
    first: bool = False  # asked before the general rules


class TestSyntax(NamedTuple):
    """Patterns of tests, skips and assertions in one language."""

    endings: tuple[str, ...]
    test: str  # its group `name` is the name of the test
    skip: str
    check: str
    weak: str = r"(?!)"  # matchers that check little
    strong: str = r"(?!)"  # matchers that check the exact value
    tags: str = r"(?!)"  # tags in a test's header that skip it
    braces: bool = True
    calls: bool = False  # a test is a call, and ends with its closing bracket


class SourceSign(NamedTuple):
    """A pattern of source lines that behave differently under this tool."""

    pattern: str
    why: str
    endings: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Tampering:
    """Edits that make the tool check less, or that show that sources know it."""

    settings: tuple[SettingRule, ...] = ()
    loosens: tuple[str, ...] = ()  # patterns in a command that let a failure pass
    narrows: tuple[str, ...] = ()  # patterns of flags that check less
    stricter: tuple[str, ...] = ()  # patterns of flags that check no less
    valued_flags: tuple[str, ...] = ()  # flags whose value is the next word
    syntax: TestSyntax | None = None
    source_signs: tuple[SourceSign, ...] = ()
    variables: tuple[str, ...] = ()  # patterns of variables that its runs set
    imports: tuple[str, ...] = ()  # patterns of the modules or packages by which sources reach for it
    javascript_names: tuple[str, ...] = ()  # names by which JavaScript sources mention it
    javascript_variables: tuple[str, ...] = ()
    silences_line: tuple[str, ...] = ()  # patterns of comments that silence it for one line
    silences_file: tuple[str, ...] = ()  # the same for a whole file


class RunnerCall(NamedTuple):
    """A plain call of one tool: wrappers before it, its arguments after it, and nothing else."""

    tool: str
    lead: tuple[str, ...]
    arguments: tuple[str, ...]
    begins: int  # index in `lead` of the tool

    @property
    def bare(self) -> tuple[str, ...]:
        """The call without its wrappers (coverage, package manager), but with the variables set for it."""
        variables = tuple(word for word in self.lead[: self.begins] if ASSIGNED.match(word))
        argv = (*self.lead[self.begins :], *self.arguments)
        return ("env", *variables, *argv) if variables else argv


class Hint(NamedTuple):
    """A tool call, and the file it was found in."""

    source: str
    call: RunnerCall


@dataclass(frozen=True, kw_only=True)
class Ecosystem:
    """Detection of a build system by its manifests; the checks of a folder are those of one build."""

    manifests: tuple[str, ...]  # patterns of file names
    find: Callable[[ProjectPart], Iterable[DetectedCheck]]
    covers: Callable[[ProjectPart, str], bool]  # True if the checks of a part include those of a folder below it
    last_resort: bool = False  # asked only if no test was detected


@dataclass(frozen=True, kw_only=True)
class PythonTool:
    """Detection of a tool that builds or tests a Python project; of those for tests, the first detected is used."""

    find: Callable[[ProjectPart, list[Hint]], DetectedCheck | None]
    manifests: tuple[str, ...] = ()  # names of files that make a folder a project
    covers: Callable[[ProjectPart, str], bool] | None = None  # True if its tests include those of a folder below


@dataclass(frozen=True, kw_only=True)
class PythonLinter:
    """Detection of a Python linter or type checker by its configuration."""

    files: tuple[str, ...]
    hooks: tuple[str, ...]  # names of pre-commit hooks
    sections: tuple[str, ...] = ()  # of setup.cfg and tox.ini
    command: tuple[str, ...] = ()  # none: the tool on the project's sources
    left_out: frozenset[str] = frozenset()  # options about output, fixes and caches, which judge nothing
    names_its_files: Callable[[ProjectPart], bool] | None = None  # True if its settings say what it checks


@dataclass(frozen=True, kw_only=True)
class NodeTool:
    """Detection of a JavaScript tool that no script of package.json runs."""

    find: Callable[[ProjectPart, PackageScripts], DetectedCheck | None]
    reaches_members: bool = False  # at the top of a workspace it also runs its members' tests


Detection = Ecosystem | PythonTool | PythonLinter | NodeTool


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Everything that is known about one tool."""

    name: str
    kind: Kind = "custom"
    precedence: int = 0  # where several tools fit, the one with the highest is used
    call: Call = Call()
    run: Run | None = None  # None: it is recognised and read, but never run by us
    select: Selector | None = None
    endings: tuple[str, ...] = ()  # of the test files it collects; none: any
    detect: Detection | None = None
    # Returns the kind of one call, if it depends on the arguments; the last parameter is the kind that is expected.
    kind_of_call: Callable[[ProjectPart, Sequence[str], Kind | None], Kind] | None = None
    output: Output = Output()
    files: Files = Files()
    tampering: Tampering = Tampering()
