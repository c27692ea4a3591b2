"""A stage compiled: schemas, engines, sections, and what may be left unread."""
