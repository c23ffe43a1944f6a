"""Samples, their quartiles, and what the kernel counts of a process."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Sample:
    """One turn of one variant.

    rate: in the row's unit, higher is better. cpu: CPU seconds per decimal GB moved, where counted.
    facts: numbers that go with it, such as bytes per parameter.
    """

    rate: float
    cpu: float | None = None
    facts: dict[str, float] = field(default_factory=dict)


@dataclass
class Row:
    """A variant's rounds. over: median over rounds of headrace's rate over this one's in the same round."""

    name: str
    unit: str
    value: float
    low: float
    high: float
    cpu: float | None
    over: float | None
    facts: dict[str, float]
    samples: list[float]


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile, by linear interpolation."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def row_of(name: str, unit: str, samples: list[Sample], ours: list[Sample] | None) -> Row:
    """The row of one variant; `ours` are headrace's samples of the same rounds."""
    rates = [sample.rate for sample in samples]
    low, median, high = quartiles(rates)
    cpus = [sample.cpu for sample in samples if sample.cpu is not None]
    over = quartiles([our.rate / rate for our, rate in zip(ours, rates)])[1] if ours else None
    facts = {key: statistics.median(s.facts[key] for s in samples) for key in samples[0].facts}
    cpu = statistics.median(cpus) if cpus else None
    return Row(name, unit, median, low, high, cpu, over, facts, rates)


def alternate(jobs: dict[str, Callable[[], dict[str, Sample]]], rounds: int, seconds: float) -> dict[str, list[Sample]]:
    """Runs all jobs once a round, another one first each time; ends early after so many seconds.

    A job hands back the samples of one or more variants. The first round warms up and is dropped. Each sample is
    told on standard error, so that a run that is stopped has said something.
    """
    found: dict[str, list[Sample]] = {}
    names = list(jobs)
    begin = time.monotonic()
    for number in range(rounds + 1):
        if number > 1 and time.monotonic() > begin + seconds:
            break
        start = number % len(names)
        for name in names[start:] + names[:start]:
            for variant, sample in jobs[name]().items():
                after = time.monotonic() - begin
                print(f"round {number} of {rounds}, {after:.0f} s: {variant} {sample.rate:.4g}", file=sys.stderr)
                if number > 0:
                    found.setdefault(variant, []).append(sample)
    return found


def piece_of(name: str, rows: list[Row], notes: list[str]) -> dict:
    """What every script prints, as one line of JSON."""
    return {"piece": name, "rows": [asdict(row) for row in rows], "notes": notes}


def kernel_io(process: str = "self") -> tuple[int, int]:
    """Bytes that a process has had read from and written to block devices so far, from /proc/PID/io."""
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    counts = {key: int(number) for key, number in (line.split(": ") for line in lines)}
    return counts["read_bytes"], counts["write_bytes"]


def cpu_seconds() -> float:
    """CPU time of this process so far, all threads, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_bytes() -> int:
    """Physical memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Meter:
    """Wall time, CPU time and device bytes from its making on."""

    def __init__(self) -> None:
        self._io = kernel_io()
        self._cpu = cpu_seconds()
        self._start = time.perf_counter()

    def read(self) -> dict[str, float]:
        """Seconds, CPU seconds, and bytes read and written since."""
        seconds = time.perf_counter() - self._start
        read, written = kernel_io()
        return {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds() - self._cpu,
            "read_bytes": read - self._io[0],
            "written_bytes": written - self._io[1],
        }
