"""Every message of `callboard check`, explained: a test compares these rows with the code.

A row holds messages as they stand in the code, `…` where names and numbers are put in; what they mean; and
what to do. Rows of one heading stand together. Warnings and notes are marked; everything else is an error.
"""

from __future__ import annotations

from typing import Final

from docs.problems import documents, expressions, nodes, steps, surroundings
from docs.problems.rows import Row

PROBLEMS: Final[dict[str, list[Row]]] = {
    **documents.ROWS,
    **nodes.ROWS,
    **expressions.ROWS,
    **surroundings.ROWS,
    **steps.ROWS,
}
