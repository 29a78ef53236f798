"""The OpenAPI document as a page to read, which needs nothing from elsewhere."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any


def reference(document: Mapping[str, Any]) -> str:
    """One page: every path, what it takes and answers, and the fields of what it names."""
    paths = [
        _operation(verb, path, operation)
        for path, verbs in document["paths"].items()
        for verb, operation in verbs.items()
    ]
    schemas = [_schema(name, schema) for name, schema in document["components"]["schemas"].items()]
    parts = {"title": escape(document["info"]["title"]), "version": escape(document["info"]["version"])}
    page = resources.files("uraenas.deploy").joinpath("serving/reference.html").read_text(encoding="utf-8")
    for name, text in {**parts, "paths": "\n".join(paths), "schemas": "\n".join(schemas)}.items():
        page = page.replace(f"<!--{name}-->", text)
    return page


def _operation(verb: str, path: str, operation: Mapping[str, Any]) -> str:
    responses = operation["responses"]
    body = operation.get("requestBody", {}).get("content", {})
    rows = [
        ("Header", _code(one["name"]), escape(one["description"])) for one in operation.get("parameters", ())
    ]
    rows += [("Takes", _code(kind), _type(one["schema"])) for kind, one in body.items()]
    rows += [
        ("Answers", _code(kind), _type(one["schema"])) for kind, one in responses["200"]["content"].items()
    ]
    rows += [
        ("Error", _code(status), escape(one["description"]))
        for status, one in responses.items()
        if status != "200"
    ]
    head = f"<h3><code>{verb.upper()} {escape(path)}</code></h3>\n<p>{escape(operation['summary'])}</p>"
    return f"<section>{head}\n{_table(rows)}</section>"


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    rows = [(_code(field), _type(one)) for field, one in schema["properties"].items()]
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3>\n{_table(rows)}</section>'


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    lines = (
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return f"<table>{''.join(lines)}</table>"


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in words."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if schema.get("format") == "binary":
        return "bytes"
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    if kind == "object" and "properties" in schema:
        return (
            f"{{{', '.join(f'{_code(name)}: {_type(one)}' for name, one in schema['properties'].items())}}}"
        )
    return escape(" or ".join(kind) if isinstance(kind, list) else kind)


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
