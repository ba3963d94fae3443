"""What `benchmarks/` says of many devices: the cost model's laws, the page's picture, collectives of a program."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scaling import Machine, Sent, Work, collectives, efficiency, step_seconds, sum_seconds
from docs.tools.scaling_curve import DEVICES, MACHINE, ROWS, picture, table

DOCS = Path(__file__).parents[2] / "docs"


def test_the_pages_picture_and_table_are_the_models():
    assert (DOCS / "pictures" / "scaling.svg").read_text(encoding="utf-8") == picture()
    assert table() in (DOCS / "guide" / "scaling.md").read_text(encoding="utf-8")


def test_a_step_on_one_device_is_its_arithmetic():
    assert step_seconds(Work(2e12, 1e9), 1, replace(MACHINE, flops=1e12)) == (2.0, 0.0)


@pytest.mark.parametrize("work", ROWS.values(), ids=ROWS)
def test_more_devices_wait_longer(work):
    shares = [efficiency(work, n, MACHINE) for n in DEVICES]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1


def test_a_ring_sends_twice_what_it_sums():
    machine = Machine(flops=1, link=1e9, hosts_link=1e9, per_host=1024, latency=0)
    assert sum_seconds(1e9, 2, machine) == pytest.approx(1.0)
    assert sum_seconds(1e9, 1024, machine) == pytest.approx(2.0, rel=1e-2)
    hosts = replace(machine, per_host=4)  # as fast between hosts as in them
    assert sum_seconds(1e9, 16, hosts) == pytest.approx(2 * 0.75 + 2 * 0.75 / 4)


def test_collectives_are_read_off_a_program():
    text = """
  %a = f32[8,4]{1,0} all-gather(%p), channel_id=1, dimensions={0}
  %b = (f32[16]{0}, bf16[3]{0}, /*index=2*/f64[2,2]{1,0}) all-reduce(%x, %y, %z), to_apply=%add
  %c = (f32[1]{0}, f32[8]{0}) all-gather-start(%q), dimensions={0}
  %d = f32[4]{0} add(%all-reduce.1, %e)
"""
    assert collectives(text) == {"all-reduce": Sent(1, 3, 64 + 6 + 32), "all-gather": Sent(2, 2, 128 + 32)}
