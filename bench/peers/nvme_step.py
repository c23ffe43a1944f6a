"""The optimizer's step with its state on NVMe: DeepSpeed's swapper beside `headrace bench step`.

Rates are in million parameters a second, over the same number of them on the same disk. DeepSpeed's turn is what
stage 3 does after the last backward: norm and fp32 copy of the gradients and their spill, then the step; its rate
counts both. headrace's counts its gradients too: taken over, with their norm, then the step. Device bytes per
parameter come from /proc/PID/io on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import headrace
from measure import Meter, Sample, alternate, piece_of, resident_bytes, row_of
from worker import Worker, script, serve

UNIT = "M param/s"
MI = 1 << 20
SETTINGS = {  # KIND:BLOCK:DEPTH:PARALLEL:BUFFERS, see swapper.Setting
    "deepspeed.default": "pipelined:1048576:8:1:12",
    "deepspeed.best": "pipelined:8388608:32:2:12",
}
STATE_BYTES = {"fp32": 12, "split": 10}  # per parameter on NVMe
UNITS = 24
SHARE = UNITS * 1024  # headrace pads its units to 1024 parameters each


def work(args: argparse.Namespace) -> None:
    """In the peer's process: every turn is one step."""
    import torch
    from swapper import Setting, SwappedAdam

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    params = torch.empty(args.params, dtype=torch.bfloat16).normal_(0, 0.02).split(args.group)
    grads = torch.empty(args.params, dtype=torch.bfloat16).normal_(0, 1e-3).split(args.group)
    setting = Setting.parse(args.setting)
    adam = SwappedAdam(args.scratch, setting, list(params), lr=1e-4, weight_decay=0.01)

    def spill_gradients() -> float:
        total = 0.0
        for number in reversed(range(len(grads))):
            parts = grads[number].split(min(args.part, grads[number].numel()))
            total += sum(float(part.to(torch.float32).norm(2)) ** 2 for part in parts)
            adam.put_gradient(number, [part.to(torch.float32) for part in parts])
        return total**0.5

    def turn(_: str) -> dict:
        with torch.no_grad():
            meter = Meter()
            norm = spill_gradients()
            before = meter.read()
            adam.step(1.0 / max(norm + 1e-6, 1.0), list(params))
        return {**meter.read(), "spill_seconds": before["seconds"], "resident": resident_bytes()}

    serve(turn)


def peer_job(args: argparse.Namespace, name: str, peer: Worker) -> Callable[[], dict[str, Sample]]:
    """One step of one setting."""

    def job() -> dict[str, Sample]:
        turn = peer.ask("step")
        facts = {
            "read B/param": turn["read_bytes"] / args.params,
            "written B/param": turn["written_bytes"] / args.params,
            "step alone M param/s": args.params / (turn["seconds"] - turn["spill_seconds"]) / 1e6,
            "resident GB": turn["resident"] / 1e9,
        }
        moved = turn["read_bytes"] + turn["written_bytes"]
        cpu = turn["cpu_seconds"] / (moved / 1e9) if moved else None
        return {name: Sample(args.params / turn["seconds"] / 1e6, cpu, facts)}

    return job


def run_ours(
    args: argparse.Namespace, form: str, params: int, rounds: int, dram: int, units: int = UNITS
) -> headrace.Run:
    """`bench step` over so many parameters, with so many bytes of DRAM for their state; nothing is saved."""
    words = ["--scratch", str(args.scratch), "--format", form, "--size", str(params * STATE_BYTES[form])]
    words += ["--units", str(units), "--rounds", str(rounds), "--dram", str(dram), "--threads", str(args.threads)]
    words += ["--saves", "0"]
    return headrace.bench(args.headrace, "step", *words)


def our_job(args: argparse.Namespace, name: str, form: str, dram: int) -> Callable[[], dict[str, Sample]]:
    """One run of a few steps; their median counts."""

    def job() -> dict[str, Sample]:
        run = run_ours(args, form, args.params, args.steps, dram)
        facts = {"B/param of state on NVMe, by its own count": run.value(f"bytes.{form}")}
        facts["step alone M param/s"] = args.params / run.value(f"step.{form}") / 1e6
        seconds = run.value(f"gradients.{form}") + run.value(f"step.{form}")
        return {name: Sample(args.params / seconds / 1e6, None, facts)}

    return job


