"""Pruning: unused columns and rows that conditions rule out are not read or sent; results never change."""
