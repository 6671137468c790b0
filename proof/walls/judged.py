"""What a patch under judgement, a set-up, a check and its reports may do: links and odd files for the engine to follow."""

# ruff: noqa: E501
from __future__ import annotations

import json
import socket
import threading

from proof.walls.person import CANARY, SYSTEM_PYTHON, Person
from proof.walls.stories import ALL, plainly, story, writes

PART = "judged"
_SETTINGS = (
    '[verify]\nsetup = [["sh", "setup.sh"]]\nchecks = [{name = "t", run = ["sh", "test.sh"], kind = "custom"}]\n'
)
_READ = "for f in deps deps/* deps/*/* deps/*/*/* .venv/* node_modules/*; do test -f $f && head -c 100 $f; done; "
_READ += "cat {home}/.ssh/id_walls {sibling}/secret.txt {home}/.aws/credentials; exit 0\n"


def _set_up(person: Person, left: str, read: str = _READ) -> str:
    """Let a set-up leave something, and look whether the check reads a canary."""
    person.put(person.home / ".aws/credentials", CANARY + "\n", mode=0o600)
    person.put(person.home / ".ssh/known_hosts", CANARY + "\n", mode=0o600)
    places = {"home": person.home, "sibling": person.sibling, "temp": person.temp}
    files: dict[str, str | bytes] = {"setup.sh": left.format(**places) + "\nexit 0\n", "test.sh": read.format(**places)}
    files |= {".gitignore": "deps\n.venv\nnode_modules\ntarget\n", "reflectloop.toml": _SETTINGS, "a.txt": "a\n"}
    if person.wall == "fs":
        files["reflectloop.toml"] = '[box]\nstrongest = "fs"\n' + _SETTINGS
    project = person.project(files)
    person.trust(project)
    before = _outside(person)
    person.put(project / "a.txt", "b\n")
    answer = person.loop(project, "verify", "--json", timeout_s=90)
    again = answer
    if person.wall == "full":  # what the first one kept is used by the second
        person.put(project / "a.txt", "c\n")
        again = person.loop(project, "verify", "--json", timeout_s=90)
    if answer.code in (None, 70) or again.code in (None, 70):
        return f"the engine ended with {answer.word}, {again.word}"
    if CANARY in person.kept(project):
        return "a canary was read"
    return "files outside were changed" if _outside(person) != before else ""


def _outside(person: Person) -> list[tuple[str, bytes]]:
    places = [path for top in (person.home, person.sibling) for path in top.rglob("*") if path.is_file()]
    return sorted((str(path), path.read_bytes()) for path in places if "/.local/state/" not in str(path))


def leftover(name: str, left: str, *, of: str = "new", walls: tuple[str, ...] = ALL, read: str = _READ) -> None:
    control = plainly(f"mkdir -p plain && cd plain && ({left}) ; {read}")
    story(PART, f"a set-up leaves {name}", control=control, of=of, walls=walls)(
        lambda person: _set_up(person, left, read)
    )


