"""SQL expressions on Arrow: a subset of Spark SQL whose results, types and errors equal Catalyst's; the rest is left to Catalyst."""
