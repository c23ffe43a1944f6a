"""headrace beside its peers, in alternation on one disk: one table, and JSON."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from threading import Timer

import headrace
from worker import script

PIECES = {"adamw": "adamw.py", "io": "file_io.py", "step": "nvme_step.py", "faults": "faults.py"}
PIECE_SECONDS = 3600  # DeepSpeed's operators may have to be compiled first


def run_piece(name: str, args: argparse.Namespace) -> dict:
    """One script in a process of its own; what goes wrong in it becomes a note, what it says meanwhile is passed on."""
    command = [sys.executable, script(PIECES[name])]
    command += ["--headrace", str(args.headrace), "--scratch", str(args.scratch), *(["--tiny"] if args.tiny else [])]
    if args.params and name == "step":
        command += ["--params", str(args.params)]
    last = "it said nothing"
    with tempfile.TemporaryFile("w+") as out:
        piece = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)
        timer = Timer(PIECE_SECONDS, piece.kill)
        timer.start()
        for line in piece.stderr:
            sys.stderr.write(f"{name}: {line}")
            last = line.strip() or last
        code = piece.wait()
        timer.cancel()
        out.seek(0)
        lines = [line for line in out if line.startswith('{"piece"')]
    if code or not lines:
        return {"piece": name, "rows": [], "notes": [f"not measured: exit {code}: {last}"]}
    return json.loads(lines[-1])


def number_or_dash(number: float | None, form: str) -> str:
    """A cell of the table."""
    return "-" if number is None else format(number, form)


def measured_line(row: dict) -> str:
    """A row of rates."""
    spread = (row["high"] - row["low"]) / row["value"]
    cells = [f"{row['name']:<38}", f"{row['value']:>10.4g} {row['unit']:<9}", f"{spread:>6.1%}"]
    cells += [f"{number_or_dash(row['cpu'], '.3f'):>8}", f"{number_or_dash(row['over'], '.2f'):>8}"]
    facts = ", ".join(f"{value:.4g} {key}" for key, value in row["facts"].items())
    wide = "  noisy" if spread > 0.25 else ""
    return "  ".join(cells) + wide + (f"  {facts}" if facts else "")


def lines_of(piece: dict) -> list[str]:
    """A piece as lines of text below one of titles."""
    lines = []
    rows = piece["rows"]
    if rows and "outcome" in rows[0]:
        lines.append(f"{piece['piece']:<38}  outcome")
        lines += [f"{row['name']:<38}  {row['outcome']}" for row in rows]
    elif rows:
        title = f"{piece['piece']:<38}  {'rate':>10} {'':<9}  {'spread':>6}  {'CPU s/GB':>8}  {'headrace':>8}"
        lines.append(title)
        lines += [measured_line(row) for row in rows]
    return [*lines, *(f"note: {piece['piece']}: {note}" for note in piece["notes"]), ""]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/peers/run", description=__doc__)
    parser.add_argument("pieces", nargs="*", help=f"of {', '.join(PIECES)}; all when none is named")
    parser.add_argument("--headrace", type=Path, default=headrace.default_binary(), help="the binary")
    parser.add_argument("--scratch", type=Path, default=Path("."), help="folder on the disk under test")
    parser.add_argument("--params", type=int, help="of the piece step (268435456)")
    parser.add_argument("--tiny", action="store_true", help="one round over little, to see that it works")
    parser.add_argument("--json", type=Path, help="write the samples there too; -: instead of the table")
    args = parser.parse_args()
    for name in args.pieces:
        if name not in PIECES:
            parser.error(f"no piece {name}: one of {', '.join(PIECES)}")
    found = []
    for name in args.pieces or PIECES:
        found.append(run_piece(name, args))
        if args.json != Path("-"):
            print("\n".join(lines_of(found[-1])), flush=True)
    versions = {package: version(package) for package in ("torch", "deepspeed")}
    text = json.dumps({"schema": "headrace.peers/1", "versions": versions, "pieces": found}, indent=2) + "\n"
    if args.json == Path("-"):
        sys.stdout.write(text)
    elif args.json:
        args.json.write_text(text)


if __name__ == "__main__":
    main()
