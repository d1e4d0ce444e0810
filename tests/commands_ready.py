"""A process that imports this is ready to start commands that play: each would prepare the same for a second."""

from hydra import compose

from runners.config.agents import load_agent
from runners.config.composing import initialize_hydra
from runners.config.yaml_options import load_rules
from runners.hosting.guarded_agent import GuardedAgent
from tests.runners.conftest import prepare_once

AGENTS = ("rule_based", "random")

prepare_once().__enter__()
with initialize_hydra():
    compose("run", ["agent@a=rule_based", "agent@b=random"], return_hydra_config=True)
for name in AGENTS:
    GuardedAgent(load_agent(name).build(), name, load_rules("classic"))
