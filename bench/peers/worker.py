"""A peer in a process of its own: it is told a word and answers with one line of JSON.

So memory, CPU time and device bytes of each peer are counted apart, and huge pages are its own choice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Timer

START_SECONDS = 900  # DeepSpeed compiles its operators when it is used for the first time
TURN_SECONDS = 300


def serve(turn: Callable[[str], dict]) -> None:
    """In the peer's process: answers each word on standard input, until it ends."""
    print(json.dumps({"answer": "ready"}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"answer": turn(line.strip())}), flush=True)


class Worker:
    """The other end of `serve`. Raises when the peer ends early or takes too long."""

    def __init__(self, arguments: list[str], huge_pages: bool = False) -> None:
        environment = dict(os.environ)
        environment.pop("GLIBC_TUNABLES", None)
        if huge_pages:
            environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._answer(START_SECONDS)

    def ask(self, word: str) -> dict:
        """One turn."""
        print(word, file=self._process.stdin, flush=True)
        return self._answer(TURN_SECONDS)

    def close(self) -> None:
        """Ends the peer."""
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _answer(self, seconds: float) -> dict:
        timer = Timer(seconds, self._process.kill)
        timer.start()
        try:
            for line in self._process.stdout:  # whatever else the peer prints is passed over
                if line.startswith('{"answer"'):
                    return json.loads(line)["answer"]
        finally:
            timer.cancel()
        self._log.seek(0)
        raise RuntimeError("a peer ended: " + self._log.read()[-2000:])


def script(name: str) -> str:
    """The path of a script of this folder."""
    return str(Path(__file__).parent / name)
