"""Export of games to other tools, and import from text. The formats: ``docs/exchange.md``."""
