"""Programs in any language that play over their standard input and output: see docs/engines.md."""
