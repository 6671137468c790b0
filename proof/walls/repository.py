"""What a repository's git folder, attributes, links, file names and own folders may do when the engine looks at them."""

# ruff: noqa: E501
from __future__ import annotations

import os
import pty
import re
import select
import time
from pathlib import Path

from proof.walls.person import CANARY, Person
from proof.walls.stories import ALL, story

PART = "repository"
_PLAN = "plan: {title: t, track: direct, verification: {mode: none}, steps: [{id: a, commands: ['echo x >> a.txt']}]}\n"
_LOOKS = (
    ["status"],
    ["scan"],
    ["detect"],
    ["protected"],
    ["run", "plan.yaml"],
    ["diff"],
    ["show"],
    ["apply", "--yes"],
    ["verify"],
)
_COMMITS = (
    ["run", "plan.yaml", "--new"],
    ["apply", "--yes", "--commit"],
    ["scan", "--staged"],
    ["scan", "--range", "HEAD~1..HEAD"],
)


def _tripwire(person: Person) -> tuple[Path, Path]:
    note = person.temp / "tripped"
    script = person.put(person.folder / "trip.sh", f'#!/bin/sh\necho "$@" >> {note}\nexit 0\n', mode=0o755)
    return script, note


def _project(person: Person) -> Path:
    files: dict[str, str | bytes] = {
        ".gitattributes": "* filter=x diff=x merge=x\n",
        "a.txt": "a\n",
        "plan.yaml": _PLAN,
    }
    return person.project(files)


def git_setting(
    name: str,
    lines: str,
    *,
    of: str = "report",
    control: str = "git status; git diff; touch a.txt; git add -A; git commit -qm x; git log -1 --show-signature",
) -> None:
    """Register a program-valued setting of .git/config, as a repository in an archive brings it."""

    def prepare(person: Person) -> tuple[Path, Path]:
        script, note = _tripwire(person)
        project = _project(person)
        with (project / ".git/config").open("a") as file:
            file.write(lines.replace("@TRIP@", str(script)).replace("@BASE@", str(person.folder)) + "\n")
        return project, note

    def tell(person: Person) -> str:
        project, note = prepare(person)
        for words in (*_LOOKS, *_COMMITS):
            person.loop(project, *words)
            if note.exists():
                return f"`{' '.join(words)}` started it"
        return ""

    def plain(person: Person) -> str:
        project, note = prepare(person)
        person.sh(f"echo y >> a.txt; {control}; true", project)
        return "plain git starts it" if note.exists() else ""

    story(PART, f".git/config: {name}", control=plain, of=of)(tell)


