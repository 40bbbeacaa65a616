"""Three roles that need no model: one ranks sentences, one leaves out the weakest, one counts."""

import re
from collections import Counter
from pathlib import Path

from orchestrator import Verdict, role

WORD = re.compile(r"[^\W\d_]{4,}")
SENTENCE = re.compile(r"(?<=[.!?])\s+")


@role(description="Ranks the sentences of a text, the weakest first.")
def ranker(turn):
    text = Path(turn.parameters["source"]).read_text(encoding="utf-8")
    sentences = [one.strip() for one in SENTENCE.split(" ".join(text.split())) if one.strip()]
    often = Counter(word.lower() for word in WORD.findall(text))

    def weight(place):
        words = WORD.findall(sentences[place])
        return sum(often[word.lower()] for word in words) / max(1, len(words))

    return {"sentences": sentences, "weakest": sorted(range(len(sentences)), key=weight)}


@role(description="Leaves out one sentence more than the time before.")
async def cutter(turn):
    plan, gone = turn.inputs["plan"], len(turn.inputs["verdicts"])
    left_out = set(plan["weakest"][:gone])
    return " ".join(one for place, one in enumerate(plan["sentences"]) if place not in left_out)


@role(
    emits=(Verdict,),
    description="Approves a text that is short enough, and rejects one of which nothing is left.",
)
async def counter(turn):
    words, most = len(turn.inputs["draft"].split()), turn.parameters["most"]
    enough = "APPROVE" if words <= most else "REQUEST-CHANGES"
    word = enough if words else "REJECT"
    turn.write("verdicts", word)
    return Verdict(verdict=word, rationale=f"{words} words, at most {most}")
