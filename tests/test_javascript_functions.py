"""Functions of JavaScript sources are found, compared and followed without running them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from reflectloop.verification.probing.javascript import changes, functions, instrument, tokens
from reflectloop.verification.result import ChangedFile

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
SOURCE = r"""#!/usr/bin/env node
'use strict'
// function no() {}
const re = /[/"'`]{2}/g, text = `a ${ [1].map((x) => `${x}}`) } function no2() {}`;
function plain (a, b) { return a / b / 2; function inner() {} }
async function later () { await 1 }
const arrow = (x) => x + 1
const chain = x =>
  x
    .map(y => y)
exports.named = function (x) { return { [x]: 1 } };
module.exports.own = function other() {};
Thing.prototype.method = function () { return this.x };
const table = { short(x) { return x }, long: function () {}, get size() { return 1 }, nested: { deep: () => 2 } };
class Box extends (class {}) { constructor(a) { super() } put(x) { if (x) { return x } } static make() {} #hidden() {} }
;(function () { function within(x) { return x } root.within = within })()
list.forEach(function (x) { sum += x })
if (re) { function blocked() {} }
module.exports = plain
"""
NAMES = [
    *("plain", "later", "arrow", "chain", "named", "own", "Thing.prototype.method", "table.short", "table.long"),
    *("table.size", "table.nested.deep", "Box.constructor", "Box.put", "Box.static make", "Box.#hidden", "within"),
    "blocked",
]


def read(text: str) -> functions.SourceParts:
    return functions.read(tokens.split(text.encode()))


def test_named_functions_are_found_and_those_inside_of_them_belong_to_them() -> None:
    assert [item.qualname for item in read(SOURCE).functions] == NAMES


def test_a_function_says_why_its_calls_cannot_be_followed() -> None:
    left = {item.qualname: item.form for item in read(SOURCE).functions if not instrument.is_followed(item)}
    assert left == {
        "table.size": "it is an accessor",
        "Box.constructor": "it is a constructor",
        "Box.#hidden": "it is private, or has no plain name",
        "blocked": "it is declared in a block",
    }


@pytest.mark.parametrize("text", ["f(", "a }", "`${", "a \\ b", "\ufeffa"])
def test_what_is_no_javascript_is_not_read(text: str) -> None:
    with pytest.raises(tokens.Unreadable):
        tokens.split(text.encode())


def changed(before: str, after: str) -> dict[str, tuple[bool, bool]]:
    report = changes.find([ChangedFile("a.js", before.encode(), after.encode())])
    return {item.qualname: (item.is_new, item.direct) for item in report.functions}


def test_changed_and_new_functions_and_those_that_read_a_changed_name_are_found() -> None:
    before = "const limit = 1\nfunction a() { return limit }\nfunction b() { return 2 }\nfunction c() { return 3 }\n"
    after = before.replace("limit = 1", "limit = 2").replace("return 3", "return 4") + "const d = () => 5\n"
    assert changed(before, after) == {"a": (False, False), "c": (False, True), "d": (True, True)}
    assert changed(before, f"// a comment\n{before}") == {}


def test_a_statement_that_binds_no_name_concerns_every_function() -> None:
    before = "function a() { return 1 }\nmodule.exports = a\n"
    assert changed(before, f"{before}patch()\n") == {"exports": (False, False), "a": (False, False)}
    assert changed(before, before.replace("= a", "= wrap(a)")) == {"exports": (False, False)}


def test_of_two_functions_with_one_name_the_last_counts() -> None:
    before = "exports.f = function (x) { return x }\n"
    assert changed(before, f"{before}exports.f = (x) => x + 1\n") == {"f": (False, True)}


@pytest.mark.parametrize(
    ("before", "after", "grows"),
    [
        ("const t = { a: 1, b: 2, c: 3 }", "const t = { a: 1, b: 2, c: 3, d: 4 }", True),
        ("const t = ['a', 'b', 'c']", "const t = ['a', 'z', 'b', 'c']", True),
        ("const t = { a: 1, b: 2, c: 3 }", "const t = { a: 1, b: 2, c: f() }", False),
        ("const t = { a: 1 }", "const t = { a: 1, b: 2 }", False),
        ("const t = { a: 1, b: 2, c: 3 }", "const t = { a: 1, b: 2, c: 3 }; g()", False),
    ],
)
def test_a_table_of_base_that_grows_is_recognised(before: str, after: str, grows: bool) -> None:
    assert changes.only_grows(before.encode(), after.encode()) is grows


@pytest.mark.parametrize(("after", "removes"), [("f = n => n", True), ("f = n => n == 13 ? 1 : n", False)])
def test_a_patch_that_only_removes_code_is_known(after: str, removes: bool) -> None:
    before = b"f = n => n == 13 ? 0 : n // thirteen"
    assert changes.only_removes(before, after.encode()) is removes


@pytest.mark.parametrize("after", ["t = ['a', 'c']", "t = { a: 1, c: 3 }"])
def test_entries_taken_out_of_a_table_are_no_removed_code(after: str) -> None:
    before = "t = ['a', 'b', 'c']" if "[" in after else "t = { a: 1, b: 2, c: 3 }"
    assert not changes.only_removes(before.encode(), after.encode())


def test_an_es_module_is_told_from_other_sources() -> None:
    assert changes.is_module(tokens.split(b"const a = 1\nexport const b = a\n"))
    assert changes.is_module(tokens.split(b"import fs from 'fs'\n"))
    assert not changes.is_module(tokens.split(b"const a = { export: 1 }; import('x'); exports.b = a.import\n"))


FOLLOWED = """
const seen = []
globalThis.mark = (id, f) => new Proxy(f, { apply(t, s, a) { seen.push(id); return Reflect.apply(t, s, a) } })
globalThis.mark.methods = (c, names) => {
  for (const [n, id] of Object.entries(names)) {
    const holder = n.startsWith('static ') ? c : c.prototype
    const key = n.replace('static ', '')
    holder[key] = globalThis.mark(id, holder[key])
  }
  return c
}
"""
CALLED = """'use strict'
function plain (a) { return a + 1 }
const arrow = x => x + 1
const made = { short(x) { return this === undefined ? 0 : x }, long: function (x) { return x } }
class Box { put(x) { return x } static make() { return new Box() } }
const inner = (function () { function within(x) { return x } return within })()
if (plain(1) !== 2 || arrow(1) !== 2 || made.short(3) !== 3 || made.long(4) !== 4) throw new Error('changed')
if (Box.make().put(5) !== 5 || inner(6) !== 6) throw new Error('changed')
if ((function () { return this })() !== undefined) throw new Error('no longer strict')
"""


@needs_node
def test_followed_functions_do_what_they_did_and_every_call_is_seen(tmp_path: Path) -> None:
    source = tokens.split(CALLED.encode())
    parts = functions.read(source)
    ids = {item.qualname: number for number, item in enumerate(parts.functions)}
    written = instrument.write(source, parts, ids, "mark")
    (tmp_path / "a.js").write_text(written.text)
    program = f"{FOLLOWED}\nrequire('./a.js'); console.log(JSON.stringify(seen))\n"
    (tmp_path / "b.js").write_text(program)
    done = subprocess.run(
        ("node", "b.js"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    names = ["plain", "arrow", "made.short", "made.long", "Box.static make", "Box.put", "within"]
    assert done.stdout.strip() == str([ids[name] for name in names]).replace(" ", "")
    first = source.tokens[parts.functions[0].first]
    assert written.text[written.tokens["plain"][0] :].startswith(first.text)


READER = """
const fs = require('fs'); const vm = require('vm'); const path = require('path');
const [loading, top] = [require(process.argv[2]), process.argv[3]];
const files = { 'a.js': { source: 'old', text: 'new' }, 'b.js': { source: 'other', text: 'new' } };
loading.substituteReads(loading.below(top, files), 'mark', 7);
(async () => {
  const read = (name) => fs.readFileSync(path.join(top, name), 'utf8');
  const later = await fs.promises.readFile(path.join(top, 'a.js'));
  const { readFile } = await import('fs/promises');
  const third = await readFile(path.join(top, 'a.js'), 'utf8');
  const world = vm.runInContext('this', vm.createContext());
  const seen = Object.getOwnPropertyNames(world).includes('mark');
  console.log([read('a.js'), read('b.js'), later, third, world.mark, seen].join(' '));
})();
"""


@needs_node
def test_a_runner_that_reads_sources_itself_gets_the_other_text_of_known_contents_alone(tmp_path: Path) -> None:
    loading = Path(instrument.__file__).with_name("inside") / "loading.cjs"
    for name, text in {"a.js": "old", "b.js": "edited", "reader.cjs": READER}.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ("node", "reader.cjs", loading, tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "new edited new new 7 true"
