"""Commands about exact play: solving, annotating, judging agents, making and solving puzzles."""
