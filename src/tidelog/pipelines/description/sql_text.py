"""SQL in a pipeline's description, looked at without Spark: does it parse, what does it name.

Invariant  A step sees one row. Aggregates, windows and subqueries are refused here, because a
           stream would refuse them later, or keep state that nobody asked for.
Invariant  Spark is given the text of the description. What the parser makes of it is for looking at
           alone: written out again, it may mean something else.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.parsers.spark import SparkParser

from tidelog.model.nearest import nearest
from tidelog.pipelines.description.spec import Column

_DIALECT: Final = "spark"
_TYPES: Final = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "string",
    "binary", "date", "timestamp", "array<...>", "map<..., ...>", "struct<name: ...>",
)  # fmt: skip
_KINDS: Final = {
    exp.DataType.Type[name]
    for name in (
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "TEXT",
        "VARCHAR", "CHAR", "BINARY", "DATE", "TIMESTAMPTZ", "TIMESTAMP", "TIMESTAMPLTZ", "ARRAY",
        "MAP", "STRUCT",
    )
}  # fmt: skip
_INNER: Final[dict[Any, tuple[int, ...]]] = {
    exp.DataType.Type.ARRAY: (1,),
    exp.DataType.Type.MAP: (2,),
    exp.DataType.Type.DECIMAL: (0, 1, 2),
    exp.DataType.Type.VARCHAR: (0, 1),
    exp.DataType.Type.CHAR: (0, 1),
}
"""How many types or numbers may stand inside a type; none where nothing is said."""
_FIELD_RULES: Final = (exp.NotNullColumnConstraint, exp.CommentColumnConstraint)
_NOT_NULL: Final = re.compile(r"\s+not\s+null$", re.IGNORECASE)
_NESTED: Final[dict[type, str]] = {
    exp.Array: "array<...>", exp.VarMap: "map<..., ...>", exp.Struct: "struct<...>",
}  # fmt: skip
_ROW_MAKERS: Final = ("inline_outer", "variant_explode", "variant_explode_outer")
"""Functions like `explode` that the parser knows by no more than their names."""
_UNRESOLVED: Final = re.compile(r"Column '(.+?)' could not be resolved|Unknown column: (\S+)")

logging.getLogger("sqlglot").setLevel(logging.ERROR)


class ByName(Spark):
    """Spark's SQL, but all functions alike, under the names that the text gives them."""

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name != "DECODE"
        }


class SqlMistake(ValueError):
    """What is wrong with a piece of SQL, in words."""


def column_of(name: str, text: str) -> Column:
    """`bigint not null` as a column; a word that belongs to neither part is refused."""
    words = _NOT_NULL.sub("", text.strip())
    parsed = _type(words)
    if parsed is None:
        raise _no_type(words)
    return Column(name, _type_text(parsed), required=words != text.strip())


def _type(text: str) -> exp.DataType | None:
    """The whole text as a type that a column can have; None if any of it is something else."""
    try:
        parsed = sqlglot.parse_one(text, into=exp.DataType, dialect=_DIALECT)
    except SqlglotError:
        return None
    rules = (each.kind for each in parsed.find_all(exp.ColumnConstraint))
    parts = parsed.find_all(exp.DataType)
    fits = all(isinstance(each, _FIELD_RULES) for each in rules) and all(map(_fits, parts))
    return parsed if fits else None


def _fits(part: exp.DataType) -> bool:
    inner = part.expressions
    if part.this is exp.DataType.Type.STRUCT:
        return bool(inner) and all(isinstance(each, exp.ColumnDef) for each in inner)
    return part.this in _KINDS and len(inner) in _INNER.get(part.this, (0,))


def _no_type(text: str) -> SqlMistake:
    words = text.split()
    for end in range(len(words) - 1, 0, -1):
        head, rest = " ".join(words[:end]), " ".join(words[end:])
        if _type(head) is not None:
            near = difflib.get_close_matches(rest.lower(), ["not null"], cutoff=0.6)
            more = f"did you mean {head} not null?" if near else "not null may, and nothing else"
            if rest.lower() == "null":
                more = f"{head} alone may be null"
            return SqlMistake(f"{rest} cannot stand behind the type {head}; {more}")
    if is_nested(text.lower()):
        return SqlMistake(
            f"{text} is not a type: write array<type>, map<type, type> or struct<name: type>; "
            "a field may be not null"
        )
    plain = [each for each in _TYPES if "<" not in each]
    close = difflib.get_close_matches(text.lower(), plain, n=1, cutoff=0.7)
    hint = f"did you mean {close[0]}?" if close else f"there is {', '.join(_TYPES)}"
    return SqlMistake(f"there is no type {text}; {hint}")


def columns_in(expression: str) -> set[str]:
    """The columns that an expression over one row reads."""
    parsed = _parsed(expression)
    for call in parsed.find_all(exp.Anonymous):
        if call.name.lower() in _ROW_MAKERS:
            raise _not_one_row(call, "makes several rows of one")
    for kinds, word in (
        ((exp.UDTF,), "makes several rows of one"),
        ((exp.AggFunc,), "is an aggregate"),
        ((exp.Window,), "is a window"),
        ((exp.Query,), "is a query"),
    ):
        if (found := parsed.find(*kinds)) is not None:
            raise _not_one_row(found, word)
    return {_first_part(each) for each in parsed.find_all(exp.Column)}


