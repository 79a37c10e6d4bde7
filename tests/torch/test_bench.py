"""The bench of the numerical heart stays runnable: every part, in sizes that prove nothing else."""

import pytest
from tests.bench import bench_load, heart
from tests.bench.common import Options, Row, table


@pytest.mark.parametrize("part", [*heart.PARTS, "faults", "add_ons"])
@pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made
def test_every_part_of_the_bench_runs(part: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert heart.main(["--small", "--only", part]) == 0
    printed = capfd.readouterr().out.splitlines()
    assert printed[0].split("|")[0].strip() == "what"
    assert len([line for line in printed if "|" in line]) >= 3
    assert "load" in printed[-1]


@pytest.mark.filterwarnings("ignore")
def test_the_bench_of_loading_runs() -> None:
    assert [met for *_, met in bench_load.rows(Options(small=True))] == [None] * 5


def test_a_missed_goal_is_told() -> None:
    rows: list[Row] = [("forward", "1.3", "at most 1.1", False), ("scan", "0.9", "at least 0.85", True), ("other", "2", "", None)]
    lines = table([("cpu", row) for row in rows]).splitlines()
    assert [line.rpartition("|")[2].strip() for line in lines[1:]] == ["MISSED", "met", ""]