def counted_by_kernel(args: argparse.Namespace, form: str) -> dict[str, float]:
    """Device bytes that one step of headrace reads and writes per parameter.

    A run of `bench step` does more than steps. Two sizes (of equal units, so that equally much is kept in DRAM)
    and two numbers of steps: the difference of the differences is that of the steps alone.
    """
    small = args.count // SHARE * SHARE
    large = 2 * small
    few, many = 2, 4
    runs = {
        (params, rounds): run_ours(args, form, params, rounds, args.dram, UNITS * params // small)
        for params in (small, large)
        for rounds in (few, many)
    }

    def per_parameter(count: Callable[[headrace.Run], int]) -> float:
        growth = {params: count(runs[params, many]) - count(runs[params, few]) for params in (small, large)}
        return (growth[large] - growth[small]) / ((many - few) * (large - small))

    return {
        f"headrace.{form} read B/param": per_parameter(lambda run: run.read_bytes),
        f"headrace.{form} written B/param": per_parameter(lambda run: run.written_bytes),
    }


def start_peers(args: argparse.Namespace, folder: Path) -> dict[str, Worker]:
    """One process for each setting, with its state written."""
    peers = {}
    for name, setting in SETTINGS.items():
        (folder / name).mkdir(parents=True)
        words = ["--worker", "--setting", setting, "--scratch", str(folder / name), "--params", str(args.params)]
        words += ["--group", str(args.group), "--part", str(args.part), "--threads", str(args.threads)]
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1")
        os.environ["MASTER_PORT"] = str(args.port + len(peers))
        peers[name] = Worker([script("nvme_step.py"), *words])
    return peers


def same_memory(args: argparse.Namespace, peer: Worker) -> int:
    """Bytes of DRAM for headrace's state so that it holds what the peer holds: gradients and bf16 parameters
    (2 + 2 bytes each) are in memory on both sides."""
    peer.ask("step")
    return max(args.dram, int(peer.ask("step")["resident"]) - 4 * args.params)


def measure(args: argparse.Namespace) -> dict:
    """All variants in alternation."""
    folder = args.scratch / f"headrace-peers-{os.getpid()}"
    peers: dict[str, Worker] = {}
    try:
        peers = start_peers(args, folder)
        jobs = {name: peer_job(args, name, peer) for name, peer in peers.items()}
        for form in STATE_BYTES:
            jobs[f"headrace.{form}"] = our_job(args, f"headrace.{form}", form, args.dram)
        dram = same_memory(args, peers["deepspeed.best"])
        jobs["headrace.split.same_memory"] = our_job(args, "headrace.split.same_memory", "split", dram)
        found = alternate(jobs, args.rounds, args.seconds)
    finally:
        for peer in peers.values():
            peer.close()
        shutil.rmtree(folder, ignore_errors=True)
    rows = []
    for name, samples in found.items():
        rows.append(row_of(name, UNIT, samples, found["headrace.split"] if name in SETTINGS else None))
    memory = found["headrace.split.same_memory"]
    rows += [row_of(f"{name} (same memory)", UNIT, found[name], memory) for name in SETTINGS]
    notes = [f"{args.params} parameters in groups of {args.group}; settings {SETTINGS}"]
    notes.append(f"headrace has {args.dram} bytes of DRAM for state, with same_memory {dram}")
    for form in STATE_BYTES:
        notes += [f"{key}, by the kernel: {value:.2f}" for key, value in counted_by_kernel(args, form).items()]
    return piece_of("nvme_step", rows, notes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headrace", type=Path, default=headrace.default_binary())
    parser.add_argument("--scratch", type=Path, default=Path("."), help="folder on the disk under test")
    parser.add_argument("--params", type=int, default=256 * MI)
    parser.add_argument("--group", type=int, default=32 * MI, help="parameters of DeepSpeed's sub-groups")
    parser.add_argument("--part", type=int, default=4 * MI, help="parameters of a piece of gradient")
    parser.add_argument("--dram", type=int, default=96 * MI, help="bytes of DRAM for headrace's state")
    parser.add_argument("--count", type=int, default=32 * MI, help="parameters of the smaller run that is counted")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3, help="of headrace in one turn")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=500, help="ends after the round in which they pass")
    parser.add_argument("--port", type=int, default=29600, help="of this machine, and the next; for DeepSpeed")
    parser.add_argument("--tiny", action="store_true", help="one round over little, to see that it works")
    parser.add_argument("--setting", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.tiny:
        args.params, args.group, args.part, args.steps, args.rounds = 8 * MI, MI, MI // 2, 1, 1
        args.dram, args.count = 16 * MI, 4 * MI
    if args.worker:
        return work(args)
    print(json.dumps(measure(args)))


if __name__ == "__main__":
    main()
