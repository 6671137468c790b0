"""Compilers, recognised by their output."""

from __future__ import annotations

from reflectloop.verification.tools.record import Files, Output, Tool

TOOLS = (
    Tool(
        name="rustc",
        kind="build",
        precedence=100,
        output=Output(kinds=(("build", "rustc"),), signs=r"^error(?:\[E\d{4}\])?: .*\n *--> "),
    ),
    Tool(
        name="javac",
        kind="build",
        precedence=44,
        output=Output(kinds=(("build", "javac scalac sbt ant bazel"),), signs=r"\.java:\d+: (?:error|warning): "),
    ),
    Tool(
        name="msbuild",
        kind="build",
        precedence=43,
        output=Output(
            kinds=(("build", "msbuild"),), signs=r": (?:error|warning) (?:CS|MSB|LNK|C|BC|FS|NETSDK|NU)\d{3,5}\s?: "
        ),
    ),
    Tool(
        name="gcc",
        kind="build",
        precedence=42,
        output=Output(
            kinds=(("build", "gcc g++ clang cc gfortran"),),
            signs=(
                r"\.(?:c|h|cc|cpp|cxx|hpp|m|mm)(?::\d+){1,2}: (?:fatal error|error|warning|note): |"
                r": undefined reference to "
            ),
        ),
        files=Files(executables="cc gcc g++ clang clang++"),
    ),
    Tool(
        name="swiftc",
        kind="build",
        precedence=9,
        output=Output(kinds=(("build", "swiftc xcodebuild"),), signs=r"\.swift:\d+:\d+: (?:error|warning): "),
    ),
    Tool(
        name="ghc",
        kind="build",
        precedence=8,
        output=Output(kinds=(("build", "ghc"),), signs=r"\.hs:\d+:\d+: (?:error|warning):"),
    ),
    Tool(
        name="kotlinc",
        kind="build",
        precedence=7,
        output=Output(kinds=(("build", "kotlinc"),), signs=r"^e: (?:file://)?\S+\.kts?:"),
    ),
)
