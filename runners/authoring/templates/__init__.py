"""New agents, one for each interface, with their yaml and test; ``create_agent`` replaces ``template`` in all names."""
