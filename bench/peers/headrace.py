"""Runs the `headrace` binary and reads its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from measure import kernel_io

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Run:
    """One run of the binary: rows by name, and the device bytes that the kernel counted for it all."""

    rows: dict[str, dict]
    read_bytes: int
    written_bytes: int

    def value(self, name: str) -> float:
        """A row's median, in its own unit."""
        return float(self.rows[name]["value"])


def default_binary() -> Path:
    """Where a release build puts it."""
    return ROOT / "build" / "release" / "headrace"


def bench(binary: Path, *arguments: str, seconds: float = 300) -> Run:
    """`headrace bench ARGUMENTS --json -`; raises when it fails, with what it said."""
    command = [str(binary), "bench", *arguments, "--json", "-"]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(["timeout", "-s", "INT", str(seconds), *command], stdout=out, stderr=err)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and its counters still there
        read, written = kernel_io(str(process.pid))
        code = process.wait()
        out.seek(0)
        err.seek(0)
        if code:
            raise RuntimeError(f"{' '.join(command)}: exit {code}: {err.read().strip()[-500:]}")
        report = json.load(out)
    return Run({row["name"]: row for row in report["rows"]}, read, written)


def knows(binary: Path, *words: str) -> bool:
    """Whether this build has the command."""
    run = subprocess.run([str(binary), *words, "--help"], capture_output=True, timeout=30)
    return run.returncode == 0
