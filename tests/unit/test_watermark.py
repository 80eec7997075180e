"""The watermark of a query from the event times of its inputs."""

from __future__ import annotations

from tidemark.formats.contract import WatermarkPolicy
from tidemark.formats.watermark import WatermarkTracker


def test_a_watermark_waits_for_every_input_and_never_decreases():
    tracker = WatermarkTracker((10, 20))
    tracker.observe(0, 1_000)
    assert tracker.advance() == 0
    tracker.observe(1, 500)
    assert tracker.advance() == 480
    tracker.observe(1, 400)
    assert tracker.advance() == 480
    tracker.observe(1, 5_000)
    assert tracker.advance() == 990


def test_the_policy_max_takes_the_input_that_is_furthest():
    tracker = WatermarkTracker((10, 20), WatermarkPolicy.MAX)
    tracker.observe(0, 1_000)
    assert tracker.advance() == 990
    tracker.observe(1, 1_005)
    assert tracker.advance() == 990


def test_an_input_without_a_watermark_holds_nothing_back():
    tracker = WatermarkTracker((None, 20))
    tracker.observe(1, 1_000)
    assert tracker.advance() == 980
    assert WatermarkTracker((None, None)).advance() == 0


def test_a_restart_keeps_the_watermark_and_forgets_the_inputs():
    tracker = WatermarkTracker((0, 0))
    tracker.observe(0, 1_000)
    tracker.observe(1, 1_000)
    assert tracker.advance() == 1_000
    tracker.restart()
    tracker.observe(0, 9_000)
    assert tracker.advance() == 1_000
    tracker.observe(1, 8_000)
    assert tracker.advance() == 8_000
