"""How a head and a node are asked to end, and what is refused before Ray starts."""

import os
import signal
from pathlib import Path

import pytest

from halftone.contract.errors import HalftoneError
from halftone.farm.cluster import join
from halftone.farm.serving import Stop


@pytest.mark.skipif(os.name != "posix", reason="the farm runs on Linux")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_before_all_is_there_is_not_forgotten(name: str) -> None:
    number = signal.Signals[name]
    before, stop, told = signal.getsignal(number), Stop(), list[str]()
    with stop.by_signals():
        assert not stop.asked
        os.kill(os.getpid(), number)
        assert stop.asked
        stop.call(lambda: told.append("it came before"))
        os.kill(os.getpid(), number)
    assert told == ["it came before"] * 2
    assert signal.getsignal(number) == before


def test_an_address_that_no_other_machine_reaches_is_refused_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(HalftoneError, match="--address") as caught:
        join("127.0.0.1:6379", tmp_path / "token")
    assert caught.value.code == "farm-not-possible"
    assert "See" not in str(caught.value)
