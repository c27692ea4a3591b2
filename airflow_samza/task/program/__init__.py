"""A stage compiled: schemas, engines, sections, and what need not be read."""
