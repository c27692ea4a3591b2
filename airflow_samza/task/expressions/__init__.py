"""SQL expressions on Arrow: a subset of Spark SQL whose results, types and errors equal Catalyst's.

The rest is left to Catalyst.
"""
