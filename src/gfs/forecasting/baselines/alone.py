"""Torch and Lightning by themselves: one thread, a seed of their own, silent; afterwards all is as it was."""

from __future__ import annotations

import logging
import os
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

SEED_VARIABLES = ("PL_GLOBAL_SEED", "PL_SEED_WORKERS")
"""Lightning writes the seed into the environment."""


@contextmanager
def alone(seed: int) -> Iterator[None]:
    """Same seed, same bytes, whatever ran before; and whatever runs afterwards does not notice."""
    threads, disabled = torch.get_num_threads(), logging.root.manager.disable
    states = random.getstate(), np.random.get_state()
    variables = {name: os.environ.get(name) for name in SEED_VARIABLES}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            logging.disable(disabled)
            random.setstate(states[0])
            np.random.set_state(states[1])
            for name, value in variables.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