git_setting("core.fsmonitor", "[core]\n\tfsmonitor = @TRIP@")
git_setting("filters", '[filter "x"]\n\tclean = @TRIP@\n\tsmudge = @TRIP@\n\tprocess = @TRIP@\n\trequired = true')
git_setting(
    "diff.external and textconv", '[diff]\n\texternal = @TRIP@\n[diff "x"]\n\tcommand = @TRIP@\n\ttextconv = @TRIP@'
)
git_setting("gpg.program", "[gpg]\n\tprogram = @TRIP@\n[commit]\n\tgpgSign = true\n[log]\n\tshowSignature = true")
git_setting(
    "core.hooksPath",
    "[core]\n\thooksPath = @BASE@/hooks",
    control="mkdir ../hooks; cp ../trip.sh ../hooks/pre-commit; git commit -qam x",
)
git_setting(
    "included settings",
    '[include]\n\tpath = @BASE@/more\n[includeIf "gitdir:**"]\n\tpath = @BASE@/more',
    of="new",
    control="printf '[core]\\n\\tfsmonitor = ../trip.sh\\n' > ../more; git status",
)
git_setting(
    "core.pager and pager.*",
    "[core]\n\tpager = @TRIP@\n[pager]\n\tdiff = @TRIP@\n\tlog = @TRIP@",
    control="git -p log -1",
)
git_setting(
    "aliases of commands that exist",
    "[alias]\n\tstatus = !@TRIP@\n\trev-parse = !@TRIP@\n\tx = !@TRIP@",
    control="git x",
)
git_setting(
    "a promised object behind ext::",
    '[remote "origin"]\n\turl = ext::@TRIP@ x\n\tpromisor = true\n[extensions]\n\tpartialClone = origin\n[protocol "ext"]\n\tallow = always',
    control="git fetch origin",
)
git_setting(
    "core.sshCommand and askPass",
    '[core]\n\tsshCommand = @TRIP@\n\taskPass = @TRIP@\n[remote "origin"]\n\turl = ssh://localhost/x',
    control="git fetch origin",
)
git_setting(
    "credential helpers",
    "[credential]\n\thelper = @TRIP@",
    control="printf 'protocol=https\\nhost=localhost\\n\\n' | git credential fill < /dev/stdin",
)
git_setting(
    "core.alternateRefsCommand and uploadpack hooks",
    "[core]\n\talternateRefsCommand = @TRIP@\n[uploadpack]\n\tpackObjectsHook = @TRIP@",
    of="new",
    control="git clone -q --no-local . ../cloned; git -c uploadpack.packObjectsHook=../trip.sh upload-pack . < /dev/null; ../trip.sh",
)
git_setting(
    "merge drivers and tools",
    '[merge "x"]\n\tdriver = @TRIP@\n[mergetool "x"]\n\tcmd = @TRIP@',
    of="new",
    control="git commit -qam one; git checkout -qb o HEAD~1; echo z >> a.txt; git commit -qam two; git merge -q -",
)
git_setting(
    "trailers, sequence editor, editor",
    '[core]\n\teditor = @TRIP@\n[sequence]\n\teditor = @TRIP@\n[trailer "x"]\n\tcommand = @TRIP@\n\tifmissing = add',
    of="new",
    control="git commit -a",
)


def git_state(
    name: str,
    prepare: str,
    *,
    control: str = "timeout 3 git status || exit 9; timeout 3 cat .git/* > /dev/null || exit 9",
) -> None:
    """Register a state of the git folder that is to lead the engine elsewhere, hang it or break it."""

    def tell(person: Person) -> str:
        project = _project(person)
        person.put(person.folder / "fake/.git/objects/x", CANARY)
        person.sh(prepare.replace("@SIBLING@", str(person.sibling)).replace("@HOME@", str(person.home)), project)
        before = sorted((str(path), path.stat().st_mtime_ns) for path in person.sibling.rglob("*"))
        for words in (["status"], ["run", "plan.yaml"], ["diff"], ["verify"], ["scan"]):
            answer = person.loop(project, *words, "--json", timeout_s=60)
            if answer.code in (None, 70):
                return f"`{' '.join(words)}` ended with {answer.word}"
            if CANARY in answer.out:
                return f"`{' '.join(words)}` showed a canary"
        if CANARY in person.kept(project):
            return "a canary was kept"
        after = sorted((str(path), path.stat().st_mtime_ns) for path in person.sibling.rglob("*"))
        return "files outside were changed" if after != before else ""

    def plain(person: Person) -> str:
        project = _project(person)
        person.sh(prepare.replace("@SIBLING@", str(person.sibling)).replace("@HOME@", str(person.home)), project)
        code, out = person.sh(control, project)
        return f"plain tools end with {code}" if code or CANARY in out else ""

    story(PART, f"the git folder: {name}", control=plain)(tell)


