"""Strength of agents: head-to-head results of chosen games, and ratings by one joint fit."""
