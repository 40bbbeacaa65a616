"""check, draw, roles, emissions, events, schema, try, init: in this process, by their output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from emissions import EMISSIONS
from orchestrator.cli.commands import invoke
from orchestrator.core.facts import FACTS
from tests.cli.program import CAST, environment, flow

AUDIT = Path(__file__).resolve().parents[2] / "docs" / "examples" / "audit"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]):
    """Call a command: exit code, stdout, stderr."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        code = invoke([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_check_tells_what_will_happen(cli):
    """check: the sentence per node, what each verdict does at each gate, planned, allowed, worst case."""
    code, out, _ = cli("check", AUDIT)
    assert code == 0
    assert "unstable" not in out
    assert "remember runs if report and review completed" in out
    for line in ("APPROVE: opens remember", "REJECT: vetoes remember", "without a verdict: holds them"):
        assert f"  {line}" in out
    assert "planned: 4 nodes, at most 4 attempts" in out
    assert "allowed: 1,000 spawns" in out
    assert "worst case: 1,014 nodes" in out


def test_check_as_json(cli, tmp_path: Path):
    """check --json: one object, with problems by place; a document with errors is not ok."""
    code, out, _ = cli("check", AUDIT, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["ok"] is True
    assert told["gates"]["review"]["REJECT"] == "vetoes remember"
    assert told["budget"]["worst_case_nodes"] == 1014
    code, out, _ = cli("check", flow(tmp_path, "  a: {role: nobody}"), "--json")
    told = json.loads(out)
    assert code == 2
    assert told["ok"] is False
    assert [(one["line"], one["severity"]) for one in told["problems"] if one["severity"] == "error"] == [
        (6, "error")
    ]


def test_check_counts_attempts(cli, tmp_path: Path):
    """The worst case counts retries of planned nodes."""
    _, out, _ = cli(
        "check", flow(tmp_path, "  a: {role: echo, retry: 3}\n  b: {role: echo}", "budget: {spawns: 0}")
    )
    assert "planned: 2 nodes, at most 4 attempts" in out


def test_check_adds_nothing_where_nobody_grows(cli, tmp_path: Path):
    """Spawns that no planned role may ask for are no part of the worst case."""
    _, out, _ = cli("check", flow(tmp_path, "  a: {role: echo}", "budget: {spawns: 50}"))
    assert "worst case: 1 node, 1 attempt" in out


def test_a_folder_means_its_flow(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An existing path wins; a folder is its flow.yaml; `run` and `check` without a flow: this folder's."""
    flow(tmp_path, "  a: {role: echo}")
    assert cli("check", tmp_path)[0] == 0
    monkeypatch.chdir(tmp_path)
    code, out, _ = cli("run", "--quiet")
    assert code == 0
    assert out.startswith("tried completed: 1 node")
    assert cli("check")[:2] == cli("check", "flow.yaml")[:2]
    code, _, err = cli("check", "other.yaml")
    assert code == 2
    assert "there are: flow.yaml" in err


def test_draw(cli):
    """DRAW: text columns and mermaid from one command."""
    assert "report (scribe)" in cli("draw", AUDIT)[1]
    assert cli("draw", AUDIT, "--format", "mermaid")[1].startswith("flowchart LR\n")


def test_draw_names_that_are_syntax(cli, tmp_path: Path):
    """DRAW 148: labels that mean something to mermaid, or to a terminal, are escaped."""
    when = "args.x == 'a]|<b>\"'"
    path = flow(tmp_path, f"  end_: {{role: echo, when: {json.dumps(when)}}}", "args: {x: {default: 'y'}}")
    code, out, err = cli("draw", path, "--format", "mermaid")
    assert code == 0, err
    (node,) = [line for line in out.splitlines() if "end_" in line]
    assert "<b>" not in node
    assert node.count('"') == 2


def test_roles(cli, tmp_path: Path):
    """roles: library and cast; one in full with its grants marked, artifacts and body."""
    code, out, _ = cli("roles")
    assert code == 0
    assert "  critic " in out
    _, out, _ = cli("roles", "--flow", AUDIT)
    assert out.index("cast\n") < out.index("inspector") < out.index("library\n")
    assert out.count("  critic ") == 1
    _, out, _ = cli("roles", "critic")
    assert "Verdict            acts at a gate" in out
    assert "Finding            recorded" in out
    assert "EscalationRequest  acts" in out
    assert "artifacts\n  review  review.md" in out
    assert "You are a critic." in out
    assert "did you mean critic?" in cli("roles", "critc")[2]


def test_emissions(cli):
    """emissions: all 23, one in full, and as JSON Schema."""
    _, out, _ = cli("emissions")
    assert len(out.splitlines()) == len(EMISSIONS) == 23
    _, out, _ = cli("emissions", "Finding")
    assert "description" in out
    assert "required" in out
    schema = json.loads(cli("emissions", "SpawnRequest", "--schema")[1])
    assert "instruction" in schema["properties"]
    assert json.loads(cli("emissions", "--schema")[1]).keys() == EMISSIONS.keys()


def test_events(cli):
    """events: every kind that a run publishes, with the JSON Schema of its whole envelope."""
    _, out, _ = cli("events")
    kinds = {line.split()[0] for line in out.splitlines()}
    assert kinds == {fact.__name__ for fact in FACTS} | {"NodeProgress", "Missed"}
    schema = json.loads(cli("events", "NodeFailed", "--schema")[1])
    assert schema["properties"]["kind"] == {"const": "NodeFailed"}
    assert "error" in schema["properties"]["data"]["properties"]
    assert json.loads(cli("events", "--schema")[1]).keys() == kinds
    assert json.loads(cli("events", "NodeProgress", "--schema")[1])["properties"]["seq"] == {"type": "null"}


def test_events_describe_what_json_prints(cli, tmp_path: Path):
    """The fields of each schema's data are the fields of the envelopes that a run prints."""
    path = flow(tmp_path, "  a: {role: finds}\n  b: {role: grows, with: {count: 3}}", "budget: {spawns: 1}")
    schemas = json.loads(cli("events", "--schema")[1])
    _, out, _ = cli("run", path, "--json")
    seen = [json.loads(line) for line in out.splitlines()[:-1]]
    assert len({event["kind"] for event in seen}) > 8
    for event in seen:
        assert set(event) == set(schemas[event["kind"]]["required"])
        assert set(event["data"]) == set(schemas[event["kind"]]["properties"]["data"]["required"]), event[
            "kind"
        ]


def test_schema(cli):
    """schema: the JSON Schema of documents."""
    assert json.loads(cli("schema")[1])["title"] == "Callboard flow"


def test_try_shows_value_emissions_and_receipts(cli, tmp_path: Path):
    """try: one role alone, given parameters and inputs; what it says and what it is answered."""
    flow(tmp_path, "  a: {role: echo}")
    cast = tmp_path / "cast.py"
    code, out, err = cli(
        "try", f"{cast}:finds", "--with", "n=1", "--with", "s=text", "--input", 'draft={"a": [1]}'
    )
    assert code == 0, err
    assert "said       finds: looking" in out
    assert "emitted    Finding, accepted" in out
    assert "refused    finds: Verdict: not_declared" in out or "refused    finds: Verdict" in out
    value = json.loads(out.partition("value\n")[2])
    assert value["given"] == {"n": 1, "s": "text"}
    assert value["inputs"] == {"draft": {"a": [1]}}


def test_try_runs_nobody_else(cli, tmp_path: Path):
    """try: a spawned role is accepted and does nothing; a failing role is exit 1."""
    (tmp_path / "cast.py").write_text(CAST, encoding="utf-8")
    code, out, _ = cli("try", f"{tmp_path / 'cast.py'}:grows", "--with", "count=2")
    assert code == 0
    assert out.count("accepted as grows.echo-") == 2
    assert out.rstrip().endswith("value\n2")
    code, out, _ = cli("try", f"{tmp_path / 'cast.py'}:boom", "--with", "text=\x1b[31mred")
    assert code == 1
    assert "\x1b" not in out
    assert "ValueError" in out


def test_try_takes_a_flow(cli):
    """try FLOW:ROLE finds the role in the flow's cast."""
    code, out, err = cli("try", f"{AUDIT / 'flow.yaml'}:scout", "--with", f"target={AUDIT}")
    assert code == 0, err
    assert "emitted    SpawnRequest, accepted as scout.inspector-1" in out


def test_init_runs_at_once_and_its_test_passes(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """init: four files; `run` completes and the test passes, in a folder of anybody."""
    folder = tmp_path / "mine"
    code, out, _ = cli("init", folder)
    assert code == 0
    assert sorted(file.name for file in folder.iterdir()) == [
        ".gitignore",
        "cast.py",
        "flow.yaml",
        "test_flow.py",
    ]
    monkeypatch.chdir(folder)
    code, out, err = cli("run")
    assert code == 0, err
    assert "open_ends completed" in out
    assert cli("check", "flow.yaml")[0] == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder, env=environment(),
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


@pytest.mark.parametrize(("template", "tests"), [("gate", 4), ("programs", 3), ("planner", 2)])
def test_other_templates_run_at_once(cli, tmp_path: Path, template: str, tests: int):
    """init --template: it runs, its tests pass, and a rehearsal finds nothing."""
    folder = tmp_path / "mine"
    assert cli("init", folder, "--template", template)[0] == 0
    assert cli("run", folder, "--journal", "none", "--arg", *_argument(template, tmp_path))[0] == 0
    assert cli("rehearse", folder, "--seeds", "30")[0] == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder, env=environment(),
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert f"{tests} passed" in done.stdout


def _argument(template: str, folder: Path) -> list[str]:
    return [
        {"gate": "topic=Coffee", "programs": f"target={folder}", "planner": "topics=tea, coffee"}[template]
    ]


def test_init_never_overwrites(cli, tmp_path: Path):
    """init: a file that is there stops it before anything is written; a .gitignore is left as it is."""
    (tmp_path / ".gitignore").write_text("mine\n", encoding="utf-8")
    assert cli("init", tmp_path)[0] == 0
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "mine\n"
    (tmp_path / "cast.py").write_text("# mine\n", encoding="utf-8")
    code, _, err = cli("init", tmp_path)
    assert code == 2
    assert "nothing was written" in err
    assert (tmp_path / "cast.py").read_text(encoding="utf-8") == "# mine\n"


@pytest.mark.parametrize(
    "name",
    [
        "run",
        "check",
        "rehearse",
        "draw",
        "roles",
        "emissions",
        "events",
        "try",
        "init",
        "schema",
        "save-flow",
    ],
)
def test_help_has_examples(cli, name: str):
    """Every command explains itself with examples."""
    code, out, _ = cli(name, "--help")
    assert code == 0
    assert "Examples:" in out
    assert f"callboard {name}" in out
    assert cli("--help")[1].count(f"  {name} ") == 1


def test_completion(tmp_path: Path):
    """Shell completion offers commands and names."""
    for words, expected in (("callboard emi", "emissions"), ("callboard emissions Find", "Finding")):
        done = subprocess.run(
            [sys.executable, "-c", "from orchestrator.cli import main; main()"], cwd=tmp_path,
            env=environment(
                _CALLBOARD_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1)
            ),
            capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert expected in done.stdout.split(), done.stderr


def test_help_loads_no_command(tmp_path: Path):
    """`--help` loads the table and nothing that a command needs."""
    code = (
        "import sys; from orchestrator.cli.commands import invoke; invoke(['--help'])\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, encoding="utf-8",
        check=True,
    )  # fmt: skip
    loaded = set(done.stderr.replace("'", "").strip("[]\n").split(", "))
    assert "typer" in loaded
    assert not loaded & {
        "rich",
        "structlog",
        "ruamel",
        "pydantic",
        "msgspec",
        "blinker",
        "emissions",
        "roles",
    }


def test_a_worst_case_counts_the_rounds_that_arguments_allow(cli, tmp_path: Path):
    """COST: refusals given as ``${args...}`` count with the argument's default."""
    assert cli("init", tmp_path / "g", "--template", "gate")[0] == 0
    code, out, _ = cli("check", tmp_path / "g")
    assert code == 0
    assert "worst case: 7 nodes, 7 attempts" in out
