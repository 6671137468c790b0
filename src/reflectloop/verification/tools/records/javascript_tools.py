"""JavaScript package managers, monorepo tools, linters and coverage: recognised in scripts and protected."""

from __future__ import annotations

from reflectloop.verification.tools import javascript, record

# What ava, tap and tape call assertions; their contexts are called t, st, tt, t2 and the like.
_OF_CONTEXT = (
    "is|isNot|isDeeply|(?:not)?[dD]eep(?:Loose|Strict)?Equals?|(?:strict|loose|not|notStrict)?[eE]quals?|"
    "(?:strict|not|strictNot)?[sS]ame|true|false|throws\\w*|notThrows\\w*|doesNotThrow|rejects|not|truthy|falsy|"
    "(?:not)?[lL]ike|(?:not)?[rR]egex|ok|notOk|(?:not|doesNot)?[mM]atch|snapshot|matchSnapshot"
)

_SYNTAX = record.TestSyntax(
    javascript.CODE,
    r"\b[xf]?(?:it|test|specify)(?:\.\w+)*(?:\([^()]*\)|`[^`]*`)?\s*\(\s*(?P<quote>['\"`])(?P<name>(?:\\.|(?!(?P=quote)).)*)(?P=quote)",
    r"\b(?:it|test|describe|context|suite|specify)\.(?:skip|todo|failing|fails|skipIf|runIf|only)\b|\b(?:xit|xtest|xdescribe|xcontext|fit|fdescribe|fcontext)\s*\(|"
    r"\.each\(\s*\[\s*\]\s*\)|\bthis\.skip\(\)|\bt\.(?:skip|todo)\(|\bctx\.skip\(|[{,]\s*(?:skip|todo|only)\s*:\s*(?:true|['\"!]|process\b|\w+\()|\b(?:it|test|describe|context|suite|specify)\[\s*'",
    r"\bexpect(?:\.\w+)?\s*\(|\bassert(?:\.\w+)*\s*\(|"
    r"\b(?:[a-z]{0,2}t\d?|tap)\.(?:" + _OF_CONTEXT + r")\s*\(|\.should\.\w+|\bsinon\.assert\.\w+\s*\(",
    r"toBeDefined|toBeTruthy|toBeFalsy|toBeInstanceOf|toContain|toMatch\b|toBeGreaterThan|toBeLessThan|anything\(\)|expect\.any\b|not\.to(?:Be|Equal|Throw)|toHaveBeenCalled\(|toHaveLength|"
    r"toBeCloseTo|assert\.ok|toMatchSnapshot|toMatchInlineSnapshot|toBeNull\b|\.exist\b|\.ok\b|toThrow\(\)|toHaveProperty|arrayContaining|objectContaining",
    r"toBe\(|toEqual\(|toStrictEqual\(|toThrow\(.|toHaveBeenCalledWith|toHaveBeenCalledTimes|deepEqual|strictEqual|assert\.equal|\.eql?\(|t\.is\(",
    calls=True,
)


_LINTER = record.Call(npm_program=True)


