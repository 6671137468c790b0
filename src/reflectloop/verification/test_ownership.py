"""Decide which check a test file belongs to."""

from __future__ import annotations

from reflectloop.verification.result import DetectedCheck

_SCRIPTS = (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx", ".vue", ".svelte", ".snap")
_NATIVE = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".txt", ".cmake")
_SUFFIXES = {
    **dict.fromkeys(("pytest", "unittest", "django", "tox", "nox"), (".py", ".rst", ".txt", ".md")),
    **dict.fromkeys(("jest", "vitest", "mocha", "node-test", "ava", "tap", "npm"), _SCRIPTS),
    **dict.fromkeys(("cargo-test", "nextest"), (".rs",)),
    **dict.fromkeys(("maven", "gradle"), (".java", ".kt", ".groovy", ".scala")),
    **dict.fromkeys(("rspec", "rake"), (".rb",)),
    "go-test": (".go",),
    "ctest": _NATIVE,
    "phpunit": (".php", ".phpt"),
    "bats": (".bats", ".sh", ".bash"),
    "dotnet-test": (".cs", ".fs", ".vb"),
}


def collects(check: DetectedCheck, path: str) -> bool:
    """Return True if a check would run this test file, by its folder and its language."""
    inside = check.cwd in (".", "") or path.startswith(f"{check.cwd.rstrip('/')}/")
    known = _SUFFIXES.get(check.tool)
    return inside and (known is None or path.endswith(known))
