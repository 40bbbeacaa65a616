"""``callboard roles``, ``emissions`` and ``events``: what there is, one line each, or one in full."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from emissions import EMISSIONS, Emission, EscalationRequest, SpawnRequest, TaskAssignment, Verdict
from emissions import emission_type as find_emission
from emissions import json_schema as emission_schema
from orchestrator.cli.edge import say, say_json
from orchestrator.cli.opening import UsageError, near, open_flow, settings_here
from orchestrator.cli.options import Asked
from orchestrator.core.facts import FACTS, Fact
from orchestrator.flows.settings import Setting, Settings
from roles import Artifact, Brief, Catalogue, Role, build_prompt, library
from roles.discovery import shared_roles
from roles.tools import tool_name

__all__ = ["emissions", "events", "names", "roles"]

_EFFECTS: Final[Mapping[type[Emission], str]] = {
    SpawnRequest: "acts: adds a node to the run",
    TaskAssignment: "acts: adds a node of this name to the run",
    EscalationRequest: "acts: moves the work to a higher tier",
    Verdict: "acts at a gate: opens or vetoes what depends on it; recorded elsewhere",
}
_RECORDED: Final = "recorded in the run's ledger"
_LIFTED: Final = frozenset({"kind", "node", "attempt"})
#: Kinds that are published without being journaled: their ``seq`` is null.
_UNRECORDED: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "NodeProgress": ("What a node reports while it runs.", {"text": {"type": "string"}}),
    "Missed": (
        "A tap was too slow and did not get the facts from first to last.",
        {"first": {"type": "integer"}, "last": {"type": "integer"}},
    ),
}


def names(kind: str) -> list[str]:
    """Names for completion: of ``roles``, ``emissions`` or ``events``."""
    if kind == "roles":
        return list(shared_roles().names)
    return list(EMISSIONS) if kind == "emissions" else [*_kinds(), *_UNRECORDED]


# --- roles -------------------------------------------------------------------------------------


def roles(asked: Asked) -> int:
    """List roles, or show one."""
    if asked.flow is None:
        catalogue, settings = shared_roles(), settings_here(Path())
        own: frozenset[str] = frozenset()
    else:
        flow = open_flow(asked.flow)
        catalogue, own = flow.roles, flow.own_roles
        settings = settings_here(flow.path.parent)
        defaults = flow.document.defaults
        settings = Settings(
            Setting(defaults.model, "defaults") if defaults.model else settings.model,
            Setting(defaults.effort, "defaults") if defaults.effort else settings.effort,
        )
    if asked.name is None:
        ours = {role.name for role in library()} - own
        cast = [role for role in catalogue if role.name in own]
        yours = [role for role in catalogue if role.name not in own and role.name not in ours]
        rest = [role for role in catalogue if role.name in ours]
        for title, some in (("cast", cast), ("yours", yours), ("library", rest)):
            if some:
                say(f"{title}\n{_table((role.name, _role_line(role)) for role in some)}")
        return 0
    if asked.name not in catalogue:
        raise UsageError(f"there is no role {asked.name!r}{_nearest(asked.name, catalogue.names)}")
    found = catalogue.get(asked.name)
    say(_prompt(found, catalogue) if asked.prompt else "\n".join(_role(found, settings)))
    return 0


def _prompt(role: Role, catalogue: Catalogue) -> str:
    """What a role is shown where it may use all of its grants and everybody else may get work."""
    others = {one.name: one.description for one in catalogue if one is not role}
    channel: Literal["tools", "blocks"] = "tools" if role.program is None else "blocks"
    return str(build_prompt(Brief(role=role, grants=role.grants, channel=channel, assignees=others)))


def _role_line(role: Role) -> str:
    kinds = ", ".join(kind.emission_kind for kind in role.emits)
    return f"{role.description or _first_line(role.body)}{f'  [{kinds}]' if kinds else ''}"


def _chosen(role: Role, settings: Settings) -> Iterator[tuple[str, str]]:
    """The model and the effort that a node of the role is called with unless it says so itself."""
    if role.fn is not None or role.program is not None:
        return
    own = {"model": next(iter(role.models), None), "effort": role.effort}
    for key, said in own.items():
        setting = getattr(settings, key)
        if setting is not None:
            yield key, f"{setting.value} ({near(setting.origin)})"
        elif said is not None:
            yield key, f"{said} (this role)"


def _role(role: Role, settings: Settings) -> list[str]:
    rows: list[tuple[str, str]] = [("role", role.name), ("declared in", near(role.origin))]
    rows.append(("description", role.description))
    rows.append(("performed by", _performer(role)))
    rows += [(name, ", ".join(getattr(role, name))) for name in ("models", "fallback", "modes")]
    rows.append(("tools", ", ".join(tool_name(tool) for tool in role.tools)))
    rows += _chosen(role, settings)
    rows.append(("escalates to", role.escalates_to or ""))
    rows.append(("attempts", str(role.retry.attempts) if role.retry is not None else ""))
    rows.append(("timeout", f"{role.timeout:g} s" if role.timeout is not None else ""))
    rows.append(
        ("returns", "" if role.returns is None else getattr(role.returns, "__name__", str(role.returns)))
    )
    lines = [_table(row for row in rows if row[1]), "", "may emit"]
    lines.append(_table((kind.emission_kind, _effect(kind)) for kind in role.grants))
    if role.artifacts:
        lines += ["", "artifacts", _table((one.name, _artifact(one)) for one in role.artifacts)]
    return [*lines, "", role.body.strip()] if role.body.strip() else lines


def _performer(role: Role) -> str:
    if role.program is not None:
        return f"the program {' '.join(role.program.argv)}"
    if role.fn is None:
        return "a model"
    called = getattr(role.fn, "__qualname__", role.name)
    return f"the function {called}{'' if role.is_async else ', in a thread'}"


def _artifact(artifact: Artifact) -> str:
    words = [
        artifact.path,
        *(["required"] if artifact.required else []),
        *([artifact.kind] if artifact.kind else []),
    ]
    return ", ".join(words)


def _effect(kind: type[Emission]) -> str:
    """What an emission of a type does to a run."""
    return _EFFECTS.get(kind, _RECORDED)


# --- emissions ---------------------------------------------------------------------------------


def emissions(asked: Asked) -> int:
    """List emission types, or show one."""
    if asked.name is None:
        if asked.schema:
            every = {kind: emission_schema(type_) for kind, type_ in EMISSIONS.items()}
            _say_json(every)
            return 0
        say(
            _table(
                (kind, f"{_first_line(inspect.getdoc(type_))}  [{_mark(type_)}]")
                for kind, type_ in EMISSIONS.items()
            )
        )
        return 0
    type_ = find_emission(asked.name)
    schema = emission_schema(type_)
    if asked.schema:
        _say_json(schema)
        return 0
    required = set(schema.get("required", ()))
    say(f"{type_.emission_kind}: {_effect(type_)}\n\n{inspect.getdoc(type_) or ''}\n")
    fields = schema.get("properties", {}).items()
    say(_table((name, _field(field, needed=name in required)) for name, field in fields))
    return 0


def _mark(kind: type[Emission]) -> str:
    return "acts" if kind in _EFFECTS else "recorded"


def _field(field: Mapping[str, Any], *, needed: bool) -> str:
    words = [_type(field), "required" if needed else "optional"]
    said = field.get("description")
    return ", ".join(words) + (f": {said}" if said else "")


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if one.get("type") != "null")
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("type") or " or ".join(map(str, field.get("enum", ()))) or field.get("const", "any"))


# --- events ------------------------------------------------------------------------------------


def _kinds() -> dict[str, type[Fact]]:
    return {fact.__name__: fact for fact in FACTS}


def events(asked: Asked) -> int:
    """List the kinds of events, or show one."""
    kinds = _kinds()
    if asked.name is None:
        if asked.schema:
            _say_json({kind: _schema(kind) for kind in names("events")})
            return 0
        rows = [(kind, _first_line(inspect.getdoc(fact))) for kind, fact in kinds.items()]
        rows += [(kind, f"{words}  [not journaled]") for kind, (words, _) in _UNRECORDED.items()]
        say(_table(rows))
        return 0
    if asked.name not in kinds and asked.name not in _UNRECORDED:
        raise UsageError(f"there is no kind of event {asked.name!r}{_nearest(asked.name, names('events'))}")
    schema = _schema(asked.name)
    if asked.schema:
        _say_json(schema)
        return 0
    say(f"{asked.name}\n\n{schema['description']}\n\ndata")
    fields = schema["properties"]["data"]["properties"].items()
    say(_table((name, _type(field)) for name, field in fields) or "  nothing")
    return 0


def _schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of an envelope of one kind."""
    whole: dict[str, Any] = {"type": ["string", "null"]}
    number: dict[str, Any] = {"type": ["integer", "null"]}
    if kind in _UNRECORDED:
        words, data = _UNRECORDED[kind]
        definitions: dict[str, Any] = {}
        seq: dict[str, Any] = {"type": "null"}
    else:
        fact = _kinds()[kind]
        words, seq = _paragraph(inspect.getdoc(fact)), {"type": "integer", "minimum": 1}
        data, definitions = _fields(fact)
    properties = {
        "v": {"const": 1},
        "run": {"type": "string"},
        "seq": seq,
        "kind": {"const": kind},
        "node": whole,
        "attempt": number,
        "role": whole,
        "cause": number,
        "at": {"type": "string"},
        "data": {"type": "object", "properties": data, "required": list(data)},
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind,
        "description": words,
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }
    return {**schema, "$defs": definitions} if definitions else schema


