"""Templates of new agents, one for each interface, with their yaml and test.

``create_and_describe_agent_files`` replaces ``template`` in all names.
"""
