"""What operators have to do, by their sizes, and what a roofline allows for a step; the constants against what was measured."""

import dataclasses
import json

import pytest

from dlojz.benchmarks import hardware
from dlojz.system import cards
from dlojz.system.errors import UsageError
from dlojz.traces import bounds, roofs, work
from dlojz.traces.bounds import Measured, Step
from dlojz.traces.reading import Call
from dlojz.traces.roofs import Roof
from dlojz.traces.work import Work

TEN = Roof("ten", {"float": 100.0, "bfloat16": 200.0}, 10.0)
FLASH = "aten::_scaled_dot_product_flash_attention"
CONVOLUTION = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]


def call(name, dims, types, concrete=(), parent=None, begin=0.0):
    sizes = {"Input Dims": dims, "Input type": types, "Concrete Inputs": list(concrete)}
    made = Call(name, "op", 1, begin, begin + 1.0, args=sizes)
    made.parent = parent
    return made


def only(*calls):
    (one,) = (found for _, found in work.of(calls))
    return one


# name, sizes, types, more; class, operations, bytes: worked out by hand
BY_HAND = [
    ("aten::addmm", [[5], [2, 3], [3, 5]], ["float"] * 3, (), "matrix product", 60, 4 * (6 + 15 + 10)),
    ("aten::convolution", [[2, 4, 6, 6], [8, 4, 3, 3]], ["c10::BFloat16"] * 2, CONVOLUTION, "convolution", 2 * 2 * 9 * 8 * 36,
     2 * (288 + 288 + 144)),
    ("aten::convolution", [[2, 4, 6, 6], [4, 1, 3, 3]], ["c10::BFloat16"] * 2, CONVOLUTION, "grouped convolution", 2 * 2 * 9 * 36,
     2 * (288 + 36 + 72)),
    ("aten::native_batch_norm", [[2, 4, 3, 3], [4], [4]], ["float"] * 3, (), "norm", 5 * 72, 4 * (72 + 8 + 72)),
    ("aten::native_batch_norm_backward", [[2, 4, 3, 3], [2, 4, 3, 3]], ["float"] * 2, (), "norm", 5 * 72, 4 * 3 * 72),
    ("aten::clamp_min_", [[10, 10], []], ["c10::Half", "Scalar"], (), "pointwise", 100, 2 * 200),
    ("aten::silu_", [[10, 10]], ["c10::Half"], (), "pointwise", 100, 2 * 400),  # autograd has the input copied first
    ("aten::add", [[10, 10], [10]], ["float", "float"], (), "pointwise", 100, 4 * 210),
    ("aten::sum", [[10, 10]], ["float"], (), "reduction", 100, 400),
    ("aten::fill_", [[10, 10], []], ["float", "Scalar"], (), "copy", 0, 400),
    ("aten::copy_", [[10, 10], [10, 10]], ["c10::BFloat16", "float"], (), "copy", 0, 600),
    (FLASH, [[2, 3, 16, 8]] * 3, ["c10::Half"] * 3, ("", "", "", "0.", "False"), "attention",
     4 * 2 * 3 * 16 * 16 * 8, 2 * 4 * 768),
    (FLASH, [[2, 3, 16, 8]] * 3, ["c10::Half"] * 3, ("", "", "", "0.", "True"), "attention",
     2 * 2 * 3 * 16 * 16 * 8, 2 * 4 * 768),
]


@pytest.mark.parametrize(("name", "dims", "types", "more", "kind", "flops", "moved"), BY_HAND, ids=[row[0] for row in BY_HAND])
def test_operators_by_hand(name, dims, types, more, kind, flops, moved):
    found = only(call(name, dims, types, more))
    assert (found.kind, found.flops, found.bytes) == (kind, flops, moved)


def test_of_operators_in_operators_one_counts():
    outer = call("aten::convolution", [[2, 4, 6, 6], [8, 4, 3, 3]], ["float"] * 2, CONVOLUTION)
    inner = call("aten::mm", [[2, 3], [3, 5]], ["float"] * 2, parent=outer)
    assert [one.kind for _, one in work.of([outer, inner])] == ["convolution"]
    wrapper = call("aten::relu_", [[4, 4]], ["float"])  # no rule of its own: what is inside counts
    assert only(wrapper, call("aten::clamp_min_", [[4, 4]], ["float"], parent=wrapper)).bytes == 128
    layer = call("aten::linear", [[2, 3], [5, 3]], ["float"] * 2)
    assert only(layer, call("aten::mm", [[2, 3], [3, 5]], ["float"] * 2, parent=layer)).kind == "matrix product"


def test_a_number_that_becomes_a_tensor_is_no_work_inside():
    times = call("aten::mul_", [[10, 10], []], ["float", "double"])
    assert only(times, call("aten::copy_", [[], []], ["float", "double"], parent=times)) == Work("pointwise", 100, 800, "float")


def test_sizes_that_can_be_none_count_nothing():
    broken = [call("aten::add", [["x"], [2]], ["float"]), call("aten::mm", [[2]], ["float"]), call("aten::sum", None, None),
              call("aten::empty", [[4]], ["float"]), call("aten::convolution", [[2, 4]], ["float"])]
    assert work.of(broken) == []