leftover("a link to ~/.ssh", "ln -s {home}/.ssh deps", of="report")
leftover(
    "an interpreter that lies in ~/.aws",
    "mkdir -p .venv/bin; touch .venv/pyvenv.cfg; ln -s {home}/.aws/a/b .venv/bin/python",
    of="report",
)
leftover("a link in the middle of a kept folder", "mkdir -p deps; ln -s {home}/.ssh deps/inner")
leftover(
    "a relative link that climbs",
    "mkdir -p deps; ln -s ../../../../../../../../../../{home}/.ssh deps/up; ln -s ../../../../../../../../{home} .venv",
    walls=("full",),
)
leftover("a chain of links", "ln -s deps2 deps; ln -s deps3 deps2; ln -s {home}/.ssh deps3", walls=("full", "landlock"))
leftover(
    "a link to the folder above HOME",
    "ln -s {home}/.. deps",
    walls=("full", "landlock"),
    read="cat deps/home/.ssh/id_walls\n",
)
leftover("a link to /proc/self/root", "ln -s /proc/self/root{home}/.ssh deps", walls=("full",))
leftover("a link to /proc/self/cwd", "ln -s /proc/self/cwd/../sibling deps", walls=("full",))
leftover("a link to a file", "ln -s {home}/.ssh/id_walls deps", walls=("full", "landlock"))
leftover("node_modules as a link", "ln -s {home}/.ssh node_modules", walls=("full", "landlock"))
leftover(".venv as a link", "ln -s {home}/.ssh .venv", walls=("full", "landlock"))
leftover(
    "pyvenv.cfg with a home elsewhere",
    "mkdir -p .venv/bin; printf 'home = {home}/.ssh\\ninclude-system-site-packages = true\\nexecutable = {home}/.ssh/python\\n' > .venv/pyvenv.cfg; ln -s {home}/.ssh/python .venv/bin/python3",
    walls=("full", "landlock"),
)
leftover(
    "an editable install that points outside",
    "mkdir -p .venv/lib/python3.11/site-packages .venv/bin; touch .venv/pyvenv.cfg; echo {home}/.ssh > .venv/lib/python3.11/site-packages/__editable__.x.pth; ln -s /usr/bin/python3 .venv/bin/python",
    walls=("full",),
)
leftover(
    "node_modules whose packages are links out",
    "mkdir -p node_modules/.bin; ln -s {home}/.ssh node_modules/pkg; ln -s {home}/.ssh/id_walls node_modules/.bin/x",
    walls=("full", "landlock"),
)
leftover(
    "a go, cargo and maven folder that are links",
    "mkdir -p deps; for d in vendor target .m2 .cargo; do ln -s {home}/.ssh deps/$d; ln -s {home}/.ssh $d; done",
    walls=("full",),
)
leftover("a hard link to a key", "ln {home}/.ssh/id_walls deps", walls=ALL)
leftover(
    "a folder that is swapped for a link while it is kept",
    "mkdir deps; (for i in $(seq 1 600); do rm -rf deps; ln -s {home}/.ssh deps; rm deps; mkdir deps; done) > /dev/null 2>&1 & sleep 0.2",
    walls=("full", "landlock"),
)
leftover(
    "a folder with a name of options and newlines",
    "mkdir -p 'deps/--ro-bind' \"deps/$(printf 'a\\nb')\"; ln -s {home}/.ssh 'deps/--ro-bind/x'",
    walls=("full",),
)


def odd_leftover(name: str, left: str, walls: tuple[str, ...] = ("full", "landlock")) -> None:
    """Register a leftover that is to hang or break the engine; a plain reader is hung or broken by it."""
    read = "timeout 2 cat deps/* deps/*/* > /dev/null || exit 0\n"

    def control(person: Person) -> str:
        code, _ = person.sh(
            f"mkdir plain; cd plain; ({left}); timeout 2 find . -type f -size +1M -o -type p -o -type s -o ! -readable | grep -q . && exit 9; timeout 1 cat deps/* deps/*/*/* > /dev/null",
            person.temp,
        )
        return f"a plain reader ends with {code}" if code else ""

    story(PART, f"a set-up leaves {name}", control=control, walls=walls)(lambda person: _set_up(person, left, read))


odd_leftover("a pipe", "mkdir deps; mkfifo deps/p; mkfifo .venv")
odd_leftover("a socket", f"mkdir deps; {SYSTEM_PYTHON} -c \"import socket; socket.socket(1).bind('deps/s')\"")
odd_leftover(
    "a folder that cannot be read", "mkdir -p deps/a; touch deps/a/f; chmod 000 deps/a/f deps/a; chmod 000 deps"
)
odd_leftover(
    "a tree 400 deep",
    f"mkdir deps; cd deps; {SYSTEM_PYTHON} -c \"import os\nfor i in range(400):\n  os.mkdir('d'*50); os.chdir('d'*50)\nos.mkfifo('p')\"",
    walls=("full",),
)
odd_leftover("a sparse file of 20 GB", "mkdir deps; truncate -s 20G deps/big || truncate -s 1G deps/big")
odd_leftover("links in a circle", "mkdir deps; ln -s ../deps deps/self; ln -s a deps/b; ln -s b deps/a; mkfifo deps/p")


@story(
    PART,
    "a set-up leaves a link to a folder with sockets",
    of="report",
    walls=ALL,
    control=plainly("ls {home}/.ssh/id_walls && cat {home}/.ssh/id_walls"),
)
def _socket_link(person: Person) -> str:
    folder = person.put(person.home / "run/x", "x").parent
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "docker.sock"))
    (folder / "docker.sock").chmod(0o777)
    server.listen(5)
    heard: list[bytes] = []

    def serve() -> None:
        try:
            while True:
                link, _ = server.accept()
                heard.append(link.recv(100))
                link.close()
        except OSError:
            return

    threading.Thread(target=serve, daemon=True).start()
    speak = f"{SYSTEM_PYTHON} -c \"import socket; s = socket.socket(1); s.connect('deps/docker.sock'); s.send(b'create')\"; exit 0\n"
    _set_up(person, "ln -s {home}/run deps", speak)
    server.close()
    return "a socket of the user was spoken to" if heard else ""