TOOLS = (
    record.Tool(
        name="npm",
        run=record.Run(env=javascript.CI),
        endings=javascript.ENDINGS,
        files=record.Files(
            runner=".npmrc .yarnrc* babel.config.* .babelrc* turbo.json nx.json lerna.json project.json",
            mixed_runner="package.json",
            artefact_folders="node_modules .turbo",
            tests=(
                "*.test.[jt]s *.test.[jt]sx *.test.[cm][jt]s *.spec.[jt]s *.spec.[jt]sx *.spec.[cm][jt]s *.test-d.ts "
                "*.test.vue *.test.svelte *-test.[jt]s *-test.[cm]js *_test.[jt]s *_test.tsx test-*.[jt]s "
                "test-*.[cm]js test.[jt]s test.[cm]js"
            ),
            dependencies=(
                "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock bun.lock bun.lockb"
            ),
            executables="npm npx pnpm yarn",
            package_keys="lint-staged husky simple-git-hooks pre-commit babel wireit nx config",
            commands="npm (?:t|test|run)|yarn|pnpm",
            parts=(record.PartReader(r"\.babelrc", "jsonc"),),
        ),
        tampering=record.Tampering(
            # Programs and modules that are started before every script.
            settings=(
                record.SettingRule(r"script-shell|node-options|yarn-?[pP]ath|shell|prefix", "loosening", first=True),
            ),
            syntax=_SYNTAX,
        ),
    ),
    record.Tool(
        name="prettier",
        kind="lint",
        call=record.Call(npm_program=True, check_flag="--check"),  # without a flag it prints the formatted file
        output=record.Output(clean="All matched files use Prettier code style!"),
        files=record.Files(
            lint=".prettierrc* prettier.config.* .prettierignore",
            executables="prettier",
            package_keys="prettier",
            commands="prettier",
            script_names="prettier",
            parts=(record.PartReader(r"\.prettierrc", "jsonc"),),
        ),
        tampering=record.Tampering(
            settings=(record.SettingRule(r"config\..*|nx\..*|husky\..*|prettier.*|babel\..*", "harmless"),)
        ),
    ),
    record.Tool(
        name="biome",
        kind="lint",
        call=_LINTER,
        output=record.Output(findings_keys="summary diagnostics command"),
        files=record.Files(lint="biome.json*", executables="biome", commands="biome"),
        tampering=record.Tampering(silences_file=(r"/\*\s*biome-ignore-all",), silences_line=("biome-ignore",)),
    ),
    record.Tool(
        name="stylelint",
        kind="lint",
        call=_LINTER,
        output=record.Output(findings_keys="source warnings"),
        files=record.Files(
            lint=".stylelintrc* stylelint.config.* .stylelintignore",
            executables="stylelint",
            package_keys="stylelint",
            commands="stylelint",
        ),
    ),
    record.Tool(name="xo", kind="lint", call=_LINTER, files=record.Files(package_keys="xo", commands="xo")),
    record.Tool(
        name="standard", kind="lint", call=_LINTER, files=record.Files(package_keys="standard", commands="standard")
    ),
    record.Tool(
        name="oxlint",
        kind="lint",
        call=_LINTER,
        output=record.Output(findings_keys="diagnostics number_of_files"),
        files=record.Files(lint=".oxlintrc*"),
    ),
    record.Tool(name="knip", kind="lint", call=_LINTER),
    record.Tool(name="publint", kind="lint", call=_LINTER),
    record.Tool(name="attw", kind="lint", call=_LINTER),
    record.Tool(
        name="jshint",
        kind="lint",
        files=record.Files(lint=".jshintrc .jscsrc tslint.json", parts=(record.PartReader(r"\.jshintrc", "jsonc"),)),
    ),
    record.Tool(name="tsd", kind="type", call=record.Call(npm_program=True)),
    record.Tool(name="dtslint", kind="type", call=record.Call(npm_program=True)),
    record.Tool(name="expect-type", kind="type", call=record.Call(npm_program=True)),
    record.Tool(
        name="nyc",
        files=record.Files(
            runner=".nycrc* nyc.config.*",
            artefact_folders=".nyc_output",
            executables="nyc",
            package_keys="nyc",
            commands="nyc",
            parts=(record.PartReader(r"\.nycrc", "jsonc"),),
        ),
        tampering=record.Tampering(silences_line=("istanbul ignore",)),
    ),
    record.Tool(
        name="c8",
        files=record.Files(
            runner=".c8rc*",
            executables="c8",
            package_keys="c8",
            commands="c8",
            parts=(record.PartReader(r"\.c8rc", "jsonc"),),
        ),
        tampering=record.Tampering(
            silences_line=("c8 ignore", "v8 ignore"), javascript_variables=("NODE_V8_COVERAGE",)
        ),
    ),
    record.Tool(name="stryker", files=record.Files(runner="stryker.conf.* stryker.config.*")),
    record.Tool(name="webpack", kind="build", output=record.Output(kinds=(("build", "webpack vite rollup esbuild"),))),
)
