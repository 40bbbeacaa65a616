"""Every check of the audit, both ways: what it must flag, and the near miss that it must not."""

from __future__ import annotations

import textwrap

import pytest

TOKEN = "AKIA" + "Q4Z7" * 4
MIXED = "9f8Kq2" + "Lx7Vb3"

# check id -> (samples that are flagged, samples that are not); every sample is one module.
SAMPLES = {
    "syntax-error": (["def f(:\n"], ["def f(): ...\n"]),
    "syntax-warning": ([r"x = '\d'"], [r"x = r'\d'"]),
    "too-deep": (["x = " + "-" * 50_000 + "1"], ["x = " + "-" * 50 + "1"]),
    "dynamic-code": (
        ["eval(text)", "exec(source, {})", "def f(code): exec(code)", "compile(text, 'x', 'exec')"],
        [
            "eval('1 + 1')",
            "def eval(x): ...\neval(text)",
            "import ast\nast.literal_eval(text)",
            "code = 'x = 1'\nexec(code)",
            "model.eval(text)",
        ],
    ),
    "unsafe-load": (
        ["import pickle\npickle.loads(data)", "from marshal import load as read\nread(f)"],
        ["import pickle\npickle.dumps(data)", "import json\njson.loads(data)"],
    ),
    "unsafe-yaml": (
        [
            "import yaml\nyaml.load(f)",
            "import yaml\nyaml.load(f, Loader=yaml.Loader)",
            "import yaml\nyaml.unsafe_load(f)",
        ],
        [
            "import yaml\nyaml.safe_load(f)",
            "import yaml\nyaml.load(f, Loader=yaml.SafeLoader)",
            "from yaml import load, CSafeLoader\nload(f, CSafeLoader)",
            "yaml = YAML(typ='safe')\nyaml.load(f)",
        ],
    ),
    "shell": (
        [
            "import subprocess\nsubprocess.run(f'ls {x}', shell=True)",
            "from os import system\nsystem('rm ' + name)",
            "import subprocess as sp\nsp.Popen(cmd, shell=True)",
        ],
        [
            "import subprocess\nsubprocess.run(['ls', x])",
            "import subprocess\nsubprocess.run(cmd, shell=False)",
            "connection.system('x' + y)",
        ],
    ),
    "sql": (
        [
            "cursor.execute(f'SELECT * FROM t WHERE id = {x}')",
            "cursor.execute('DELETE FROM t WHERE id = %s' % x)",
            "db.execute('select a from t where b = ' + b)",
            "db.execute('UPDATE t SET a = {}'.format(a))",
        ],
        [
            "cursor.execute('SELECT * FROM t WHERE id = ?', (x,))",
            "cursor.execute(f'SELECT * FROM {TABLE}')",
            "pool.execute(f'job {x}')",
        ],
    ),
    "no-tls-verify": (
        ["import requests\nrequests.get(url, verify=False)", "import ssl\nssl._create_unverified_context()"],
        ["import requests\nrequests.get(url, verify=True)", "check(verify=False)"],
    ),
    "temp-race": (
        ["import tempfile\ntempfile.mktemp()"],
        ["import tempfile\ntempfile.mkstemp()"],
    ),
    "weak-hash": (
        ["import hashlib\nhashlib.md5(x)", "import hashlib\nhashlib.new('sha1', x)"],
        ["import hashlib\nhashlib.md5(x, usedforsecurity=False)", "import hashlib\nhashlib.sha256(x)"],
    ),
    "archive": (
        ["import tarfile\ntarfile.open(p).extractall(d)"],
        [
            "import tarfile\ntarfile.open(p).extractall(d, filter='data')",
            "import zipfile\nzipfile.ZipFile(p).extractall(d)",
        ],
    ),
    "secret": (
        [
            f"API_KEY = '{MIXED}'",
            f"connect(password='{MIXED}')",
            f"conf = {{'secret_key': '{MIXED}'}}",
            f"x = '{TOKEN}'",
        ],
        [
            "PASSWORD = ''",
            "password = getpass()",
            "API_KEY = '${API_KEY}'",
            "TOKEN = 'access_token'",
            "password = 'your-password-1'",
            f"digest = '{MIXED}'",
        ],
    ),
    "debugger": (["breakpoint()", "import pdb\npdb.set_trace()"], ["def breakpoint(): ...\nbreakpoint()"]),
    "bare-except": (
        ["try:\n    f()\nexcept:\n    log()"],
        ["try:\n    f()\nexcept:\n    close()\n    raise", "try:\n    f()\nexcept ValueError:\n    pass"],
    ),
    "swallowed-exception": (
        [
            "try:\n    f()\nexcept Exception:\n    pass",
            "def g():\n    try:\n        f()\n    except (ValueError, BaseException):\n        return None",
        ],
        [
            "try:\n    f()\nexcept Exception:\n    log()",
            "try:\n    f()\nexcept Exception as error:\n    last = error",
            "try:\n    f()\nexcept Exception:\n    raise",
            "try:\n    f()\nexcept KeyError:\n    pass",
        ],
    ),
    "lost-cause": (
        ["try:\n    f()\nexcept KeyError:\n    raise ValueError('x')"],
        [
            "try:\n    f()\nexcept KeyError as e:\n    raise ValueError('x') from e",
            "try:\n    f()\nexcept KeyError:\n    raise",
            "try:\n    f()\nexcept KeyError:\n    def g():\n        raise ValueError('x')",
        ],
    ),
    "jump-in-finally": (
        [
            "def f():\n    try:\n        g()\n    finally:\n        return 1",
            "for x in y:\n    try:\n        g()\n    finally:\n        break",
        ],
        [
            "def f():\n    try:\n        g()\n    finally:\n        for x in y:\n            break",
            "def f():\n    try:\n        g()\n    finally:\n        def h():\n            return 1",
        ],
    ),
    "assert-validation": (
        ["def f(x):\n    assert x > 0"],
        [
            "def _f(x):\n    assert x > 0",
            "def f():\n    y = g()\n    assert y",
            "def f(self):\n    assert self",
        ],
    ),
    "assert-tuple": (["assert (x, 'message')"], ["assert x, 'message'", "assert (x)"]),
    "raise-notimplemented": (
        ["raise NotImplemented", "raise NotImplemented('x')"],
        ["raise NotImplementedError"],
    ),
    "blocking-call": (
        [
            "import time\nasync def f():\n    time.sleep(1)",
            "import requests as r\nasync def f():\n    r.get(u, timeout=1)",
            "async def f():\n    open('x', encoding='utf-8')",
        ],
        [
            "import time\ndef f():\n    time.sleep(1)",
            "import time\nasync def f():\n    def g():\n        time.sleep(1)",
            "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
        ],
    ),
    "dropped-task": (
        ["import asyncio\nasyncio.create_task(f())", "loop.create_task(f())"],
        ["import asyncio\nt = asyncio.create_task(f())", "group.create_task(f())"],
    ),
    "never-awaited": (
        [
            "async def f(): ...\nasync def g():\n    f()",
            "class A:\n    async def f(self): ...\n    async def g(self):\n        self.f()",
            "import asyncio\nasync def f():\n    asyncio.sleep(1)",
        ],
        [
            "async def f(): ...\nasync def g():\n    await f()",
            "async def f(): ...\ndef f(): ...\nf()",
            "@cli\nasync def f(): ...\nf()",
            "async def f(): ...\ndef g(f):\n    f()",
            "async def f():\n    yield 1\nf()",
            "class A:\n    async def f(self): ...\nclass B:\n    def g(self):\n        self.f()",
        ],
    ),
    "lock-over-await": (
        ["import threading\nlock = threading.Lock()\nasync def f():\n    with lock:\n        await g()"],
        [
            "import asyncio\nlock = asyncio.Lock()\nasync def f():\n    async with lock:\n        await g()",
            "import threading\nlock = threading.Lock()\nasync def f():\n    with lock:\n        g()",
            "async def f(self):\n    with self.lock:\n        await g()",
        ],
    ),
    "no-timeout": (
        ["import requests\nrequests.get(u)", "import urllib.request\nurllib.request.urlopen(u)"],
        ["import requests\nrequests.get(u, timeout=3)", "import requests\nrequests.get(u, **options)"],
    ),
    "mutable-default": (
        ["def f(x=[]):\n    x.append(1)", "def f(*, x={}):\n    return x", "def f(x=list()): ..."],
        ["def f(x=()): ...", "def f(x=None): ...", "def f(x=frozenset()): ..."],
    ),
    "mutable-class-attribute": (
        ["class A:\n    seen = []\n    def f(self):\n        self.seen.append(1)"],
        [
            "class A:\n    seen = []\n    def f(self):\n        self.seen = []\n        self.seen.append(1)",
            "class A:\n    seen: ClassVar[list] = []\n    def f(self):\n        self.seen.append(1)",
            "class A:\n    names = ['a']",
        ],
    ),
    "none-comparison": (["x == None", "if x != None: ..."], ["x is None", "x == 0"]),
    "is-literal": (["x is 1", "x is not 'a'", "if () is x: ..."], ["x is None", "x is True", "x is y"]),
    "duplicate-key": (["{'a': 1, 'a': 2}"], ["{'a': 1, 'b': 1}", "{1: 'x', True: 'y'}", "{a: 1, a: 2}"]),
    "late-binding": (
        [
            "for x in y:\n    fs.append(lambda: x)",
            "fs = [lambda: x for x in y]",
            "for x in y:\n    def f():\n        return x\n    fs.append(f)",
            "for x in y:\n    table[x] = lambda: x",
        ],
        [
            "for x in y:\n    fs.append(lambda x=x: x)",
            "for x in y:\n    sorted(z, key=lambda v: v + x)",
            "for x in y:\n    fs.append(lambda: z)",
            "for x in y:\n    def f():\n        return x\n    f()",
        ],
    ),
    "changed-while-iterated": (
        ["for x in y:\n    if x:\n        y.remove(x)", "for k in self.d:\n    self.d.pop(k)"],
        [
            "for x in list(y):\n    y.remove(x)",
            "for x in y:\n    y.remove(x)\n    break",
            "for x in y:\n    if x:\n        y.remove(x)\n        return_it = 1\n        break",
            "for x in y:\n    y.append(x)",
            "for x in y:\n    z.remove(x)",
        ],
    ),
    "plain-fstring": (["f'abc'"], ["f'a{x}'", "f'{x:>10}'", "f'a' f'{x}'"]),
    "unused-import": (
        [
            "import os",
            "from a import b as c",
            "import a.b",
            "import os\ndef f():\n    import sys\n    return os",
        ],
        [
            "import os\nos.x",
            "import os\n__all__ = ['os']\nx = 1\ndef f(): ...",
            "from a import b as b\ndef f(): ...",
            "from __future__ import annotations\ndef f(): ...",
            "try:\n    import yaml\nexcept ImportError:\n    yaml = None",
            "from a import T\ndef f(x: 'list[T]'): ...",
            "from a import T\nx = cast('T', y)",
            "from a import T\ndef f(x):\n    # type: (T) -> None\n    ...",
            "from .a import b\nfrom .c import d",
            "'''Front.'''\nfrom a import b\n__all__ = []",
            "import a.b\na.b.c()",
        ],
    ),
    "star-import": (["from os import *"], ["from os import path\npath.join"]),
    "shadowed-builtin": (
        ["def f(id): ...", "list = [1]", "def type(): ...", "for input in x: ...", "f = lambda dir: dir"],
        [
            "class A:\n    id = 1\n    def list(self): ...",
            "x.id = 1",
            "f(id=3)",
            "import builtins",
            "def f(ident): ...",
        ],
    ),
    "redefinition": (
        ["def f(): ...\ndef f(): ...", "class A:\n    def test_x(self): ...\n    def test_x(self): ..."],
        [
            "def f(): ...\nf()\ndef f(): ...",
            "if x:\n    def f(): ...\nelse:\n    def f(): ...",
            "@overload\ndef f(): ...\ndef f(): ...",
            "class A:\n    @property\n    def x(self): ...\n    @x.setter\n    def x(self, v): ...",
        ],
    ),
    "missing-export": (
        ["__all__ = ['gone']\nx = 1"],
        [
            "__all__ = ['x']\nx = 1",
            "from a import *\n__all__ = ['y']",
            "__all__ = ['y']\ndef __getattr__(name): ...",
        ],
    ),
    "long-function": (["def f():\n" + "    x = 1\n" * 90], ["def f():\n" + "    x = 1\n" * 70]),
    "long-file": (["x = 1\n" * 1_100], ["x = 1\n" * 900]),
    "complex-function": (
        ["def f(x):\n" + "    if x: y = 1\n" * 16],
        ["def f(x):\n" + "    if x: y = 1\n" * 10],
    ),
    "many-parameters": (
        ["def f(a, b, c, d, e, f, g, h, i): ..."],
        ["def f(self, a, *, b, c, d, e, f, g, h, i): ..."],
    ),
    "deep-nesting": (
        ["def f():\n" + "".join("    " * (i + 1) + "if x:\n" for i in range(6)) + "    " * 7 + "y = 1"],
        ["def f():\n    if a:\n        x = 1\n" + "    elif b:\n        x = 1\n" * 8],
    ),
    "missing-docstring": (
        ["'''M.'''\ndef f(): ...", "'''M.'''\nclass A: ...", "x = 1"],
        [
            "'''M.'''\ndef f():\n    '''F.'''",
            "'''M.'''\ndef _f(): ...",
            "'''M.'''\nclass A:\n    '''A.'''\n    def __len__(self): ...",
            "'''M.'''\ndef f():\n    '''F.'''\n    def g(): ...",
            "'''M.'''\nclass A:\n    '''A.'''\n    @override\n    def f(self): ...",
        ],
    ),
    "unreachable": (
        [
            "def f():\n    return 1\n    g()",
            "for x in y:\n    continue\n    g()",
            "try:\n    raise A\n    g()\nexcept A: ...",
        ],
        ["def f():\n    return\n    yield", "def f():\n    if x:\n        return 1\n    g()"],
    ),
    "useless-comparison": (
        ["x == 1", "x.y < z"],
        ["assert x == 1", "with raises(E):\n    x < y", "z = x == 1"],
    ),
    "no-encoding": (
        ["open('x')", "open('x', 'w')", "p.read_text()", "p.write_text(t)"],
        [
            "open('x', 'rb')",
            "open('x', encoding='utf-8')",
            "open('x', mode)",
            "open(**kw)",
            "p.read_text('utf-8')",
            "p.write_text(t, encoding='utf-8')",
        ],
    ),
    "todo": (["x = 1  # TODO: more"], ["x = '# TODO: more'", "# a todo list", "TODO = 1"]),
    "deceptive-text": (["x = 'a\u202eb'"], ["x = 'a\\u202eb'"]),
}
FLAGGED = [(check, text) for check, (bad, _) in SAMPLES.items() for text in bad]
SILENT = [(check, text) for check, (_, good) in SAMPLES.items() for text in good]


