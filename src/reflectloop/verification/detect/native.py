"""C and C++: CMake with ctest, or autotools."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflectloop.verification.detect.part import ProjectPart
from reflectloop.verification.result import DetectedCheck

MANIFESTS = (r"^CMakeLists\.txt$", r"^configure\.ac$")
_TESTS = re.compile(
    r"^\s*(enable_testing|include\s*\(\s*CTest|add_test|\w+_discover_tests)\b", re.IGNORECASE | re.MULTILINE
)
_OFF = re.compile(r"^\s*option\s*\(\s*(\w*TEST\w*)\s+\"[^\"]*\"\s+OFF\s*\)", re.IGNORECASE | re.MULTILINE)
_PYTHON_BUILD = re.compile(r"^build-backend\s*=\s*[\"'](scikit_build|py_build_cmake|mesonpy)", re.MULTILINE)
# One check of two commands: the script is fixed, and the variable parts are its arguments.
_CMAKE = 'cmake -S . -B "$0" "$@" && cmake --build "$0" --parallel 2'
_CONFIGURE = "{ [ -x configure ] || autoreconf -i; } && ./configure && make"


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    if part.first(["CMakeLists.txt"]):
        yield from _cmake(part)
    elif part.first(["configure.ac"]):
        yield part.check("autotools", "build", "autotools", ("sh", "-c", _CONFIGURE), "configure.ac exists")
        if part.first(["Makefile.am", "Makefile.in"]):
            yield part.check("make-check", "test", "make", ("make", "check"), "Makefile.am creates a check target")


def covers(part: ProjectPart, folder: str) -> bool:
    """Return True for folders below a CMake or autotools project, which it includes."""
    return folder.startswith("" if part.folder == "." else part.folder)


def _free(part: ProjectPart, name: str) -> bool:
    return bool(part.first([f"{name}/CMakeCache.txt"])) or not part.has_folder(name)


def _cmake(part: ProjectPart) -> Iterator[DetectedCheck]:
    testing = next((path for path in part.matching(r"(^|/)CMakeLists\.txt$") if _TESTS.search(part.text(path))), None)
    if testing is None and _PYTHON_BUILD.search(part.text("pyproject.toml")):
        return  # the build of a Python package configures it, with its own options
    folder = next((name for name in ("build", "_build") if _free(part, name)), "cmake-build")
    off = _OFF.findall(part.text("CMakeLists.txt"))
    options = tuple(f"-D{name}=ON" for name in dict.fromkeys(off))
    yield part.check("cmake", "build", "cmake", ("sh", "-c", _CMAKE, folder, *options), "CMakeLists.txt exists")
    if testing:
        yield part.check("ctest", "test", "ctest", ("ctest", "--test-dir", folder), f"{testing} adds tests")