@story(
    PART,
    "a patch that changes what the set-up runs, with an honest base",
    of="report",
    walls=ALL,
    control=plainly("ln -s {home}/.ssh deps; cat deps/id_walls"),
)
def _patched_setup(person: Person) -> str:
    settings = '[verify]\nsetup = [["sh", "tools/post.sh"]]\nchecks = [{name = "t", run = ["sh", "test.sh"], kind = "custom"}]\n'
    files: dict[str, str | bytes] = {
        "reflectloop.toml": settings,
        "tools/post.sh": "true\n",
        "test.sh": "sh lib.sh\n",
        "lib.sh": "true\n",
    }
    files |= {".gitignore": "deps\n", "package-lock.json": "{}\n", "package.json": "{}\n"}
    project = person.project(files)
    person.trust(project)
    evil = f"ln -s {person.home}/.ssh deps"
    read = "cat deps/id_walls; true"
    person.sh(
        f"git checkout -qb pr; echo '{evil}' > tools/post.sh; echo '{read}' > lib.sh; echo ' ' >> package-lock.json; git commit -qam pr; git checkout -q -",
        project,
    )
    person.loop(project, "verify", "--branch", "pr", "--json")
    return "a canary was read" if CANARY in person.kept(project) else ""


def _report(person: Person, left: str, *, outside: bool = True) -> str:
    """Let a check leave a tree of reports; look whether what lies outside was read."""
    suite = '<testsuite name="S" tests="1"><testcase classname="S" name="{0}"><failure message="{0}">x</failure></testcase></testsuite>'
    person.put(person.home / "other/surefire-reports/TEST-a.xml", suite.format(CANARY))
    person.put(
        person.home / "other/a.json",
        json.dumps({"testResults": [{"name": CANARY}], "numTotalTests": 1, "success": False}),
    )
    person.env["WALLS_VARIABLE"] = f"<testsuite><testcase name='{CANARY}'/></testsuite>"
    places = {"home": person.home, "sibling": person.sibling}
    script = "#!/bin/sh\nrm -rf target build\n" + left.format(**places) + "\nexit 0\n"
    pom = "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>b</artifactId><version>1</version></project>\n"
    files: dict[str, str | bytes] = {
        "pom.xml": pom,
        "mvnw": script,
        "src/test/java/ATest.java": "class ATest {}\n",
        "a.txt": "a\n",
    }
    files[".gitignore"] = "target\nbuild\n"
    if person.wall == "fs":
        files["reflectloop.toml"] = '[box]\nstrongest = "fs"\n'
    project = person.project(files)
    person.put(project / "a.txt", "b\n")
    answer = person.loop(project, "verify", "--json", timeout_s=90)
    if answer.code in (None, 70):
        return f"the engine ended with {answer.word}"
    if outside and (CANARY in answer.out or CANARY in person.kept(project)):
        return "a report outside was read"
    own = "<testcase name" in left and "ENTITY" not in left  # a whole report of one test that passes
    return "it passed on a report that is not its own" if answer.code == 0 and not own else ""


def report(name: str, left: str, *, of: str = "new", walls: tuple[str, ...] = ("full", "landlock")) -> None:
    def control(person: Person) -> str:
        said = 'mkdir -p target/surefire-reports; printf \'<testsuite tests="1"><testcase classname="S" name="own-test"><failure message="m">x</failure></testcase></testsuite>\' > target/surefire-reports/TEST-a.xml'
        _report(person, said)
        return "a report of its own is read" if "own-test" in person.kept(person.folder / "project") else ""

    story(PART, f"reports: {name}", control=control, of=of, walls=walls)(lambda person: _report(person, left))


