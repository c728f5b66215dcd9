"""Whether torch is installed for the tests of the networks, by what pip says of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from find_torch import PipError, objection

CPU = [
    "Collecting torch==2.13.0",
    "  Downloading torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl (190.4 MB)",
    "Collecting sympy>=1.13.3 (from torch==2.13.0)",
    "Would install sympy-1.14.0 torch-2.13.0+cpu",
]
GPU = [
    "Collecting torch==2.13.0",
    "  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (30 kB)",
    "Collecting sympy>=1.13.3 (from torch==2.13.0)",
    "Collecting nvidia-nccl-cu13==2.29.7 (from torch==2.13.0)",
    "Collecting nvidia-cublas==13.1.1.3.* (from cuda-toolkit[cublas]==13.0.3->torch==2.13.0)",
]
LARGE = "  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (526.6 MB)"


def no_further_than(*lines: str) -> Iterator[str]:
    yield from lines
    pytest.fail("read on, which would have fetched the file")


def test_a_build_for_the_cpu_is_welcome() -> None:
    assert objection(CPU) == ""


def test_a_build_for_gpus_is_not() -> None:
    assert objection([*GPU, "Would install torch-2.13.0"]) == "the one offered needs 2 nvidia packages"


def test_nothing_is_fetched_once_it_is_known_to_be_for_gpus() -> None:
    assert objection(no_further_than(*GPU, LARGE)) == "the one offered needs 2 nvidia packages"


def test_a_large_file_is_not_fetched_to_look_into_it() -> None:
    assert objection(no_further_than("Collecting torch==2.13.0", LARGE)) == ("the one offered is a file of 526.6 MB")


def test_the_last_word_of_a_pip_that_fails() -> None:
    with pytest.raises(PipError, match=r"^No matching distribution found$"):
        objection(["ERROR: Could not find a version", "ERROR: No matching distribution found"])
