"""How figures are taken: interleaved repetitions, minima, ratios within one run."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

__all__ = ["REPETITIONS", "best", "row"]

#: Repetitions of which the best counts (engine.md, "Measuring").
REPETITIONS = 7


def best(shapes: Mapping[str, Callable[[], float]], repetitions: int = REPETITIONS) -> dict[str, float]:
    """Seconds of each shape: the least of several repetitions, taken in turns.

    Args:
        shapes: name -> a function that runs the shape once and gives its seconds.
    """
    least: dict[str, float] = {}
    for _ in range(repetitions):
        for name, run in shapes.items():
            gc.collect()
            took = run()
            least[name] = min(took, least.get(name, took))
    return least


def row(name: str, seconds: float, count: int, bare: float) -> str:
    """One line of the table: microseconds per node and the ratio to the bare shape."""
    return f"{name:<34} {seconds / count * 1e6:8.2f} us  {seconds / bare:6.2f}x"


def timed(run: Callable[[], object]) -> float:
    """Seconds that a plain function takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def consumed(run: Callable[[], object]) -> float:
    """Seconds of processor time that a plain function takes: what else runs on the machine counts little."""
    began = time.process_time()
    run()
    return time.process_time() - began
