"""Ratings' tables and the sequential test."""
