"""Reading and writing one file past the page cache: DeepSpeed's aio_handle beside `headrace bench io`.

Rates are in decimal GB/s, CPU in seconds per GB. Each peer writes and reads a file that is there already, over
and over, as `bench io` does; the kernel's count of device bytes says that no page cache was in between.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

import headrace
from measure import Meter, Sample, alternate, piece_of, row_of
from worker import Worker, script, serve

MIB = 1 << 20
DIRECTIONS = ("read", "write")


def new_file(path: Path, size: int) -> None:
    """A file of random bytes, written whole, so that later writes find their space."""
    with open(path, "wb") as file:
        for at in range(0, size, 16 * MIB):
            file.write(os.urandom(min(16 * MIB, size - at)))
        file.flush()
        os.fsync(file.fileno())


def work(args: argparse.Namespace) -> None:
    """In the peer's process: a turn moves the whole file once; `write:2` writes with a parallelism of 2."""
    import torch
    from deepspeed.ops.op_builder import AsyncIOBuilder

    make = AsyncIOBuilder().load().aio_handle
    handles = {parallel: make(args.block, args.depth, False, True, parallel) for parallel in (1, 2)}
    buffer = handles[1].new_cpu_locked_tensor(args.size, torch.empty(0, dtype=torch.uint8))
    buffer.copy_(torch.randint(0, 256, (args.size,), dtype=torch.uint8))
    path = str(args.file)

    def turn(word: str) -> dict:
        direction, parallel = word.split(":")
        handle = handles[int(parallel)]
        meter = Meter()
        submit = handle.async_pread if direction == "read" else handle.async_pwrite
        if submit(buffer, path) != 0 or handle.wait() != 1:
            raise RuntimeError(f"aio_handle could not {direction}")
        return meter.read()

    serve(turn)


def sample_of(turn: dict, direction: str, size: int) -> Sample:
    """Refuses a figure that is not the device's."""
    moved = turn["read_bytes"] if direction == "read" else turn["written_bytes"]
    if not size <= moved < size * 1.02:
        raise RuntimeError(f"{direction}: {moved} device bytes for a file of {size}: the page cache was in between")
    return Sample(size / turn["seconds"] / 1e9, turn["cpu_seconds"] / (size / 1e9))


def our_job(args: argparse.Namespace, direction: str) -> Callable[[], dict[str, Sample]]:
    """One `bench io` of one direction."""
    shape = f"{args.block // MIB}MiBx{args.depth}"
    words = ["--scratch", str(args.scratch), "--direction", direction, "--block", f"{args.block // MIB}MiB"]
    words += ["--depth", str(args.depth), "--size", str(args.size), "--seconds", str(args.sample), "--rounds", "1"]

    def job() -> dict[str, Sample]:
        row = headrace.bench(args.headrace, "io", *words).rows[f"io.{direction}.{shape}"]
        return {f"headrace.{direction}": Sample(row["value"], row["cpu_seconds_per_gb"])}

    return job


def jobs_of(args: argparse.Namespace, peers: dict[str, Worker]) -> dict[str, Callable[[], dict[str, Sample]]]:
    """Every peer at both parallelisms and headrace, in both directions."""
    jobs: dict[str, Callable[[], dict[str, Sample]]] = {}

    def ask(name: str, peer: Worker, direction: str, parallel: int) -> dict[str, Sample]:
        return {name: sample_of(peer.ask(f"{direction}:{parallel}"), direction, args.size)}

    for direction in DIRECTIONS:
        for pages, peer in peers.items():
            for parallel in (1, 2):
                name = f"deepspeed.{pages}.p{parallel}.{direction}"
                jobs[name] = lambda n=name, w=peer, d=direction, p=parallel: ask(n, w, d, p)
        jobs[f"headrace.{direction}"] = our_job(args, direction)
    return jobs


def measure(args: argparse.Namespace) -> dict:
    """All variants in alternation."""
    if not headrace.knows(args.headrace, "bench", "io"):
        return piece_of("file_io", [], ["this headrace has no bench io: nothing was measured"])
    file = args.scratch / f"headrace-peers-{os.getpid()}.dat"
    words = [script("file_io.py"), "--worker", "--file", str(file), "--size", str(args.size)]
    words += ["--block", str(args.block), "--depth", str(args.depth)]
    peers: dict[str, Worker] = {}
    try:
        new_file(file, args.size)
        for pages in ("small_pages", "huge_pages"):
            peers[pages] = Worker(words, huge_pages=pages == "huge_pages")
        found = alternate(jobs_of(args, peers), args.rounds, args.seconds)
    finally:
        for peer in peers.values():
            peer.close()
        file.unlink(missing_ok=True)
    rows = []
    for name, samples in sorted(found.items()):
        ours = found[f"headrace.{name.rsplit('.', 1)[1]}"]
        rows.append(row_of(name, "GB/s", samples, None if samples is ours else ours))
    return piece_of("file_io", rows, [f"blocks of {args.block // MIB} MiB, {args.depth} in flight, {args.size} bytes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headrace", type=Path, default=headrace.default_binary())
    parser.add_argument("--scratch", type=Path, default=Path("."), help="folder on the disk under test")
    parser.add_argument("--size", type=int, default=1024 * MIB, help="bytes of the file")
    parser.add_argument("--block", type=int, default=MIB, help="bytes of a request")
    parser.add_argument("--depth", type=int, default=32, help="requests in flight")
    parser.add_argument("--sample", type=float, default=1.0, help="seconds of one sample of headrace")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=400, help="ends after the round in which they pass")
    parser.add_argument("--tiny", action="store_true", help="one round over little, to see that it works")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.tiny:
        args.size, args.sample, args.rounds = 64 * MIB, 0.1, 1
    if args.worker:
        return work(args)
    print(json.dumps(measure(args)))


if __name__ == "__main__":
    main()
