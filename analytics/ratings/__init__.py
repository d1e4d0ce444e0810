"""Who is stronger: head-to-head counts of chosen games, one joint fit."""
