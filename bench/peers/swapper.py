"""DeepSpeed's optimizer-state swappers on NVMe, driven in the order of a ZeRO stage 3 step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from deepspeed import init_distributed
from deepspeed.ops.adam import DeepSpeedCPUAdam
from deepspeed.runtime.swap_tensor.partitioned_optimizer_swapper import PartitionedOptimizerSwapper
from deepspeed.runtime.swap_tensor.pipelined_optimizer_swapper import PipelinedOptimizerSwapper
from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadOptimizerConfig


@dataclass
class Setting:
    """How the swapper is set. block: bytes of a request; buffers: sub-groups in DRAM at once (8 and less abort)."""

    pipelined: bool = True
    block: int = 1 << 20
    depth: int = 8
    parallel: int = 1
    buffers: int = 12

    @staticmethod
    def parse(text: str) -> Setting:
        """From KIND:BLOCK:DEPTH:PARALLEL:BUFFERS."""
        kind, *numbers = text.split(":")
        return Setting(kind == "pipelined", *map(int, numbers))

    def __str__(self) -> str:
        kind = "pipelined" if self.pipelined else "partitioned"
        return f"{kind}:{self.block}:{self.depth}:{self.parallel}:{self.buffers}"


class SwappedAdam:
    """Sub-groups of fp32 master weights and moments on disk; DeepSpeedCPUAdam updates one after the other."""

    def __init__(self, folder: Path, setting: Setting, weights: list[torch.Tensor], **options: float) -> None:
        init_distributed("gloo", verbose=False)
        self._adam = DeepSpeedCPUAdam([torch.nn.Parameter(torch.zeros(1))], **options)
        self._adam.param_groups[0]["params"] = []
        self._swapper = self._make(folder, setting, max(group.numel() for group in weights))
        self._groups = [self._place_holder(number) for number in range(len(weights))]
        with torch.no_grad():
            self._swapper.initialize_parameters(parameters=self._groups, src_tensors=weights)

    def _make(self, folder: Path, setting: Setting, largest: int) -> PartitionedOptimizerSwapper:
        config = DeepSpeedZeroOffloadOptimizerConfig(
            device="nvme",
            nvme_path=str(folder),
            buffer_count=setting.buffers,
            pipeline_read=setting.pipelined,
            pipeline_write=setting.pipelined,
        )
        aio = {
            "block_size": setting.block,
            "queue_depth": setting.depth,
            "intra_op_parallelism": setting.parallel,
            "single_submit": False,
            "overlap_events": True,
            "use_gds": False,
        }
        kind = PipelinedOptimizerSwapper if setting.pipelined else PartitionedOptimizerSwapper
        return kind(
            swap_config=config,
            aio_config=aio,
            base_folder=str(folder),
            optimizer=self._adam,
            largest_numel=largest,
            device=torch.device("cpu"),
            dtype=torch.float32,
            timers=None,
        )

    @staticmethod
    def _place_holder(number: int) -> torch.Tensor:
        made = torch.empty(0, dtype=torch.float32)
        made.ds_id = f"{number}_{number}"
        made.requires_grad = True
        return made

    def put_gradient(self, group: int, parts: list[torch.Tensor]) -> None:
        """Spills one sub-group's fp32 gradient, which lies in equal parts, as the engine's backward does."""
        offsets = [number * parts[0].numel() for number in range(len(parts))]
        self._swapper.swap_out_gradients(
            parameter=self._groups[group], gradient_offsets=offsets, gradient_tensors=parts
        )

    def step(self, scale: float, results: list[torch.Tensor]) -> None:
        """Every sub-group: in, scale its gradient, Adam, cast to its result, out."""
        for number, group in enumerate(self._groups):
            following = self._groups[number + 1] if number + 1 < len(self._groups) else None
            self._swapper.swap_in_optimizer_state(parameter=group, async_parameter=following)
            group.grad.mul_(scale)
            self._adam.param_groups[0]["params"] = [group]
            self._adam.step()
            self._adam.param_groups[0]["params"] = []
            results[number].copy_(group.data)
            self._swapper.swap_out_optimizer_state(parameter=group, async_swap=following is not None)
            group.grad = None


def state_file(folder: Path, group: int, name: str) -> Path:
    """Where the swapper keeps `master`, `exp_avg` or `exp_avg_sq` of a sub-group."""
    prefix = "" if name == "master" else f"{name}-"
    return folder / "optimizer" / "rank0" / f"{prefix}{group}_{group}.tensor.swp"