def _fields(fact: type[Fact]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Schemas of a fact's data by field, and the definitions that they refer to."""
    data: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for field in msgspec.structs.fields(fact):
        if field.name in _LIFTED:
            continue
        if field.name in fact.positions:  # the envelope holds the value itself: any JSON
            data[field.name] = {}
            continue
        try:
            made = msgspec.json.schema(field.type)
        except TypeError:  # msgspec cannot write down a default that is raw JSON, as operations have
            made = {"type": "object"}
        definitions.update(made.pop("$defs", {}))
        data[field.name] = made
    return data, definitions


# --- words -------------------------------------------------------------------------------------


def _table(rows: Iterable[tuple[str, str]]) -> str:
    held = list(rows)
    width = max((len(name) for name, _ in held), default=0)
    return "\n".join(f"  {name.ljust(width)}  {text}".rstrip() for name, text in held)


def _first_line(text: str | None) -> str:
    return re.split(r"(?<=\.)\s", _paragraph(text))[0]


def _paragraph(text: str | None) -> str:
    return " ".join((text or "").strip().partition("\n\n")[0].split()).replace("``", "`")


def _nearest(name: str, known: Iterable[str]) -> str:
    listed = list(known)
    folded = {one.lower(): one for one in listed}
    close = difflib.get_close_matches(name.lower(), folded, 1)
    return f"; did you mean {folded[close[0]]}?" if close else f"; there are: {', '.join(listed)}"


def _say_json(data: object) -> None:
    say_json(msgspec.json.format(msgspec.json.encode(data), indent=2))
