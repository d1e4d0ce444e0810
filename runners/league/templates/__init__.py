"""The files of a new league, which ``qarena league new`` copies."""