git_state(
    "core.worktree is a sibling",
    "git config core.worktree @SIBLING@",
    control="git status --porcelain | grep -q . && exit 9; git rev-parse --show-toplevel | grep -q sibling && exit 9",
)
git_state("HEAD is a pipe", "rm .git/HEAD; mkfifo .git/HEAD")
git_state("packed-refs is a pipe", "rm -f .git/packed-refs; mkfifo .git/packed-refs")
git_state("config is a pipe", "rm .git/config; mkfifo .git/config")
git_state(
    "config is a link to /dev/zero",
    "rm .git/config; ln -s /dev/zero .git/config",
    control="(ulimit -v 2000000; timeout 4 git status) || exit 9",
)
git_state("index is a pipe", "rm .git/index; mkfifo .git/index")
git_state("info/attributes is a pipe", "mkdir -p .git/info; rm -f .git/info/attributes; mkfifo .git/info/attributes")
git_state("info/exclude is a pipe", "mkdir -p .git/info; rm -f .git/info/exclude; mkfifo .git/info/exclude")
git_state(
    "core.attributesFile and excludesFile are pipes",
    "mkfifo ../p; git config core.attributesFile ../p; git config core.excludesFile $PWD/../p",
    control="timeout 3 git status || exit 9",
)
git_state(
    "included settings are a pipe",
    "mkfifo ../q; git config include.path $PWD/../q",
    control="timeout 3 git status || exit 9",
)
git_state(
    "alternates in a circle and of a sibling",
    "echo $PWD/.git/objects > .git/objects/info/alternates; echo @SIBLING@ >> .git/objects/info/alternates; echo /dev/zero >> .git/objects/info/alternates",
    control="git fsck 2>&1 | grep -q . && exit 9; exit 9",
)
git_state(
    ".git is a file that leads elsewhere",
    "mv .git ../elsewhere; echo gitdir: $PWD/../elsewhere > .git",
    control="git rev-parse --git-dir | grep -q elsewhere && exit 9",
)
git_state(".git is a link", "mv .git ../elsewhere; ln -s ../elsewhere .git", control="test -L .git && exit 9")
git_state(
    "commondir leads elsewhere",
    "mkdir ../common; cp -r .git/* ../common/; echo $PWD/../common > .git/commondir",
    control="git rev-parse --git-common-dir | grep -q common && exit 9",
)
git_state(
    "objects is a link to a sibling",
    "mv .git/objects ../objs; ln -s ../objs .git/objects",
    control="test -L .git/objects && exit 9",
)
git_state(
    "a ref that names a file outside",
    "echo 'ref: ../../../home/.ssh/id_walls' > .git/HEAD; mkdir -p .git/refs/heads; ln -s @HOME@/.ssh/id_walls .git/refs/heads/evil",
    control="git status > /dev/null 2>&1 || exit 9; cat .git/refs/heads/evil | grep -q sings && exit 9",
)
git_state(
    "a missing tree",
    "rm -f .git/objects/$(git rev-parse 'HEAD^{tree}' | sed 's,^..,&/,')",
    control="git ls-tree HEAD || exit 9",
)
git_state(
    "a commit that is no commit",
    "printf x > .git/objects/$(git rev-parse HEAD | sed 's,^..,&/,') 2>/dev/null || (chmod +w .git/objects/$(git rev-parse HEAD | sed 's,^..,&/,'); printf x > .git/objects/$(git rev-parse HEAD | sed 's,^..,&/,'))",
    control="git log || exit 9",
)
git_state(
    "an index that is noise", "head -c 5000 /dev/zero | tr '\\0' 'z' > .git/index", control="git status || exit 9"
)
git_state(
    "a grafts, shallow and replace file of noise",
    "mkdir -p .git/info .git/refs/replace; echo zz > .git/info/grafts; echo zz > .git/shallow; echo zz > .git/refs/replace/$(git rev-parse HEAD)",
    control="git log || exit 9",
)
git_state(
    "a sparse checkout and skipped files",
    "git config core.sparseCheckout true; mkdir -p .git/info; mkfifo .git/info/sparse-checkout; git update-index --skip-worktree a.txt",
    control="timeout 3 git checkout -f || exit 9",
)
git_state(
    "a submodule with a name that climbs",
    "git init -q sub; git -C sub commit -q --allow-empty -m x; printf '[submodule \"../../../sibling\"]\\n\\tpath = sub\\n\\turl = ext::touch @SIBLING@/pwn\\n' > .gitmodules; git config 'submodule.../../../sibling.url' 'ext::touch @SIBLING@/pwn'; git add -A; git commit -qm sub",
    control="git submodule status || exit 9; exit 9",
)
git_state(
    "a nested repository with settings that run programs",
    "git init -q n; git -C n config core.fsmonitor 'touch @SIBLING@/pwn;'; git -C n commit -q --allow-empty -m x; echo x > n/f",
    control="git -C n status; test -e @SIBLING@/pwn; exit 9",
)


