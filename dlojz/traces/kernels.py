"""What a GPU's kernel does, and whether it computes on tensor cores, as far as its name tells.

Names come from the libraries: cuBLAS and cuDNN (``ampere_sgemm_128x64_nn``, ``sm80_xmma_fprop_implicit_gemm_…``, ``nvjet_…``),
CUTLASS (``cutlass_80_tensorop_s1688gemm_…``), PyTorch (``at::native::…``), Triton (``triton_poi_fused_…``), NCCL
(``ncclDevKernel_AllReduce_…``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

# A name with one of these runs matrix instructions. Those of the list that NVIDIA's PyProf began and the PyTorch profiler's
# TensorBoard plugin kept (tensor_core.py there): shapes of instructions (884 on Volta, 1688 and 16816 from Turing and Ampere
# on), hmma, imma and xmma. Since then: `tensorop`, CUTLASS's word for the class of instruction (its other one is `simt`);
# `tensor16x8x8`, cuDNN's; `wmma`; on Hopper `gmma`, `wgmma`, `warpgroup` (of the warps that one instruction takes) and `nvjet`,
# cuBLAS's kernels there; `utcmma` and `tcgen05` on Blackwell; FlashAttention, which is written for half precision.
TENSOR_CORES = re.compile(r"tensorop|tensor\d+x\d+x\d+|[wh]mma|imma|xmma|gmma|utcmma|tcgen05|nvjet|warpgroup|[hsic]_?884"
                          r"|[hsic]_?1688|16816|161616|8816|first_layer_wgrad|dgrad_1x1_stride_2x2|flash_(fwd|bwd)|fmha_cutlass\w*_b?f16|sdpa_sm\d")
PLAIN_CORES = re.compile(r"simt|ffma|_sgemm|_dgemm|scudnn|dcudnn")  # says that it does not, whatever else the name holds

# The first that matches. `arithmetic`: many operations on each number that is fetched; the rest mostly waits for memory.
KINDS = (
    ("collective", r"^nccl|ncclDevKernel|ncclKernel|rccl|all_?reduce_(one|two)_shot|multimem"),
    ("layout", r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|tensorTransform|transpose_readWrite"),
    ("attention", r"flash_(fwd|bwd)|fmha|sdpa|attention"),
    ("optimizer", r"multi_tensor_apply|foreach|fused_?(adam|sgd)|adamw?_(fused|kernel)|lamb(?!da)"),
    ("norm", r"batch_?norm|\bbn_(fw|bw)|layer_?norm|group_?norm|rms_?norm|norm_(fwd|bwd|fw|bw)"),
    ("pooling", r"pool"),
    ("softmax and loss", r"soft_?max|nll_loss|cross_entropy"),
    ("convolution", r"fprop|dgrad|wgrad|convol|conv\d?d|conv_|_conv|winograd|cudnn::cnn|implicit_gemm|cudnn::detail|scudnn|fft2d"
                    r"|cudnn_generated"),
    ("matrix product", r"gemm|gemv|nvjet|splitK|cublas|matmul|triton_(tem|mm)|cutlass|dot_kernel"),
    ("reduction", r"reduce|triton_(red|per)_|Reduc"),
    ("indexing", r"index|gather|scatter|embedding|CatArray|sort|topk|unique|nonzero|cub::|thrust"),
    ("elementwise", r"elementwise|triton_poi_|pointwise|fill|dropout|vectorized|unrolled|copy|cast|distribution|random|where"),
)
_KINDS = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in KINDS)
ARITHMETIC = frozenset(("attention", "convolution", "matrix product"))


@dataclass(frozen=True)
class Kind:
    """``name``: one of `KINDS`, or ``other``. ``tensor_cores``: it computes on them. ``short``: a name for people."""

    name: str
    tensor_cores: bool
    short: str

    @property
    def arithmetic(self) -> bool:
        return self.name in ARITHMETIC


@lru_cache(maxsize=4096)
def kind(name: str) -> Kind:
    """What the kernel of this name is."""
    what = next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")
    cores = what in ARITHMETIC and bool(TENSOR_CORES.search(name)) and not PLAIN_CORES.search(name)
    return Kind(what, cores, short(name))


FUNCTOR = re.compile(r"CUDAFunctor_(\w+)|(\w+?)(?:_kernel_cuda|_kernel_impl|Functor|_functor|Ops)\b")
NOT_TELLING = frozenset(("CUDA", "Binary", "AUnary", "BUnary", "at", "native", "Tensor", "gpu"))


def short(name: str, most: int = 56) -> str:
    """A kernel's name without namespaces, types and arguments, with what it computes where that is hidden in them."""
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    head = re.split(r"[<(]", plain, maxsplit=1)[0].split("::")[-1].strip() or name
    if head in ("Kernel", "Kernel2", "device_kernel") and (inner := re.search(r"<\s*([\w:]+)", plain)):
        head = inner[1].split("::")[-1]
    elif "elementwise" in head or head in ("reduce_kernel", "multi_tensor_apply_kernel"):
        found = [one or other for one, other in FUNCTOR.findall(plain)]
        words = [word for word in found if word not in NOT_TELLING]
        if words:
            head = f"{head}: {words[0]}"
    return head if len(head) <= most else head[: most - 1] + "…"
