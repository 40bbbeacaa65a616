"""The page of all keys of flow documents and all messages about them: the schema, and problems/."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from docs.problems import PROBLEMS
from orchestrator.core.expressions import FUNCTIONS
from orchestrator.flows.document import DURATION_SCHEMA, flow_schema

HEAD: Final = """\
# Reference of flow documents

<!-- Made by docs/generate.py from orchestrator/flows/document.py and docs/problems/. Do not edit. -->

[Flow documents](flows.md) explains them. Here stand all keys, as the schema has them (`callboard schema`
prints it), and all messages of `callboard check`.

## Keys
"""
#: definition of the schema -> where it stands
PARTS: Final = {
    "": "The top",
    "NodeSpec": "A node: `nodes.NAME`",
    "GateSpec": "`gate` of a node",
    "RetrySpec": "`retry`",
    "AfterSpec": "An entry of `after`",
    "EdgeSpec": "An entry of `edges`",
    "ArgSpec": "`args.NAME`",
    "ContextSpec": "`context.KEY`",
    "BudgetSpec": "`budget`",
    "LimitsSpec": "`limits`",
    "Defaults": "`defaults`",
}
MESSAGES: Final = """
## Messages

`check` prints a problem as `file:line:column: message`, and `warning:` or `note:` before the message of
one that does not keep the document from running. In this list `…` stands for what is put in. After a name
that does not exist stands the nearest one.
"""
PATTERNS: Final = {r"^\$\{.*\}$": "`${args.NAME}`"}
WORDS: Final = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`",
    "null": "nothing", "object": "mapping", "array": "list",
}  # fmt: skip


def flow_reference() -> str:
    """The page."""
    schema = flow_schema()
    definitions: Mapping[str, Any] = schema["$defs"]
    parts = [HEAD]
    rest = {name: f"`{name}`" for name in definitions if name not in PARTS}
    for name, where in {**PARTS, **rest}.items():
        part = definitions[name] if name else schema
        parts.append(f"### {where}\n\n{sentence(part)}\n\n| key | value | default | |\n|---|---|---|---|")
        required = part.get("required", ())
        parts += [row(key, one, key in required) for key, one in part["properties"].items()]
        parts.append("")
    parts.append(f"## Functions of expressions\n\n{', '.join(f'`{name}`' for name in sorted(FUNCTIONS))}.")
    parts.append(MESSAGES)
    for heading, rows in PROBLEMS.items():
        parts.append(f"### {heading}\n\n| message | what it means | what to do |\n|---|---|---|")
        parts += [
            f"| {'<br>'.join(map(code, messages))} | {escape(meaning)} | {escape(todo)} |"
            for messages, meaning, todo in rows
        ]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def sentence(part: Mapping[str, Any]) -> str:
    """What a part of the document is, from its model's docstring."""
    return " ".join(str(part.get("description", "")).split())


def row(key: str, field: Mapping[str, Any], required: bool) -> str:
    """One key as a row of a table."""
    default = field.get("default")
    shown = "" if not default or isinstance(default, dict) else f"`{text_of(default)}`"
    shown = "required" if required else shown
    about = escape(str(field.get("description", "")))
    return f"| `{key}` | {escape(form(field))} | {shown} | {about} |"


def text_of(value: object) -> str:
    """A default as it is written in a document."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def form(field: Mapping[str, Any]) -> str:
    """What may stand there, in words."""
    if "$ref" in field:
        return f"mapping ({part_name(field)})"
    if "anyOf" in field:
        if field["anyOf"][-1:] == DURATION_SCHEMA["anyOf"][-1:]:
            return "duration"
        forms = dict.fromkeys(form(one) for one in field["anyOf"] if one.get("type") != "null")
        return " or ".join(forms)
    if "const" in field:
        return f"`{text_of(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if field.get("pattern") in PATTERNS:
        return PATTERNS[field["pattern"]]
    if "pattern" in field:
        return f"text `{field['pattern']}`"
    kind = field.get("type")
    if kind == "array":
        return f"list of {form(field.get('items', {}))}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"names to {form(field['additionalProperties'])}"
    return f"{WORDS.get(str(kind), 'anything')}{bounds(field)}"


def part_name(field: Mapping[str, Any]) -> str:
    """The heading under which a part's keys stand."""
    name = str(field["$ref"]).rpartition("/")[2]
    return PARTS.get(name, name).removeprefix("A ").removeprefix("An ")


def bounds(field: Mapping[str, Any]) -> str:
    """The bounds of a number."""
    low, high = field.get("minimum"), field.get("maximum")
    if field.get("exclusiveMinimum") is not None:
        return f" above {field['exclusiveMinimum']}"
    if low is None:
        return ""
    return f" from {low}" + ("" if high is None else f" to {high:,}")


def code(message: str) -> str:
    """A message as code in a cell of a table; doubled backquotes, for it may hold some."""
    fence = "``" if "`" in message else "`"
    space = " " if message[:1] == "`" or message[-1:] == "`" else ""
    return escape(f"{fence}{space}{message}{space}{fence}")


def escape(text: str) -> str:
    """A text inside a cell."""
    return " ".join(text.split()).replace("|", r"\|")