def led(name: str, prepare: str, start: str = ".") -> None:
    """Register a git folder that leads the engine to another project or folder, which a step would then read."""
    look = "grep -r sings . .git; git cat-file --batch-all-objects --batch | grep -a sings; cat secret.txt id_walls; true\n"
    plan = "plan: {title: t, track: direct, verification: {mode: none}, steps: [{id: a, commands: ['%s']}]}\n"

    def made(person: Person) -> Path:
        person.sh("git init -q . && git add secret.txt && git commit -qm s", person.sibling)
        project = person.project({"look.sh": look, "plan.yaml": plan % look.strip().replace("id_walls", "id_*")})
        person.sh(prepare.replace("@SIBLING@", str(person.sibling)).replace("@HOME@", str(person.home)), project)
        return person.folder / start if start != "." else project

    def tell(person: Person) -> str:
        (person.home / ".config/reflectloop/config.toml").unlink()
        project = made(person)
        person.loop(project, "run", str(person.folder / "project/plan.yaml"), "--json", timeout_s=60)
        text = person.loop(project, "log", timeout_s=30).out
        person.loop(project, "apply", "--yes", timeout_s=30)
        if (person.home / ".ssh/.reflectloop").exists() or (person.sibling / ".reflectloop").exists():
            return "another folder was taken for the project" + (" and read" if CANARY in text else "")
        return "what lies outside was read" if CANARY in text else ""

    def plain(person: Person) -> str:
        project = made(person)
        _, out = person.sh(
            "git rev-parse --show-toplevel --git-common-dir; cat $(git rev-parse --show-toplevel)/* ; git cat-file --batch-all-objects --batch | grep -a sings",
            project,
        )
        return "plain git is led there" if CANARY in out or "home/.ssh" in out else ""

    story(PART, f"the git folder leads elsewhere: {name}", control=plain, walls=ALL)(tell)


_BARE = "git init -q --bare sub && git -C sub config core.bare false && cp -r .git/objects/* sub/objects/ && cp .git/refs/heads/* sub/refs/heads/ && touch sub/refs/tags/keep && rm -rf sub/hooks; "
_CLONE = "; git add -A -f && git commit -qm bare && git clone -q . ../cloned"
led("core.worktree is a private folder", "git config core.worktree @HOME@/.ssh")
led("core.worktree is another project", "git config core.worktree ../../sibling")
led(
    "worktree settings name a private folder",
    "git config extensions.worktreeConfig true; printf '[core]\\n\\tworktree = @HOME@/.ssh\\n' > .git/config.worktree",
)
led(
    "included settings name a private folder",
    "printf '[core]\\n\\tworktree = @HOME@/.ssh\\n' > .git/more; git config include.path more",
)
led("`.git` is a file that names another project", "rm -rf .git; echo gitdir: @SIBLING@/.git > .git")
led("`.git` is a link to another project's", "rm -rf .git; ln -s @SIBLING@/.git .git")
led("its common folder is another project's", "echo @SIBLING@/.git > .git/commondir")
led(
    "its objects are a link to another project's",
    "cp -rn @SIBLING@/.git/objects/* .git/objects/; rm -rf .git/objects; ln -s @SIBLING@/.git/objects .git/objects",
)
led("alternates name another project", "echo @SIBLING@/.git/objects >> .git/objects/info/alternates")
led(
    "a bare repository in a clone names a private folder",
    _BARE + "git -C sub config core.worktree ../../home/.ssh" + _CLONE,
    "cloned/sub",
)
led(
    "a bare repository in a clone names another project",
    _BARE + "git -C sub config core.worktree ../../sibling" + _CLONE,
    "cloned/sub",
)
led(
    "a bare repository in a clone has another's common folder",
    _BARE + "echo ../../sibling/.git > sub/commondir" + _CLONE,
    "cloned/sub",
)
led(
    "a bare repository in a clone borrows another's objects",
    _BARE + "mkdir -p sub/objects/info; echo ../../../sibling/.git/objects > sub/objects/info/alternates" + _CLONE,
    "cloned/sub",
)


