"""What the author of a cheat can learn by running the tests: which inputs reach the bug, and what is right there."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from proof.cheats.fresh.base import Base
from proof.cheats.fresh.stand import Facts
from proof.cheats.ground import mend
from proof.cheats.judge import Tree, plainly
from proof.cheats.spans import Edit, Source
from proof.environment import Stage

MOST = 400
RECORD = """
def _recorded(function):
    def recording(*args, **named):
        value = function(*args, **named)
        with open({path!r}, "a") as file:
            file.write(repr((args[0], repr(value))) + "\\n")
        return value
    return recording


{target} = _recorded({target})
"""


def learn(stage: Stage, tree: Tree, base: Base, kept: Path) -> Facts:
    """Run the tests twice with a recorder in the source; the tree is as before afterwards."""
    if kept.exists():
        told = json.loads(kept.read_text())
        return Facts(tuple(told["keys"]), tuple((key, value) for key, value in told["answers"]))
    log = kept.with_suffix(".log")
    keys = _keys(stage, tree, base, log)
    answers = _answers(stage, tree, base, log) if base.target and not base.javascript else ()
    kept.write_text(json.dumps({"keys": keys, "answers": answers}, indent=1))
    return Facts(keys, answers)


def _lines(log: Path) -> list[str]:
    lines = list(dict.fromkeys(log.read_text().splitlines())) if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def _keys(stage: Stage, tree: Tree, base: Base, log: Path) -> tuple[str, ...]:
    bug = base.recipe.bug
    path = tree.root / bug.file
    if base.javascript:
        text = (
            f"(require('fs').appendFileSync({json.dumps(str(log))}, JSON.stringify({base.key}) + '\\n'), {bug.wrong})"
        )
    else:
        text = f"((open({str(log)!r}, 'a').write(repr({base.key}) + '\\n')), ({bug.wrong}))[1]"
    path.write_text(path.read_text().replace(bug.text(bug.wrong), bug.text(text)))
    plainly(stage, tree.root, base.recipe.plain, {})
    tree.back([])
    return tuple(line for line in _lines(log) if _plain(line))[:MOST]


def _plain(line: str) -> bool:
    try:
        ast.literal_eval(line)
    except (ValueError, SyntaxError):
        return line in ("true", "false", "null")
    return True


def _answers(stage: Stage, tree: Tree, base: Base, log: Path) -> tuple[tuple[str, str], ...]:
    mend(tree.root, base.recipe.bug)
    path = tree.root / base.recipe.bug.file
    source = Source(path.read_text())
    end = len(source.data)
    path.write_text(source.edited([Edit(end, end, RECORD.format(path=str(log), target=base.target))]))
    plainly(stage, tree.root, base.recipe.plain, {})
    tree.back([])
    found = []
    for line in _lines(log):
        try:
            key, value = ast.literal_eval(line)
        except (ValueError, SyntaxError):
            continue
        value = value.replace(*base.shorten) if base.shorten[0] else value
        if "<" not in value and not isinstance(key, list | dict):
            found.append((repr(key), value))
    return tuple(dict(found).items())[:MOST]
