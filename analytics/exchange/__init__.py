"""Games leave the archive in the forms of other tools, and come in as text; ``docs/exchange.md`` has them all."""
