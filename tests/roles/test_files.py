"""Role files: Python under a private name, Markdown with a strict head; every fault with its line."""

import sys
from textwrap import dedent

import pytest

from emissions import EMISSIONS, Finding, SpawnRequest, TaskAssignment, Verdict, tag
from roles import Artifact, Retry, RoleError, library, load_roles


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else dedent(text).lstrip().encode())
        return path

    return write


CAST = """
    import dataclasses
    from roles import Role, role
    from emissions import Finding

    @dataclasses.dataclass
    class Own:
        x: int

    @role(emits=(Finding,))
    async def second(turn):
        '''Comes first.'''

    first = Role("first", body="You are first.")
    alias = second
    other = 3
"""


def test_python_roles_in_order_of_definition(write):
    path = write("cast.py", CAST)
    before = list(sys.path)
    roles = load_roles(path)
    assert [role.name for role in roles] == ["second", "first"]
    assert roles[0].origin == f"{path}:9"
    assert roles[1].origin == f"{path}:13"
    assert sys.path == before
    assert "cast" not in sys.modules
    assert roles[0].fn.__module__.startswith("_callboard_cast_")


def test_an_unchanged_file_is_not_run_again_and_a_changed_one_is(write):
    path = write("cast.py", CAST)
    assert load_roles(path)[0] is load_roles(path)[0]
    one = load_roles(path)
    two = load_roles(write("cast.py", CAST + "\n"))
    assert one[0] is not two[0]


def test_two_files_of_one_name_do_not_hide_each_other(write, tmp_path):
    (tmp_path / "b").mkdir()
    one = load_roles(write("cast.py", CAST))
    two = load_roles(write("b/cast.py", CAST))
    assert one[0].fn.__module__ != two[0].fn.__module__


def test_the_folder_is_no_import_path(write):
    write("neighbour_of_cast.py", "x = 1")
    with pytest.raises(RoleError, match=r"cast\.py:1: ModuleNotFoundError"):
        load_roles(write("cast.py", "import neighbour_of_cast"))


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("x = 1\ny = (\n", 2, "SyntaxError"),
        ("def f():\n    raise ValueError('mine')\n\nf()\n", 2, "ValueError: mine"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("x = 0\nraise BaseException('x')\n", 2, "BaseException"),
        ("from roles import role\n@role\ndef f(): ...\n", 2, "exactly one parameter"),
        ("import dataclasses\n\ndataclasses.replace(1)\n", 3, "TypeError"),
    ],
)
@pytest.mark.parametrize("relative", [False, True])
def test_a_python_file_that_fails_is_one_error_with_its_line(write, monkeypatch, text, line, says, relative):
    """bad-inputs 12: a cast that ends the interpreter ends nothing."""
    path = write("cast.py", text)
    if relative:
        monkeypatch.chdir(path.parent)
        path = path.relative_to(path.parent)
    with pytest.raises(RoleError) as caught:
        load_roles(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert says in str(caught.value)
    assert not [
        name
        for name in sys.modules
        if name.startswith("_callboard") and sys.modules[name].__file__ == str(path)
    ]


def test_interrupting_is_not_a_fault_of_the_file(write):
    with pytest.raises(KeyboardInterrupt):
        load_roles(write("cast.py", "raise KeyboardInterrupt"))


FULL = """
    ---
    # who this is
    name: critic-two
    description: "Judges: everything"   # said twice
    emits: [Verdict, spawn_request]
    returns: models:Review
    models: [anthropic:small, 'anthropic:large']
    fallback: []
    effort: high
    tools: [read_file]
    artifacts: [{name: review, path: review.md, required: true, kind: review}, {name: log, path: a/b.txt}]
    modes: [adversarial, slow]
    escalates_to: architect
    retry: {attempts: 3, backoff: 500ms, on: [ValueError], jitter: 0.5}
    timeout: 30m
    ---

    You judge.

    ---
    Not a head: [this]
"""


def test_every_key_of_a_markdown_role(write):
    [role] = load_roles(write("critic.md", FULL))
    assert role.name == "critic-two"
    assert role.description == "Judges: everything"
    assert role.emits == (Verdict, SpawnRequest)
    assert role.returns == "models:Review"
    assert role.models == ("anthropic:small", "anthropic:large")
    assert role.fallback == ()
    assert (role.effort, role.tools, role.modes) == ("high", ("read_file",), ("adversarial", "slow"))
    assert role.artifacts == (Artifact("review", "review.md", True, "review"), Artifact("log", "a/b.txt"))
    assert role.escalates_to == "architect"
    assert role.retry == Retry(attempts=3, backoff=0.5, on=("ValueError",), jitter=0.5)
    assert role.timeout == 1800
    assert role.body == "You judge.\n\n---\nNot a head: [this]"
    assert role.fn is None


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_byte_order_mark_line_ends_and_foreign_text(write, newline):
    """TEXT 138: UTF-8 with its mark, under any locale; the name is the file's."""
    text = newline.join(["---", "description: prüft \u2603", "retry: 2", "---", "Du prüfst.", ""])
    [role] = load_roles(write("pruefer.md", b"\xef\xbb\xbf" + text.encode()))
    assert (role.name, role.description, role.body) == ("pruefer", "prüft \u2603", "Du prüfst.")
    assert role.retry == Retry(attempts=2)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("emit: [Finding]", ":2: unknown key 'emit'"),
        ("name: a\nname: b", ":3: name was given in line 2"),
        ("emits: [Findin]", ":2: emits: no emission is called 'Findin'; did you mean Finding"),
        ("emits: Finding", ":2: emits: give a list"),
        ("emits:\n  - Finding", ":2:7: "),
        ("- Finding", "a list stands on its key's line"),
        ("emits: [Finding", "expected ',' or ']'"),
        ("emits: [Finding]]", "ends the value"),
        ("emits: [[Finding]]", "give one text"),
        ("models: [[[[[[a]]]]]]", "nested too deep"),
        ("description:", "a value is missing"),
        ("description: a: b", "quote the whole value"),
        ("description: a: b # c", "quote the whole value"),
        ("description: &anchor a", "has to be quoted"),
        ("description: |", "has to be quoted"),
        ("description: 'half", "has to be quoted"),
        ('description: "bad \\x"', "has to be quoted"),
        ("description: 'a' b", "quote the whole value"),
        ("nonsense", "write key: value"),
        ("name:critic", "write key: value"),
        ("  name: critic", "write key: value"),
        ("name: 1critic", "not a role's name"),
        ("retry: often", ":2: retry: "),
        ("retry: 0", "attempts is 0"),
        ("retry: {attempts: 2, attempts: 3}", "attempts stands twice"),
        ("retry: {tries: 2}", "unknown key 'tries'"),
        ("retry: [2]", "give {attempts"),
        ("timeout: soon", "give seconds"),
        ("timeout: -3", "has to be quoted"),
        ("timeout: 0", "timeout is 0"),
        ("artifacts: [{name: a, path: ../a}]", "not a path inside"),
        ("artifacts: [{name: a}]", "path"),
        ("artifacts: [{name: a, path: a, required: yes}]", "give true or false"),
        ("artifacts: [a]", "give {name"),
        ("modes: [hasty]", "no mode is called"),
    ],
)
def test_a_wrong_head_names_file_and_line(write, head, says):
    path = write("critic.md", f"---\n{head}\n---\nBody.\n")
    with pytest.raises(RoleError) as caught:
        load_roles(path)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", ":1: a role file begins"),
        (b"Body only", ":1: a role file begins"),
        (b"---\nname: a\n", "does not end"),
        (b"---\nname: a\n---\n", "no body"),
        (b"---\nname: \xff\n---\nx", "byte 10 is not UTF-8"),
        (b"---\n" + b"x" * 300_000, "larger than 256 KiB"),
    ],
)
def test_files_that_are_no_role_files(write, content, says):
    with pytest.raises(RoleError, match=says):
        load_roles(write("a.md", content))


