"""A rule learned from one failure, put to real past runs, accepted, and then acting in 戒 before anything runs."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from proof.environment import Stage
from proof.paper import Paper

CAUSE = "sh release.sh --all"
ABOUT = (
    "One project whose release script loses its index when it is run over everything. Real runs of real plans, each a "
    "task of its own: those that pass, those that fail of that one cause, and those that fail of others. A rule is "
    "drafted from one of them, replayed over all, accepted, and met again."
)
SCRIPT = """\
case "$1" in
  --one) echo "$2" >> released.txt ;;
  *) echo "IntegrityError: index lost while releasing everything" >&2; exit 3 ;;
esac
"""


class Made(NamedTuple):
    run_id: str
    why: str  # "passed", "cause" or "other"


def main() -> None:
    paper = Paper("learning", ABOUT)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder).resolve())
        project = stage.small_project("project")
        (project / "release.sh").write_text(SCRIPT)
        (project / "reflectloop.toml").write_text('[box]\nstrongest = "workspace"\n')
        stage.sh(project, "git", "add", "-A")
        stage.sh(project, "git", "commit", "-q", "-m", "a release script")
        made = [_run(stage, project, *one) for one in _plans()]
        _learn(paper, stage, project, made)
    paper.write()


def _plans() -> list[tuple[str, str]]:
    """What is run, and what is to come of it."""
    good = [f"sh release.sh --one part-{number}" for number in range(14)]
    good += [f"echo note {number} >> notes.txt" for number in range(12)]
    good += [f"echo 'sh release.sh --all' >> doc-{number}.md" for number in range(6)]  # only speaks of it
    good += [f"printf 'x = {number}\\n' > module_{number}.py" for number in range(8)]
    other = ["exit 7", "test -e missing.txt", "no-such-tool --all", "sh -c 'exit 9'", "grep -q absent README"]
    cause = [CAUSE, f"cd . && {CAUSE}", "sh ./release.sh --all", *[CAUSE] * 4]
    rows = [("passed", one) for one in good] + [("other", one) for one in other] + [("cause", one) for one in cause]
    random.Random(8).shuffle(rows)
    return rows


def _run(stage: Stage, project: Path, why: str, command: str) -> Made:
    _, said = stage.loop(project, "run", stage.commands("true", command), "--new")
    return Made(said["envelope"]["run_id"], why)


def _learn(paper: Paper, stage: Stage, project: Path, made: list[Made]) -> None:
    cause = [one.run_id for one in made if one.why == "cause"]
    passed = [one.run_id for one in made if one.why == "passed"]
    counts = {why: sum(one.why == why for one in made) for why in ("passed", "other", "cause")}
    paper.claim("at least 50 past runs", f"{len(made)}: {counts}", holds=len(made) >= 50)
    _, proposed = stage.loop(project, "lessons", "propose", cause[0])
    rule, name = proposed["data"]["rule"], proposed["data"]["id"]
    told = ", ".join(f"{key} {rule[key]}" for key in ("program", "sub", "flags", "args") if rule[key])
    paper.claim("a rule is drafted from one failed run", told, holds=bool(told))
    found = stage.loop(project, "lessons", "replay", name)[1]["data"]["replay"]
    _claims(paper, found, set(cause), set(passed))
    before = stage.loop(project, "run", stage.commands("touch began", CAUSE), "--new")
    code = before[1]["envelope"]["error_code"]
    paper.claim("a rule that is only proposed stops nothing", code, holds=code == "STEP_FAILED")
    accepted, _ = stage.loop(project, "lessons", "accept", name)
    paper.claim("it is accepted without a word, for nothing speaks against it", f"exit {accepted}", holds=not accepted)
    _met_again(paper, stage, project)
    paper.table(["rule", "value"], [[key, f"`{value}`".replace("|", "\\|")] for key, value in rule.items() if value])


def _claims(paper: Paper, found: dict[str, Any], cause: set[str], passed: set[str]) -> None:
    caught, wrong = ({hit["run"] for hit in found[name]} for name in ("caught", "wrong"))
    seen = f"{found['runs']} looked at, {found['passed']} passed, {found['failed']} failed"
    paper.claim("replay looks at all of them", seen, holds=found["passed"] == len(passed) and not found["unread"])
    paper.claim(
        "it would have caught every run of that cause", f"{len(caught & cause)} of {len(cause)}", holds=cause <= caught
    )
    paper.claim("it would have wrongly stopped none", f"{len(wrong)} of {len(passed)}", holds=not wrong)
    others = len(caught - cause)
    paper.claim("and caught nothing that failed otherwise", str(others), holds=not others)


def _met_again(paper: Paper, stage: Stage, project: Path) -> None:
    code, said = stage.loop(project, "run", stage.commands("touch began", CAUSE), "--new")
    envelope = said["envelope"]
    run = project / ".reflectloop" / "runs" / envelope["run_id"]
    began = list((run / "logs").glob("*")) + list(run.glob("changes.patch"))
    seen = f"{envelope['error_code']}, exit {code}, {len(began)} log(s)"
    paper.claim("the same failure is stopped in 戒, before anything runs", seen, holds=code == 33 and not began)
    code, _ = stage.loop(project, "run", stage.commands("sh release.sh --one part-99"), "--new")
    paper.claim("what is not the same still runs", f"exit {code}", holds=code == 0)


if __name__ == "__main__":
    main()
