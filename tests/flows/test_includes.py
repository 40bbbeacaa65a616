"""Documents that include documents: paths, circles, depth, arguments, outputs, whose errors stand where."""

from __future__ import annotations

import pytest

from orchestrator.errors import FlowError
from orchestrator.flows.flow import load_flow

CAST = """
from roles import role

@role()
def maker(turn): ...
"""
HEAD = "version: 1\nname: demo\ncast: [cast.py]\n"
INNER = (
    HEAD
    + "args: {text: {required: true}, at: {type: int}}\nnodes: {a: {role: maker}}\noutputs: {said: '${a}'}\n"
)


@pytest.fixture
def problems(tmp_path):
    (tmp_path / "cast.py").write_text(CAST)
    (tmp_path / "inner.yaml").write_text(INNER)

    def problems(text, **files):
        for name, other in files.items():
            (tmp_path / f"{name}.yaml").write_text(other)
        path = tmp_path / "flow.yaml"
        path.write_text(HEAD + text)
        found = [one for one in load_flow(path).check() if one.severity.value != "note"]
        return [str(one).removeprefix(f"{tmp_path}/") for one in found]

    return problems


def test_what_it_gives_and_takes(problems):
    """with: against its args, references against its outputs."""
    node = (
        "nodes:\n  i: {flow: inner.yaml, with: {%s}}\n  b: {role: maker, after: [i], instruction: '${i.%s}'}"
    )
    assert problems(node % ("text: x", "said")) == []
    assert problems(node % ("text: '${args}', at: 3", "said")) == []
    (found,) = problems(node % ("txt: x, text: y", "said"))
    assert found.startswith("flow.yaml:5:32: inner.yaml has no argument 'txt'; did you mean 'text'?")
    (found,) = problems(node % ("at: 1", "said"))
    assert "inner.yaml needs the argument 'text'; give it in with:" in found
    (found,) = problems(node % ("text: x, at: soon", "said"))
    assert "inner.yaml: argument at: 'soon' is not a whole number" in found
    (found,) = problems(node % ("text: x", "sad"))
    assert "i has no 'sad'; did you mean 'said'? (the outputs of inner.yaml)" in found


def test_its_errors_stand_where_they_are(problems):
    """The included document's own file, line and column."""
    wrong = INNER.replace("role: maker", "role: makr")
    (found,) = problems("nodes: {i: {flow: inner.yaml, with: {text: x}}}", inner=wrong)
    assert found.startswith("inner.yaml:5:19: there is no role 'makr'")


@pytest.mark.parametrize("path", ["../inner.yaml", "/tmp/inner.yaml", "a/../../inner.yaml"])
def test_from_inside_the_folder_only(problems, path):
    """Paths of includes stay inside the document's folder."""
    assert "leaves the document's folder" in problems(f"nodes: {{i: {{flow: {path}}}}}")[0]


def test_what_is_not_there(problems):
    """Named at the node."""
    assert problems("nodes: {i: {flow: gone.yaml}}") == [
        "flow.yaml:4:19: gone.yaml does not exist beside the document"
    ]


def test_a_link_that_leads_out(problems, tmp_path, tmp_path_factory):
    """A link is judged by what it points at."""
    away = tmp_path_factory.mktemp("away") / "inner.yaml"
    away.write_text(INNER)
    (tmp_path / "link.yaml").symlink_to(away)
    assert "leaves the document's folder" in problems("nodes: {i: {flow: link.yaml}}")[0]


def test_a_circle_is_refused_at_load(problems):
    """flows.md: a document that includes itself, also through others."""
    with pytest.raises(FlowError, match=r"cannot include itself: flow.yaml -> flow.yaml"):
        problems("nodes: {i: {flow: flow.yaml}}")
    with pytest.raises(FlowError, match=r"inner.yaml:4:19: .*flow.yaml -> inner.yaml -> flow.yaml"):
        problems("nodes: {i: {flow: inner.yaml}}", inner=HEAD + "nodes: {i: {flow: flow.yaml}}")


def test_depth(problems):
    """Four documents stand below one; a fifth is refused."""
    chain = {f"f{n}": HEAD + f"nodes: {{i: {{flow: f{n + 1}.yaml}}}}" for n in range(1, 4)}
    assert problems("nodes: {i: {flow: f1.yaml}}", **chain, f4=HEAD + "nodes: {a: {role: maker}}") == []
    with pytest.raises(FlowError, match="too deep; at most 4 documents stand below one"):
        problems(
            "nodes: {i: {flow: f1.yaml}}",
            f4=HEAD + "nodes: {i: {flow: f5.yaml}}",
            f5=HEAD + "nodes: {a: {role: maker}}",
        )


def test_what_only_roles_have(problems):
    """One performer, and nothing that a run cannot have."""
    (found,) = problems("nodes: {i: {flow: inner.yaml, role: maker, with: {text: x}}}")
    assert "i names a role and a flow; give exactly one" in found
    for key, value in (("gate", "true"), ("emits", "[Finding]"), ("workdir", "w"), ("returns", "str")):
        found = problems(f"nodes: {{i: {{flow: inner.yaml, with: {{text: x}}, {key}: {value}}}}}")
        assert any(
            f"i includes a flow, which has no {key}; write it at a node of inner.yaml" in one for one in found
        )
    (found,) = problems("nodes: {i: {flow: inner.yaml, with: {text: x}, instruction: go}}")
    assert "is told by with:, not by an instruction" in found