def found(analysis, text, path="pkg/sample.py"):
    """The ids of the checks that flag a text."""
    return {issue.check for issue in analysis.inspect_bytes(path, text.encode()).issues}


@pytest.mark.parametrize(("check", "text"), FLAGGED)
def test_flags(analysis, check, text):
    """The defect is found."""
    assert check in found(analysis, textwrap.dedent(text))


@pytest.mark.parametrize(("check", "text"), SILENT)
def test_does_not_flag(analysis, check, text):
    """The near miss is left alone, and is no syntax error that hides the question."""
    seen = found(analysis, textwrap.dedent(text))
    assert check not in seen
    assert not seen & {"syntax-error", "not-text"}


def test_every_check_has_samples(analysis):
    """No check without both arms; the ones about bytes have their own tests."""
    about_bytes = {"not-text", "not-readable", "too-large"}
    assert {check.id for check in analysis.CHECKS} == SAMPLES.keys() | about_bytes


def test_check_ids_are_unique_and_explained(analysis):
    """The report explains each check by its `why`."""
    assert len(analysis.BY_ID) == len(analysis.CHECKS)
    assert all(check.why.endswith(".") and check.severity in analysis.SEVERITIES for check in analysis.CHECKS)


def test_severity_follows_what_is_at_stake(analysis):
    """A fixed shell command is low, a computed one high; a default that is changed is worse."""
    shells = "import os\nos.system('ls')\nos.system('ls ' + x)\n"
    text = shells + "def f(a=[]):\n    a.append(1)\ndef g(b=[]):\n    print(b)\n"
    issues = analysis.inspect_bytes("m.py", text.encode()).issues
    assert [i.severity for i in issues if i.check == "shell"] == ["low", "high"]
    assert [i.severity for i in issues if i.check == "mutable-default"] == ["medium", "low"]


