"""Genes, populations and evolutions that several players share."""
