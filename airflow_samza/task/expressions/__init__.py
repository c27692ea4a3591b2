"""SQL expressions on Arrow: a subset of Spark SQL whose results equal Catalyst's, to which the rest is left."""
