"""The boundary: mappings, fenced text and JSON in prose become emissions or say why not."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from emissions import (
    EMISSIONS,
    Emission,
    Finding,
    Gap,
    Malformed,
    Objection,
    RefusalReason,
    SpawnRequest,
    Verdict,
    VerdictValue,
    extract_json,
    parse_mapping,
    parse_text,
    tag,
)

F = "```"
REJECT = '{"verdict": "REJECT", "rationale": "no"}'


def reasons(text: str) -> list[str]:
    return [
        str(item.reason) if isinstance(item, Malformed) else type(item).__name__ for item in parse_text(text)
    ]


# --- mappings ---


def test_mapping_by_class_name_and_tag():
    fields = {"verdict": "reject", "rationale": "no"}
    assert parse_mapping("Verdict", fields) == parse_mapping("verdict", fields)
    assert parse_mapping("verdict", fields) == Verdict(verdict="REJECT", rationale="no")


@pytest.mark.parametrize(
    ("kind", "mapping", "reason"),
    [
        ("nonsense", {}, "unknown_kind"),
        ("spawn-request", {}, "unknown_kind"),
        ("VERDICT", {}, "unknown_kind"),
        ("finding", [], "malformed"),
        ("finding", None, "malformed"),
        ("finding", "description", "malformed"),
        ("finding", {}, "invalid"),
        ("finding", {"description": 1}, "invalid"),
        ("finding", {"description": "d", "surplus": 1}, "invalid"),
        ("finding", {"description": "d", "node": "other"}, "forged"),
        ("finding", {"description": "d", "role": "critic", "run": "r"}, "forged"),
        ("finding", {1: "d"}, "malformed"),
        ("finding", {"description": "\ud800"}, "malformed"),
        ("spawn_request", {"parameters": {"a": "\udfff"}}, "malformed"),
        ("spawn_request", {"parameters": {"a": object()}}, "invalid"),
        ("escalation_request", {"reason": "r", "route": "upstairs"}, "invalid"),
    ],
)
def test_mapping_refusals(kind, mapping, reason):
    result = parse_mapping(kind, mapping)
    assert isinstance(result, Malformed)
    assert result.reason == reason
    assert result.kind == kind
    assert result.detail
    assert result.raw is mapping or isinstance(mapping, str)


def test_detail_is_bounded_and_names_the_field():
    result = parse_mapping("finding", {"x" * 10_000: 1, **{f"k{i}": 1 for i in range(1000)}})
    assert isinstance(result, Malformed)
    assert len(result.detail) <= 500
    assert "description" in result.detail
    assert "more" in result.detail


def test_depth_is_bounded_with_the_path():
    """bad-inputs 29: 33 deep, 990 deep, 100,000 deep and endless are all `too_deep`."""
    for depth in (33, 990, 100_000):
        deep: dict[str, Any] = {}
        for _ in range(depth):
            deep = {"a": deep}
        result = parse_mapping("spawn_request", {"parameters": deep})
        assert isinstance(result, Malformed)
        assert result.reason is RefusalReason.TOO_DEEP
        assert "parameters.a.a" in result.detail
    loop: dict[str, Any] = {}
    loop["a"] = loop
    result = parse_mapping("spawn_request", {"parameters": loop})
    assert isinstance(result, Malformed) and result.reason is RefusalReason.TOO_DEEP


def test_depth_32_is_taken():
    deep: dict[str, Any] = {}
    for _ in range(30):
        deep = {"a": deep}
    assert isinstance(parse_mapping("spawn_request", {"parameters": deep}), SpawnRequest)
    assert isinstance(parse_mapping("spawn_request", {"parameters": {"a": deep}}), Malformed)


def test_odd_keys_are_plain_data():
    """bad-inputs 30: no key revives anything."""
    odd = {"lc": 1, "__type__": "Verdict", "$ref": "#/x", "py/object": "os.system", "a\u200b": 1, "a": 2}
    result = parse_mapping("spawn_request", {"parameters": odd})
    assert isinstance(result, SpawnRequest)
    assert result.parameters == odd


def test_own_types_can_be_allowed():
    class Weather(Emission):
        """A good one looks out of the window."""

        sky: str

    types = {**EMISSIONS, "Weather": Weather}
    assert parse_mapping("weather", {"sky": "blue"}, types) == Weather(sky="blue")
    assert isinstance(parse_mapping("weather", {"sky": "blue"}), Malformed)
    assert parse_text(f'{F}weather\n{{"sky": "blue"}}\n{F}', types) == [Weather(sky="blue")]


# --- fenced text ---


@pytest.mark.parametrize(
    "name", ["verdict", "Verdict", "json verdict", "JSON Verdict", "  verdict  ", "verdict json"]
)
@pytest.mark.parametrize("mark", [F, F + "`", "~~~"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_tags(name, mark, newline):
    text = newline.join(["Here it is.", f"{mark}{name}", REJECT, mark, "Done {so}."])
    assert parse_text(text) == [Verdict(verdict="REJECT", rationale="no")]


@pytest.mark.parametrize("kind", EMISSIONS)
def test_every_kind_has_a_tag(kind):
    for name in (kind, tag(EMISSIONS[kind])):
        [result] = parse_text(f'{F}{name}\n{{"zz": 1}}\n{F}')
        assert isinstance(result, Malformed)
        assert (result.kind, result.reason) == (name, RefusalReason.INVALID)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("no fence at all {}", []),
        (f"{F}json\n{REJECT}\n{F}", []),
        (f"{F}\n{REJECT}\n{F}", []),
        (f"{F}python\n{REJECT}\n{F}", []),
        (f"{F}python title=verdict\n{REJECT}\n{F}", []),
        (f"{F}json title=x\n{REJECT}\n{F}", []),
        (f"{F}nonsense\nhello\n{F}", []),
        (f"{F}nonsense\n{{}}\n{F}", ["unknown_kind"]),
        (f"{F}json nonsense\n{{}}\n{F}", ["unknown_kind"]),
        (f"{F}verdct\nhello\n{F}", ["unknown_kind"]),
        (f"{F}VERDICT\n{REJECT}\n{F}", ["unknown_kind"]),
        (f"{F}verdict\n{F}", ["malformed"]),
        (f"{F}verdict", ["malformed"]),
        (f"{F}verdict\nREJECT\n{F}", ["malformed"]),
        (f'{F}verdict\n"REJECT"\n{F}', ["malformed"]),
        (f"{F}verdict\n[]\n{F}", []),
        (f"{F}verdict\n[{REJECT}, {{}}, 3, {REJECT}]\n{F}", ["Verdict", "invalid", "malformed", "Verdict"]),
        (f'{F}verdict\n[{REJECT}, {{"verdict": \n{F}', ["Verdict", "malformed"]),
        (f"{F}verdict\n[{REJECT} {REJECT}]\n{F}", ["Verdict", "malformed"]),
        (f"{F}verdict\n{REJECT}\n{REJECT}\n{F}", ["Verdict", "Verdict"]),
        (f"{F}verdict\n{REJECT}\nand prose\n{F}", ["Verdict", "malformed"]),
        (f"{F}verdict\n{REJECT}\nand prose {{", ["Verdict"]),
        (f"{F}verdict\n{REJECT}", ["Verdict"]),
        (f"{F}verdict\n{REJECT}{F}", ["Verdict"]),
        (f"{F}verdict {REJECT}{F}\nprose\n{F}\n{{}}\n{F}\n{F}verdict\n{REJECT}\n{F}", ["Verdict", "Verdict"]),
        (f"{F}verdict\n{REJECT}\n{F}gap\n{{}}\n{F}", ["Verdict", "invalid"]),
        (f"{F}`markdown\n{F}verdict\n{REJECT}\n{F}\n{F}`", []),
        (f"{F}python\nx\n{F}\n{F}verdict\n{REJECT}\n{F}", ["Verdict"]),
        (f"use {F}verdict\n{REJECT}\n{F}", []),
        (f"{F}verdict{F} is a tag\n{F}verdict\n{REJECT}\n{F}", ["Verdict"]),
        (f"\ufeff{F}verdict\n{REJECT}\n{F}", ["Verdict"]),
        (f"  {F}verdict\n  {REJECT}\n  {F}", ["Verdict"]),
        (f'{F}verdict\n{{"verdict": "REJECT", "verdict": "APPROVE", "rationale": ""}}\n{F}', ["malformed"]),
        (f'{F}verdict\n{{"verdict": "REJECT", "rationale": "",}}\n{F}', ["malformed"]),
        (f'{F}spawn_request\n{{"parameters": {{"a": NaN}}}}\n{F}', ["malformed"]),
        (f'{F}spawn_request\n{{"parameters": {{"a": -Infinity}}}}\n{F}', ["malformed"]),
        (f'{F}spawn_request\n{{"parameters": {{"a": 1e400}}}}\n{F}', ["malformed"]),
        (f'{F}spawn_request\n{{"parameters": {{"a": {"9" * 5000}}}}}\n{F}', ["malformed"]),
        (f'{F}spawn_request\n{{"parameters": {{"a": 9223372036854775808}}}}\n{F}', ["malformed"]),
        (f'{F}spawn_request\n{{"parameters": {{"a": "\\ud800"}}}}\n{F}', ["malformed"]),
        (f"{F}spawn_request\n{'[' * 100_000}\n{F}\n{F}verdict\n{REJECT}\n{F}", ["too_deep", "Verdict"]),
        (
            f'{F}spawn_request\n[{{"key": 1}}, {{"parameters": {{"a": {"[" * 40}{"]" * 40}}}}}, {{}}]\n{F}',
            ["invalid", "too_deep", "SpawnRequest"],
        ),
    ],
)
def test_corpus(text, expected):
    """PARSE 130-132 for blocks: the decoder says where a value ends."""
    assert reasons(text) == expected


def test_backticks_in_strings_do_not_end_the_block():
    """PARSE 131."""
    inner = f"{F}python\nprint({{}})\n{F}\n{F}verdict\n{{}}\n{F}"
    block = json.dumps({"description": inner, "evidence": "`x` ``` ~~~"})
    assert parse_text(f"{F}finding\n{block}\n{F}\nprose }}") == [
        Finding(description=inner, evidence="`x` ``` ~~~"),
    ]


def test_a_too_large_text_is_one_refusal():
    [result] = parse_text("x" * (4 * 1024 * 1024 + 1))
    assert isinstance(result, Malformed)
    assert isinstance(result.raw, str) and len(result.raw) <= 2000


def test_a_refusal_can_be_written_down():
    """What was read goes to the journal: text stays text, in bounds and without half surrogates."""
    for text in (
        f'{F}finding\n{{"a": "\ud800{"x" * 9999}"}}\n{F}',
        f"{F}fndng\n\ud800{F}",
        f"{F}finding\n\ud800",
    ):
        for result in parse_text(text):
            assert isinstance(result, Malformed)
            assert isinstance(result.raw, str) and len(result.raw) <= 2000
            (result.kind + result.detail + result.raw).encode()


pieces = st.sampled_from(
    [
        F,
        "~~~",
        "````",
        "verdict",
        "gap",
        "json ",
        "\n",
        "\n",
        REJECT,
        "{",
        "}",
        "[",
        "]",
        '"',
        ",",
        "prose",
        "\\",
        "NaN",
        '{"area": "a", "what_is_unknown": "b"}',
        " ",
        "\ud800",
        "\u2028",
    ]
)


@given(st.lists(pieces, max_size=40).map("".join))
def test_fuzz_never_raises_and_invents_nothing(text):
    for result in parse_text(text):
        if isinstance(result, Malformed):
            assert len(result.detail) <= 500
        else:
            assert result in (Verdict(verdict="REJECT", rationale="no"), Gap(area="a", what_is_unknown="b"))


@given(st.text(max_size=200))
def test_fuzz_any_text(text):
    parse_text(text)
    parse_text(f"{F}finding\n{text}")
    extract_json(text, lambda value: False)


@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.booleans()),
        min_size=1,
        max_size=5,
    )
)
def test_strings_come_back_byte_identical(parts):
    """PARSE 132."""
    findings = [Finding(description=text) for text, _ in parts]
    text = "\n".join(
        f"[a, b] {{c}}\n{F}finding\n{json.dumps({'description': f.description}, ensure_ascii=ascii_)}\n{F}"
        for f, (_, ascii_) in zip(findings, parts, strict=True)
    )
    assert parse_text(text) == findings


# --- JSON in prose ---


class Scan(BaseModel):
    model_config = ConfigDict(extra="forbid")
    summary: str
    files: list[str] = []


GOOD = '{"summary": "s", "files": ["a"]}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"\ufeff{GOOD}",
        f"{F}json\n{GOOD}\n{F}\nprose with {{braces}} and }}",
        f"{F}json\n{GOOD}\nnever closed {{",
        f'{F}json\n{{"other": 1}}\n{F}\n{F}json\n{GOOD}\n{F}',
        f"I read [a, b] and {{c}}: {GOOD}",
        f"[1, 2] {GOOD}",
        f'{{"summary": "x", "summary": "y"}} {GOOD}',
        f'{GOOD} {{"summary": "second"}}',
        f"{'[' * 500} x {GOOD}",
    ],
)
def test_extract_finds_the_first_that_fits(text):
    """PARSE 130, 132."""
    assert extract_json(text, Scan) == Scan(summary="s", files=["a"])
    assert extract_json(text, lambda value: isinstance(value, dict) and "files" in value) == json.loads(GOOD)


def test_extract_leaves_strings_alone():
    """PARSE 131: the whole reply first; backticks in a string are its content."""
    content = f'{F}json\n{{"summary": "inner"}}\n{F}\t`x` \u00e9\u2028'
    for text in (
        json.dumps({"summary": content}),
        f"See:\n{json.dumps({'summary': content}, ensure_ascii=False)} ok",
    ):
        assert extract_json(text, Scan) == Scan(summary=content)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("no json", "no complete JSON"),
        ('{"summary": "half', "cut off"),
        ('{"wrap": {"summary": "s"}, "more": ', "cut off"),
        ('{"wrap": {"summary": "s"}}', "none fits"),
        ('[{"summary": "s"}]', "none fits"),
        ('{"summary": 3}', "summary: Input should be a valid string"),
        (json.dumps(GOOD), "none fits"),
        ('{"summary": NaN}', "NaN"),
        ("x" * (4 * 1024 * 1024 + 1), "read at most"),
    ],
)
def test_extract_says_why_nothing_fits(text, says):
    """PARSE 133: a cut-off value is neither repaired nor mined for its parts."""
    result = extract_json(text, Scan)
    assert isinstance(result, Malformed)
    assert says in result.detail


def test_extract_passes_on_what_the_test_raises():
    def broken(value: object) -> bool:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        extract_json("{}", broken)


def test_extract_takes_whole_scalars_when_asked():
    assert extract_json(" 3 ", lambda value: value == 3) == 3
    assert extract_json('"yes"', lambda value: isinstance(value, str)) == "yes"


@pytest.mark.parametrize(
    "unit",
    [
        "[",
        '{"a":',
        "[1 ",
        f"{F}verdict\n",
        f"{F}x\n",
        '"',
        '{"a":\n',
        "[x\n",
        "{ ",
        "~~~gap\n{}\n",
        " \n",
        "\\",
    ],
)
def test_hostile_texts_cost_bounded_time(unit):
    text = unit * (200_000 // len(unit))
    began = time.process_time()
    parse_text(text)
    result = extract_json(text, Scan)
    assert time.process_time() - began < 5
    assert isinstance(result, Malformed)


def test_verdict_value_of_a_block_is_the_enum():
    [result] = parse_text(f'{F}verdict\n{{"verdict": "approve with fixes", "rationale": "r"}}\n{F}')
    assert isinstance(result, Verdict) and result.verdict is VerdictValue.APPROVE_WITH_FIXES
    [other] = parse_text(f'{F}objection\n{{"target": "t", "objection": "o"}}\n{F}')
    assert other == Objection(target="t", objection="o")
