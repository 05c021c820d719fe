"""How well a query fits whole servers."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.rankers.servers import reordered_by_server, server_means

SERVERS = np.array([0, 0, 0, 0, 1, 1, 2])
TOTAL = np.array([4.0, 0.0, 0.0, 0.0, 3.0, 1.0, 9.0], np.float32)


def test_a_server_is_as_near_as_its_tools_are_on_average() -> None:
    near = server_means(TOTAL, SERVERS, np.arange(6))
    assert near.tolist() == [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]
    assert near.dtype == np.float32


def test_a_single_tool_does_not_stand_for_more_than_a_near_server() -> None:
    assert server_means(TOTAL, SERVERS, np.array([6, 4])).tolist() == [2.5, 2.0]


def test_numbers_that_no_tool_has_do_no_harm() -> None:
    assert server_means(TOTAL[:2], np.array([7, 3]), np.array([1, 0])).tolist() == [0.0, 2.5]


def test_the_nearer_server_of_two_like_tools_comes_first_at_the_same_odds() -> None:
    odds = np.array([-0.4, -1.0, -1.5, -4.0], np.float32)
    found = reordered_by_server(odds, np.array([0.2, 2.0, 0.2, 2.0], np.float32), 640)
    assert found.tolist() == pytest.approx([-1.0, -0.4, -1.5, -4.0])
    assert found.dtype == np.float32


def test_a_tool_that_stands_out_stays_first_whatever_its_server() -> None:
    odds = np.array([3.0, -1.0], np.float32)
    assert reordered_by_server(odds, np.array([0.0, 2.5], np.float32), 10_000).tolist() == [
        3.0,
        -1.0,
    ]


@pytest.mark.parametrize("tools", [1, 7, 50])
def test_among_a_few_dozen_tools_servers_do_not_count(tools: int) -> None:
    odds = np.array([0.1, 0.0], np.float32)
    assert reordered_by_server(odds, np.array([-1.0, 2.5], np.float32), tools) is odds


def test_servers_that_are_alike_change_nothing() -> None:
    odds = np.array([0.5, 2.0, 2.0, -3.0, 0.5], np.float32)
    assert reordered_by_server(odds, np.full(5, 1.7, np.float32), 5_000).tolist() == odds.tolist()
