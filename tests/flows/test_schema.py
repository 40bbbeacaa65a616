"""The JSON Schema says what the checks say: to a validator, and to the language server of editors."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import jsonschema
import pytest

from orchestrator.flows.document import Document, NodeSpec, flow_schema
from orchestrator.flows.load import source_of
from tests.flows.language_server import Server
from tests.flows.test_document import GOOD

ROOT = Path(__file__).resolve().parents[2]
#: Where `make test` puts it, then wherever the person who tests has it.
INSTALLED = os.pathsep.join((f"{ROOT}/tests/flows/editor/node_modules/.bin", os.environ.get("PATH", "")))
HEAD = "version: 1\nname: demo\n"
EXAMPLES = {
    path.parent.name: path.read_text("utf-8") for path in (ROOT / "docs/examples").glob("*/flow.yaml")
}
FITS = {"good": GOOD, **EXAMPLES, "small": f"{HEAD}nodes: {{x: {{role: a}}}}\n"}
UNFIT = {
    "unknown key": f"{HEAD}nodes: {{x: {{role: a, aftr: [y]}}}}\n",
    "unknown key at the top": f"{HEAD}budgt: 3\nnodes: {{x: {{role: a}}}}\n",
    "no nodes": HEAD + "nodes: {}\n",
    "nobody": f"{HEAD}nodes: {{x: {{instruction: a}}}}\n",
    "two performers": f"{HEAD}nodes: {{x: {{role: a, operation: b}}}}\n",
    "a text for a list": f"{HEAD}nodes: {{x: {{role: a, after: y}}}}\n",
    "a newer version": "version: 2\nname: demo\nnodes: {x: {role: a}}\n",
    "a negative budget": f"{HEAD}budget: {{spawns: -1}}\nnodes: {{x: {{role: a}}}}\n",
    "no duration": f"{HEAD}nodes: {{x: {{role: a, timeout: soon}}}}\n",
    "gate false": f"{HEAD}nodes: {{x: {{role: a, gate: false}}}}\n",
    "inputs": f"{HEAD}nodes: {{x: {{role: a, inputs: some}}}}\n",
    "a verdict that passes": f"{HEAD}nodes: {{x: {{role: a, gate: {{refuse_on: [APPROVE]}}}}}}\n",
}


def test_the_schema_has_every_key_of_the_model():
    """One schema: the model is the source."""
    schema = flow_schema()
    for model, part in ((Document, schema), (NodeSpec, schema["$defs"]["NodeSpec"])):
        assert set(part["properties"]) == {field.alias or name for name, field in model.model_fields.items()}
        assert part["additionalProperties"] is False


@pytest.mark.parametrize("name", [*FITS, *UNFIT])
def test_a_validator_agrees_with_the_checks(name):
    """The library that other tools use."""
    text = {**FITS, **UNFIT}[name]
    faults = list(jsonschema.Draft202012Validator(flow_schema()).iter_errors(source_of(text).data))
    assert bool(faults) is (name in UNFIT), faults


def test_the_language_server_of_editors_agrees(tmp_path):
    """yaml-language-server: silent on what fits, and a diagnosis for each fault."""
    command = os.environ.get("YAML_LANGUAGE_SERVER") or shutil.which("yaml-language-server", path=INSTALLED)
    if command is None:
        pytest.skip("yaml-language-server is not installed: npm ci --prefix tests/flows/editor")
    schema = tmp_path / "flow.schema.json"
    schema.write_text(json.dumps(flow_schema()))
    documents = {
        # a line that names the schema beside the document's own place would find none here
        f"{name.replace(' ', '-')}.yaml": text.replace("# yaml-language-server:", "#")
        for name, text in {**FITS, **UNFIT}.items()
    }
    server = Server(command, schema)
    try:
        found = server.diagnose(documents)
    finally:
        server.close()
    unfit = {f"{name.replace(' ', '-')}.yaml" for name in UNFIT}
    assert {name for name, faults in found.items() if faults} == unfit, found
    assert any("aftr is not allowed" in fault for fault in found["unknown-key.yaml"])
