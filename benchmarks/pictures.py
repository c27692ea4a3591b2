"""The pictures of the reports, drawn by matplotlib (``make bench`` installs it)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import OURS, Report
from benchmarks.workloads import WORKLOADS

_OURS, _PEERS, _GOAL = "#1f6f8b", "#b9c4c9", "#c0392b"


def _matplotlib() -> Any:
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("svg")
        matplotlib.rcParams.update(
            {"svg.fonttype": "none", "svg.hashsalt": "benchmarks", "font.size": 9}
        )  # text stays text
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise SystemExit("The picture needs matplotlib: pip install matplotlib") from None


def draw_ratios(found: Report, path: Path) -> None:
    """One bar for each peer: its time in terms of ours, with each round's ratio as a dot and the goal as a line."""
    plot = _matplotlib()
    bars = [(result, peer) for result in found.workloads for peer in WORKLOADS[result.workload].peers]
    figure, axes = plot.subplots(figsize=(8.5, 0.55 * len(bars) + 1.2))
    for place, (result, peer) in enumerate(bars):
        ratios = result.ratios(peer.name)
        axes.barh(place, result.ratio(peer.name), color=_PEERS, height=0.6, zorder=2)
        axes.scatter(ratios, [place] * len(ratios), s=8, color="#5b6b73", zorder=4)
        if peer.goal:
            axes.vlines(peer.goal, place - 0.38, place + 0.38, color=_GOAL, zorder=5)
        axes.text(max(ratios) + 0.06, place, f"{result.ratio(peer.name):.2f}×", va="center", zorder=6)
    axes.axvline(1, color=_OURS, zorder=3)
    axes.set_yticks(range(len(bars)), [f"{result.workload}: {peer.what.replace('`', '')}" for result, peer in bars])
    axes.invert_yaxis()
    axes.set_xlabel(f"time of the peer; {OURS} = 1 (blue line), goal in red, a dot per round")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    _save(plot, figure, path)


def draw_scale(
    series: Mapping[str, Mapping[int, float]], model: Mapping[str, Mapping[int, float]], path: Path, ylabel: str
) -> None:
    """Lines over the number of partitions, both axes logarithmic; ``model``: what the formula says, dashed."""
    plot = _matplotlib()
    figure, axes = plot.subplots(figsize=(7.5, 4.2))
    for name, points in series.items():
        (line,) = axes.plot(list(points), list(points.values()), marker="o", label=name)
        if name in model:
            axes.plot(list(model[name]), list(model[name].values()), linestyle="--", color=line.get_color(), alpha=0.6)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(_partitions(series), [f"{count:,}" for count in _partitions(series)])
    axes.set_xlabel("partitions (and tasks); dashed: the formula")
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    _save(plot, figure, path)


def _partitions(series: Mapping[str, Mapping[int, float]]) -> Sequence[int]:
    return sorted({count for points in series.values() for count in points})


def _save(plot: Any, figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None  # the same figures make the same file
    figure.savefig(path, metadata=metadata, bbox_inches="tight")
    plot.close(figure)