def test_a_bound_is_the_sum_of_the_larger_of_two_times():
    step = Step([Work("convolution", 1000.0, 20.0, "bfloat16"),  # 5 s of arithmetic, 2 s of memory
                 Work("convolution", 200.0, 80.0, "bfloat16"),  # 1 and 8
                 Work("norm", 1e9, 30.0, "bfloat16")],  # always memory: 3
                seconds=32.0, took={"convolution": 26.0, "norm": 6.0})
    found = bounds.bound(step, TEN)
    rows = [(row.kind, row.count, row.least, row.took) for row in found.rows]
    assert rows == [("convolution", 2, 13.0, 26.0), ("norm", 1, 3.0, 6.0)]
    assert (found.least, found.flops, found.dtype) == (16.0, 1200.0, "bfloat16")
    assert found.of_peak(32.0) == 1200 / 32 / 200


def test_what_to_expect_is_by_class_and_at_least_the_launches():
    step = Step([Work("norm", 0.0, 30.0, "float"), Work("convolution", 1000.0, 1.0, "float"),
                 Work("optimizer", 0.0, 10.0, "float")])
    roof = dataclasses.replace(TEN, rates={"norm": (1.0, 0.5), "convolution": (0.8, 0.1)}, start=2.0)
    assert bounds.bound(step, roof).expected == 3 / 0.5 + 10 / 0.8 + 2.0
    assert bounds.bound(step, dataclasses.replace(roof, host=50.0)).expected == 100.0  # the optimizer is one launch for many


def test_rates_are_what_was_reached_on_each_side():
    rows = [Measured("convolution", False, "bfloat16", 1000.0, 1.0, 10.0),
            Measured("convolution", True, "float", 1.0, 100.0, 40.0),
            Measured("norm", True, "float", 1.0, 30.0, 12.0)]
    assert bounds.rates(rows, TEN) == {"convolution": (0.5, 0.25), "norm": (0.25, 0.25)}


def test_another_batch_size_is_on_a_line_through_two():
    def step(batch):
        return Step([Work("convolution", 100.0 * batch, 10.0 * batch + 7, "float"), Work("optimizer", 5.0, 20.0, "float")])

    assert bounds.at_batch(step(2), step(3), (2, 3), 256) == step(256)
    with pytest.raises(UsageError, match="same network"):
        bounds.at_batch(step(2), Step(step(3).works[:1]), (2, 3), 256)
    with pytest.raises(UsageError, match="differ in theirs"):
        bounds.at_batch(step(2), step(2), (2, 2), 256)


def test_a_copy_that_one_row_does_not_need_is_no_other_network():
    rows = [Work("norm", 0.0, 10.0, "float") for _ in range(60)]

    def step(batch, *more):
        return Step([*rows[:30], *more, Work("copy", 0.0, 8.0 * batch, "float"), *rows[30:]])

    found = bounds.at_batch(step(1), step(2, Work("copy", 0.0, 6.0, "long int")), (1, 2), 10)
    assert found == step(10, Work("copy", 0.0, 30.0, "long int"))
    with pytest.raises(UsageError, match="same network"):
        bounds.at_batch(step(1), step(2, *[Work("copy", 0.0, 6.0, "long int")] * 2), (1, 2), 10)


# ------------------------------------------------------------------------------------------------------ the kept numbers
def kept(part):
    return json.loads((hardware.RESULTS / f"{part}-1x-nvidia-h200.json").read_text())["rows"]


def test_the_roof_is_the_measured_one():
    peaks = {row["format"]: row["flops"] for row in kept("peaks") if row["what"] == "product"}
    assert roofs.H200.peaks == {kind: peaks[kind] for kind in roofs.H200.peaks}
    assert roofs.H200.memory == next(row["bytes_per_second"] for row in kept("peaks") if row["what"] == "copy")
    measured = bounds.rates([Measured(*one) for row in kept("models") for one in row["large"]], roofs.H200)
    for kind, rates in measured.items():
        assert roofs.H200.rates[kind] == pytest.approx(rates, rel=0.03), kind


@pytest.mark.parametrize("left_out", [row["model"] for row in kept("models")])
def test_a_network_is_predicted_by_the_others_within_a_quarter(left_out):
    rows = kept("models")
    row = next(row for row in rows if row["model"] == left_out)
    rates = bounds.rates([Measured(*one) for other in rows if other["model"] != left_out for one in other["large"]], roofs.H200)
    expected = 0.0
    for one in (Measured(*one) for one in row["large"]):
        least = one.bytes / roofs.H200.memory if one.by_memory else one.flops / roofs.H200.peak(one.dtype)
        # Nothing but the language model spends its loss and its embedding on large tensors: there the rate of all is used.
        expected += least / rates.get(one.kind, roofs.H200.rates[one.kind])[one.by_memory]
    expected = max(expected, roofs.H200.host * row["operators"])
    assert row["step_ms"] / 1e3 / expected == pytest.approx(1.0, abs=0.25)


def test_other_cards_are_scaled_by_their_data_sheets():
    roof, sheet = roofs.of("NVIDIA H100 80GB HBM3"), cards.card("H100")
    assert roof.peaks["bfloat16"] == roofs.H200.peaks["bfloat16"]  # the same cores
    assert roof.memory == pytest.approx(sheet.memory / 4.8 * roofs.H200.memory)
    # A norm is limited by the cores: it takes as long as on an H200, although the memory is slower.
    assert 1 / roof.memory / roof.rates["norm"][1] == pytest.approx(1 / roofs.H200.memory / roofs.H200.rates["norm"][1])
    assert roofs.of("h200") is roofs.H200
    with pytest.raises(UsageError, match=r"no roofline for 'a toaster'.*H200"):
        roofs.of("a toaster")


def test_this_machine_has_a_roof():
    roof = roofs.measure("cpu", 0.001, ("float",))
    assert roof.peaks["float"] > 1e8 and roof.memory > 1e7 and 0 < roof.start < 1
