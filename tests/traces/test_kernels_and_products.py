"""What kernels are by their names, and the arithmetic of operators by their sizes."""

import pytest

from dlojz.traces import kernels, products
from dlojz.traces.reading import Call

# Names as cuBLAS, cuDNN, CUTLASS, PyTorch, Triton and NCCL give them.
KERNELS = [
    ("ampere_sgemm_128x64_nn", "matrix product", False),
    ("volta_sgemm_128x64_nt", "matrix product", False),
    ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn", "matrix product", True),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "matrix product", True),
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "matrix product", True),
    ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(Params)", "matrix product", True),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(Params)", "matrix product", False),
    ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_nn_align8>()", "matrix product", True),
    ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", "matrix product", True),
    ("nvjet_sm100_tst_64x32_64x16_2x1_2cta_h_bz_TNT", "matrix product", True),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
     "matrix product", True),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
     "matrix product", False),
    ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>", "matrix product", False),
    ("void splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>", "matrix product", False),
    ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_"
     "kernel_cudnn", "convolution", True),
    ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_warpsize1x2x1_g1_ffma_aligna4_alignc4_"
     "execute_kernel__5x_cudnn", "convolution", False),
    ("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_align4>", "convolution", True),
    ("sm80_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1_"
     "tensor16x8x16_kernel_cudnn", "convolution", True),
    ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>", "convolution", False),
    ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", "convolution", False),
    ("volta_scudnn_128x64_relu_medium_nn_v1", "convolution", False),
    ("void at::native::conv_depthwise2d_forward_kernel<3, float, int>", "convolution", False),
    ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 64, 4, cutlass::bfloat16_t>>",
     "attention", True),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention)", "attention", True),
    ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention)", "attention", False),
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct)", "norm", False),
    ("void at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::InvStd, float>", "norm", False),
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>", "norm", False),
    ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float, true, false, (cudnnKernelDataType_t)0>", "layout", False),
    ("void at::native::(anonymous namespace)::max_pool_forward_nhwc<float, int>", "pooling", False),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>", "softmax and loss", False),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>", "reduction", False),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>",
     "elementwise", False),
    ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>",
     "elementwise", False),
    ("triton_poi_fused_add_relu_12", "elementwise", False),
    ("triton_red_fused__native_batch_norm_legit_functional_3", "norm", False),
    ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<3>, BinaryOpListAlphaFunctor<float>>",
     "optimizer", False),
    ("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2>", "indexing", False),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective", False),
    ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "collective", False),
]


@pytest.mark.parametrize(("name", "what", "cores"), KERNELS)
def test_a_kernel_by_its_name(name, what, cores):
    found = kernels.kind(name)
    assert (found.name, found.tensor_cores) == (what, cores)
    assert found.arithmetic == (what in ("matrix product", "convolution", "attention"))
    assert 0 < len(found.short) <= 56 and "<" not in found.short and not found.short.startswith("void")


def test_short_names_say_what_is_computed():
    short = {kernels.kind(name).short for name, *_ in KERNELS}
    assert {"vectorized_elementwise_kernel: add", "reduce_kernel: Mean", "flash_fwd_kernel", "nchwToNhwcKernel",
            "multi_tensor_apply_kernel: BinaryOpListAlpha", "unrolled_elementwise_kernel: direct_copy"} <= short


def op(name, dims, types=("float",), inputs=()):
    args = {"Input Dims": dims, "Input type": list(types) * (1 if len(types) > 1 else len(dims)), "Concrete Inputs": list(inputs)}
    return products.product(Call(name, "op", 1, 0.0, 1.0, args=args))


def test_matrix_products_by_hand():
    found = op("aten::mm", [[10, 20], [20, 30]])
    assert (found.flops, found.bytes, found.sizes) == (2 * 10 * 20 * 30, (200 + 600 + 300) * 4, (10, 20, 30))
    found = op("aten::addmm", [[30], [10, 20], [20, 30], [], []], ["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar"])
    assert (found.flops, found.bytes, found.dtype) == (12_000, 2_200, "half")
    found = op("aten::bmm", [[4, 10, 20], [4, 20, 30]])
    assert (found.flops, found.bytes) == (4 * 12_000, 4 * 4_400)
    found = op("aten::linear", [[5, 2, 20], [30, 20], [30]])
    assert found.flops == 2 * 10 * 20 * 30


