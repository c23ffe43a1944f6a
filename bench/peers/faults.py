"""What is noticed when the state on disk goes wrong between two steps: DeepSpeed's swappers and headrace.

Every case of DeepSpeed runs in a process of its own: two good steps, the fault, two more, then each weight is
compared with the same steps in memory. headrace's cases are its own tests of the same faults (its state has no
name in the folder that a script could damage), and `headrace stress`, which puts faults into the transfers of
whole runs and compares every bit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import headrace
from measure import piece_of

NUMEL, GROUPS = 2 << 20, 3
CASE_SECONDS = 300

# The fault, and headrace's tests of it: the binary under build/*/tests and a filter.
OURS = {
    "none": ("runtime_test", "Exactness*"),
    "truncated": ("runtime_test", "Surroundings.AScratchFileThatIsCutIsCorruptAndNotACrash"),
    "deleted": ("runtime_test", "*Reusable.ADamagedSlabIsAnErrorWhereverItIsDamaged*"),
    "hole": ("runtime_test", "BlockSums.WhatADriveWroteWrongIsCorruptAndNamed"),
    "bit": ("runtime_test", "BlockSums.*:BlockSumsOfOneShard.OneBitIsFoundAndItsBlockNamed"),
    "stale": ("runtime_test", "BlockSumsOfOneShard.StaleAndForeignBlocksAreFound"),
    "failed_write": ("runtime_test", "Fault.OneWriteErrorSpoilsOneShard:Fault.AFailedStepPoisonsTheEngineAndSaysWhy"),
}


def flip_bit(path: Path) -> None:
    """The lowest bit of the highest byte of one fp32."""
    with open(path, "r+b") as file:
        file.seek(4 * 1000 + 3)
        byte = file.read(1)[0]
        file.seek(4 * 1000 + 3)
        file.write(bytes([byte ^ 1]))
        os.fsync(file.fileno())


def make_hole(path: Path) -> None:
    """The right size, but the second half reads as zeros."""
    size = path.stat().st_size
    os.truncate(path, size // 2)
    os.truncate(path, size)


def strike(case: str, folder: Path) -> None:
    """Does to the middle sub-group's files what `case` names."""
    from swapper import state_file

    victim = state_file(folder, 1, "exp_avg_sq")
    half = victim.stat().st_size // 2
    deeds: dict[str, Callable[[], object]] = {
        "none": lambda: None,
        "truncated": lambda: os.truncate(victim, half),
        "deleted": victim.unlink,
        "hole": lambda: make_hole(victim),
        "bit": lambda: flip_bit(state_file(folder, 1, "master")),
        "stale": lambda: shutil.copyfile(state_file(folder, 2, "master"), victim),
        # Python ignores SIGXFSZ, so writes past the limit fail, as on a full disk.
        "failed_write": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (half, resource.RLIM_INFINITY)),
    }
    deeds[case]()


def work(args: argparse.Namespace) -> None:
    """One case of DeepSpeed; prints how many weights are wrong."""
    import torch
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    from swapper import Setting, SwappedAdam

    torch.manual_seed(1)
    weights = [torch.empty(NUMEL).normal_(0, 0.02) for _ in range(GROUPS)]
    grads = [torch.empty(NUMEL).normal_(0, 1e-3) for _ in range(GROUPS)]
    references = [torch.nn.Parameter(weight.clone()) for weight in weights]
    results = [weight.clone() for weight in weights]
    setting = Setting(pipelined=args.worker.startswith("pipelined"), depth=32)
    swapped = SwappedAdam(args.scratch, setting, weights, lr=1e-3)
    in_memory = DeepSpeedCPUAdam(references, lr=1e-3)

    def step() -> None:
        with torch.no_grad():
            for number in reversed(range(GROUPS)):
                swapped.put_gradient(number, [grads[number].clone()])
            swapped.step(1.0, results)
        for reference, grad in zip(references, grads):
            reference.grad = grad
        in_memory.step()

    step()
    step()
    strike(args.worker.split(":")[1], args.scratch)
    step()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    step()
    wrong = sum(int((a != b.data).sum()) for a, b in zip(results, references))
    print(json.dumps({"wrong": wrong}), flush=True)