def by_name(text: str) -> exp.Expr | None:
    """An expression or a query with its functions by name; None where other parsing takes over."""
    try:
        return sqlglot.parse_one(text, dialect=ByName)
    except SqlglotError:
        return None


def type_of(expression: str, types: Mapping[str, str | None]) -> str | None:
    """The type of an expression over columns of these types, where it is plain to see."""
    parsed = _parsed(expression)
    lowered = {name.lower(): kind for name, kind in types.items()}
    if isinstance(parsed, exp.Column) and len(parsed.parts) == 1:
        return lowered.get(parsed.name.lower())

    def typed(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            kind = lowered.get(node.name.lower())
            return node if kind is None else exp.cast(exp.Null(), kind, dialect=_DIALECT)
        return node

    # What an array's elements make of a call the parser may get wrong; of plain values it does not.
    kind = _annotated(parsed) or _annotated(parsed.transform(typed), nested=False)
    return kind or _NESTED.get(type(parsed))


def _annotated(parsed: exp.Expr, *, nested: bool = True) -> str | None:
    kind = annotate_types(parsed.copy(), dialect=_DIALECT).type
    if kind is None or kind.this not in _KINDS:
        return None
    text = kind.sql(_DIALECT).lower()
    return text if nested or not is_nested(text) else None


def is_nested(kind: str) -> bool:
    """Whether values of a type consist of others."""
    return kind.startswith(("array", "map", "struct"))


def unknown_column(query: str, tables: Mapping[str, Collection[str]]) -> str | None:
    """The first column of a query that its tables do not have, or several have; in words."""
    parsed = _parsed(query)
    if any(not each.alias_column_names for each in parsed.find_all(exp.Lateral)):
        return None  # its columns have names that the function gives them
    schema: dict[str, object] = {
        name: dict.fromkeys(columns, "unknown") for name, columns in tables.items()
    }
    try:
        qualify(parsed, schema=schema, dialect=_DIALECT)
    except OptimizeError as error:
        found = _UNRESOLVED.search(str(error))
        if found is None:
            return None
        name = (found[1] or found[2]).rpartition(".")[2].strip('`"')
        used = {each.name.lower() for each in parsed.find_all(exp.Table)}
        having = sorted(
            table
            for table, columns in tables.items()
            if table in used and name.lower() in map(str.lower, columns)
        )
        if len(having) > 1:
            return f"column {name} is ambiguous: it is in {' and '.join(having)}"
        known = {each for table in used & set(tables) for each in tables[table]}
        return f"there is no column {name} here; {nearest(name, known)}"
    return None


def alias_of(expression: str) -> tuple[str, str]:
    """The name of a selected column, and the expression behind it."""
    parsed = _parsed(expression)
    if isinstance(parsed, exp.Alias):
        return parsed.alias, _before_alias(expression)
    if isinstance(parsed, exp.Column):
        return parsed.name, expression
    raise SqlMistake(f"{expression} needs a name: {expression} AS name")


def tables_in(query: str) -> set[str]:
    """The tables that a query reads, without those it defines itself."""
    parsed = _parsed(query)
    if not isinstance(parsed, exp.Query):
        raise SqlMistake("not a query: it begins with SELECT or WITH")
    own = {each.alias for each in parsed.find_all(exp.CTE)}
    named = (each for each in parsed.find_all(exp.Table) if isinstance(each.this, exp.Identifier))
    return {each.name for each in named} - own


def _parsed(text: str) -> exp.Expr:
    try:
        found = sqlglot.parse(text, dialect=_DIALECT)
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{"description": str(error)}]
        raise SqlMistake(f"not SQL: {text}: {details[0]['description']}") from None
    if len(found) != 1 or found[0] is None:
        raise SqlMistake(f"not one expression: {text}")
    return found[0]


def _before_alias(expression: str) -> str:
    tokens = [
        each for each in Spark().tokenize(expression) if each.token_type is not TokenType.SEMICOLON
    ]
    word = tokens[-2] if tokens[-2].token_type is TokenType.ALIAS else tokens[-1]
    return expression[: word.start].rstrip()


def _type_text(parsed: exp.DataType) -> str:
    """A type under Spark's names for it; fields keep theirs, which JSON tells by case."""
    if not parsed.args.get("nested") or not parsed.expressions:
        return parsed.sql(_DIALECT).lower()
    inner = (
        _field_text(each) if isinstance(each, exp.ColumnDef) else _type_text(each)
        for each in parsed.expressions
    )
    return f"{parsed.this.value.lower()}<{', '.join(inner)}>"


def _field_text(field: exp.ColumnDef) -> str:
    assert isinstance(field.kind, exp.DataType)
    required = any(isinstance(each.kind, exp.NotNullColumnConstraint) for each in field.constraints)
    text = f"{field.this.sql(_DIALECT)}: {_type_text(field.kind)}"
    return f"{text} not null" if required else text


def _not_one_row(found: exp.Expr, word: str) -> SqlMistake:
    text = found.sql(_DIALECT).lower()
    return SqlMistake(f"{text} {word}; a step sees one row, put it into a view")


def _first_part(column: exp.Column) -> str:
    # `a.b` is field b of column a: there is one row and no table to qualify with.
    return str(column.parts[0].name)
