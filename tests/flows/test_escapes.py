"""Attempts to get out of the expression language through a document: all refused before anything runs."""
# ruff: noqa: RUF001  (letters that look like others are the attack)

from __future__ import annotations

import json

import pytest

from orchestrator.errors import FlowError
from orchestrator.flows.flow import load_flow
from orchestrator.flows.problems import Severity
from tests.core.expression_escapes import ESCAPES
from tests.flows.counting import calls, document

HEAD = "version: 1\nname: demo\nargs: {a: {type: any, required: true}}\n"
MORE = [
    "args.a.__class__.__base__.__subclasses__()[0]", "args['__class__'].__init__", "args.a.format(args)",
    "'{a.__globals__}'.format_map(args)", "str.format('{0}', args)", "''.join(['a'])",
    "args.__getitem__('a')",
    "args.a.__class_getitem__", "[b for b in args.a][0]", "[b for a in args.a for b in a]",
    "args[(b := 1)]",
    "args[lambda: 1]", "sorted(args.a, key=len)", "max(args.a, key=lambda b: b)", "f'{args.a!r:>{9**9}}'",
    "f'{(lambda: 1)()}'", "(1).__class__", "1 .__class__", "1.0.__class__", "None.__class__",
    "True.__class__",
    "args.a if", "args.a if b", "not", "args.a ** 9", "9 ** 9 ** 9", "2 ** args.a", "'a' * 10 ** 9",
    "args.a @ args.a", "args.a >> 9", "args.a.b()()", "len.__call__(args.a)", "exists.__self__",
    "default.__globals__", "str(args.a).__class__", "[len][0](args.a)", "print(args.a)",
    "args.ａ.__ｃｌａｓｓ__", "args.__ªttr__", "ｅｖａｌ(args.a)", "𝐞𝐱𝐞𝐜(args.a)", "ﬁlter(args.a)",
    "a\u0332rgs",
    "args.a\u200b.b", "args.a; args.a", "args.a\\nargs.a", "args.a # comment", "args.a, args.a", "*args.a",
    "args.a[:]", "args.a[0:9]", "args.a[::2]", "args.a[...]", "args.a is None", "{**args}", "{'a': args.a}",
    "await args.a", "yield args.a", "lambda: args.a", "async for b in args.a", "import os", "del args.a",
    "args.a = 1", "args.a := 1", "args.a <> 1", "args.a != = 1", "`args.a`", "$args.a", "${args.a}",
    "b'a' == args.a", "u'a' == args.a", "r'a' == args.a", "'a' 'b' == args.a", "1_000 == args.a",
    "0x10 == args.a", "1j == args.a", "9" * 40 + " == args.a", "1e999 == args.a", "(" * 21 + "1" + ")" * 21,
    "[" * 21 + "]" * 21, "len(" * 21 + "'a'" + ")" * 21, "not " * 300 + "true", "args.a" + ".b" * 250,
    "args.a + " * 120 + "1", "-" * 500 + "1", "args.a" + " " * 1_000 + "== 1",
]  # fmt: skip


def first_problem(folder, text):
    path = folder / "flow.yaml"
    path.write_text(text, encoding="utf-8")
    problems = [one for one in load_flow(path).check() if one.severity is Severity.ERROR]
    return str(problems[0]) if problems else None


def test_the_corpus_is_large():
    """At least a hundred; none twice."""
    assert len({*ESCAPES, *MORE}) == len(ESCAPES) + len(MORE) - len({*ESCAPES} & {*MORE})
    assert len(MORE) >= 80
    assert len({*ESCAPES, *MORE}) >= 250


@pytest.mark.parametrize("text", sorted({*ESCAPES, *MORE}), ids=lambda text: repr(text)[:40])
def test_a_condition_cannot_get_out(tmp_path, text):
    """bad-inputs 36: one line, at load, at the cost of a fraction of an ordinary document."""
    quoted = json.dumps(text, ensure_ascii=True)
    written = f"{HEAD}nodes: {{x: {{operation: chat, when: {quoted}}}}}\n"
    try:
        message = first_problem(tmp_path, written)
    except FlowError as error:
        message = str(error)
    assert message is not None
    assert "\n" not in message
    assert "flow.yaml:" in message


PLAIN = [one for one in sorted({*ESCAPES, *MORE}) if not {*"}'\"\\"} & {*one}]


@pytest.mark.parametrize("text", PLAIN, ids=lambda text: repr(text)[:40])
def test_a_placeholder_cannot_get_out(tmp_path, text):
    """The same language stands in texts."""
    quoted = json.dumps(f"see ${{{text}}}", ensure_ascii=True)
    try:
        message = first_problem(tmp_path, f"{HEAD}nodes: {{x: {{role: writer, instruction: {quoted}}}}}\n")
    except FlowError as error:
        message = str(error)
    assert message is not None
    assert "\n" not in message


def test_refusing_costs_little(tmp_path):
    """Every one of them costs less than an ordinary document of 10 KiB."""
    path = tmp_path / "flow.yaml"
    path.write_text(document(10_240))
    ordinary = calls(lambda: load_flow(path).check())
    for text in MORE:
        path.write_text(f"{HEAD}nodes: {{x: {{operation: chat, when: {json.dumps(text)}}}}}\n")
        assert calls(lambda: load_flow(path).check()) < ordinary, text
