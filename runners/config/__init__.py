"""From the words of a command to a checked request: options, schemas, labels, agents, sweeps, and Hydra."""
