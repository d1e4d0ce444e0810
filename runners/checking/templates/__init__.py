"""New agents, one for each seam, with their yaml and test: ``template`` and ``Template`` stand for their names."""