def _names(home: Path) -> list[str]:
    """Return the names in HOME, without the folders in which every program of a user keeps its state."""
    return sorted(path.name for path in home.iterdir() if path.name not in (".local", ".cache", ".config"))


def committed(name: str, prepare: str, words: tuple[list[str], ...], of: str = "new") -> None:
    """Register a file of the repository that the engine reads: a link to something endless, or a pipe."""

    def tell(person: Person) -> str:
        project = person.project({"a.txt": "a\n", "plan.yaml": _PLAN})
        person.sh(
            prepare.replace("@HOME@", str(person.home))
            + "; timeout 20 git add -A -f; timeout 20 git commit -qm odd; true",
            project,
        )
        at_home = _names(person.home)
        for line in words:
            argv = ["/bin/bash", "-c", 'ulimit -v 2500000; exec "$@"', "x", *person.engine(*line)]
            code, out = person._finish(argv, project, 120, {}, b"")  # noqa: SLF001
            if code in (None, 70, 1) and (code != 1 or "Memory" in out):
                return f"`{' '.join(line)}` ended with {code}: {out.strip()[-60:]}"
            if CANARY in out:
                return f"`{' '.join(line)}` showed what lies outside"
        if _names(person.home) != at_home:
            return "something was written to HOME"
        return "a canary was kept" if CANARY in person.kept(project) else ""

    def plain(person: Person) -> str:
        project = person.project({"a.txt": "a\n"})
        person.sh(prepare.replace("@HOME@", str(person.home)), project)
        code, out = person.sh(
            "ulimit -v 500000; shopt -s globstar dotglob; for f in **; do case $f in .git/*) continue;; esac; test -d $f || timeout 2 head -c 300000000 $f > ../sink || exit 9; done; test $(stat -c %s ../sink) -gt 200000000 && exit 9; cat $(find . -type l) | head -c 2000",
            project,
        )
        return f"a plain reader ends with {code}" if code or CANARY in out else ""

    story(PART, f"a committed file: {name}", control=plain, of=of)(tell)


