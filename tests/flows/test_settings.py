"""Model and effort: the run, the node, defaults, the project, the person, the role (roles.md)."""

from __future__ import annotations

import json

import pytest

from orchestrator.flows.flow import load_flow
from orchestrator.flows.settings import settings_for

ROLE = "---\nmodels: [of:role]\neffort: low\n---\nYou write.\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A document in a folder of a project, with a role that names its model; a person's config folder."""
    (tmp_path / "me").mkdir()
    monkeypatch.setenv("CALLBOARD_CONFIG", str(tmp_path / "me"))
    folder = tmp_path / "project/flows"
    folder.mkdir(parents=True)
    (folder / "pen.md").write_text(ROLE)

    def document(defaults: str = "", node: str = ""):
        text = f"version: 1\nname: f\ncast: [pen.md]\n{defaults}nodes:\n  n: {{role: pen{node}}}\n"
        (folder / "flow.yaml").write_text(text)
        return folder / "flow.yaml"

    return document


def test_each_goes_before_the_next(project, tmp_path):
    """The node, then defaults, then callboard.toml, then config.toml, then the role."""

    def chosen(path):
        flow = load_flow(path)
        assert not [one for one in flow.check() if one.severity == "error"]
        said = flow.models()["n"]
        assert flow.graph.operations["n"].models[:1] in {(said["model"].value,), ()}
        assert flow.graph.operations["n"].effort in {said["effort"].value, None}
        return [(said[key].value, said[key].origin) for key in ("model", "effort")]

    assert chosen(project()) == [("of:role", "role pen"), ("low", "role pen")]
    mine, ours = tmp_path / "me/config.toml", tmp_path / "project/callboard.toml"
    mine.write_text('model = "of:person"\neffort = "medium"\n')
    assert chosen(project()) == [("of:person", str(mine)), ("medium", str(mine))]
    ours.write_text('model = "of:project"\n')
    assert chosen(project()) == [("of:project", str(ours)), ("medium", str(mine))]
    defaults = "defaults: {model: 'of:document', effort: high}\n"
    assert chosen(project(defaults)) == [("of:document", "defaults"), ("high", "defaults")]
    assert chosen(project(defaults, ", model: 'of:node'"))[0] == ("of:node", "the node")


def test_a_function_has_no_model(project, tmp_path):
    (tmp_path / "project/flows/pen.md").unlink()
    (tmp_path / "project/callboard.toml").write_text('model = "of:project"\n')
    path = project()
    path.write_text(path.read_text().replace("pen.md", "cast.py"))
    (path.parent / "cast.py").write_text("from roles import role\n\n@role()\ndef pen(turn): return 1\n")
    flow = load_flow(path)
    assert flow.models() == {}
    assert flow.graph.operations["n"].models == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("model = ", "it cannot be read as TOML"),
        ('modle = "a:b"', "there is no setting 'modle'; did you mean 'model'?"),
        ("effort = 3", "effort is 3; write a text"),
        ('model = "gpt"', "model is 'gpt'; write PROVIDER:NAME"),
    ],
)
def test_a_file_that_does_not_fit_is_named(project, tmp_path, text, fault):
    """It is a problem of the check, with the file's own name; nothing runs."""
    ours = tmp_path / "project/callboard.toml"
    ours.write_text(text)
    assert [one.file for one in settings_for(tmp_path / "project")[1]] == [str(ours)]
    found = [one for one in load_flow(project()).check() if one.file == str(ours)]
    assert len(found) == 1
    assert fault.split("; did")[0] in found[0].message


def test_check_and_roles_say_where_it_comes_from(project, tmp_path, monkeypatch, capsys):
    """In words and as JSON; a place below here is told as seen from here."""
    from orchestrator.cli.commands import invoke

    (tmp_path / "project/callboard.toml").write_text('model = "of:project"\n')
    path = project()
    monkeypatch.chdir(tmp_path / "project")
    assert invoke(["check", str(path)]) == 0
    assert "n: model of:project (callboard.toml), effort low (role pen)" in capsys.readouterr().out
    assert invoke(["check", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["models"]
    assert said["n"]["effort"] == {"value": "low", "from": "role pen"}
    assert invoke(["roles", "pen", "--flow", str(path)]) == 0
    out = capsys.readouterr().out
    assert "of:project (callboard.toml)" in out
    assert "low (this role)" in out
