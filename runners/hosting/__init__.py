"""Agents as they take part: asked for turns, limited, and isolated; and what ends when the user insists."""
