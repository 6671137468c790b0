"""The prompts: how an agent plans, executes, reviews and reflects with the tools of this server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from pydantic import Field

_TP = """Plan this goal with reflectloop: {goal}

1. Call `context`, and `recall` with the words of the goal.
2. Read the code that the goal touches. Change nothing.
3. Write a plan file (docs/plan.md): small steps, each with the checks that prove it. Prefer the project's own tests.
4. Show the plan to the user and wait for their yes. Then `run_plan` or the prompt `tr` executes it."""

_TR = """Execute the current task with reflectloop, one step at a time.

1. Call `status` and `next`. If the project is locked, stop and tell the user why.
2. For the current step: `recall` with its title, make the edits by `fileops` requests (reading comes first), and run
   the step's checks by a request too.
3. If something fails, call `diagnose` with the output before you try again. Do not repeat what failed.
4. A step that needs a decision of the user is blocked: call `answer`, which asks the user. Do not answer yourself.
5. After the last step call `verify`. Only PASS is done. REVIEW needs the user; REFUSED names what to repair."""

_REVIEW = """Review the change{against} with reflectloop.

1. Call `verify`{base}; wait for its end by `status`.
2. Read `reflectloop://evidence`. Report the outcome, each reason, and what the checks did
   on the base and on the change.
3. Call `scan` for secrets in it.
4. Add your own findings by place and reason. Say which of them are evidence and which are your opinion."""

_REFLECT = """Reflect on {name} with reflectloop.

1. Read `reflectloop://blocker` and call `diagnose` with the log that it names.
2. Say what was seen, why it happened, and what was assumed wrongly. Check each claim in the code or the log.
3. Call `reflect` with {name}; repair what it lists, and send the repaired output as `revised`.
4. Stop after three rounds and tell the user what blocks you."""


_CONTINUE = """{brief}
Continue this task with reflectloop: call `status` and `next`, do the current step by `fileops` requests, and call
`verify` at the end. Only PASS is done. If the project is stopped, do nothing and tell the user."""


def register(server: MCPServer[Any], brief: Callable[[], str]) -> None:
    """Add the prompts; `brief` returns the brief of the current task."""

    def take_over() -> str:
        return _CONTINUE.format(brief=brief())

    def tp(goal: Annotated[str, Field(description="What is to be reached.")]) -> str:
        return _TP.format(goal=goal)

    def tr() -> str:
        return _TR

    def review(base: Annotated[str, Field(description="A revision to compare with.")] = "") -> str:
        against, argument = (f" against {base}", f" with base {base}") if base else ("", "")
        return _REVIEW.format(against=against, base=argument)

    def reflect(name: Annotated[str, Field(description="A ticket or a failed run.")] = "the last run") -> str:
        return _REFLECT.format(name=name)

    for prompt, about in (
        (tp, "Plan a goal in small, provable steps."),
        (tr, "Execute the current task step by step."),
        (review, "Review a change by evidence."),
        (reflect, "Reflect on a failure and repair it."),
        (take_over, "Continue the current task from its brief alone."),
    ):
        server.prompt(description=about)(prompt)