report("target is a link to another project", "ln -s {home}/other target", of="report", walls=ALL)
report(
    "a folder in the middle is a link", "mkdir -p target; ln -s {home}/other/surefire-reports target/surefire-reports"
)
report(
    "the file is a link",
    "mkdir -p target/surefire-reports; ln -s {home}/other/surefire-reports/TEST-a.xml target/surefire-reports/TEST-a.xml",
)
report(
    "the file is a hard link",
    "mkdir -p target/surefire-reports; ln {home}/other/surefire-reports/TEST-a.xml target/surefire-reports/TEST-a.xml",
)
report(
    "the file is a link to the engine's environment",
    "mkdir -p target/surefire-reports; ln -s /proc/self/environ target/surefire-reports/TEST-a.xml",
    walls=ALL,
)
report("the folder is a link to /proc/self/fd", "mkdir -p target; ln -s /proc/self/fd target/surefire-reports")
report("the file is a pipe", "mkdir -p target/surefire-reports; mkfifo target/surefire-reports/TEST-a.xml", walls=ALL)
report(
    "the file is a link to /dev/zero",
    "mkdir -p target/surefire-reports; ln -s /dev/zero target/surefire-reports/TEST-a.xml",
)
report(
    "the file is a socket",
    f"mkdir -p target/surefire-reports; {SYSTEM_PYTHON} -c \"import socket; socket.socket(1).bind('target/surefire-reports/TEST-a.xml')\"",
)
report(
    "the file is sparse, 20 GB",
    "mkdir -p target/surefire-reports; truncate -s 20G target/surefire-reports/TEST-a.xml || truncate -s 2G target/surefire-reports/TEST-a.xml",
)
report(
    "an XML bomb",
    'mkdir -p target/surefire-reports; printf \'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><testsuite><testcase name="&c;"/></testsuite>\' > target/surefire-reports/TEST-a.xml',
)
report(
    "an XML entity of a file outside",
    'mkdir -p target/surefire-reports; printf \'<!DOCTYPE x [<!ENTITY a SYSTEM "file://{home}/.ssh/id_walls">]><testsuite><testcase name="&a;"/></testsuite>\' > target/surefire-reports/TEST-a.xml',
)
report(
    "XInclude of a file outside",
    'mkdir -p target/surefire-reports; printf \'<testsuite xmlns:xi="http://www.w3.org/2001/XInclude"><testcase name="a"><xi:include href="file://{home}/.ssh/id_walls" parse="text"/></testcase></testsuite>\' > target/surefire-reports/TEST-a.xml',
)
report(
    "elements 100,000 deep",
    f"mkdir -p target/surefire-reports; {SYSTEM_PYTHON} -c \"print('<testsuite>' * 100000 + '</testsuite>' * 100000)\" > target/surefire-reports/TEST-a.xml",
)
report(
    "5,000 reports and 3,000 folders",
    "mkdir -p target/surefire-reports; cd target/surefire-reports; seq 1 5000 | split -l 1 -a 4 --additional-suffix=.xml - TEST-; seq 1 3000 | xargs mkdir",
    walls=("full",),
)
report(
    "a name that is no text",
    "mkdir -p target/surefire-reports; printf '<testsuite/>' > \"target/surefire-reports/TEST-$(printf '\\377\\376\\n').xml\"",
)
report(
    "a tree of links in a circle",
    "mkdir -p target/surefire-reports; ln -s . target/surefire-reports/x; ln -s .. target/surefire-reports/y; ln -s / target/surefire-reports/z; ln -s {home} target/home",
)
report(
    "a report that changes while it is read",
    "mkdir -p target/surefire-reports; (for i in $(seq 1 600); do ln -sf {home}/other/surefire-reports/TEST-a.xml target/surefire-reports/TEST-a.xml; rm -f target/surefire-reports/TEST-a.xml; echo '<testsuite/>' > target/surefire-reports/TEST-a.xml; rm -f target/surefire-reports/TEST-a.xml; done) > /dev/null 2>&1 & sleep 0.2",
)


def _new(path: str, body: str = "x", mode: str = "100644") -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\nindex 0000000..1111111\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1 @@\n+{body}\n"


def _patch(person: Person, text: str) -> str:
    project = person.project(
        {
            "a.txt": "a\n",
            "test.sh": "exit 0\n",
            "reflectloop.toml": '[verify]\nchecks = [{name = "t", run = ["sh", "test.sh"], kind = "custom"}]\n',
        }
    )
    before = _outside(person) + sorted((str(path), b"") for path in person.folder.glob("*"))
    hooks = sorted((project / ".git/hooks").iterdir())
    file = person.put(person.folder / "x.patch", text.replace("@SIBLING@", str(person.sibling)))
    before = _outside(person) + sorted((str(path), b"") for path in person.folder.glob("*"))
    answer = person.loop(project, "verify", "--patch", str(file), "--json", timeout_s=90)
    request = {
        "proto": "triflow.fileops.v1",
        "id": "W1",
        "purpose": "execute_step",
        "ops": [{"op": "apply_patch", "patch": file.read_text()}],
    }
    person.loop(project, "fileops", given=json.dumps(request).encode(), timeout_s=90)
    after = _outside(person) + sorted((str(path), b"") for path in person.folder.glob("*"))
    if after != before or sorted((project / ".git/hooks").iterdir()) != hooks:
        return "files outside were changed"
    return f"the engine ended with {answer.word}" if answer.code in (None, 70) else ""


