"""For every test: what hypothesis may assume of this machine."""

from hypothesis import HealthCheck, settings

# A loaded machine is no defect: how long an example takes is asked by benchmarks, not by tests of rules.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
