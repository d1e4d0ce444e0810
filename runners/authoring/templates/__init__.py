"""Templates of new agents, one for each interface, with their yaml and test.

``create_agent_files`` replaces ``template`` in all names.
"""