def patch(name: str, text: str, of: str = "report") -> None:
    def control(person: Person) -> str:
        person.put(person.temp / "x.patch", text.replace("@SIBLING@", str(person.sibling)))
        _, out = person.sh(
            "mkdir p; cd p; git init -q .; echo a > a.txt; git add .; git commit -qm a; git apply --unsafe-paths ../x.patch || patch -p1 < ../x.patch; git status --porcelain -uall; ls -R .. .git/hooks | grep -E 'pwn|hooks' ",
            person.temp,
        )
        return "plain tools take some of it" if out.strip() else ""

    story(PART, f"a patch with {name}", control=control, of=of)(lambda person: _patch(person, text))


patch("a path that climbs", _new("../pwn"))
patch("an absolute path", _new("@SIBLING@/pwn").replace("a/@", "@").replace("b/@", "@"))
patch("a hook", _new(".git/hooks/pre-commit", mode="100755"))
patch("a hook in another spelling", _new(".GIT/hooks/pre-commit", mode="100755") + _new("git~1/hooks/pwn"))
patch("a link and a write through it", _new("l", "@SIBLING@", "120000") + _new("l/pwn"))
patch("a rename out", "diff --git a/a.txt b/../pwn\nsimilarity index 100%\nrename from a.txt\nrename to ../pwn\n")
patch(
    "a quoted path that climbs",
    'diff --git "a/..\\057pwn" "b/..\\057pwn"\nnew file mode 100644\n--- /dev/null\n+++ "b/..\\057pwn"\n@@ -0,0 +1 @@\n+x\n',
)
patch(
    "a submodule whose name climbs",
    _new(".gitmodules", '[submodule "../../pwn"]\n+path = sub\n+url = ext::touch @SIBLING@/pwn').replace(
        "+1 @@", "+1,3 @@"
    ),
    "new",
)
patch(
    "settings that lower the walls",
    _new(".reflectloop/plan.yaml", "plan: {}") + _new("reflectloop.local.toml", "[box]"),
    "new",
)
patch("attributes with filters", _new(".gitattributes", "* filter=x diff=x merge=x textconv=x"), "new")
patch(
    "a binary patch that lies about its size",
    "diff --git a/b b/b\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111\nGIT binary patch\nliteral 99999999999\nzcmV\n\n",
)
patch(
    "a link to a device", _new("zero", "/dev/zero", "120000") + _new("reflectloop.toml", "/dev/zero", "120000"), "new"
)


def gated(name: str, path: str, text: str) -> None:
    """Register a file that runs by itself later: applying it must ask a person."""

    def tell(person: Person) -> str:
        project = person.project({"a.txt": "a\n"})
        person.put(person.temp / "new", text)
        answer = person.run(
            project, f"mkdir -p \"$(dirname '{path}')\"; printf '%s' '{text}' > '{path}'; chmod +x '{path}'"
        )
        person.loop(project, "apply", "--yes")
        return "applied without a word" if (project / path).exists() and answer.code == 0 else ""

    story(
        PART,
        f"a step that leaves {name}",
        control=writes("echo x > {home}/ran-by-itself", "ran-by-itself"),
        of="report",
    )(tell)


_TEXTS = {
    ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = ext::sh -c id\n',
    ".vscode/settings.json": '{"git.path": "./evil", "python.defaultInterpreterPath": "./evil"}',
}
for _path in (
    ".husky/pre-commit",
    ".githooks/pre-push",
    "lefthook.yml",
    ".devcontainer/devcontainer.json",
    ".cursor/mcp.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".vscode/settings.json",
    ".idea/runConfigurations/x.xml",
    "mise.toml",
    ".cargo/config.toml",
    ".mvn/extensions.xml",
    "src/x.pth",
    ".gitmodules",
    ".pre-commit-config.yaml",
    ".mcp.json",
    ".claude/settings.json",
    ".envrc",
):
    gated(f"`{_path}`", _path, _TEXTS.get(_path, '{"a": 1}'))
