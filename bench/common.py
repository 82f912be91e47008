"""What benchmarks of whole models share: calling c7x, and timing contenders in turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def c7x(*arguments: str) -> dict[str, Any]:
    """Run ``c7x ... --json`` and return its object; its progress goes to standard error."""
    command = [sys.executable, "-m", "c7x.cli", *arguments, "--json"]
    say("+ c7x " + " ".join(command[3:]))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    result: dict[str, Any] = json.loads(done.stdout or '{"status": "error", "message": "it printed nothing"}')
    if done.returncode != 0 or result.get("status") != "ok":
        raise SystemExit(f"c7x {arguments[0]} failed: {result.get('message')}")
    return result


def host_answer(ws: Any, inputs: Any) -> Any:
    from c7x.run.host import run_host

    return run_host(ws, inputs).outputs[0]


def time_rounds(found: Mapping[str, Any], *, rounds: int, repeat: int, warmup: int) -> dict[str, list[float]]:
    """Seconds of each contender in each round: the median of ``repeat`` inferences. Who begins changes by the round."""
    names = list(found)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            times[name].append(statistics.median(found[name].round(repeat, warmup)))
    return times


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratios(times: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """The first contender's time over each other one's, round by round."""
    first, *peers = times
    return {peer: spread([a / b for a, b in zip(times[first], times[peer], strict=True)]) for peer in peers}
