"""What is set before heavy libraries are imported."""

import os
from pathlib import Path

import psutil
import pytest

from halftone.worker.environment import NOTHING_LEAVES, physical_cores, prepare

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux tells which processors may be used")


def test_hubs_are_closed_even_if_the_user_opened_them() -> None:
    environment = {"HF_HUB_OFFLINE": "0", "OMP_NUM_THREADS": "3"}
    prepare(environment)
    assert NOTHING_LEAVES.items() <= environment.items()


def test_the_users_number_of_threads_stays() -> None:
    environment = {"OMP_NUM_THREADS": "3"}
    prepare(environment)
    assert environment["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in environment


def test_threads_wait_asleep_unless_the_user_chose() -> None:
    environment = {"OMP_NUM_THREADS": "3"}
    prepare(environment)
    assert environment["OMP_WAIT_POLICY"] == "PASSIVE"
    chosen = {"OMP_WAIT_POLICY": "ACTIVE"}
    prepare(chosen)
    assert chosen["OMP_WAIT_POLICY"] == "ACTIVE"


@needs_affinity
def test_two_threads_of_a_core_count_once(tmp_path: Path) -> None:
    usable = sorted(os.sched_getaffinity(0))
    for cpu in usable:
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_cpus_list").write_text("all of one core\n")
    assert physical_cores(tmp_path) == 1


def test_elsewhere_the_machines_own_number_is_taken(tmp_path: Path) -> None:
    assert physical_cores(tmp_path) == psutil.cpu_count(logical=False)
