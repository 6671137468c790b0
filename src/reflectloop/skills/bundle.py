"""Lists the files of the skills and subagents, and makes the templates and their pages that skills share."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import NamedTuple

import yaml

from reflectloop.fileops import templates
from reflectloop.fileops.templates import Template

# The templates of each skill. They lie in its folder; `make docs` copies them from the one place where each is written.
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "tp": ("design", "write_plan_files"),
    "tr": (
        *("preflight", "step-design", "split_step", "execute_step", "run_checks"),
        *("finalize_step", "mark_blocked", "append_steps"),
    ),
    "dual-design": ("design", "step-design"),
    "dual-review": ("review", "run_checks"),
    "review": ("review",),
    "ask-codex": ("execute_step", "step-design", "review"),
    "file-op": ("execute_step", "run_checks"),
    "thinking": ("plan",),
    "verification-pipeline": ("contract",),
}
# What is done with a template that is no request.
_USES: Mapping[str, str] = {
    "design": "give it to `reflectloop tp --from FILE`",
    "step-design": "the answer of a designer",
    "review": "the answer of a reviewer",
    "plan": "check it: `reflectloop plan check FILE`",
    "contract": "give it to `reflectloop gate --contract FILE`",
}
_FRONT = re.compile(r"\A---\n(.*?\n)---\n\n?", re.DOTALL)


class Subagent(NamedTuple):
    """The definition of a subagent."""

    name: str
    description: str
    tools: str
    text: str


def _own(name: str) -> Traversable:
    return importlib.resources.files("reflectloop.skills").joinpath(name)


def skills() -> list[str]:
    return sorted(item.name for item in _own("folders").iterdir() if item.is_dir())


def skill_files() -> dict[str, bytes]:
    """Return every file of every skill by its path below the folder of skills."""
    return dict(sorted(_files(_own("folders"), "")))


def _files(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        name = f"{above}{item.name}"
        if item.is_dir():
            yield from _files(item, f"{name}/")
        elif item.name.endswith((".md", ".json")):
            yield name, item.read_bytes()


def page(name: str) -> str:
    """Return a text that goes into a file of a client: the block of AGENTS.md, the README and licence of the plugin."""
    return _own("pages").joinpath(name).read_text(encoding="utf-8")


def subagents() -> list[Subagent]:
    """Return the definitions of all subagents, by name."""
    texts = {item.name: item.read_text(encoding="utf-8") for item in _own("agents").iterdir()}
    return [_subagent(text) for name, text in sorted(texts.items()) if name.endswith(".md")]


def _subagent(text: str) -> Subagent:
    front, body = front_matter(text)
    return Subagent(str(front["name"]), str(front["description"]), str(front["tools"]), body)


def front_matter(text: str) -> tuple[dict[str, object], str]:
    """Return the fields at the head of a page, and the page without them."""
    head = _FRONT.match(text)
    if head is None:
        return {}, text
    fields = yaml.safe_load(head[1])
    return fields if isinstance(fields, dict) else {}, text[head.end() :]


# Shared templates ---------------------------------------------------------------------------------------------------


def template(name: str) -> Template:
    """Return a template of a skill, a request or one of our own."""
    return templates.parse_template(name, template_text(name).encode())


def template_text(name: str) -> str:
    if name in _USES:
        return _own("templates").joinpath(f"{name}.json").read_text(encoding="utf-8")
    return templates.source(name)


def shared_files() -> dict[str, str]:
    """Return the templates of all skills and the pages on them, by path below the folder of skills."""
    out: dict[str, str] = {}
    for skill, names in TEMPLATES.items():
        out |= {f"{skill}/templates/{name}.json": template_text(name) for name in names}
        out[f"{skill}/templates/README.md"] = _page([template(name) for name in names])
    return out


def _page(wanted: list[Template]) -> str:
    head = _own("templates").joinpath("README.md").read_text(encoding="utf-8")
    lines = [head, "| template | for | use |", "|---|---|---|"]
    lines += [f"| [{item.name}.json]({item.name}.json) | {item.about} | {_use(item)} |" for item in wanted]
    lines += ["", "| template | placeholder | type | meaning | value from | default |", "|---|---|---|---|---|---|"]
    for item in wanted:
        for name, gap in item.gaps.items():
            default = "" if gap.required else f"`{json.dumps(gap.default)}`"
            lines.append(f"| {item.name} | `{name}` | {gap.type} | {gap.about} | {gap.source} | {default} |")
    return "\n".join(lines) + "\n"


def _use(item: Template) -> str:
    if item.name in _USES:
        return _USES[item.name]
    values = "".join(f" {name}=VALUE" for name, gap in item.gaps.items() if gap.required and name != "id")
    return f"`reflectloop template {item.name}{values} \\| reflectloop fileops`"
