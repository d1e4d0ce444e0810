"""Tests of the pages about runs."""
