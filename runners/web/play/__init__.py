"""Pages on which a person plays against an agent."""