def test_other_files(write, tmp_path):
    with pytest.raises(RoleError, match=r"Python .* or Markdown"):
        load_roles(write("a.txt", "x"))
    with pytest.raises(RoleError, match="nowhere"):
        load_roles(tmp_path / "nowhere.py")


def test_a_folder_is_read_by_name(write, tmp_path):
    write("b.md", "---\nname: b\n---\nB.")
    write("a.py", "from roles import Role\na = Role('a')")
    write("notes.txt", "x")
    assert [role.name for role in load_roles(tmp_path)] == ["a", "b"]


SHIPPED = {
    "analyst": "AnalysisResult Finding",
    "architect": "DesignSpec ExecutionPlan",
    "auditor": "ComplianceVerdict Finding",
    "coordinator": "TaskAssignment ExecutionPlan SpawnRequest",
    "critic": "Verdict Finding",
    "explorer": "Finding Gap SpawnRequest",
    "implementer": "ArtifactProduced VerificationResult",
    "planner": "TaskAssignment ExecutionPlan SpawnRequest",
    "researcher": "Finding Conflict Gap SpawnRequest",
    "reviewer": "Verdict Finding",
    "scribe": "Document",
    "synthesizer": "Synthesis Conflict",
    "tester": "VerificationResult Finding SpawnRequest",
    "writer": "Document",
}


def test_the_library_is_the_table():
    found = {role.name: role for role in library()}
    assert SHIPPED.keys() <= found.keys()
    for name, emits in SHIPPED.items():
        assert {type_.emission_kind for type_ in found[name].emits} == set(emits.split())
    for name in ("critic", "reviewer"):
        assert [(a.path, a.required) for a in found[name].artifacts] == [("review.md", True)]


@pytest.mark.parametrize("role", library(), ids=lambda role: role.name)
def test_a_body_of_the_library_earns_its_place(role):
    """It says how it works, judges itself, what it leaves alone and hands on; it promises no grant."""
    assert role.description.endswith(".")
    assert len(role.body.split()) > 200
    for part in ("How you work", "How you judge your own work", "What you do not do", "What you hand on"):
        assert f"## {part}" in role.body
    for kind, type_ in EMISSIONS.items():
        if kind != kind.lower().capitalize():
            assert kind not in role.body and tag(type_) not in role.body
    assert (TaskAssignment in role.emits) == (role.name in {"planner", "coordinator", "orchestrator"})
    assert Finding in role.grants or role.emits