_RUN, _DETECT = ["run", "plan.yaml"], ["detect"]
committed("reflectloop.toml links to /dev/zero", "ln -sf /dev/zero reflectloop.toml", (["status"], _RUN), "report")
committed(".gitattributes links to /dev/zero", "ln -sf /dev/zero .gitattributes", (_RUN, ["scan"]), "report")
committed(".gitignore links to /dev/zero", "ln -sf /dev/zero .gitignore", (_RUN, ["scan"]))
committed(
    "a rule file links to /dev/zero",
    "mkdir -p .reflectloop/rules; ln -s /dev/zero .reflectloop/rules/L-0123456789ab.yaml",
    (["policy", "ls"], _RUN),
    "report",
)
committed(
    "a lesson links to /dev/zero",
    "mkdir -p .reflectloop/knowledge/problem; ln -s /dev/zero .reflectloop/knowledge/problem/L-0123456789ab.md",
    (["lessons", "list"], _RUN),
)
committed(
    "a lesson links to a key",
    "mkdir -p .reflectloop/knowledge/problem; ln -s @HOME@/.ssh/id_walls .reflectloop/knowledge/problem/L-0123456789ab.md",
    (["lessons", "list"], _RUN),
)
committed(
    "package.json, Makefile and kin link to /dev/zero",
    "for f in package.json Makefile pyproject.toml tox.ini setup.cfg go.mod Cargo.toml pom.xml build.gradle CMakeLists.txt composer.json Gemfile; do ln -s /dev/zero $f; done",
    (_DETECT, ["protected"], ["verify"]),
)
committed(
    "package.json links to a key",
    "for f in package.json Makefile pyproject.toml CLAUDE.md AGENTS.md; do ln -s @HOME@/.ssh/id_walls $f; done",
    (_DETECT, ["protected"], ["config"]),
)
committed("reflectloop.toml is a pipe", "rm -f reflectloop.toml; mkfifo reflectloop.toml", (["status"], _RUN))
committed(".gitattributes is a pipe", "rm -f .gitattributes; mkfifo .gitattributes", (_RUN, ["scan"]))
committed(".gitignore is a pipe", "mkfifo .gitignore; mkdir s; mkfifo s/.gitignore", (_RUN, ["scan"]))
committed(
    "a rule file is a pipe",
    "mkdir -p .reflectloop/rules; mkfifo .reflectloop/rules/L-0123456789ab.yaml",
    (["policy", "ls"], _RUN),
)
committed(
    "the plan is a pipe, or links to /dev/zero",
    "mkfifo p.yaml; ln -s /dev/zero z.yaml",
    (["plan", "check", "p.yaml"], ["run", "z.yaml"], ["plan", "show", "z.yaml"]),
)
committed(
    "workflow files are pipes",
    "mkdir -p .github/workflows; mkfifo .github/workflows/ci.yml; mkfifo Makefile; mkfifo package.json",
    (_DETECT, ["protected"]),
)
committed(".reflectloop is a file", "echo x > .reflectloop", (["status"], _RUN, ["lessons", "list"]))
committed(".reflectloop is a link to HOME", "ln -s @HOME@ .reflectloop", (["status"], _RUN, ["gc"]))
committed(
    "rules with an expression made to be slow",
    "mkdir -p .reflectloop/rules; printf 'id: x\\npattern: (a+)+$\\nverdict: deny\\n' > .reflectloop/rules/L-0123456789ab.yaml; printf '[policy]\\nrules = \"r.yaml\"\\n[reflect]\\nrules = \"r.yaml\"\\n[secrets]\\nrules = \"r.yaml\"\\n' > reflectloop.toml; printf 'rules:\\n- id: x\\n  pattern: (a+)+$\\n' > r.yaml; mkfifo slow",
    (["policy", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"], _RUN),
)
committed(
    "settings, rules and a baseline outside",
    'printf \'[secrets]\\nrules = "@HOME@/.ssh/id_walls"\\nbaseline = "@HOME@/.ssh/id_walls"\\n[policy]\\nrules = "@HOME@/.ssh/id_walls"\\n[reflect]\\nrules = "@HOME@/.ssh/id_walls"\\n[cost]\\nprices = "@HOME@/.ssh/id_walls"\\n\' > reflectloop.toml; ln -s @HOME@/.ssh/id_walls l',
    (["status"], _RUN, ["policy", "ls"], ["scan"], ["config"]),
)

_EVIL = "\x1b]0;PWN\x07\x1b[2J\x1bc\x1b[6n\u202eRTL\x1b]52;c;cHduZWQ=\x07END"
# The display of progress: it hides and shows the cursor, clears a line and goes up to the one before.
_OWN = re.compile(rb"\x1b\[(?:\?25[lh]|[12]?[AK])")
_BAD = re.compile(rb"\x1b\][^\x1b]|\x1bc|\x1b\[(?![0-9;]*m)[0-9;?]*[A-Za-ln-z]|\x07|\xc2\x9b|\xe2\x80\xae|\xe2\x80\x8b")


def _on_terminal(person: Person, project: Path, argv: list[str]) -> bytes:
    number, master = pty.fork()
    if number == 0:
        os.chdir(project)
        words = person.words(argv)
        os.execve(words[0], words, {**person.env, "TERM": "xterm-256color"})  # noqa: S606
    out, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        ready, _, _ = select.select([master], [], [], 0.5)
        try:
            part = os.read(master, 65536) if ready else b"."
        except OSError:
            break
        if not part:
            break
        out += part if ready else b""
    os.waitpid(number, 0)
    os.close(master)
    return out


def _terminal_control(person: Person) -> str:
    person.put(person.temp / "evil", _EVIL)
    return "cat shows them" if _BAD.search(_on_terminal(person, person.temp, ["/bin/cat", "evil"])) else ""


def terminal(name: str, files: dict[str, str], *lines: list[str], of: str = "new") -> None:
    def tell(person: Person) -> str:
        project = person.project({"a.txt": "a\n", "plan.yaml": _PLAN, **files})
        person.sh(
            "touch $'n\\033]0;PWN\\007' $'bidi\\u202e' $'cr\\rx'; git add -A; git commit -qm $'m\\033]0;x\\007\\033[2J'",
            project,
        )
        for words in lines:
            shown = _on_terminal(person, project, person.engine(*words))
            found = _BAD.search(_OWN.sub(b"", shown))
            if found:
                return f"`{words[0]}` passed on {found[0]!r}"
        return ""

    story(PART, f"escape sequences on the terminal: {name}", control=_terminal_control, of=of)(tell)


_SHOWS = '{title: "T%s", track: direct, verification: {mode: none}, steps: [{id: a, title: "S%s", commands: ["%s"]}]}\n'
_ESCAPED = "\\x1b]0;PWN\\x07\\x1b[2J"
_LOUD = "printf '\\\\033]0;PWN\\\\007\\\\033[2J\\\\033c'; touch $'n\\\\033]0;x\\\\007'; exit 3"
terminal(
    "from titles and output of a plan",
    {"evil.yaml": "plan: " + _SHOWS % (_ESCAPED, _ESCAPED, _LOUD)},
    ["plan", "show", "evil.yaml"],
    ["run", "evil.yaml"],
    ["status"],
    ["show"],
    ["log"],
    ["route"],
    of="report",
)
terminal("from names of files", {}, ["run", "plan.yaml"], ["scan", "."], ["detect"], ["diff", "--stat"], ["protected"])
terminal("from `call`", {}, ["call", "--", "printf", "%b", "\\033]0;PWN\\007\\033[2J\\n"], of="report")
terminal("from settings", {"reflectloop.toml": '[box]\n"a\\u001b]0;PWN\\u0007" = 1\n'}, ["status"], ["config"])
terminal(
    "from a lesson",
    {
        ".reflectloop/knowledge/problem/L-0123456789ab.md": f"---\nid: L-0123456789ab\nkind: problem\ntitle: T{_EVIL}\n---\n{_EVIL}\n"
    },
    ["lessons", "list"],
    ["lessons", "show", "L-0123456789ab"],
)
terminal(
    "from a report that is diagnosed",
    {
        "r.xml": "<testsuite><testcase name='a&#27;'><failure message='x'>"
        + _EVIL.replace("\x1b", "").replace("\x07", "")
        + "</failure></testcase></testsuite>",
        "l.txt": f"FAILED tests/a.py::test - {_EVIL}\nError: {_EVIL}\n",
    },
    ["diagnose", "r.xml"],
    ["diagnose", "l.txt"],
)
terminal(
    "from a committed file that is scanned",
    {"s.txt": f"password = '{_EVIL}aB3dE5gH7jK9'\n"},
    ["scan", "."],
    ["scan", "s.txt"],
)
terminal(
    "from check names and commands",
    {
        "reflectloop.toml": '[verify]\nchecks = [{name = "t\\u001b]0;P\\u0007", run = ["printf", "\\u001b]0;P\\u0007"], kind = "custom"}]\n'
    },
    ["verify"],
    ["detect"],
)
