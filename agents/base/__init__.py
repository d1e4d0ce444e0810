"""What players are made of: the interfaces of agents, the players of the engine, and checks of parameters."""
