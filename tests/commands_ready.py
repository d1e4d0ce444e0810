"""A process that imports this is ready to start commands that play: each would prepare the same for a second."""

from hydra import compose, initialize_config_dir

from runners.config.agents import load_agent
from runners.config.yaml_options import CONF_FOLDER, load_rules
from runners.hosting.guarded_agent import GuardedAgent
from tests.runners.conftest import prepare_once

AGENTS = ("rule_based", "random")

prepare_once().__enter__()
with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
    compose("run", ["agent@a=rule_based", "agent@b=random"], return_hydra_config=True)
for name in AGENTS:
    GuardedAgent(load_agent(name).build(), name, load_rules("classic"))