@pytest.mark.parametrize("path", ["tests/test_x.py", "test/x.py", "a/conftest.py", "x_test.py"])
def test_test_code_is_judged_mildly(analysis, path):
    """In tests an assert is no validation, and an exec is at most low."""
    issues = analysis.inspect_bytes(path, b"def check(x):\n    assert x\n    exec(x)\n").issues
    assert {(i.check, i.severity) for i in issues} == {("dynamic-code", "low")}


@pytest.mark.parametrize(
    ("line", "silent"),
    [
        ("import os  # noqa", True),
        ("import os  # noqa: F401", True),
        ("import os  # noqa: E501, F401 - wanted", True),
        ("import os  # noqa: F", True),
        ("import os  # noqa: E501", False),
        ("import os  # audit: ignore", True),
        ("import os  # audit: ignore[unused-import]", True),
        ("import os  # audit: ignore[shell]", False),
        ("import os; x = '# noqa'", False),
        ("from a import (  # noqa: F401\n    b,\n    c,\n)", True),
    ],
)
def test_silencing(analysis, line, silent):
    """`# noqa` and `# audit: ignore[...]` speak about their own line, and only about what they name."""
    assert ("unused-import" not in found(analysis, line + "\ndef f(): ...\n")) is silent


def test_a_comment_on_def_does_not_silence_its_body(analysis):
    """A comment on the head of a block says nothing about the lines in it."""
    text = "def f(id):  # noqa\n    exec(id)\n"
    assert "dynamic-code" in found(analysis, text)
    assert "shadowed-builtin" not in found(analysis, text)
