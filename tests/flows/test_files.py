"""Checks of artifacts, workdir and shared: every path stays inside, every name is left by somebody."""

from __future__ import annotations

import pytest

from orchestrator.flows.flow import load_flow

CAST = """
from roles import Artifact, role

@role()
def maker(turn): ...

@role(artifacts=[Artifact("report", "report.md", required=True), Artifact("log", "log.txt")])
def reporter(turn): ...
"""


@pytest.fixture
def problems(tmp_path):
    (tmp_path / "cast.py").write_text(CAST)

    def problems(text):
        path = tmp_path / "flow.yaml"
        path.write_text(f"version: 1\nname: demo\ncast: [cast.py]\n{text}")
        found = [one for one in load_flow(path).check() if one.severity.value != "note"]
        return [f"{one.line}:{one.column}: {one.message}" for one in found]

    return problems


@pytest.mark.parametrize("path", ["/tmp/x", "../x", "a/../../x", "a\\x"])
def test_an_artifact_stays_in_its_folder(problems, path):
    """bad-inputs: a path that leaves the folder is named with the accepted form."""
    (found,) = problems(f"nodes:\n  a: {{role: maker, artifacts: [{{name: note, path: '{path}'}}]}}")
    assert "is not a path inside the folder" in found
    assert found.startswith("5:")


def test_a_name_twice(problems):
    """Two files of one name: nobody could say which is meant."""
    (found,) = problems(
        "nodes:\n  a: {role: maker, artifacts: [{name: n, path: a.md}, {name: n, path: b.md}]}"
    )
    assert "a declares the artifact 'n' twice" in found


def test_what_a_reference_names(problems):
    """${a.artifacts.NAME}: declared, and asked for where it can be missing; the role's are known."""
    rest = '  b: {role: maker, after: [a], instruction: "${%s}"}'
    node = "nodes:\n  a: {role: reporter, artifacts: [{name: own, path: own.md, required: true}]}\n"
    assert problems(node + rest % "a.artifacts.report") == []
    assert problems(node + rest % "a.artifacts.own") == []
    assert problems(node + rest % "default(a.artifacts.log, '')") == []
    (found,) = problems(node + rest % "a.artifacts.log")
    assert "a.artifacts.log can be missing" in found
    (found,) = problems(node + rest % "a.artifacts.reprot")
    assert "a declares no artifact 'reprot'; did you mean 'report'?" in found
    (found,) = problems(node + rest % "a.artifacts.own.size")
    assert "is a path, a text, and has no 'size'" in found


def test_nodes_that_work_in_one_folder(problems):
    """kernel.md 6: two nodes that may run at once share a folder only if both say so."""
    both = "nodes:\n  a: {role: maker, workdir: w%s}\n  b: {role: maker, workdir: %s%s}"
    (found,) = problems(both % ("", "w", ""))
    assert "a and b could work in w at the same time" in found
    assert "shared: true at a and b" in found
    (found,) = problems(both % (", shared: true", "w/inner", ""))
    assert found.endswith("shared: true at b")
    assert problems(both % (", shared: true", "w", ", shared: true")) == []
    assert problems(both % ("", "v", "")) == []
    assert problems(both % ("", "w, after: [a]", "")) == []


def test_where_a_node_may_work(problems):
    """A workdir is beside the document, or an argument; shared without one says nothing."""
    (found,) = problems("nodes: {a: {role: maker, workdir: ../x}}")
    assert "workdir of a: '../x' is not a path inside the folder" in found
    assert (
        problems("args: {repo: {required: true}}\nnodes: {a: {role: maker, workdir: '${args.repo}'}}") == []
    )
    (found,) = problems("nodes: {a: {role: maker, workdir: '${args.repo}'}}")
    assert "there is no argument 'repo'" in found
    (found,) = problems("nodes: {a: {role: maker, shared: true}}")
    assert "shared of a says nothing without workdir" in found


def test_what_the_run_must_leave(problems):
    """Top-level artifacts name what a node leaves."""
    nodes = "nodes: {a: {role: reporter}}\nartifacts: "
    assert problems(nodes + "[{name: report, required: true, path: report.md}]") == []
    (found,) = problems(nodes + "[{name: reports}]")
    assert "no node leaves 'reports'; did you mean 'report'?" in found
    (found,) = problems(nodes + "[{name: report, path: other.md}]")
    assert "report is left as report.md, not as other.md" in found
    (found,) = problems(nodes + "[{name: report}, {name: report}]")
    assert "stands twice" in found
