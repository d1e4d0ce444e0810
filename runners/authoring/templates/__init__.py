"""New agents, one for each interface, with their yaml and test: ``template`` and ``Template`` stand for their names."""
