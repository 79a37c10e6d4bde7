"""What is imported late comes whole when it is asked for."""

import subprocess
import sys

CODE = """
import sys, halftone.engine.service, diffusers, scipy.stats
from diffusers import EulerDiscreteScheduler
assert "scipy.stats._stats_py" not in sys.modules, "it was loaded though nothing asked for it"
sampler = EulerDiscreteScheduler(use_beta_sigmas=True)
sampler.set_timesteps(4)
from scipy.stats import beta
import scipy.stats as stats
print(len(sampler.sigmas), stats.beta is beta, "scipy.stats._stats_py" in sys.modules)
"""


def test_what_only_one_schedule_needs_comes_with_the_first_name_that_is_asked_of_it() -> None:
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "5 True True", ran.stderr