@pytest.mark.parametrize(("name", "inputs"), [
    ("aten::cudnn_convolution", ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "True"]),  # padding, stride, dilation
    ("aten::mkldnn_convolution", ["", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"]),
    ("aten::_slow_conv2d_forward", ["", "", "[3, 3]", "", "[2, 2]", "[1, 1]", ""]),  # kernel, stride, padding
    ("aten::convolution_overrideable", ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False"]),  # stride, padding
])
def test_convolutions_by_hand(name, inputs):
    """8 images of 3 x 32 x 32, 16 kernels of 3 x 3, stride 2: 16 x 16 results each."""
    found = op(name, [[8, 3, 32, 32], [16, 3, 3, 3]], inputs=inputs)
    assert found.flops == 2 * 8 * 16 * 16 * 16 * 27
    assert found.bytes == 4 * (8 * 3 * 32 * 32 + 16 * 27 + 8 * 16 * 16 * 16) and found.sizes == (3, 16)


def test_a_convolution_and_its_backward_pass():
    dims = [[8, 16, 16, 16], [8, 3, 32, 32], [16, 3, 3, 3]]
    both = op("aten::convolution_backward", dims, inputs=["", "", "", "", "[2, 2]", "[True, True, False]"])
    one = op("aten::convolution_backward", dims, inputs=["", "", "", "", "[2, 2]", "[False, True, False]"])
    forward = op("aten::cudnn_convolution", dims[1:], inputs=["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"])
    assert both.flops == 2 * forward.flops == 2 * one.flops


def test_real_sizes_agree_with_torch():
    """The operators of a small network, traced here, against the counter of operations that PyTorch has."""
    import json
    import tempfile
    from pathlib import Path

    import torch
    from torch import nn
    from torch.utils.flop_counter import FlopCounterMode

    from dlojz import traces

    layers = [nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.Flatten(), nn.Linear(8 * 64, 10)]
    model = nn.Sequential(*layers)
    images = torch.rand(4, 3, 16, 16)
    with FlopCounterMode(display=False) as counter:
        model(images).sum().backward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        model(images).sum().backward()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        assert json.loads(path.read_text())
        facts = traces.analyse(traces.read(path))
    assert facts.achieved["flops"] * facts.arithmetic * facts.steps == pytest.approx(counter.get_total_flops(), rel=1e-6)


@pytest.mark.parametrize("dims", [[], [[]], [[1]], [[0, 0], [0, 0]], [[1, 2], "x"], [None, None]])
def test_odd_sizes_are_no_product(dims):
    for name in ("aten::mm", "aten::addmm", "aten::linear", "aten::cudnn_convolution", "aten::convolution_backward"):
        op(name, dims)  # None, or something of no size: no error


def test_cards_by_their_names():
    assert products.card("NVIDIA H100 80GB HBM3").peak["bfloat16"] == 990
    assert products.card("NVIDIA H100 PCIe").memory == 2.0
    assert products.card("NVIDIA A100-SXM4-80GB").memory == 2.0 and products.card("NVIDIA A100-SXM4-40GB").memory == 1.55
    assert products.card("NVIDIA GH200 480GB").memory == 4.0
    assert products.card("NVIDIA H200").ratio("bfloat16") == pytest.approx(206, abs=0.5)
    assert products.card("NVIDIA B200").peak["bfloat16"] == 2250 and products.card("NVIDIA GB200").peak["bfloat16"] == 2500
    assert products.card("GeForce 256") is None
    assert products.card("NVIDIA H100 80GB HBM3").ratio("half") == pytest.approx(295.5, abs=0.1)
    assert products.card("Tesla V100-SXM2-32GB").ratio("bfloat16") is None
