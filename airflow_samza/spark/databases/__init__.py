"""Writers of databases, for modes that no DataFrame writer has."""
