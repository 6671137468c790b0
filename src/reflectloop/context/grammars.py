"""The programming languages of the index: one record per language, and its grammar when it is installed."""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import NamedTuple

from tree_sitter import Language, Parser


class Grammar(NamedTuple):
    """The marks of definitions and imports in one language."""

    name: str
    suffixes: tuple[str, ...]
    module: str  # the wheel with the grammar
    functions: frozenset[str]  # kinds of nodes that are one chunk each
    containers: frozenset[str]  # kinds of nodes with definitions inside
    definition: str  # a pattern for definitions, for when the grammar is missing
    imports: str  # a pattern whose groups name what a file imports
    factory: str = "language"


_WRAPPERS = "decorated_definition export_statement template_declaration ambient_declaration attribute_item"
WRAPPERS = frozenset(_WRAPPERS.split())
_C_DEFINITION = (
    r"^[ \t]*(?:[A-Za-z_][\w \t*&:<>,~]{0,200}?[\s*&])?"
    r"([A-Za-z_]\w{0,100})[ \t]*\([^;{}]{0,500}\)\s{0,80}(?:const\s)?\{"
)
_JS_FUNCTIONS = "function_declaration generator_function_declaration method_definition function_signature"
_JS_DEFINITION = r"^[ \t]*(?:export\s+|default\s+|async\s+)*(?:function\*?|class|interface|type|enum|const)\s+(\w+)"
_JS_IMPORTS = r"""(?:\bfrom|\brequire\(|\bimport\(|^import)\s*['"]([^'"]+)['"]"""


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


GRAMMARS = (
    Grammar(
        "python",
        (".py", ".pyi", ".pyx"),
        "tree_sitter_python",
        _set("function_definition"),
        _set("class_definition if_statement try_statement else_clause except_clause block"),
        r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)",
        r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]{0,8000}\)|[^\n]*)|import[ \t]+([\w., \t]+))",
    ),
    Grammar(
        "javascript",
        (".js", ".jsx", ".mjs", ".cjs"),
        "tree_sitter_javascript",
        _set(_JS_FUNCTIONS),
        _set("class_declaration class class_body"),
        _JS_DEFINITION,
        _JS_IMPORTS,
    ),
    Grammar(
        "typescript",
        (".ts", ".mts", ".cts"),
        "tree_sitter_typescript",
        _set(f"{_JS_FUNCTIONS} interface_declaration type_alias_declaration enum_declaration"),
        _set("class_declaration abstract_class_declaration class class_body internal_module module statement_block"),
        _JS_DEFINITION,
        _JS_IMPORTS,
        "language_typescript",
    ),
    Grammar(
        "tsx",
        (".tsx",),
        "tree_sitter_typescript",
        _set(f"{_JS_FUNCTIONS} interface_declaration type_alias_declaration enum_declaration"),
        _set("class_declaration abstract_class_declaration class class_body internal_module module statement_block"),
        _JS_DEFINITION,
        _JS_IMPORTS,
        "language_tsx",
    ),
    Grammar(
        "go",
        (".go",),
        "tree_sitter_go",
        _set("function_declaration method_declaration type_declaration"),
        frozenset(),
        r"^(?:func(?:\s*\([^)]*\))?|type)\s+(\w+)",
        r"""^(?:import)?[ \t]*(?:[\w.]+[ \t]+)?"([\w./-]+)"[ \t]*$""",
    ),
    Grammar(
        "rust",
        (".rs",),
        "tree_sitter_rust",
        _set("function_item struct_item enum_item trait_item macro_definition type_item union_item"),
        _set("impl_item mod_item declaration_list"),
        r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|const\s+|unsafe\s+)*(?:fn|struct|enum|trait|mod|type)\s+(\w+)",
        r"^[ \t]*(?:pub\s+)?(?:use\s+([\w:]+)|mod\s+(\w+)\s*;)",
    ),
    Grammar(
        "c",
        (".c", ".h"),
        "tree_sitter_c",
        _set(
            "function_definition struct_specifier enum_specifier union_specifier type_definition preproc_function_def"
        ),
        _set("preproc_ifdef preproc_if preproc_else linkage_specification declaration_list"),
        _C_DEFINITION,
        r"""^[ \t]*#\s*include\s*["<]([^">]+)[">]""",
    ),
    Grammar(
        "cpp",
        (".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx"),
        "tree_sitter_cpp",
        _set(
            "function_definition struct_specifier enum_specifier union_specifier type_definition preproc_function_def"
        ),
        _set(
            "class_specifier namespace_definition preproc_ifdef preproc_if preproc_else linkage_specification"
            " declaration_list field_declaration_list"
        ),
        _C_DEFINITION,
        r"""^[ \t]*#\s*include\s*["<]([^">]+)[">]""",
    ),
    Grammar(
        "java",
        (".java",),
        "tree_sitter_java",
        _set("method_declaration constructor_declaration"),
        _set(
            "class_declaration interface_declaration enum_declaration record_declaration class_body interface_body"
            " enum_body enum_body_declarations"
        ),
        r"^[ \t]*(?:[\w<>\[\],.@]{1,100}[ \t]+){1,8}(\w+)[ \t]*\([^;]{0,500}\)\s{0,80}(?:throws[\w\s,.]{0,200})?\{",
        r"^[ \t]*import\s+(?:static\s+)?([\w.]+)",
    ),
    Grammar(
        "ruby",
        (".rb", ".rake"),
        "tree_sitter_ruby",
        _set("method singleton_method"),
        _set("class module body_statement singleton_class"),
        r"^[ \t]*(?:def|class|module)\s+(?:self\.)?(\w+)",
        r"""^[ \t]*require(?:_relative)?\s*\(?['"]([^'"]+)['"]""",
    ),
)
_BY_SUFFIX = {suffix: grammar for grammar in GRAMMARS for suffix in grammar.suffixes}


def grammar_of(path: str) -> Grammar | None:
    """Return the language of a path by its suffix; None for plain text."""
    _, dot, suffix = path.rpartition(".")
    return _BY_SUFFIX.get(f".{suffix.lower()}") if dot else None


@cache
def parser_for(grammar: Grammar) -> Parser | None:
    """Return a parser; None if the wheel with the grammar is not installed or does not fit."""
    try:
        return Parser(Language(getattr(importlib.import_module(grammar.module), grammar.factory)()))
    except (ImportError, AttributeError, ValueError, TypeError):
        return None


@cache
def pattern_of(source: str) -> re.Pattern[str]:
    return re.compile(source, re.MULTILINE)