def verdict(run: subprocess.CompletedProcess) -> dict:
    """What a user of the peer would have seen."""
    wrong = None
    for line in run.stdout.splitlines():
        if line.startswith('{"wrong"'):
            wrong = json.loads(line)["wrong"]
    if run.returncode < 0:
        return {"outcome": f"killed by {signal.Signals(-run.returncode).name}", "wrong": wrong}
    if run.returncode > 0:
        last = (run.stderr.strip().splitlines() or ["nothing"])[-1]
        return {"outcome": f"exit {run.returncode}: {last[-160:]}", "wrong": wrong}
    return {"outcome": "silent: exit 0, wrong weights" if wrong else "right", "wrong": wrong}


def peer_case(args: argparse.Namespace, kind: str, case: str) -> dict:
    """Runs one case in a process of its own."""
    folder = args.scratch / f"headrace-peers-{os.getpid()}-{kind}-{case}"
    folder.mkdir()
    local = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    environment = {**os.environ, **local, "MASTER_PORT": str(args.port)}
    command = [sys.executable, __file__, "--worker", f"{kind}:{case}", "--scratch", str(folder)]
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=CASE_SECONDS)
        found = verdict(run)
    except subprocess.TimeoutExpired:
        found = {"outcome": f"hangs: ended after {CASE_SECONDS} s", "wrong": None}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"name": f"deepspeed.{kind}.{case}", **found}


def our_case(args: argparse.Namespace, case: str) -> dict:
    """Runs headrace's tests of the same fault."""
    program, names = OURS[case]
    path = args.tests / program
    if not path.exists():
        return {"name": f"headrace.{case}", "outcome": f"not run: {path.name} is not built", "wrong": None}
    run = subprocess.run([str(path), f"--gtest_filter={names}"], capture_output=True, text=True, timeout=CASE_SECONDS)
    passed = [line for line in run.stdout.splitlines() if line.startswith("[  PASSED  ]")]
    ran = passed and not passed[0].startswith("[  PASSED  ] 0 ")
    noticed = "right" if case == "none" else "noticed and named"
    outcome = noticed if run.returncode == 0 and ran else "its tests fail, or there are none"
    return {"name": f"headrace.{case}", "outcome": f"{outcome} ({names})", "wrong": None}


def stressed(args: argparse.Namespace) -> dict:
    """`headrace stress` for some seconds."""
    command = [str(args.headrace), "stress", "--scratch", str(args.scratch), "--time", str(args.stress), "--json", "-"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=args.stress + 120)
    last = (run.stderr.strip().splitlines() or ["nothing wrong"])[-1]
    outcome = "every bit right" if run.returncode == 0 else f"exit {run.returncode}: {last[-160:]}"
    return {"name": f"headrace.stress, {args.stress} s", "outcome": outcome, "wrong": None}


def measure(args: argparse.Namespace) -> dict:
    """Every case of both."""
    cases = ["none", "bit"] if args.tiny else list(OURS)
    rows = []
    for case in cases:
        rows += [peer_case(args, kind, case) for kind in ("pipelined", "partitioned")]
        rows.append(our_case(args, case))
    rows.append(stressed(args))
    return {**piece_of("faults", [], []), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headrace", type=Path, default=headrace.default_binary())
    parser.add_argument("--tests", type=Path, help="folder of headrace's tests (tests beside the binary)")
    parser.add_argument("--scratch", type=Path, default=Path("."), help="folder on the disk under test")
    parser.add_argument("--stress", type=int, default=30, help="seconds of headrace stress")
    parser.add_argument("--port", type=int, default=29660, help="of this machine, for DeepSpeed")
    parser.add_argument("--tiny", action="store_true", help="two cases, to see that it works")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args)
    args.tests = args.tests or args.headrace.parent / "tests"
    if args.tiny:
        args.stress = 2
    print(json.dumps(measure(args)))


if __name__ == "__main__":
    main()
