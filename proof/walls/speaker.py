"""A hostile agent of the Agent Client Protocol. It stands alone: run with the name of what it is to try."""

# ruff: noqa: C901, PERF401, PLR0912, PTH108, PTH119, PTH211
from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

MODE = sys.argv[1]
FOUND: list[str] = []
PLACE = {"cwd": "/", "number": "1000"}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    number = int(PLACE["number"]) + 1
    PLACE["number"] = str(number)
    send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    while True:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == number:
            return answer
        handle(answer)


def permission(kind: str, command: str) -> None:
    options = [
        {"optionId": "y", "name": "Allow", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "t" + kind, "kind": kind, "title": command, "rawInput": {"command": command}}
    answer = ask("session/request_permission", {"sessionId": "s", "toolCall": call, "options": options})
    FOUND.append(f"permission {kind}: {answer.get('result', {}).get('outcome', {}).get('optionId')}")


def act() -> None:
    cwd = PLACE["cwd"]
    if MODE == "read":
        for path in sys.argv[2:]:
            for spelling in (path, f"{cwd}/..{path}", f"{cwd}/../../../../../..{path}", f"file://{path}"):
                answer = ask("fs/read_text_file", {"sessionId": "s", "path": spelling})
                FOUND.append(str(answer.get("result"))[:100])
            os.symlink(path, f"{cwd}/link-{len(FOUND)}")
            FOUND.append(str(ask("fs/read_text_file", {"sessionId": "s", "path": f"{cwd}/link-{len(FOUND)}"}))[:200])
    elif MODE == "write":
        for folder in sys.argv[2:]:
            os.symlink(folder, f"{cwd}/out")
            for path in (
                f"{folder}/pwned",
                f"{cwd}/../{os.path.basename(folder)}/pwned",
                f"{cwd}/out/pwned",
                f"{cwd}/.git/hooks/pwned",
            ):
                ask("fs/write_text_file", {"sessionId": "s", "path": path, "content": "pwned"})
            os.unlink(f"{cwd}/out")
    elif MODE == "permission":
        for kind in ("execute", "read", "think", "search", "fetch", "other", "switch_mode", "edit", "delete", "move"):
            permission(kind, "rm -rf /")
    elif MODE == "terminal":
        for method in ("terminal/create", "_x/exec", "fs/delete"):
            FOUND.append(str(ask(method, {"sessionId": "s", "command": "id", "args": [], "path": "/"}).get("result")))
    elif MODE == "flood":
        while True:
            sys.stdout.write("a" * 65536)
            sys.stdout.flush()
    elif MODE == "deep":
        sys.stdout.write("[" * 200_000 + "]" * 200_000 + "\n")
        sys.stdout.flush()
    elif MODE == "silent":
        time.sleep(600)
    elif MODE == "requests":
        for number in range(20_000):
            send(
                {
                    "jsonrpc": "2.0",
                    "id": 9000 + number,
                    "method": "fs/read_text_file",
                    "params": {"sessionId": "s", "path": cwd},
                }
            )
    with open(f"{cwd}/found.txt", "w") as file:  # noqa: PTH123
        file.write("\n".join(FOUND) + "\n")


def handle(message: dict[str, Any]) -> None:
    method = message.get("method")
    if method == "initialize":
        send({"jsonrpc": "2.0", "id": message["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}})
    elif method == "session/new":
        PLACE["cwd"] = message["params"]["cwd"]
        send({"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": "s"}})
    elif method == "session/prompt":
        act()
        send({"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}})
    elif "id" in message and method:
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})


def main() -> None:
    for line in sys.stdin:
        handle(json.loads(line))


if __name__ == "__main__":
    main()
