"""How agents take part: guarded, limited, in child processes, as engines, or written for another package."""
