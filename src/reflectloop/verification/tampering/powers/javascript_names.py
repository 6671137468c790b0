"""JavaScript names that give a power; data only."""

from __future__ import annotations

import re
from functools import cache

from reflectloop.system.patterns import lazy
from reflectloop.verification.tools.record import words
from reflectloop.verification.tools.registry import tools

# By power: chains of names. A chain also stands for everything below it.
_CHAINS: dict[str, str] = {
    "frames": "Error.prepareStackTrace Error.().stack Error.().caller arguments.callee arguments.caller "
    "module:callsites module:error-stack-parser module:stack-trace module:stacktrace-js "
    "module:caller module:caller-path",
    "modules": "require.cache require.extensions module:module._load module:module._cache module:module._extensions "
    "module:module._resolveFilename module:module.register module:module.registerHooks module.constructor "
    "process.mainModule.children module.children module.parent.children module:module.prototype",
    "dynamic": "eval Function module:vm module:node-eval module:repl WebAssembly module:v8.deserialize module:eval",
    "native": "process.binding process.dlopen process._linkedBinding module:ffi-napi module:koffi module:bindings",
    "hooks": "module:inspector module:async_hooks.createHook module:v8 process.setUncaughtExceptionCaptureCallback "
    "module:diagnostics_channel module:worker_threads module:domain",
    "equality": "Proxy Symbol.toPrimitive Symbol.hasInstance",
    "process": "process.abort process.kill process.reallyExit process._kill",
    "watchers": "process.listenerCount process.listeners process.rawListeners process.eventNames",
    "chance": "Math.random module:crypto.randomBytes module:crypto.randomUUID crypto.randomUUID crypto.getRandomValues",
    "processes": "process.ppid process.execArgv process.argv0 module:ps-list module:pidtree",
    "subprocess": "module:child_process module:cluster module:execa module:cross-spawn module:shelljs",
    "network": "module:http module:https module:http2 module:net module:tls module:dgram module:dns fetch "
    "XMLHttpRequest WebSocket EventSource module:axios module:node-fetch module:undici module:got module:request",
    "environment": "process.env import.meta.env Deno.env Bun.env module:dotenv",
    "arguments": "process.argv Deno.args Bun.argv",
    "clock": "Date.now Date performance.now process.hrtime module:perf_hooks process.uptime",
    "later": "setTimeout setInterval setImmediate queueMicrotask process.nextTick module:timers",
    "surroundings": "WeakRef FinalizationRegistry module:async_hooks "
    "process.cwd process.pid process.platform process.version process.versions process.title "
    "process.stdout.isTTY process.stderr.isTTY process.stdin.isTTY process.execPath process.memoryUsage require.main "
    "module.parent process.mainModule module.paths module:os navigator location document __filename "
    "Date.().getTimezoneOffset Intl.DateTimeFormat "
    "process.release process.features process.config process.getuid process.report",
    "handlers": "process.on process.once process.addListener process.prependListener",
    "settings": "process.chdir process.umask process.setuid",
    "exit": "process.exit process.exitCode",
}
_DEEPEST = 6  # parts of a chain above
_FILES = lazy(r"^module:(?:fs(?:/promises)?|graceful-fs|fs-extra|memfs)(?:\.promises)?\.(\w+)")
_WRITES = lazy(r"write|append|mkdir|rm|unlink|rename|copy|chmod|chown|truncate|symlink|link|utimes|open|create|cp")
_TEST_MODULES = words(
    "test node:test @jest/globals @jest/expect expect chai sinon tape ava tap uvu jasmine-core should supertest "
    "@playwright/test @testing-library/jest-dom qunit jsdom-global proxyquire rewire nock mockery testdouble zora"
)
# Names that runners define for tests; the second list has ordinary words too.
RUNNER_GLOBALS = frozenset(
    words(
        "jest describe expect vi mocha jasmine beforeEach afterEach beforeAll afterAll __karma__ __coverage__ Cypress "
        "xdescribe fdescribe"
    )
)
RUNNER_WORDS = RUNNER_GLOBALS | {"it", "test", "suite", "specify", "before", "after"}
INTRINSICS = frozenset(
    words(
        "Array Object String Number Boolean Math JSON Promise Date Map Set WeakMap WeakSet Symbol Reflect Function "
        "RegExp Error TypeError RangeError BigInt Intl Buffer console setTimeout setInterval setImmediate "
        "queueMicrotask structuredClone Proxy parseInt parseFloat isNaN require ArrayBuffer Uint8Array Iterator"
    )
)
GLOBALS = frozenset(("globalThis", "global", "window", "self"))
CI = lazy(r"\A(?:CI|GITHUB_ACTIONS|GITLAB_CI|TRAVIS|CIRCLECI|JENKINS_URL|BUILDKITE|APPVEYOR|TF_BUILD)\Z")
TEST = lazy(r"(?<![A-Za-z])(?:unit)?tests?(?![A-Za-z])", re.IGNORECASE)
SPEC = lazy(r"(?<![A-Za-z])specs?(?![A-Za-z])", re.IGNORECASE)
EQUALITY_NAMES = frozenset(("asymmetricMatch", "jest.asymmetricMatcher", "$$typeof", "getExpectedType"))


def _of_tools(field: str) -> list[str]:
    return [pattern for tool in tools() for pattern in getattr(tool.tampering, field)]


@cache
def tool() -> re.Pattern[str]:
    """Return the pattern of a test tool's name as a whole word."""
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_of_tools('javascript_names'))})(?![A-Za-z0-9])", re.IGNORECASE)


@cache
def variables() -> re.Pattern[str]:
    """Return the pattern of the variables that test tools set."""
    return re.compile(rf"\A(?:{'|'.join(_of_tools('javascript_variables'))}|npm_lifecycle_\w+|REFLECTLOOP\w*)\Z")


def is_test_module(name: str) -> bool:
    """Return True for a package that tests use, and its parts."""
    whole = name if name.startswith("@") else name.partition("/")[0]
    return (
        whole in _TEST_MODULES
        or name in _TEST_MODULES
        or tool().fullmatch(whole.lstrip("@").partition("/")[0]) is not None
    )


@cache
def _table() -> dict[str, str]:
    return {chain: power for power, chains in _CHAINS.items() for chain in chains.split()}


def power_of(chain: str) -> str | None:
    """Return the power that a chain of names gives, or None."""
    if match := _FILES.match(chain):
        return "write" if _WRITES.search(match[1]) else "read"
    if chain.startswith("module:") and is_test_module(chain.removeprefix("module:").partition(".")[0]):
        return "test-tools"
    table, parts = _table(), chain.split(".")
    for end in range(min(len(parts), _DEEPEST), 0, -1):
        if power := table.get(".".join(parts[:end])):
            return power
    return None


@cache
def _hints(power: str) -> tuple[bytes, ...]:
    longest = {max(re.findall(r"\w+", chain), key=len) for chain in _CHAINS.get(power, "").split()}
    return tuple(sorted(word.encode() for word in longest | ({"fs"} if power in ("read", "write") else set())))


def mentions(power: str, data: bytes) -> bool:
    """Return True if a text has a word by which a power is used, which says only that it is worth parsing."""
    return any(hint in data for hint in _hints(power))
