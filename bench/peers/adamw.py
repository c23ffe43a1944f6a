"""AdamW on the CPU: torch's and DeepSpeed's steps over one flat tensor beside `headrace bench adamw`.

Every rate is in million parameters a second. DeepSpeed's stage 3 takes three passes over them (scale the fp32
gradient, Adam, cast to bf16) where headrace takes one, with gradients in bf16; and before them it makes an fp32
gradient and its norm.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import headrace
from measure import Sample, alternate, piece_of, row_of
from worker import Worker, script, serve

UNIT = "M param/s"
DEEPSPEED = ["deepspeed.cpu_adam", "deepspeed.three_passes", "deepspeed.stage3_cpu"]
NAMES = {"huge_pages": [*DEEPSPEED, "torch.fused", "torch.foreach"], "small_pages": DEEPSPEED}
BYTES = {"fp32": 28, "split": 26}  # of memory traffic per parameter, as headrace counts them


def peer_steps(numel: int, threads: int) -> dict[str, Callable[[], object]]:
    """One step of each peer, over parameters of its own."""
    import torch
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    options = {"lr": 1e-4, "weight_decay": 0.01}

    def parameter() -> torch.nn.Parameter:
        made = torch.nn.Parameter(torch.empty(numel).normal_(0, 0.02))
        made.grad = torch.empty(numel).normal_(0, 1e-3)
        return made

    master = parameter()
    adam = DeepSpeedCPUAdam([master], **options)
    fused = torch.optim.AdamW([parameter()], fused=True, **options)
    foreach = torch.optim.AdamW([parameter()], foreach=True, **options)
    param16 = torch.empty(numel, dtype=torch.bfloat16)
    grad16 = torch.empty(numel, dtype=torch.bfloat16).normal_(0, 1e-3)

    def three_passes() -> None:
        master.grad.mul_(1.0)
        adam.step()
        param16.copy_(master.data)

    def stage3() -> None:
        grad16.to(torch.float32).norm(2)
        master.grad = grad16.to(torch.float32)
        three_passes()

    return {
        "deepspeed.cpu_adam": adam.step,
        "deepspeed.three_passes": three_passes,
        "deepspeed.stage3_cpu": stage3,
        "torch.fused": fused.step,
        "torch.foreach": foreach.step,
    }


def work(args: argparse.Namespace) -> None:
    """In the peers' process: a turn is `args.repeats` steps of the one that is named, in seconds a step."""
    import torch

    steps = peer_steps(args.numel, args.threads)

    def turn(name: str) -> dict:
        taken = []
        with torch.no_grad():
            for _ in range(args.repeats):
                start = time.perf_counter()
                steps[name]()
                taken.append(time.perf_counter() - start)
        return {"seconds": sorted(taken)[len(taken) // 2]}

    serve(turn)


def our_job(args: argparse.Namespace) -> Callable[[], dict[str, Sample]]:
    """One `bench adamw`, and `bench norm` where this build has it."""
    with_norm = headrace.knows(args.headrace, "bench", "norm")

    def job() -> dict[str, Sample]:
        run = headrace.bench(args.headrace, "adamw", "--quick")
        rates = {name: run.value(f"adamw.{name}.{args.threads}t") * 1e3 / traffic for name, traffic in BYTES.items()}
        found = {f"headrace.{name}": Sample(rate) for name, rate in rates.items()}
        if with_norm:
            norm = headrace.bench(args.headrace, "norm", "--quick")
            rate = norm.value(f"norm.bf16.{args.threads}t") * 1e3 / 2  # two bytes a gradient
            found["headrace.fp32_and_norm"] = Sample(1 / (1 / rates["fp32"] + 1 / rate))
        return found

    return job


def measure(args: argparse.Namespace) -> dict:
    """All variants in alternation."""
    words = [script("adamw.py"), "--worker", "--numel", str(args.numel), "--threads", str(args.threads)]
    words += ["--repeats", str(args.repeats)]
    peers: dict[str, Worker] = {}
    jobs: dict[str, Callable[[], dict[str, Sample]]] = {}

    def ask(peer: Worker, name: str, row: str) -> dict[str, Sample]:
        return {row: Sample(args.numel / peer.ask(name)["seconds"] / 1e6)}

    try:
        for pages, names in NAMES.items():
            peers[pages] = Worker(words, huge_pages=pages == "huge_pages")
            for name in names:
                row = name if pages == "huge_pages" else f"{name}.{pages}"
                jobs[row] = lambda peer=peers[pages], name=name, row=row: ask(peer, name, row)
        rivals = list(jobs)
        jobs["headrace"] = our_job(args)
        found = alternate(jobs, args.rounds, args.seconds)
    finally:
        for peer in peers.values():
            peer.close()
    whole = found.get("headrace.fp32_and_norm")
    ours = {name: whole if "stage3_cpu" in name else found["headrace.fp32"] for name in rivals}
    rows = [row_of(name, UNIT, samples, ours.get(name)) for name, samples in found.items()]
    notes = [f"{args.numel} parameters, {args.threads} threads; peers with huge pages, but where small_pages is said"]
    if whole is None:
        notes.append("this headrace has no bench norm: nothing is set against deepspeed.stage3_cpu")
    return piece_of("adamw", rows, notes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headrace", type=Path, default=headrace.default_binary())
    parser.add_argument("--scratch", type=Path, help="not used here")
    parser.add_argument("--numel", type=int, default=64 << 20, help="parameters")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7, help="steps of a turn; its median counts")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=400, help="ends after the round in which they pass")
    parser.add_argument("--tiny", action="store_true", help="one round over little, to see that it works")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.tiny:
        args.numel, args.repeats, args.rounds = 1 << 20, 1, 1
    if args.worker:
        return work(args)
    print(json.dumps(measure(args)))


if __name__ == "__main__":
    main()
